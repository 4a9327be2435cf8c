// What pgx does with a cluster: which node it finds, and a connection that writes while leaders change.
//
//	test find HOSTS          prints "ATTRIBUTE PORT" for each kind of server that can be asked for
//	test write HOST MS FROM  inserts for so long on one connection, and prints how many rows were acknowledged
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

func connect(ctx context.Context, hosts, options string) *pgx.Conn {
	conn, err := pgx.Connect(ctx, "postgres://postgres@"+hosts+"/postgres?sslmode=disable"+options)
	if err != nil {
		log.Fatal(err)
	}
	return conn
}

func main() {
	ctx := context.Background()
	if os.Args[1] == "find" {
		for _, kind := range []string{"any", "read-write", "read-only", "primary", "standby", "prefer-standby"} {
			conn := connect(ctx, os.Args[2], "&target_session_attrs="+kind)
			var port string
			if err := conn.QueryRow(ctx, "SHOW port").Scan(&port); err != nil {
				log.Fatal(err)
			}
			fmt.Println(kind, port)
			conn.Close(ctx)
		}
		return
	}
	ms, _ := strconv.Atoi(os.Args[3])
	x, _ := strconv.ParseInt(os.Args[4], 10, 64)
	until := time.Now().Add(time.Duration(ms) * time.Millisecond)
	conn := connect(ctx, os.Args[2], "")
	count := 0
	for ; time.Now().Before(until); count++ {
		var err error
		if count%2 == 0 {
			err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
				_, err := tx.Exec(ctx, "INSERT INTO t VALUES ($1)", x)
				return err
			})
		} else {
			batch := &pgx.Batch{}
			batch.Queue("INSERT INTO t VALUES ($1)", x)
			batch.Queue("SELECT $1::bigint", x)
			err = conn.SendBatch(ctx, batch).Close()
		}
		if err != nil {
			log.Fatal(err)
		}
		var seen int64
		if err := conn.QueryRow(ctx, "SELECT count(*) FROM t WHERE x = $1", x).Scan(&seen); err != nil || seen != 1 {
			log.Fatal(x, " is not seen: ", seen, " ", err)
		}
		x++
	}
	fmt.Println(count)
}
