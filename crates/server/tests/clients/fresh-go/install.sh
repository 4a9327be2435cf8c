# Builds the tests with pgx into the directory given.
set -e
command -v go || { echo "there is no go" >&2; exit 1; }
mkdir -p "$1"
cp "$(dirname "$0")/birds_test.go" "$1/"
cd "$1"
test -e go.mod || go mod init birds
export GOFLAGS=-mod=mod
go get github.com/jackc/pgx/v5@v5.7.2
go test -c -o test .
