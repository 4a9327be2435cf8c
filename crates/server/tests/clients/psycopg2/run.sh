exec "$1/bin/python" "$(dirname "$0")/test.py"
