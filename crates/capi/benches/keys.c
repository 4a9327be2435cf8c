/* Keys and values through LMDB's interface: built once with LMDB and once with Colibri by scripts/embedded-figures.
 *
 * Usage: keys DIR get|crud|iterate SECONDS
 * 1,000,000 records of 16 and 32 bytes (crud: 100,000). Prints operations a second.
 *
 *   get      a key at random in a read transaction of its own, which is renewed
 *   crud     insert, read, change and delete one record, each in a transaction; commits are durable
 *   iterate  all records in order, by a cursor; an operation is a record
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "lmdb.h"

enum { KEY_BYTES = 16, VALUE_BYTES = 32, BATCH = 10000 };

static void check(int code, const char *what)
{
    if (code) {
        fprintf(stderr, "%s: %s\n", what, mdb_strerror(code));
        exit(1);
    }
}

static double now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + (double)at.tv_nsec * 1e-9;
}

/* A permutation of 64 bits: keys of neighbouring numbers lie anywhere. */
static uint64_t mixed(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static MDB_val key_of(uint64_t number, char *bytes)
{
    MDB_val key;
    uint64_t part = mixed(number + 1);
    memcpy(bytes, &part, 8);
    part = mixed(~number);
    memcpy(bytes + 8, &part, 8);
    key.mv_size = KEY_BYTES;
    key.mv_data = bytes;
    return key;
}

static void fill(MDB_env *env, MDB_dbi dbi, uint64_t records)
{
    char bytes[KEY_BYTES], body[VALUE_BYTES];
    MDB_txn *txn = NULL;
    uint64_t number;
    for (number = 0; number < records; number++) {
        MDB_val key = key_of(number, bytes), value;
        memset(body, (int)number, sizeof body);
        value.mv_size = sizeof body;
        value.mv_data = body;
        if (!txn)
            check(mdb_txn_begin(env, NULL, 0, &txn), "begin");
        check(mdb_put(txn, dbi, &key, &value, 0), "put");
        if (number % BATCH == BATCH - 1 || number == records - 1) {
            check(mdb_txn_commit(txn), "commit");
            txn = NULL;
        }
    }
    check(mdb_env_sync(env, 1), "sync");
}

static uint64_t get(MDB_env *env, MDB_dbi dbi, uint64_t records, double until)
{
    char bytes[KEY_BYTES];
    MDB_txn *txn;
    uint64_t count = 0, sum = 0;
    check(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn), "begin");
    mdb_txn_reset(txn);
    do {
        int each;
        for (each = 0; each < 1000; each++, count++) {
            MDB_val key = key_of(mixed(count) % records, bytes), value;
            check(mdb_txn_renew(txn), "renew");
            check(mdb_get(txn, dbi, &key, &value), "get");
            sum += *(unsigned char *)value.mv_data;
            mdb_txn_reset(txn);
        }
    } while (now() < until);
    mdb_txn_abort(txn);
    return sum == 1 ? count + 1 : count;
}

static void change(MDB_env *env, MDB_dbi dbi, MDB_val key, int byte)
{
    char body[VALUE_BYTES];
    MDB_val value;
    MDB_txn *txn;
    memset(body, byte, sizeof body);
    value.mv_size = sizeof body;
    value.mv_data = body;
    check(mdb_txn_begin(env, NULL, 0, &txn), "begin");
    check(byte < 0 ? mdb_del(txn, dbi, &key, NULL) : mdb_put(txn, dbi, &key, &value, 0), "write");
    check(mdb_txn_commit(txn), "commit");
}

static uint64_t crud(MDB_env *env, MDB_dbi dbi, uint64_t records, double until)
{
    char bytes[KEY_BYTES];
    uint64_t count = 0;
    do {
        MDB_val key = key_of(records + count, bytes), value;
        MDB_txn *txn;
        change(env, dbi, key, 1);
        check(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn), "begin");
        check(mdb_get(txn, dbi, &key, &value), "get");
        mdb_txn_abort(txn);
        change(env, dbi, key, 2);
        change(env, dbi, key, -1);
        count++;
    } while (now() < until);
    return count;
}

static uint64_t iterate(MDB_env *env, MDB_dbi dbi, double until)
{
    MDB_txn *txn;
    uint64_t count = 0, sum = 0;
    check(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn), "begin");
    do {
        MDB_cursor *cursor;
        MDB_val key, value;
        check(mdb_cursor_open(txn, dbi, &cursor), "cursor");
        while (mdb_cursor_get(cursor, &key, &value, MDB_NEXT) == 0) {
            sum += *(unsigned char *)value.mv_data;
            count++;
        }
        mdb_cursor_close(cursor);
    } while (now() < until);
    mdb_txn_abort(txn);
    return sum == 1 ? count + 1 : count;
}

int main(int argc, char **argv)
{
    MDB_env *env;
    MDB_txn *txn;
    MDB_dbi dbi;
    uint64_t records, count;
    double seconds, start;

    if (argc != 4)
        return 2;
    seconds = atof(argv[3]);
    records = strcmp(argv[2], "crud") ? 1000000 : 100000;
    mkdir(argv[1], 0755);
    check(mdb_env_create(&env), "create");
    check(mdb_env_set_mapsize(env, (size_t)1 << 30), "mapsize");
    check(mdb_env_open(env, argv[1], 0, 0644), "open");
    check(mdb_txn_begin(env, NULL, 0, &txn), "begin");
    check(mdb_dbi_open(txn, NULL, 0, &dbi), "dbi");
    check(mdb_txn_commit(txn), "commit");
    fill(env, dbi, records);
    start = now();
    if (!strcmp(argv[2], "get"))
        count = get(env, dbi, records, start + seconds);
    else if (!strcmp(argv[2], "crud"))
        count = crud(env, dbi, records, start + seconds);
    else
        count = iterate(env, dbi, start + seconds);
    printf("%.0f\n", (double)count / (now() - start));
    mdb_env_close(env);
    return 0;
}
