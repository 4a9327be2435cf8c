dir=$1
shift
exec java -cp "$dir:$dir/postgresql.jar" Driver "$@"
