# Installs pgcli into the directory given.
set -e
test -e "$1/installed-4" && exit 0
python3 -m venv "$1"
"$1/bin/pip" install --quiet --disable-pip-version-check 'pgcli==4.*'
touch "$1/installed-4"
