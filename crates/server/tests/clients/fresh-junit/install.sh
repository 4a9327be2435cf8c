# Fetches JUnit and pgjdbc into the directory given, and compiles the tests.
set -e
command -v mvn || { echo "there is no mvn" >&2; exit 1; }
command -v javac || { echo "there is no javac" >&2; exit 1; }
mkdir -p "$1"
fetch() {
    test -e "$1/$3.jar" ||
        mvn --batch-mode --quiet dependency:copy -Dartifact="$2" -DoutputDirectory="$1" -Dmdep.stripVersion=true
}
fetch "$1" org.postgresql:postgresql:42.7.4 postgresql
fetch "$1" org.junit.platform:junit-platform-console-standalone:1.11.3 junit-platform-console-standalone
javac -cp "$1/postgresql.jar:$1/junit-platform-console-standalone.jar" -d "$1/classes" "$(dirname "$0")"/*.java
