set -e
java -jar "$1/junit-platform-console-standalone.jar" execute --disable-banner --disable-ansi-colors --details=summary \
    --class-path "$1/classes:$1/postgresql.jar" --select-class BirdsTest --fail-if-no-tests
echo ok
