# Unpacks psql and pgbench of Debian's packages into the directory given. Nothing on the machine changes, so anybody can.
set -e
export LD_LIBRARY_PATH="$1/lib"
if "$1/bin/psql" --version && "$1/bin/pgbench" --version; then exit 0; fi 2>/dev/null
command -v apt-get || { echo "there is no apt-get" >&2; exit 1; }
command -v dpkg-deb || { echo "there is no dpkg-deb" >&2; exit 1; }
mkdir -p "$1/packages" "$1/files" "$1/bin" "$1/lib"
version=$(apt-cache depends postgresql-client | sed -n 's/^ *Depends: postgresql-client-\([0-9]*\)$/\1/p' | head -n 1)
test -n "$version"
cd "$1/packages"
# Of these, the server's package has pgbench.
apt-get -qq -o Acquire::http::Timeout=30 -o Acquire::Retries=1 download "postgresql-client-$version" "postgresql-$version" libpq5
for package in *.deb; do dpkg-deb -x "$package" "$1/files"; done
for program in psql pgbench; do ln -sf "$1/files/usr/lib/postgresql/$version/bin/$program" "$1/bin/"; done
find "$1/files/usr/lib" -name 'libpq.so.*' -exec ln -sf {} "$1/lib/" \;
"$1/bin/psql" --version
"$1/bin/pgbench" --version
