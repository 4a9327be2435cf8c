exec "$1/test"
