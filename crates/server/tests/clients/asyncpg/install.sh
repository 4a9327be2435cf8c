# Installs asyncpg into the directory given.
set -e
test -e "$1/installed-0.30" && exit 0
python3 -m venv "$1"
"$1/bin/pip" install --quiet --disable-pip-version-check 'asyncpg==0.30.*'
touch "$1/installed-0.30"
