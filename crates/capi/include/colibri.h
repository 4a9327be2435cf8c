/* Colibri in process: SQL, and the storage engine's key-value interface.
 *
 * docs/C.md introduces it; docs/EMBEDDING.md says which interface is for whom. lmdb.h, of the same
 * library, is for programs that were written for LMDB.
 *
 * Rules that hold for all functions:
 *
 * Codes. A function returns COLIBRI_OK or another code that is not negative, or a negative one if it
 *   has failed. Then colibri_last_error() says more, on the same thread, until a call of that thread
 *   fails again. Results are stored only if a function has not failed.
 * Handles. A pointer to an incomplete struct is a handle: a number that the library looks up, never
 *   followed. A handle that was closed, or is none of this kind, gives COLIBRI_MISUSE, also when it is
 *   closed a second time. NULL is such a handle.
 * Ownership. Who got a handle closes it. What a function stores through a `const char **` or a
 *   colibri_bytes belongs to the library; the function says how long it stays. What a program hands
 *   over is copied before the function returns.
 * Threads. Any thread may use any handle, one call at a time: a call gets COLIBRI_BUSY, at once, if
 *   another one uses the handle. A statement uses its connection while it is prepared, stepped, reset
 *   and finalized. Databases (colibri_db, colibri_kv), tables (colibri_table) and colibri_cancel may be
 *   used by any number of threads; a connection for each thread is what runs in parallel.
 * Texts are UTF-8. Where there is a length, COLIBRI_TERMINATED says that a zero byte ends the text.
 * Fork. After fork() the child's calls with handles of its parent give COLIBRI_MISUSE; closing them
 *   there is right, and does nothing to the parent. The child may open databases, those of its parent
 *   as well once it has closed the parent's handles.
 * Processes. The first process that opens a directory for SQL has the database; others that open it
 *   meanwhile connect to the first, and everything works there as well. When the first one closes the
 *   database or ends, connections of the others fail with 08006, or 40003 if a commit was under way;
 *   the next colibri_connect of any of them opens the database there.
 */
#ifndef COLIBRI_H
#define COLIBRI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- codes ---- */

enum colibri_code {
    COLIBRI_OK = 0,
    /* There is a row, or a notification, or a piece of data. */
    COLIBRI_ROW = 1,
    /* There is no more. */
    COLIBRI_DONE = 2,
    /* There is nothing yet: wait until the descriptor of colibri_fd is readable, and call again. */
    COLIBRI_PENDING = 3,
    /* The value is NULL; zero was stored. */
    COLIBRI_NULL = 4,
    /* There is no such key, table or entry. */
    COLIBRI_NOT_FOUND = 5,
    /* An error of SQL or of the storage. */
    COLIBRI_ERROR = -1,
    /* The program's mistake: a handle that is not open, an argument, the order of calls. */
    COLIBRI_MISUSE = -2,
    /* Another call uses the handle. */
    COLIBRI_BUSY = -3,
    /* A mistake of the library. Close what was used; the data on disk are whole. */
    COLIBRI_PANIC = -4
};

#define COLIBRI_TERMINATED ((size_t)-1)

/* What is known of a failure, as PostgreSQL's clients get it. Texts are NULL where there is nothing to
 * say. `position` counts characters of the statement from 1; 0 is none. Misuse has HY010. */
typedef struct colibri_error {
    char sqlstate[6];
    uint32_t position;
    const char *message;
    const char *detail;
    const char *hint;
    const char *context;
    const char *schema;
    const char *table;
    const char *column;
    const char *data_type;
    const char *constraint;
    /* ERROR; of notices NOTICE, WARNING and others. */
    const char *severity;
} colibri_error;

/* This thread's last failure, until the next one; NULL if there was none. */
const colibri_error *colibri_last_error(void);

/* The library's version: "0.1.0". It stays for ever. */
const char *colibri_version(void);

/* ---- databases ---- */

typedef struct colibri_db colibri_db;

enum colibri_durability {
    /* A commit returns once it is on disk. */
    COLIBRI_SYNC = 0,
    /* A commit returns at once. A crash of the system, not of the program, may lose the last second. */
    COLIBRI_LAZY = 1,
    /* Data are on disk when the database is closed. A crash of the system may lose all since then. */
    COLIBRI_NO_SYNC = 2
};

/* `size` is sizeof(colibri_options), so that later versions can add fields: begin with
 * COLIBRI_OPTIONS, which has the defaults. */
typedef struct colibri_options {
    size_t size;
    uint32_t durability;
    /* 1: an error if there is no database in the directory, instead of making one. */
    uint32_t must_exist;
    /* The largest size of the data, in bytes; 0 is no bound. */
    uint64_t size_max;
} colibri_options;

#define COLIBRI_OPTIONS { sizeof(colibri_options), COLIBRI_SYNC, 0, 0 }

/* Opens a directory for SQL, and makes a database there if there is none. `options` may be NULL.
 * If another process has it open, its options hold.
 * Errors: 55006 if this process has it open already, or a server or a process with another version of
 * the library; 58030 and others of the storage. */
int colibri_open(const char *dir, const colibri_options *options, colibri_db **db);

/* Closes the handle. The database itself is closed with the last of its connections. */
int colibri_close(colibri_db *db);

/* A database of its own that begins as what is committed in this one, for a test or an experiment. It
 * is made in about a commit's time, whatever the size, and goes with its last connection once its
 * handle is closed. Errors: 0A000 if another process has the database; 55006 if it has transactions
 * that are prepared. */
int colibri_fresh(colibri_db *db, colibri_db **fresh);

/* ---- connections ---- */

typedef struct colibri_conn colibri_conn;

/* A session. `user` may be NULL, for `colibri`. */
int colibri_connect(colibri_db *db, const char *user, colibri_conn **conn);

/* Ends a session, and closes its statements. An open transaction is rolled back. */
int colibri_disconnect(colibri_conn *conn);

/* Runs all statements of a text; their rows are dropped. Each is a transaction by itself unless the
 * text says otherwise (BEGIN, COMMIT, ROLLBACK, SAVEPOINT). */
int colibri_execute(colibri_conn *conn, const char *sql);

/* 0: no transaction is open; 1: one is; 2: one has failed, and waits for ROLLBACK. */
int colibri_transaction_state(colibri_conn *conn, int *state);

/* Ends what the connection is running, with the error 57014. Any thread may call it at any time; if
 * nothing is running it has no effect. */
int colibri_cancel(colibri_conn *conn);

/* The value of a setting, as SHOW gives it, with a zero byte at its end. */
int colibri_setting(colibri_conn *conn, const char *name, char *value, size_t value_bytes);

/* ---- statements ---- */

typedef struct colibri_stmt colibri_stmt;

/* Prepares one statement. Its parameters are $1, $2 and so on.
 * Errors: those of syntax, names and types; 55000 if the rows of another statement are being read. */
int colibri_prepare(colibri_conn *conn, const char *sql, size_t sql_bytes, colibri_stmt **statement);

/* Closes a statement. If its rows are being read, what it runs ends. */
int colibri_finalize(colibri_stmt *statement);

/* Runs the statement when it is called first, and goes to the next row: COLIBRI_ROW, or COLIBRI_DONE
 * when there is none. Then, and after an error, the connection is free. Until then the connection
 * runs nothing else: see colibri_store. After COLIBRI_DONE it stays there until colibri_reset.
 * A statement that is no part of a transaction has committed, and is on disk, at COLIBRI_DONE. */
int colibri_step(colibri_stmt *statement);

/* As colibri_step, without waiting: COLIBRI_PENDING when there is nothing yet. A call works for about
 * a millisecond. Both may be mixed. Settings that limit time have no effect here. */
int colibri_step_async(colibri_stmt *statement);

/* A descriptor that is readable when colibri_step_async is to be called again, or notifications have
 * arrived. It is the connection's: do not read from it, and do not close it. */
int colibri_fd(colibri_conn *conn, int *fd);

/* Runs the statement unless it runs already, and takes all its rows into memory. Then the connection
 * is free, and colibri_step gives these rows. */
int colibri_store(colibri_stmt *statement);

/* Makes the statement ready to run again. What it runs ends. Parameters stay. */
int colibri_reset(colibri_stmt *statement);

/* PostgreSQL's command tag ("INSERT 0 3") and the number of rows inserted, changed, deleted or
 * returned; either may be NULL. COLIBRI_NOT_FOUND before COLIBRI_DONE. The text stays until the
 * statement is reset or closed. */
int colibri_tag(colibri_stmt *statement, const char **tag, uint64_t *affected);

/* Parameters, and the numbers of their types in PostgreSQL: 23 is integer. */
int colibri_param_count(colibri_stmt *statement, uint32_t *count);
int colibri_param_type(colibri_stmt *statement, uint32_t number, uint32_t *type_oid);

/* Columns, from 0: name, type as SQL writes it ("numeric(10,2)"), and its number in PostgreSQL. Any
 * of the three may be NULL. The texts stay until the statement is closed. */
int colibri_column_count(colibri_stmt *statement, uint32_t *count);
int colibri_column(colibri_stmt *statement, uint32_t column, const char **name, const char **type_name,
                   uint32_t *type_oid);

/* ---- parameters ----
 *
 * `number` counts from 1. What was not bound is NULL. A value is converted to the parameter's type if
 * nothing is lost (42804 when it runs otherwise); a text may be of any type, as that type's input. */

typedef struct colibri_interval {
    int32_t months;
    int32_t days;
    int64_t micros;
} colibri_interval;

int colibri_bind_null(colibri_stmt *statement, uint32_t number);
int colibri_bind_bool(colibri_stmt *statement, uint32_t number, bool value);
int colibri_bind_int16(colibri_stmt *statement, uint32_t number, int16_t value);
int colibri_bind_int32(colibri_stmt *statement, uint32_t number, int32_t value);
int colibri_bind_int64(colibri_stmt *statement, uint32_t number, int64_t value);
int colibri_bind_float(colibri_stmt *statement, uint32_t number, float value);
int colibri_bind_double(colibri_stmt *statement, uint32_t number, double value);
/* Also numeric, json, enums and all others, as text. */
int colibri_bind_text(colibri_stmt *statement, uint32_t number, const char *value, size_t length);
int colibri_bind_bytes(colibri_stmt *statement, uint32_t number, const uint8_t *value, size_t length);
/* Days since 1970-01-01; INT32_MIN and INT32_MAX are -infinity and infinity. */
int colibri_bind_date(colibri_stmt *statement, uint32_t number, int32_t days);
/* Microseconds since midnight. */
int colibri_bind_time(colibri_stmt *statement, uint32_t number, int64_t micros);
/* Microseconds since 1970-01-01 00:00, by the clock on the wall or in UTC; INT64_MIN and INT64_MAX are
 * -infinity and infinity. */
int colibri_bind_timestamp(colibri_stmt *statement, uint32_t number, int64_t micros);
int colibri_bind_timestamptz(colibri_stmt *statement, uint32_t number, int64_t micros);
int colibri_bind_interval(colibri_stmt *statement, uint32_t number, colibri_interval value);
/* 16 bytes. */
int colibri_bind_uuid(colibri_stmt *statement, uint32_t number, const uint8_t *value);
int colibri_clear_bindings(colibri_stmt *statement);

/* ---- columns of the current row ----
 *
 * `column` counts from 0. COLIBRI_NULL if the value is NULL. A number that does not fit is an error
 * (42804), and so is a value of another type. Pointers stay until the statement is stepped, reset or
 * closed. */

int colibri_is_null(colibri_stmt *statement, uint32_t column, bool *is_null);
int colibri_get_bool(colibri_stmt *statement, uint32_t column, bool *value);
int colibri_get_int16(colibri_stmt *statement, uint32_t column, int16_t *value);
int colibri_get_int32(colibri_stmt *statement, uint32_t column, int32_t *value);
int colibri_get_int64(colibri_stmt *statement, uint32_t column, int64_t *value);
int colibri_get_float(colibri_stmt *statement, uint32_t column, float *value);
int colibri_get_double(colibri_stmt *statement, uint32_t column, double *value);
/* A value of any type as text, as a client of PostgreSQL gets it; a zero byte is behind it. `length`
 * may be NULL. */
int colibri_get_text(colibri_stmt *statement, uint32_t column, const char **value, size_t *length);
int colibri_get_bytes(colibri_stmt *statement, uint32_t column, const uint8_t **value, size_t *length);
int colibri_get_date(colibri_stmt *statement, uint32_t column, int32_t *days);
int colibri_get_time(colibri_stmt *statement, uint32_t column, int64_t *micros);
int colibri_get_timestamp(colibri_stmt *statement, uint32_t column, int64_t *micros);
int colibri_get_timestamptz(colibri_stmt *statement, uint32_t column, int64_t *micros);
int colibri_get_interval(colibri_stmt *statement, uint32_t column, colibri_interval *value);
int colibri_get_uuid(colibri_stmt *statement, uint32_t column, uint8_t value[16]);

/* ---- results as columns: the C data interface of Apache Arrow ---- */

struct ArrowArrayStream;

/* Runs a statement that has not run since it was prepared or reset, and hands over its rows as a
 * stream. The structs are Apache Arrow's: https://arrow.apache.org/docs/format/CDataInterface.html.
 * The connection is the stream's until that ends or is released; if another call uses the connection
 * meanwhile, the stream's fails. The stream need not be released before the connection is closed. */
int colibri_arrow(colibri_stmt *statement, struct ArrowArrayStream *stream);

/* ---- COPY ----
 *
 * While one is open, the connection runs nothing else. An error of colibri_copy_send or
 * colibri_copy_receive ends it. */

/* COPY … FROM STDIN: then any number of colibri_copy_send, then colibri_copy_done. */
int colibri_copy_in(colibri_conn *conn, const char *sql);
int colibri_copy_send(colibri_conn *conn, const uint8_t *data, size_t length);
/* `rows` may be NULL. */
int colibri_copy_done(colibri_conn *conn, uint64_t *rows);
/* COPY … TO STDOUT: then colibri_copy_receive, which gives COLIBRI_ROW with a piece of the data, until
 * it gives COLIBRI_DONE. A piece stays until the next call with the connection; pieces do not end with
 * rows. */
int colibri_copy_out(colibri_conn *conn, const char *sql);
int colibri_copy_receive(colibri_conn *conn, const uint8_t **data, size_t *length);
/* Ends a COPY of either kind early; what was copied in is rolled back. */
int colibri_copy_cancel(colibri_conn *conn);

/* ---- what others say ---- */

typedef struct colibri_notification {
    /* The number of the session that has notified. */
    int32_t session;
    const char *channel;
    const char *payload;
} colibri_notification;

/* The next notification, after LISTEN, with COLIBRI_ROW. If there is none, waits for one, at most
 * `patience_ms` milliseconds; then COLIBRI_DONE. Within a transaction none arrive. The texts stay
 * until the next call of this function with the connection. */
int colibri_notified(colibri_conn *conn, uint32_t patience_ms, colibri_notification *notification);

/* The next message that is no error (RAISE NOTICE and others), with COLIBRI_ROW, or COLIBRI_DONE. It
 * stays until the next call of this function on the same thread. */
int colibri_notice(colibri_conn *conn, const colibri_error **notice);

/* ---- the key-value interface ----
 *
 * Tables of keys and values that sort as bytes; one writer, any number of readers, whom nobody waits
 * for. Several processes may have a database open this way. Tables of SQL are kept in such tables, in
 * a form of their own. */

typedef struct colibri_bytes {
    const void *data;
    size_t length;
} colibri_bytes;

typedef struct colibri_kv colibri_kv;
typedef struct colibri_snapshot colibri_snapshot;
typedef struct colibri_txn colibri_txn;
typedef struct colibri_table colibri_table;
typedef struct colibri_cursor colibri_cursor;
typedef struct colibri_ticket colibri_ticket;

int colibri_kv_open(const char *dir, const colibri_options *options, colibri_kv **kv);
/* What is open of it, snapshots and transactions, goes on; the files are closed with the last. */
int colibri_kv_close(colibri_kv *kv);
/* Returns when all commits are on disk. */
int colibri_kv_sync(colibri_kv *kv);

/* A branch is a database of its own in the same file, which shares all pages that neither has changed.
 * These five may be called with the handle of any branch of the file.
 *
 * Makes a branch of what is committed here, whatever the size in about a commit's time, and opens it.
 * Errors: 42P04 if there is one of the name; 42602 if the name is empty or too long. */
int colibri_kv_branch(colibri_kv *kv, const char *name, colibri_kv **branch);
/* COLIBRI_NOT_FOUND if there is none of the name; "main" is what colibri_kv_open has opened. */
int colibri_kv_open_branch(colibri_kv *kv, const char *name, colibri_kv **branch);
/* Drops a branch: handles of it are of no use from now on, snapshots go on, and its pages are given back
 * in the background. COLIBRI_NOT_FOUND if there is none. Errors: 42809 for "main". */
int colibri_kv_drop_branch(colibri_kv *kv, const char *name);
/* Gives a branch what is committed here; what it had is given up. COLIBRI_NOT_FOUND if there is none. */
int colibri_kv_reset_branch(colibri_kv *kv, const char *name);
/* The name of a branch: 0 is "main", the others follow by name; COLIBRI_NOT_FOUND behind the last one.
 * The name stays until the next call of this function on the same thread. */
int colibri_kv_branch_name(colibri_kv *kv, size_t place, const char **name);

/* The database as of the last durable commit. A snapshot may be taken on one thread and read on others,
 * by one call at a time. Pages that it sees are not used again before it is released. */
int colibri_kv_snapshot(colibri_kv *kv, colibri_snapshot **snapshot);
/* Cursors over it go on; its pages are free when the last of them is closed. */
int colibri_snapshot_release(colibri_snapshot *snapshot);
/* The number of the transaction that it sees last. */
int colibri_snapshot_txn(colibri_snapshot *snapshot, uint64_t *txn);
/* A table by name: COLIBRI_NOT_FOUND if there is none. The handle is good for all snapshots and
 * transactions of the database. */
int colibri_snapshot_table(colibri_snapshot *snapshot, const char *name, colibri_table **table);
/* The value of a key, in place: it stays until the snapshot is released. Tables with many values a key
 * have cursors for it. */
int colibri_snapshot_get(colibri_snapshot *snapshot, colibri_table *table, colibri_bytes key, colibri_bytes *value);
/* How many entries have keys from `low` on and below `high`, in O(log n); either may be NULL. */
int colibri_snapshot_count(colibri_snapshot *snapshot, colibri_table *table, const colibri_bytes *low,
                           const colibri_bytes *high, uint64_t *count);
/* How many entries have keys below this one, in O(log n). */
int colibri_snapshot_rank(colibri_snapshot *snapshot, colibri_table *table, colibri_bytes key, uint64_t *rank);

enum colibri_move {
    COLIBRI_FIRST = 0,
    COLIBRI_LAST = 1,
    COLIBRI_NEXT = 2,
    COLIBRI_PREV = 3,
    /* To the first entry whose key is not below the one that is given. */
    COLIBRI_SEEK = 4,
    COLIBRI_SEEK_EXACT = 5,
    /* To the last entry whose key is below the one that is given. */
    COLIBRI_SEEK_BEFORE = 6,
    /* To another key; among the values of one. */
    COLIBRI_NEXT_KEY = 7,
    COLIBRI_PREV_KEY = 8,
    COLIBRI_FIRST_VALUE = 9,
    COLIBRI_LAST_VALUE = 10,
    COLIBRI_NEXT_VALUE = 11,
    COLIBRI_PREV_VALUE = 12
};

/* A cursor over a table as a snapshot sees it; not on an entry at first. */
int colibri_cursor_open(colibri_snapshot *snapshot, colibri_table *table, colibri_cursor **cursor);
int colibri_cursor_close(colibri_cursor *cursor);
/* Moves, and gives the entry: COLIBRI_NOT_FOUND if there is none there. `wanted` is for the three moves
 * that seek. `key` and `value` may be NULL; what is stored there stays until the cursor moves or is
 * closed. */
int colibri_cursor_move(colibri_cursor *cursor, uint32_t move, colibri_bytes wanted, colibri_bytes *key,
                        colibri_bytes *value);
/* To an entry by its place from 0, in O(log n). */
int colibri_cursor_nth(colibri_cursor *cursor, uint64_t index, colibri_bytes *key, colibri_bytes *value);

/* The write transaction: waits until no other one is open. Any thread may go on with it. */
int colibri_kv_begin(colibri_kv *kv, colibri_txn **txn);
/* Each of these three ends the transaction, and closes its handle, whatever it returns. */
int colibri_txn_commit(colibri_txn *txn, uint64_t *number);
/* Returns before the commit is on disk; the ticket says when it is. */
int colibri_txn_commit_ticket(colibri_txn *txn, colibri_ticket **ticket);
int colibri_txn_abort(colibri_txn *txn);

/* A table by name, made if there is none; `has_many_values`: a key may have any number of values. */
int colibri_txn_table(colibri_txn *txn, const char *name, bool has_many_values, colibri_table **table);
int colibri_table_close(colibri_table *table);
int colibri_txn_drop_table(colibri_txn *txn, colibri_table *table);
int colibri_txn_clear_table(colibri_txn *txn, colibri_table *table);
/* As this transaction sees it. The value stays until the transaction writes or ends. */
int colibri_txn_get(colibri_txn *txn, colibri_table *table, colibri_bytes key, colibri_bytes *value);
/* Stores a value, instead of the one that the key has, or besides them where a key has many. */
int colibri_txn_put(colibri_txn *txn, colibri_table *table, colibri_bytes key, colibri_bytes value);
/* Stores a value unless the key has one. */
int colibri_txn_insert(colibri_txn *txn, colibri_table *table, colibri_bytes key, colibri_bytes value, bool *is_new);
/* Stores a value behind all others; an error if its place is not there. */
int colibri_txn_append(colibri_txn *txn, colibri_table *table, colibri_bytes key, colibri_bytes value);
/* COLIBRI_NOT_FOUND if it is not there. */
int colibri_txn_delete(colibri_txn *txn, colibri_table *table, colibri_bytes key);
int colibri_txn_delete_value(colibri_txn *txn, colibri_table *table, colibri_bytes key, colibri_bytes value);
/* Deletes what colibri_snapshot_count counts; whole pages at once. `count` may be NULL. */
int colibri_txn_delete_range(colibri_txn *txn, colibri_table *table, const colibri_bytes *low,
                             const colibri_bytes *high, uint64_t *count);

int colibri_ticket_is_durable(colibri_ticket *ticket, bool *is_durable);
/* Waits until the commit is on disk. Each of these two closes the ticket, whatever it returns. */
int colibri_ticket_wait(colibri_ticket *ticket);
int colibri_ticket_drop(colibri_ticket *ticket);

/* ---- copies and backups; the database is in use meanwhile ---- */

typedef struct colibri_backup_info {
    uint8_t database_id[16];
    /* The transaction that the backup adds to; 0 for a full one. */
    uint64_t since;
    /* The transaction that it brings a database to. */
    uint64_t txn;
    uint32_t page_size;
    uint32_t reserved;
    uint64_t pages;
    uint64_t bytes;
} colibri_backup_info;

/* Writes a backup to a descriptor: a full one, or what has changed since an earlier one. `since` and
 * `info` may be NULL. The descriptor stays open. */
int colibri_backup(colibri_db *db, int fd, const colibri_backup_info *since, colibri_backup_info *info);
int colibri_kv_backup(colibri_kv *kv, int fd, const colibri_backup_info *since, colibri_backup_info *info);
/* Makes a database of a full backup and those that add to it, in order. */
int colibri_restore(const int *fds, size_t count, const char *dir);
/* Makes a copy in another directory; `is_compact`: without free pages. */
int colibri_kv_copy(colibri_kv *kv, const char *dir, bool is_compact);

#ifdef __cplusplus
}
#endif

#endif
