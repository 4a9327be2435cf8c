# Fetches pgjdbc into the directory given, and compiles the test program.
set -e
command -v mvn || { echo "there is no mvn" >&2; exit 1; }
command -v javac || { echo "there is no javac" >&2; exit 1; }
mkdir -p "$1"
test -e "$1/postgresql.jar" ||
    mvn --batch-mode --quiet dependency:copy -Dartifact=org.postgresql:postgresql:42.7.4 -DoutputDirectory="$1" -Dmdep.stripVersion=true
javac -cp "$1/postgresql.jar" -d "$1" "$(dirname "$0")/Driver.java"
