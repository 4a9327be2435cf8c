# Installs node-postgres into the directory given.
set -e
test -e "$1/installed-8" && exit 0
command -v npm || { echo "there is no npm" >&2; exit 1; }
mkdir -p "$1"
npm install --silent --no-audit --no-fund --prefix "$1" pg@8
touch "$1/installed-8"
