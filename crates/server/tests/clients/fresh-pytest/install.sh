# Installs pytest and psycopg into the directory given.
set -e
test -e "$1/installed-8" && exit 0
python3 -m venv "$1"
"$1/bin/pip" install --quiet --disable-pip-version-check 'pytest==8.*' 'psycopg[binary]==3.2.*'
touch "$1/installed-8"
