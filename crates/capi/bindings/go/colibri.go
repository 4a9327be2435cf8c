// Package colibri is a driver for database/sql: Colibri in the process of the program, through its
// library for C.
//
//	db, err := sql.Open("colibri", "birds") // a directory
//
// Types: integers are int64, real and double precision float64, boolean bool, bytea []byte, date,
// timestamp and timestamptz time.Time in UTC; everything else is a string, as PostgreSQL writes it.
// Errors are *Error with PostgreSQL's codes. A context that is cancelled ends its statement.
package colibri

/*
#cgo LDFLAGS: -lcolibri
#include <stdlib.h>
#include "colibri.h"
*/
import "C"

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"sync"
	"time"
	"unsafe"
)

func init() { sql.Register("colibri", Driver{}) }

// Error is a failure, as PostgreSQL's clients get it.
type Error struct {
	SQLState, Message, Detail, Hint, Constraint string
}

func (e *Error) Error() string { return e.Message + " (SQLSTATE " + e.SQLState + ")" }

// IsRetryable tells whether the transaction is to be run again.
func (e *Error) IsRetryable() bool { return e.SQLState == "40001" || e.SQLState == "40P01" }

// call runs a function of the library. What failed last is known by thread.
func call(function func() C.int) (C.int, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	code := function()
	if code >= 0 {
		return code, nil
	}
	known := C.colibri_last_error()
	if known == nil {
		return code, &Error{SQLState: "XX000", Message: fmt.Sprintf("code %d", int(code))}
	}
	text := func(text *C.char) string {
		if text == nil {
			return ""
		}
		return C.GoString(text)
	}
	err := &Error{
		SQLState: C.GoString(&known.sqlstate[0]), Message: text(known.message), Detail: text(known.detail),
		Hint: text(known.hint), Constraint: text(known.constraint),
	}
	// The process that had the database open is gone, and nothing has happened: database/sql makes
	// another connection.
	if err.SQLState == "08006" {
		return code, &because{err, driver.ErrBadConn}
	}
	return code, err
}

// because is an error with what it came of.
type because struct {
	failure *Error
	cause   error
}

func (e *because) Error() string { return e.failure.Error() }

func (e *because) Unwrap() error { return e.failure }

func (e *because) Is(target error) bool { return errors.Is(e.cause, target) }

// first gives the first error of several.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func run(function func() C.int) error {
	_, err := call(function)
	return err
}

// Driver opens directories.
type Driver struct{}

// A process has a database open once; connections share it.
var databases = struct {
	sync.Mutex
	open map[string]*database
}{open: map[string]*database{}}

type database struct {
	handle *C.colibri_db
	key    string
	users  int
}

// Open makes a connection to the database in a directory, and a database if there is none.
func (Driver) Open(dir string) (driver.Conn, error) {
	key, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	databases.Lock()
	defer databases.Unlock()
	db := databases.open[key]
	if db == nil {
		db = &database{key: key}
		path := C.CString(key)
		defer C.free(unsafe.Pointer(path))
		if err := run(func() C.int { return C.colibri_open(path, nil, &db.handle) }); err != nil {
			return nil, err
		}
		databases.open[key] = db
	}
	db.users++
	c := &conn{db: db}
	if err := run(func() C.int { return C.colibri_connect(db.handle, nil, &c.handle) }); err != nil {
		return nil, first(err, db.leave())
	}
	return c, nil
}

// leave closes the database with its last connection. The caller has the lock.
func (db *database) leave() error {
	db.users--
	if db.users > 0 {
		return nil
	}
	delete(databases.open, db.key)
	return run(func() C.int { return C.colibri_close(db.handle) })
}

type conn struct {
	db     *database
	handle *C.colibri_conn
}

func (c *conn) Close() error {
	err := run(func() C.int { return C.colibri_disconnect(c.handle) })
	databases.Lock()
	defer databases.Unlock()
	return first(err, c.db.leave())
}

func (c *conn) execute(text string) error {
	sql := C.CString(text)
	defer C.free(unsafe.Pointer(sql))
	return run(func() C.int { return C.colibri_execute(c.handle, sql) })
}

// watched runs a function that ends with the context.
func (c *conn) watched(ctx context.Context, function func() error) error {
	if ctx.Done() == nil {
		return function()
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	over, watching := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watching)
		select {
		case <-over:
		case <-ctx.Done():
			// Any thread may do this; it fails only if the connection is closed.
			C.colibri_cancel(c.handle)
		}
	}()
	err := function()
	close(over)
	<-watching
	var known *Error
	if errors.As(err, &known) && known.SQLState == "57014" && ctx.Err() != nil {
		return &because{known, ctx.Err()}
	}
	return err
}

func (c *conn) Prepare(text string) (driver.Stmt, error) {
	sql := C.CString(text)
	defer C.free(unsafe.Pointer(sql))
	s := &stmt{conn: c}
	err := run(func() C.int { return C.colibri_prepare(c.handle, sql, C.size_t(len(text)), &s.handle) })
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Begin begins a serializable transaction.
func (c *conn) Begin() (driver.Tx, error) { return c.BeginTx(context.Background(), driver.TxOptions{}) }

func (c *conn) BeginTx(_ context.Context, options driver.TxOptions) (driver.Tx, error) {
	begin := "BEGIN"
	switch sql.IsolationLevel(options.Isolation) {
	case sql.LevelDefault, sql.LevelSerializable:
	case sql.LevelReadCommitted, sql.LevelReadUncommitted:
		begin += " ISOLATION LEVEL READ COMMITTED"
	default:
		begin += " ISOLATION LEVEL REPEATABLE READ"
	}
	if options.ReadOnly {
		begin += " READ ONLY"
	}
	return tx{c}, c.execute(begin)
}

type tx struct{ conn *conn }

func (t tx) Commit() error {
	var state C.int
	if err := run(func() C.int { return C.colibri_transaction_state(t.conn.handle, &state) }); err != nil {
		return err
	}
	if err := t.conn.execute("COMMIT"); err != nil {
		return err
	}
	if state == 2 {
		return &Error{SQLState: "25P02", Message: "the transaction was rolled back, since a statement in it failed"}
	}
	return nil
}

func (t tx) Rollback() error { return t.conn.execute("ROLLBACK") }

type stmt struct {
	conn   *conn
	handle *C.colibri_stmt
}

func (s *stmt) Close() error { return run(func() C.int { return C.colibri_finalize(s.handle) }) }

func (s *stmt) NumInput() int {
	var count C.uint32_t
	if run(func() C.int { return C.colibri_param_count(s.handle, &count) }) != nil {
		return -1
	}
	return int(count)
}

// Numbers of types in PostgreSQL.
const (
	oidBool, oidBytes, oidInt8, oidInt2, oidInt4, oidOid = 16, 17, 20, 21, 23, 26
	oidFloat4, oidFloat8, oidDate                        = 700, 701, 1082
	oidTimestamp, oidTimestampTz                         = 1114, 1184
)

func (s *stmt) bind(number C.uint32_t, value driver.Value) C.int {
	switch value := value.(type) {
	case nil:
		return C.colibri_bind_null(s.handle, number)
	case bool:
		return C.colibri_bind_bool(s.handle, number, C.bool(value))
	case int64:
		return C.colibri_bind_int64(s.handle, number, C.int64_t(value))
	case float64:
		return C.colibri_bind_double(s.handle, number, C.double(value))
	case []byte:
		var start *C.uint8_t
		if len(value) > 0 {
			start = (*C.uint8_t)(&value[0])
		}
		return C.colibri_bind_bytes(s.handle, number, start, C.size_t(len(value)))
	case string:
		text := C.CString(value)
		defer C.free(unsafe.Pointer(text))
		return C.colibri_bind_text(s.handle, number, text, C.size_t(len(value)))
	case time.Time:
		var oid C.uint32_t
		if code := C.colibri_param_type(s.handle, number, &oid); code < 0 {
			return code
		}
		switch oid {
		case oidDate:
			day := time.Date(value.Year(), value.Month(), value.Day(), 0, 0, 0, 0, time.UTC)
			return C.colibri_bind_date(s.handle, number, C.int32_t(day.Unix()/86400))
		case oidTimestamp:
			_, east := value.Zone()
			return C.colibri_bind_timestamp(s.handle, number, C.int64_t(value.UnixMicro()+int64(east)*1e6))
		default:
			return C.colibri_bind_timestamptz(s.handle, number, C.int64_t(value.UnixMicro()))
		}
	}
	panic("database/sql gives no other values")
}

func (s *stmt) start(args []driver.NamedValue) error {
	if err := run(func() C.int { return C.colibri_reset(s.handle) }); err != nil {
		return err
	}
	for _, arg := range args {
		if err := run(func() C.int { return s.bind(C.uint32_t(arg.Ordinal), arg.Value) }); err != nil {
			return err
		}
	}
	return nil
}

func named(values []driver.Value) []driver.NamedValue {
	args := make([]driver.NamedValue, len(values))
	for place, value := range values {
		args[place] = driver.NamedValue{Ordinal: place + 1, Value: value}
	}
	return args
}

func (s *stmt) Exec(args []driver.Value) (driver.Result, error) {
	return s.ExecContext(context.Background(), named(args))
}

func (s *stmt) Query(args []driver.Value) (driver.Rows, error) {
	return s.QueryContext(context.Background(), named(args))
}

func (s *stmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	var affected C.uint64_t
	err := s.conn.watched(ctx, func() error {
		if err := s.start(args); err != nil {
			return err
		}
		for {
			code, err := call(func() C.int { return C.colibri_step(s.handle) })
			if err != nil {
				return err
			}
			if code == C.COLIBRI_DONE {
				return run(func() C.int { return C.colibri_tag(s.handle, nil, &affected) })
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return driver.RowsAffected(affected), nil
}

// QueryContext takes all rows into memory, so that the connection is free for others.
func (s *stmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	err := s.conn.watched(ctx, func() error {
		if err := s.start(args); err != nil {
			return err
		}
		return run(func() C.int { return C.colibri_store(s.handle) })
	})
	if err != nil {
		return nil, err
	}
	var count C.uint32_t
	if err := run(func() C.int { return C.colibri_column_count(s.handle, &count) }); err != nil {
		return nil, err
	}
	r := &rows{stmt: s, names: make([]string, count), types: make([]string, count), oids: make([]C.uint32_t, count)}
	for at := range r.names {
		var name, typeName *C.char
		column, oid := C.uint32_t(at), &r.oids[at]
		if err := run(func() C.int { return C.colibri_column(s.handle, column, &name, &typeName, oid) }); err != nil {
			return nil, err
		}
		r.names[at], r.types[at] = C.GoString(name), C.GoString(typeName)
	}
	return r, nil
}

type rows struct {
	stmt         *stmt
	names, types []string
	oids         []C.uint32_t
}

func (r *rows) Columns() []string { return r.names }

// ColumnTypeDatabaseTypeName gives the type as SQL writes it: numeric(10,2).
func (r *rows) ColumnTypeDatabaseTypeName(column int) string { return r.types[column] }

func (r *rows) Close() error { return run(func() C.int { return C.colibri_reset(r.stmt.handle) }) }

func (r *rows) Next(values []driver.Value) error {
	code, err := call(func() C.int { return C.colibri_step(r.stmt.handle) })
	if err != nil {
		return err
	}
	if code == C.COLIBRI_DONE {
		return io.EOF
	}
	for at := range values {
		if values[at], err = r.value(C.uint32_t(at)); err != nil {
			return err
		}
	}
	return nil
}

func (r *rows) value(column C.uint32_t) (driver.Value, error) {
	s := r.stmt.handle
	// null, if the value is NULL, and otherwise what give makes of what was got.
	got := func(get func() C.int, give func() driver.Value) (driver.Value, error) {
		code, err := call(get)
		if err != nil || code == C.COLIBRI_NULL {
			return nil, err
		}
		return give(), nil
	}
	switch r.oids[column] {
	case oidBool:
		var value C.bool
		return got(func() C.int { return C.colibri_get_bool(s, column, &value) }, func() driver.Value { return bool(value) })
	case oidInt2, oidInt4, oidInt8, oidOid:
		var value C.int64_t
		return got(func() C.int { return C.colibri_get_int64(s, column, &value) }, func() driver.Value { return int64(value) })
	case oidFloat4, oidFloat8:
		var value C.double
		return got(func() C.int { return C.colibri_get_double(s, column, &value) }, func() driver.Value { return float64(value) })
	case oidBytes:
		var value *C.uint8_t
		var length C.size_t
		return got(func() C.int { return C.colibri_get_bytes(s, column, &value, &length) }, func() driver.Value {
			return C.GoBytes(unsafe.Pointer(value), C.int(length))
		})
	case oidDate:
		var days C.int32_t
		return got(func() C.int { return C.colibri_get_date(s, column, &days) }, func() driver.Value {
			return time.Unix(int64(days)*86400, 0).UTC()
		})
	case oidTimestamp:
		var micros C.int64_t
		return got(func() C.int { return C.colibri_get_timestamp(s, column, &micros) }, func() driver.Value {
			return time.UnixMicro(int64(micros)).UTC()
		})
	case oidTimestampTz:
		var micros C.int64_t
		return got(func() C.int { return C.colibri_get_timestamptz(s, column, &micros) }, func() driver.Value {
			return time.UnixMicro(int64(micros)).UTC()
		})
	default:
		var value *C.char
		var length C.size_t
		return got(func() C.int { return C.colibri_get_text(s, column, &value, &length) }, func() driver.Value {
			return C.GoStringN(value, C.int(length))
		})
	}
}
