# Django makes the database of its tests after the model of another one, and with --parallel a copy for each process.
set -e
cd "$(dirname "$0")"
export PYTHONDONTWRITEBYTECODE=1
"$1/bin/python" manage.py prepare
"$1/bin/python" manage.py test --parallel 2 --noinput 2>&1
echo ok
