"$1/bin/python" -m pytest -q -p no:cacheprovider "$(dirname "$0")" && echo ok
