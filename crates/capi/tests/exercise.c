/* A program of LMDB's interface, in C that is C++ as well: each check that fails ends it. It is built
 * against our header and run with our library, and with LMDB's where that is installed. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lmdb.h"

#define CHECK(condition)                                                        \
    do {                                                                        \
        if (!(condition)) {                                                     \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);     \
            exit(1);                                                            \
        }                                                                       \
    } while (0)
#define OK(call)                                                                              \
    do {                                                                                      \
        int code_ = (call);                                                                   \
        if (code_ != 0) {                                                                     \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, mdb_strerror(code_)); \
            exit(1);                                                                          \
        }                                                                                     \
    } while (0)

static MDB_val text(const char *bytes)
{
    MDB_val value;
    value.mv_size = strlen(bytes);
    value.mv_data = (void *)bytes;
    return value;
}

static int is_text(const MDB_val *value, const char *bytes)
{
    return value->mv_size == strlen(bytes) && memcmp(value->mv_data, bytes, value->mv_size) == 0;
}

static void put(MDB_txn *txn, MDB_dbi dbi, const char *key, const char *value)
{
    MDB_val k = text(key), v = text(value);
    OK(mdb_put(txn, dbi, &k, &v, 0));
}

static int lines = 0;

static int count_line(const char *line, void *context)
{
    (void)context;
    CHECK(line[strlen(line) - 1] == '\n');
    lines++;
    return 0;
}

static int by_last_byte(const MDB_val *a, const MDB_val *b)
{
    const unsigned char *one = (const unsigned char *)a->mv_data, *other = (const unsigned char *)b->mv_data;
    return (int)one[a->mv_size - 1] - (int)other[b->mv_size - 1];
}

static void entries(MDB_env *env)
{
    MDB_txn *txn;
    MDB_dbi dbi, other;
    MDB_val key, value;
    OK(mdb_txn_begin(env, NULL, 0, &txn));
    CHECK(mdb_txn_env(txn) == env);
    CHECK(mdb_dbi_open(txn, "plain", 0, &dbi) == MDB_NOTFOUND);
    OK(mdb_dbi_open(txn, "plain", MDB_CREATE, &dbi));
    OK(mdb_dbi_open(txn, "plain", 0, &other));
    CHECK(dbi == other);
    put(txn, dbi, "b", "two");
    put(txn, dbi, "a", "one");
    key = text("a");
    value = text("other");
    CHECK(mdb_put(txn, dbi, &key, &value, MDB_NOOVERWRITE) == MDB_KEYEXIST);
    CHECK(is_text(&value, "one"));
    key = text("");
    CHECK(mdb_put(txn, dbi, &key, &value, 0) == MDB_BAD_VALSIZE);
    /* Room that is filled in later. */
    key = text("c");
    value.mv_size = 5;
    value.mv_data = NULL;
    OK(mdb_put(txn, dbi, &key, &value, MDB_RESERVE));
    memcpy(value.mv_data, "three", 5);
    OK(mdb_get(txn, dbi, &key, &value));
    CHECK(is_text(&value, "three"));
    /* The name of a database is a key of the unnamed one, and not the program's to change. */
    MDB_dbi unnamed;
    OK(mdb_dbi_open(txn, NULL, 0, &unnamed));
    key = text("plain");
    OK(mdb_get(txn, unnamed, &key, &value));
    OK(mdb_txn_commit(txn));

    OK(mdb_txn_begin(env, NULL, 0, &txn));
    CHECK(mdb_del(txn, unnamed, &key, NULL) == MDB_INCOMPATIBLE);
    mdb_txn_abort(txn);

    OK(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn));
    CHECK(mdb_put(txn, dbi, &key, &value, 0) == EACCES);
    MDB_cursor *cursor;
    OK(mdb_cursor_open(txn, dbi, &cursor));
    CHECK(mdb_cursor_dbi(cursor) == dbi && mdb_cursor_txn(cursor) == txn);
    CHECK(mdb_cursor_get(cursor, &key, &value, MDB_GET_CURRENT) == EINVAL);
    const char *keys[] = {"a", "b", "c"};
    MDB_val seen[3];
    for (int i = 0; i < 3; i++) {
        OK(mdb_cursor_get(cursor, &key, &value, MDB_NEXT));
        seen[i] = key;
    }
    /* Keys stay where they are until the transaction ends. */
    for (int i = 0; i < 3; i++)
        CHECK(is_text(&seen[i], keys[i]));
    CHECK(mdb_cursor_get(cursor, &key, &value, MDB_NEXT) == MDB_NOTFOUND);
    key = text("aa");
    OK(mdb_cursor_get(cursor, &key, &value, MDB_SET_RANGE));
    CHECK(is_text(&key, "b") && is_text(&value, "two"));
    mdb_txn_reset(txn);
    CHECK(mdb_get(txn, dbi, &key, &value) == EINVAL);
    OK(mdb_txn_renew(txn));
    OK(mdb_cursor_renew(txn, cursor));
    OK(mdb_cursor_get(cursor, &key, &value, MDB_LAST));
    CHECK(is_text(&value, "three"));
    mdb_txn_abort(txn);
    mdb_cursor_close(cursor);
}

static void values(MDB_env *env)
{
    MDB_txn *txn;
    MDB_dbi dbi;
    MDB_cursor *cursor;
    MDB_val key, value;
    size_t count;
    OK(mdb_txn_begin(env, NULL, 0, &txn));
    OK(mdb_dbi_open(txn, "numbers", MDB_CREATE | MDB_DUPSORT | MDB_DUPFIXED | MDB_INTEGERDUP, &dbi));
    OK(mdb_cursor_open(txn, dbi, &cursor));
    unsigned int numbers[] = {1, 256, 65536, 2, 70000};
    MDB_val many[2];
    many[0].mv_size = sizeof numbers[0];
    many[0].mv_data = numbers;
    many[1].mv_size = 5;
    key = text("k");
    OK(mdb_cursor_put(cursor, &key, many, MDB_MULTIPLE));
    CHECK(many[1].mv_size == 5);
    OK(mdb_cursor_get(cursor, &key, &value, MDB_SET_KEY));
    OK(mdb_cursor_count(cursor, &count));
    CHECK(count == 5);
    unsigned int sorted[] = {1, 2, 256, 65536, 70000};
    OK(mdb_cursor_get(cursor, &key, &value, MDB_GET_MULTIPLE));
    CHECK(value.mv_size == sizeof sorted && memcmp(value.mv_data, sorted, sizeof sorted) == 0);
    unsigned int wanted = 200;
    key = text("k");
    value.mv_size = sizeof wanted;
    value.mv_data = &wanted;
    OK(mdb_cursor_get(cursor, &key, &value, MDB_GET_BOTH_RANGE));
    CHECK(memcmp(value.mv_data, &sorted[2], sizeof wanted) == 0);
    OK(mdb_cursor_del(cursor, 0));
    OK(mdb_cursor_get(cursor, &key, &value, MDB_NEXT));
    CHECK(memcmp(value.mv_data, &sorted[3], sizeof wanted) == 0);
    OK(mdb_cursor_del(cursor, MDB_NODUPDATA));
    key = text("k");
    CHECK(mdb_get(txn, dbi, &key, &value) == MDB_NOTFOUND);
    OK(mdb_txn_commit(txn));
}

static void nested(MDB_env *env)
{
    MDB_txn *txn, *inner;
    MDB_dbi dbi;
    MDB_val key, value;
    OK(mdb_txn_begin(env, NULL, 0, &txn));
    OK(mdb_dbi_open(txn, "nested", MDB_CREATE, &dbi));
    put(txn, dbi, "a", "outer");
    OK(mdb_txn_begin(env, txn, 0, &inner));
    key = text("a");
    CHECK(mdb_get(txn, dbi, &key, &value) == MDB_BAD_TXN);
    put(inner, dbi, "a", "inner");
    mdb_txn_abort(inner);
    OK(mdb_get(txn, dbi, &key, &value));
    CHECK(is_text(&value, "outer"));
    OK(mdb_txn_begin(env, txn, 0, &inner));
    put(inner, dbi, "a", "inner");
    OK(mdb_txn_commit(inner));
    OK(mdb_get(txn, dbi, &key, &value));
    CHECK(is_text(&value, "inner"));
    OK(mdb_drop(txn, dbi, 1));
    OK(mdb_txn_commit(txn));
}

static void own_order(MDB_env *env)
{
    MDB_txn *txn;
    MDB_dbi dbi;
    MDB_cursor *cursor;
    MDB_val key, value;
    OK(mdb_txn_begin(env, NULL, 0, &txn));
    OK(mdb_dbi_open(txn, "own", MDB_CREATE, &dbi));
    OK(mdb_set_compare(txn, dbi, by_last_byte));
    put(txn, dbi, "xc", "1");
    put(txn, dbi, "ya", "2");
    put(txn, dbi, "zb", "3");
    put(txn, dbi, "qb", "4");
    key = text("-c");
    OK(mdb_get(txn, dbi, &key, &value));
    CHECK(is_text(&value, "1"));
    OK(mdb_cursor_open(txn, dbi, &cursor));
    char order[4] = "";
    for (int i = 0; i < 3; i++) {
        OK(mdb_cursor_get(cursor, &key, &value, MDB_NEXT));
        order[i] = ((const char *)key.mv_data)[1];
    }
    CHECK(strcmp(order, "abc") == 0);
    CHECK(mdb_cursor_get(cursor, &key, &value, MDB_NEXT) == MDB_NOTFOUND);
    OK(mdb_txn_commit(txn));
}

static void environment(MDB_env *env, const char *dir)
{
    MDB_stat stat;
    MDB_envinfo info;
    MDB_env *again;
    unsigned int flags, readers;
    const char *path;
    int dead, fd;
    char copy[4096];
    OK(mdb_env_stat(env, &stat));
    CHECK(stat.ms_entries == 3 && stat.ms_psize == 4096);
    OK(mdb_env_info(env, &info));
    CHECK(info.me_last_txnid > 0 && info.me_last_pgno > 1);
    OK(mdb_env_get_flags(env, &flags));
    CHECK(flags & MDB_NOTLS);
    OK(mdb_env_set_flags(env, MDB_NOSYNC, 1));
    CHECK(mdb_env_set_flags(env, MDB_NOTLS, 1) == EINVAL);
    OK(mdb_env_set_flags(env, MDB_NOSYNC, 0));
    OK(mdb_env_get_path(env, &path));
    CHECK(strcmp(path, dir) == 0);
    OK(mdb_env_get_fd(env, &fd));
    CHECK(fd >= 0);
    OK(mdb_env_get_maxreaders(env, &readers));
    CHECK(readers == 126 && mdb_env_get_maxkeysize(env) == 511);
    OK(mdb_reader_list(env, count_line, NULL));
    CHECK(lines > 0);
    OK(mdb_reader_check(env, &dead));
    CHECK(dead == 0);
    OK(mdb_env_sync(env, 1));
    snprintf(copy, sizeof copy, "%s/copy", dir);
    OK(mdb_env_create(&again));
    OK(mdb_env_set_maxdbs(again, 4));
    CHECK(mdb_env_open(again, copy, MDB_NOSUBDIR | MDB_RDONLY, 0600) == ENOENT);
    mdb_env_close(again);
}

int main(int count, char **arguments)
{
    MDB_env *env;
    int major, minor, patch;
    CHECK(count == 2);
    mdb_version(&major, &minor, &patch);
    CHECK(major == 0 && minor == 9);
    CHECK(mdb_strerror(MDB_NOTFOUND) != NULL && mdb_strerror(ENOENT) != NULL);
    OK(mdb_env_create(&env));
    OK(mdb_env_set_maxdbs(env, 8));
    OK(mdb_env_set_mapsize(env, 1 << 24));
    OK(mdb_env_open(env, arguments[1], MDB_NOTLS, 0640));
    CHECK(mdb_env_set_maxdbs(env, 9) == EINVAL);
    entries(env);
    values(env);
    nested(env);
    own_order(env);
    environment(env, arguments[1]);
    mdb_env_close(env);
    /* What was committed is there. */
    OK(mdb_env_create(&env));
    OK(mdb_env_set_maxdbs(env, 8));
    OK(mdb_env_set_mapsize(env, 1 << 24));
    OK(mdb_env_open(env, arguments[1], MDB_RDONLY, 0640));
    MDB_txn *txn;
    MDB_dbi dbi;
    MDB_val key = text("b"), value;
    CHECK(mdb_txn_begin(env, NULL, 0, &txn) == EACCES);
    OK(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn));
    OK(mdb_dbi_open(txn, "plain", 0, &dbi));
    OK(mdb_get(txn, dbi, &key, &value));
    CHECK(is_text(&value, "two"));
    mdb_txn_abort(txn);
    mdb_env_close(env);
    printf("done\n");
    return 0;
}
