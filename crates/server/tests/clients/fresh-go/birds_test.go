// A fresh database for each test, on a server with `--ephemeral model`.
package birds

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
)

func connect(database string) (*pgx.Conn, error) {
	return pgx.Connect(context.Background(), "dbname="+database)
}

func run(database string, statements ...string) error {
	db, err := connect(database)
	if err != nil {
		return err
	}
	defer db.Close(context.Background())
	for _, statement := range statements {
		if _, err := db.Exec(context.Background(), statement); err != nil {
			return err
		}
	}
	return nil
}

// The database that each test begins with. Migrations go here.
var model = sync.OnceValue(func() error {
	if err := run("postgres", "CREATE DATABASE model"); err != nil {
		return err
	}
	return run("model",
		"CREATE TABLE birds (name text PRIMARY KEY, beats int NOT NULL)",
		"INSERT INTO birds VALUES ('colibri', 80)")
})

// A connection to a database that nobody else has. It goes when the connection is closed.
func freshDatabase(t *testing.T) *pgx.Conn {
	t.Helper()
	if err := model(); err != nil {
		t.Fatal(err)
	}
	db, err := connect(fmt.Sprintf("test_%d_%016x", os.Getpid(), rand.Uint64()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close(context.Background()) })
	return db
}

func TestEachBeginsAnew(t *testing.T) {
	for round := range 20 {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			t.Parallel()
			db := freshDatabase(t)
			var count int
			if err := db.QueryRow(context.Background(), "SELECT count(*) FROM birds").Scan(&count); err != nil {
				t.Fatal(err)
			}
			if count != 1 {
				t.Fatalf("%d birds", count)
			}
			if _, err := db.Exec(context.Background(), "INSERT INTO birds VALUES ('swift', 8)"); err != nil {
				t.Fatal(err)
			}
		})
	}
}
