dir=$1
shift
exec "$dir/test" "$@"
