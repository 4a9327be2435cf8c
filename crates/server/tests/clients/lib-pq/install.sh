# Builds the test program with lib/pq into the directory given.
set -e
command -v go || { echo "there is no go" >&2; exit 1; }
mkdir -p "$1"
cp "$(dirname "$0")/main.go" "$1/"
cd "$1"
test -e go.mod || go mod init test
export GOFLAGS=-mod=mod
go get github.com/lib/pq@v1.10.9
go build -o test .
