package colibri

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"
)

func opened(t *testing.T) *sql.DB {
	t.Helper()
	db, err := sql.Open("colibri", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func state(err error) string {
	var known *Error
	if errors.As(err, &known) {
		return known.SQLState
	}
	return ""
}

func TestValuesComeBackAsTheyWere(t *testing.T) {
	db := opened(t)
	moment := time.Date(2024, 2, 29, 12, 34, 56, 789_000, time.UTC)
	values := map[string]any{
		"boolean": true, "bigint": int64(-1 << 62), "float8": 0.1, "text": "é", "bytea": []byte{0, 255},
		"timestamptz": moment, "timestamp": moment, "numeric(10,2)": "12.50", "jsonb": `{"a": [1, null]}`,
		"date": time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC),
	}
	for name, value := range values {
		var got any
		must(t, db.QueryRow("SELECT $1::"+name, value).Scan(&got))
		switch want := value.(type) {
		case []byte:
			if string(got.([]byte)) != string(want) {
				t.Errorf("%s: %v, not %v", name, got, want)
			}
		case time.Time:
			if !got.(time.Time).Equal(want) {
				t.Errorf("%s: %v, not %v", name, got, want)
			}
		default:
			if got != want {
				t.Errorf("%s: %v, not %v", name, got, want)
			}
		}
	}
	var none sql.NullInt64
	must(t, db.QueryRow("SELECT NULL::int").Scan(&none))
	if none.Valid {
		t.Error("NULL is a value")
	}
}

func TestTransactionsAndErrors(t *testing.T) {
	db := opened(t)
	_, err := db.Exec("CREATE TABLE birds (name text PRIMARY KEY, grams float8 CHECK (grams > 0))")
	must(t, err)
	result, err := db.Exec("INSERT INTO birds VALUES ($1, $2), ('anna', 4.3)", "bee", 1.95)
	must(t, err)
	if count, _ := result.RowsAffected(); count != 2 {
		t.Errorf("%d rows", count)
	}
	_, err = db.Exec("INSERT INTO birds VALUES ('bee', 2)")
	if state(err) != "23505" {
		t.Errorf("%v", err)
	}
	_, err = db.Exec("INSERT INTO birds VALUES ('none', 0)")
	var known *Error
	if !errors.As(err, &known) || known.Constraint != "birds_grams_check" {
		t.Errorf("%v", err)
	}
	tx, err := db.Begin()
	must(t, err)
	_, err = tx.Exec("DELETE FROM birds")
	must(t, err)
	must(t, tx.Rollback())
	tx, err = db.BeginTx(context.Background(), &sql.TxOptions{ReadOnly: true})
	must(t, err)
	if _, err = tx.Exec("DELETE FROM birds"); state(err) != "25006" {
		t.Errorf("%v", err)
	}
	if err = tx.Commit(); state(err) != "25P02" {
		t.Errorf("%v", err)
	}
	var count int
	must(t, db.QueryRow("SELECT count(*) FROM birds").Scan(&count))
	if count != 2 {
		t.Errorf("%d birds", count)
	}
}

func TestAContextEndsAStatement(t *testing.T) {
	db := opened(t)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err := db.ExecContext(ctx, "SELECT count(*) FROM generate_series(1, 1000000000000)")
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	var one int
	must(t, db.QueryRow("SELECT 1").Scan(&one))
}

func TestManyGoroutines(t *testing.T) {
	db := opened(t)
	_, err := db.Exec("CREATE TABLE counters (n int)")
	must(t, err)
	_, err = db.Exec("INSERT INTO counters VALUES (0)")
	must(t, err)
	done := make(chan error)
	for range [8]int{} {
		go func() {
			for range [25]int{} {
				for {
					_, err := db.Exec("UPDATE counters SET n = n + 1")
					var known *Error
					if errors.As(err, &known) && known.IsRetryable() {
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
	for range [8]int{} {
		must(t, <-done)
	}
	var n int
	must(t, db.QueryRow("SELECT n FROM counters").Scan(&n))
	if n != 200 {
		t.Errorf("%d", n)
	}
}
