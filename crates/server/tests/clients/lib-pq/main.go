// What programs do with database/sql and lib/pq: pings, prepared statements, transactions, COPY, NULLs, errors.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/lib/pq"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func assert(is bool, what ...any) {
	if !is {
		panic(fmt.Sprint(what...))
	}
}

func code(err error) string {
	var told *pq.Error
	if errors.As(err, &told) {
		return string(told.Code)
	}
	return ""
}

func main() {
	db, err := sql.Open("postgres", "")
	check(err)
	check(db.Ping())
	_, err = db.Exec("CREATE TABLE t (id int PRIMARY KEY, s text, at timestamptz, d numeric(10,2))")
	check(err)
	at := time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC)
	for id := 1; id <= 3; id++ {
		result, err := db.Exec("INSERT INTO t VALUES ($1, $2, $3, $4)", id, sql.NullString{}, at, "1.5")
		check(err)
		affected, _ := result.RowsAffected()
		assert(affected == 1)
	}
	statement, err := db.Prepare("SELECT s, at, d FROM t WHERE id = $1")
	check(err)
	var s sql.NullString
	var then time.Time
	var d string
	for i := 0; i < 5; i++ {
		check(statement.QueryRow(2).Scan(&s, &then, &d))
		assert(!s.Valid && then.Equal(at) && d == "1.50", s, then, d)
	}
	assert(statement.QueryRow(99).Scan(&s, &then, &d) == sql.ErrNoRows)

	tx, err := db.BeginTx(context.Background(), &sql.TxOptions{Isolation: sql.LevelSerializable})
	check(err)
	_, err = tx.Exec("SELECT id FROM t WHERE (id, d) IN (($1, $2), ($3, $4)) FOR UPDATE", 1, "1.50", 2, "1.50")
	check(err)
	_, err = tx.Exec("INSERT INTO t (id) VALUES (1)")
	assert(code(err) == "23505", err)
	_, err = tx.Exec("SELECT 1")
	assert(code(err) == "25P02", err)
	check(tx.Rollback())

	tx, err = db.Begin()
	check(err)
	in, err := tx.Prepare(pq.CopyIn("t", "id", "s"))
	check(err)
	for id := 100; id < 1100; id++ {
		_, err = in.Exec(id, fmt.Sprint("row\t", id))
		check(err)
	}
	_, err = in.Exec()
	check(err)
	check(in.Close())
	check(tx.Commit())
	rows, err := db.Query("SELECT id FROM t WHERE id >= $1 ORDER BY id", 100)
	check(err)
	count := 0
	for rows.Next() {
		var id int
		check(rows.Scan(&id))
		assert(id == 100+count)
		count++
	}
	check(rows.Err())
	assert(count == 1000, count)

	short, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	_, err = db.ExecContext(short, "SELECT count(*) FROM generate_series(1, 1000000000000)")
	assert(err != nil)
	_, err = db.Exec(";")
	check(err)
	check(db.Close())
	fmt.Println("ok")
}
