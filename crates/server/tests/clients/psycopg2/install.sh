# Installs psycopg2 into the directory given.
set -e
test -e "$1/installed-2.9" && exit 0
python3 -m venv "$1"
"$1/bin/pip" install --quiet --disable-pip-version-check 'psycopg2-binary==2.9.*'
touch "$1/installed-2.9"
