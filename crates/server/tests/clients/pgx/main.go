// What programs do with pgx: pools, prepared statements, batches, COPY, transactions that are tried again, cancellation.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
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
	var told *pgconn.PgError
	if errors.As(err, &told) {
		return told.Code
	}
	return ""
}

// Arrays, and the types that pgx loads from the catalogue.
func arrays(ctx context.Context, pool *pgxpool.Pool) {
	connection, err := pool.Acquire(ctx)
	check(err)
	defer connection.Release()
	conn := connection.Conn()
	at := time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC)
	var ints []int32
	var longs []int64
	var texts []string
	var times []time.Time
	check(conn.QueryRow(ctx, "SELECT $1::int[], $2::bigint[], $3::text[], $4::timestamptz[]",
		[]int32{1, 2}, []int64{1 << 40}, []string{"a", "b,c\""}, []time.Time{at}).Scan(&ints, &longs, &texts, &times))
	assert(len(ints) == 2 && ints[1] == 2 && longs[0] == 1<<40 && texts[1] == "b,c\"" && times[0].Equal(at), ints, longs, texts, times)
	var n int64
	check(conn.QueryRow(ctx, "SELECT count(*) FROM generate_series(1, 10) i WHERE i = ANY($1)", []int32{1, 5, 50}).Scan(&n))
	assert(n == 2, n)
	_, err = conn.Exec(ctx, "CREATE TABLE composite (id int, tags text[], at timestamptz[])")
	check(err)
	for _, name := range []string{"_int4", "text[]", "_timestamptz", "_numeric", "_uuid", "composite"} {
		loaded, err := conn.LoadType(ctx, name)
		check(err)
		assert(loaded.Codec != nil, name)
	}
	loaded, err := conn.LoadTypes(ctx, []string{"composite"})
	check(err)
	names := map[string]bool{}
	for _, one := range loaded {
		names[one.Name] = true
	}
	assert(names["composite"] && names["_text"] && names["_timestamptz"], names)
}

func main() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "")
	check(err)
	defer pool.Close()
	_, err = pool.Exec(ctx, "CREATE TABLE t (id int PRIMARY KEY, n bigint, s text, at timestamptz, x float8, ok bool)")
	check(err)
	at := time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC)
	_, err = pool.Exec(ctx, "INSERT INTO t VALUES ($1, $2, $3, $4, $5, $6)", 1, int64(1)<<40, "ä", at, 1.5, true)
	check(err)
	var id int
	var n int64
	var s string
	var then time.Time
	var x float64
	var ok bool
	check(pool.QueryRow(ctx, "SELECT * FROM t WHERE id = $1", 1).Scan(&id, &n, &s, &then, &x, &ok))
	assert(id == 1 && n == 1<<40 && s == "ä" && then.Equal(at) && x == 1.5 && ok, id, n, s, then, x, ok)

	arrays(ctx, pool)
	rows := make([][]any, 5000)
	for i := range rows {
		rows[i] = []any{i + 10, int64(i), fmt.Sprint(i)}
	}
	copied, err := pool.CopyFrom(ctx, pgx.Identifier{"t"}, []string{"id", "n", "s"}, pgx.CopyFromRows(rows))
	check(err)
	assert(copied == 5000, copied)

	batch := &pgx.Batch{}
	for i := 0; i < 30; i++ {
		batch.Queue("SELECT n FROM t WHERE id = $1", i+10)
	}
	results := pool.SendBatch(ctx, batch)
	for i := 0; i < 30; i++ {
		check(results.QueryRow().Scan(&n))
		assert(n == int64(i), n, i)
	}
	check(results.Close())

	// A batch is one transaction: what is wrong with one takes back all.
	batch = &pgx.Batch{}
	batch.Queue("DELETE FROM t")
	batch.Queue("SELECT 1/0")
	assert(code(pool.SendBatch(ctx, batch).Close()) == "22012")
	check(pool.QueryRow(ctx, "SELECT count(*) FROM t").Scan(&n))
	assert(n == 5001, n)

	// Eight writers of one row, each tried again as long as it has conflicts.
	_, err = pool.Exec(ctx, "CREATE TABLE c (id int PRIMARY KEY, n int); INSERT INTO c VALUES (1, 0)")
	check(err)
	done := make(chan error)
	for w := 0; w < 8; w++ {
		go func() {
			for i := 0; i < 20; i++ {
				for {
					err := pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{IsoLevel: pgx.Serializable}, func(tx pgx.Tx) error {
						var n int
						if err := tx.QueryRow(ctx, "SELECT n FROM c WHERE id = 1").Scan(&n); err != nil {
							return err
						}
						_, err := tx.Exec(ctx, "UPDATE c SET n = $1 WHERE id = 1", n+1)
						return err
					})
					if code(err) == "40001" {
						continue
					}
					if err != nil {
						done <- err
						return
					}
					break
				}
			}
			done <- nil
		}()
	}
	for w := 0; w < 8; w++ {
		check(<-done)
	}
	check(pool.QueryRow(ctx, "SELECT n FROM c").Scan(&id))
	assert(id == 160, id)

	short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	_, err = pool.Exec(short, "SELECT count(*) FROM generate_series(1, 1000000000000)")
	assert(err != nil)
	_, err = pool.Exec(ctx, "SELECT nope")
	assert(code(err) == "42703", err)
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe,
		pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		check(pool.QueryRow(ctx, "SELECT s FROM t WHERE id = $1", mode, 1).Scan(&s))
		assert(s == "ä", mode)
	}
	check(pool.Ping(ctx))
	fmt.Fprintln(os.Stdout, "ok")
}
