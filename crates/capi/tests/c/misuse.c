/* Calls that a program must not make: each fails with its code and a text, and has no other effect. */
#include <stdio.h>
#include <string.h>

#include "libtp.h"

static int wrong;

static void expect_at(int line, int code, int expected, const char *part)
{
    const char *said = expected == TP_OK ? "" : tp_error();
    if (code == expected && strstr(said, part) != NULL)
        return;
    wrong += 1;
    printf("line %d: %d (%s), expected %d and \"%s\"\n", line, code, code == TP_OK ? "" : tp_error(), expected, part);
}

#define expect(code, expected, part) expect_at(__LINE__, (code), (expected), (part))
#define fine(code) expect_at(__LINE__, (code), TP_OK, "")

static void nulls(const char *directory, tp_env *env, tp_db *db, tp_recno *recno)
{
    tp_env *none = env;
    tp_txn *txn = NULL;
    expect(tp_env_open(NULL, NULL, 0, &none), TP_MISUSE, "tp_env_open: NULL was given for the directory");
    if (none != NULL)
        wrong += 1;
    expect(tp_env_open(directory, NULL, 0, NULL), TP_MISUSE, "place of the environment");
    expect(tp_env_open(directory, NULL, 8, &none), TP_MISUSE, "bits that mean nothing: 0x8");
    expect(tp_env_open(directory, NULL, TP_KEEP_FILES | TP_KEEP_REGION, &none), TP_MISUSE, "exclude each other");
    expect(tp_env_open(directory, "memry = 3", 0, &none), TP_SETTINGS, "memry");
    expect(tp_env_open(directory, "\xff", 0, &none), TP_MISUSE, "not text in UTF-8");
    expect(tp_begin(NULL, TP_DEFAULT, &txn), TP_MISUSE, "NULL was given for an environment");
    expect(tp_begin(env, TP_DEFAULT, NULL), TP_MISUSE, "place of the transaction");
    expect(tp_begin(env, 17, &txn), TP_MISUSE, "17 is not a durability");
    expect(tp_btree_open(env, NULL, &db), TP_MISUSE, "the name");
    expect(tp_env_databases(env, NULL), TP_MISUSE, "the buffer");
    expect(tp_run(env, TP_DEFAULT, NULL, NULL), TP_MISUSE, "the function");
    expect(tp_commit(NULL), TP_MISUSE, "NULL was given for a transaction");
    expect(tp_recno_record_size(recno, NULL), TP_MISUSE, "place of the length");
    fine(tp_env_close(NULL));
    fine(tp_db_close(NULL));
    fine(tp_recno_close(NULL));
    fine(tp_cursor_close(NULL));
    fine(tp_recno_cursor_close(NULL));
    fine(tp_abort(NULL));
    fine(tp_pending_free(NULL));
    fine(tp_wait_durable(NULL));
    tp_buffer_free(NULL);
}

static void pages_not_given_back(tp_env *env)
{
    tp_pages *fid;
    tp_txn *txn;
    tp_pending *pending;
    tp_buffer word = TP_BUFFER;
    void *page;
    size_t size;
    fine(buf_open(env, "pages", DB_SHARED | DB_TP, &fid));
    fine(tp_begin(env, TP_DEFAULT, &txn));
    fine(tp_lock(fid, txn, 0, WRITE_LOCK));
    fine(buf_get(fid, txn, 0, BF_PIN, &page, NULL));
    memcpy(page, "kept", 4);
    expect(tp_commit(txn), TP_MISUSE, "page 0 was changed and not unpinned");
    expect(tp_commit_async(txn, &pending), TP_MISUSE, "page 0 was changed and not unpinned");
    expect(tp_detach(txn, &word), TP_MISUSE, "page 0 was changed and not unpinned");
    fine(buf_unpin(fid, txn, 0));
    fine(tp_commit(txn));
    fine(tp_begin(env, TP_DEFAULT, &txn));
    fine(tp_lock(fid, txn, 0, READ_LOCK));
    fine(buf_get(fid, txn, 0, BF_PIN, &page, &size));
    if (size == 0 || memcmp(page, "kept", 4) != 0)
        wrong += 1;
    fine(tp_commit(txn));
    tp_buffer_free(&word);
    fine(buf_close(fid));
}

static void parts(tp_db *db, tp_recno *recno, tp_txn *txn)
{
    int64_t sum = 1;
    tp_buffer value = TP_BUFFER;
    fine(tp_put(db, txn, "part", 4, "0123456789", 10));
    fine(tp_update_part(db, txn, "part", 4, 8, "ab", 2));
    fine(tp_update_part(db, txn, "part", 4, 10, NULL, 0));
    expect(tp_update_part(db, txn, "part", 4, 9, "ab", 2), TP_LENGTH, "up to 1 bytes at byte 9");
    expect(tp_update_part(db, txn, "part", 4, 0, NULL, 2), TP_MISUSE, "NULL was given for a part of 2 bytes");
    expect(tp_update_part(db, txn, "none", 4, 0, "ab", 2), TP_NOTFOUND, "");
    fine(tp_update_part(db, txn, "part", 4, 0, "\0\0\0\0\0\0\0\0", 8));
    fine(tp_add(db, txn, "part", 4, 0, -2, &sum));
    fine(tp_add(db, txn, "part", 4, 0, 2, NULL));
    expect(tp_add(db, txn, "part", 4, 3, 1, &sum), TP_LENGTH, "up to 7 bytes at byte 3");
    expect(tp_add(db, txn, "none", 4, 0, 1, &sum), TP_NOTFOUND, "");
    fine(tp_get(db, txn, "part", 4, &value));
    if (sum != -2 || memcmp(value.data, "\0\0\0\0\0\0\0\0ab", 10) != 0)
        wrong += 1;
    expect(tp_recno_update_part(recno, txn, 1, 0, "a", 1), TP_NOTFOUND, "");
    expect(tp_recno_add(recno, txn, 1, 0, 1, &sum), TP_NOTFOUND, "");
    tp_buffer_free(&value);
}

static void many(tp_db *db, tp_txn *txn)
{
    tp_wanted wanted[3] = {{"z", 1, TP_BUFFER, 7}, {"part", 4, TP_BUFFER, 7}, {"none", 4, TP_BUFFER, 7}};
    fine(tp_put(db, txn, "z", 1, "last", 4));
    fine(tp_prefetch(db, txn, "z", 1));
    fine(tp_get_many(db, txn, wanted, 3));
    if (wanted[0].code != TP_OK || strcmp(wanted[0].value.data, "last") != 0 || wanted[1].code != TP_OK ||
        wanted[1].value.size != 10 || wanted[2].code != TP_NOTFOUND || wanted[2].value.data != NULL)
        wrong += 1;
    fine(tp_get_many(db, txn, NULL, 0));
    expect(tp_get_many(db, txn, NULL, 1), TP_MISUSE, "NULL was given for the wanted keys");
    expect(tp_get_many(db, txn, wanted, (size_t)-1), TP_MISUSE, "more than any memory has");
    wanted[2].key = NULL;
    expect(tp_get_many(db, txn, wanted, 3), TP_MISUSE, "NULL was given for a key of 4 bytes");
    expect(tp_prefetch(db, txn, NULL, 1), TP_MISUSE, "NULL was given for a key of 1 bytes");
    for (int nth = 0; nth < 3; nth++)
        tp_buffer_free(&wanted[nth].value);
}

static void lengths_and_kinds(tp_env *env, tp_db *db, tp_recno *recno)
{
    static char much[3000];
    tp_txn *txn;
    tp_db *other;
    tp_buffer value = TP_BUFFER;
    fine(tp_begin(env, TP_DEFAULT, &txn));
    expect(tp_put(db, txn, much, sizeof much, "", 0), TP_LENGTH, "a key of 3000 bytes");
    expect(tp_put(db, txn, NULL, 3, "", 0), TP_MISUSE, "NULL was given for a key of 3 bytes");
    expect(tp_put(db, txn, "k", 1, much, (size_t)-1), TP_MISUSE, "more than any memory has");
    fine(tp_put(db, txn, NULL, 0, NULL, 0));
    fine(tp_get(db, txn, "", 0, &value));
    fine(tp_get(db, txn, "", 0, NULL));
    expect(tp_recno_put(recno, txn, 1, "x", 1), TP_LENGTH, "a record of 1 bytes");
    parts(db, recno, txn);
    many(db, txn);
    expect(tp_recno_get(recno, txn, 0, &value), TP_NOTFOUND, "no such record");
    expect(tp_btree_open(env, "numbers", &other), TP_DATABASE, "numbers");
    expect(tp_btree_open(env, "a/b", &other), TP_DATABASE, "a/b");
    expect(tp_recno_open(env, "nowhere", 0, &recno), TP_NO_DATABASE, "nowhere");
    if (value.size != 0 || value.data == NULL || ((char *)value.data)[0] != 0)
        wrong += 1;
    tp_buffer_free(&value);
    fine(tp_abort(txn));
}

static void not_handles(tp_env *env, tp_db *db)
{
    tp_txn *txn;
    int on_the_stack = 0;
    fine(tp_begin(env, TP_DEFAULT, &txn));
    expect(tp_put((tp_db *)(void *)txn, txn, "k", 1, "", 0), TP_MISUSE, "the call needs a database, and a transaction was given");
    expect(tp_put(db, (tp_txn *)(void *)env, "k", 1, "", 0), TP_MISUSE, "and an environment was given");
    expect(tp_put(db, (tp_txn *)(void *)&on_the_stack, "k", 1, "", 0), TP_MISUSE, "is not a handle of this library");
    expect(tp_put(db, (tp_txn *)(uintptr_t)0xdeadbeefdeadbee3, "k", 1, "", 0), TP_MISUSE, "transaction");
    fine(tp_commit(txn));
    expect(tp_commit(txn), TP_MISUSE, "tp_commit: a transaction was given that was ended or closed before");
    expect(tp_abort(txn), TP_MISUSE, "ended or closed before");
    expect(tp_put(db, txn, "k", 1, "", 0), TP_MISUSE, "ended or closed before");
}

static void closed(const char *directory, tp_env *env)
{
    tp_env *twice;
    tp_db *db, *theirs;
    tp_txn *txn;
    tp_cursor *cursor, *left;
    tp_pending *pending;
    fine(tp_btree_open(env, "closed", &db));
    fine(tp_begin(env, TP_DEFAULT, &txn));
    fine(tp_cursor_open(db, txn, &cursor));
    fine(tp_cursor_open(db, txn, &left));
    fine(tp_cursor_close(cursor));
    expect(tp_cursor_next(cursor, NULL, NULL), TP_MISUSE, "a cursor was given that was ended or closed before");
    expect(tp_db_close(db), TP_IN_USE, "tp_db_close: a database is in use 1 times: ");
    expect(tp_env_close(env), TP_IN_USE, "It stays open");
    fine(tp_env_open(directory, NULL, 0, &twice));
    fine(tp_btree_open(twice, "closed", &theirs));
    expect(tp_get(theirs, txn, "k", 1, NULL), TP_MISUSE, "different environment handles");
    fine(tp_commit_async(txn, &pending));
    expect(tp_cursor_next(left, NULL, NULL), TP_MISUSE, "the cursor's transaction has ended");
    fine(tp_db_close(db));
    expect(tp_db_close(db), TP_MISUSE, "ended or closed before");
    fine(tp_cursor_close(left));
    fine(tp_wait_durable(pending));
    expect(tp_wait_durable(pending), TP_MISUSE, "ended or closed before");
    fine(tp_db_close(theirs));
    fine(tp_env_close(twice));
    expect(tp_env_flush(twice), TP_MISUSE, "an environment was given that was ended or closed before");
}

static void savepoints(tp_env *env, tp_db *db)
{
    tp_txn *txn, *snapshot;
    uint64_t first, second;
    fine(tp_begin(env, TP_DEFAULT, &txn));
    fine(tp_savepoint(txn, &first));
    fine(tp_savepoint(txn, &second));
    fine(tp_savepoint_roll_back(txn, first));
    expect(tp_savepoint_keep(txn, second), TP_MISUSE, "the transaction has no savepoint 2");
    expect(tp_savepoint_roll_back(txn, first), TP_MISUSE, "kept or rolled back");
    expect(tp_savepoint(txn, NULL), TP_MISUSE, "place of the savepoint");
    expect(tp_snapshot_durable(txn), TP_MISUSE, "the call needs a snapshot");
    /* A savepoint that is neither kept nor rolled back ends with its transaction, and the changes since the savepoint
     * are kept. */
    fine(tp_savepoint(txn, &first));
    fine(tp_put(db, txn, "left", 4, "1", 1));
    fine(tp_commit(txn));
    fine(tp_snapshot(env, &snapshot));
    fine(tp_get(db, snapshot, "left", 4, NULL));
    expect(tp_put(db, snapshot, "k", 1, "", 0), TP_MISUSE, "a snapshot was given, in which nothing can be changed");
    expect(tp_delete(db, snapshot, "k", 1), TP_MISUSE, "a snapshot was given");
    expect(tp_savepoint(snapshot, &first), TP_MISUSE, "a snapshot was given");
    fine(tp_commit(snapshot));
}

struct scene {
    tp_db *db;
    tp_txn *txn;
};

static void calls_us(void *value, size_t size, void *argument)
{
    struct scene *scene = argument;
    (void)value;
    (void)size;
    expect(tp_put(scene->db, scene->txn, "k", 1, "", 0), TP_MISUSE, "another call of this program uses a transaction");
}

static int ends_it(tp_txn *txn, void *argument)
{
    (void)argument;
    return tp_commit(txn);
}

static int has_its_own_code(tp_txn *txn, void *argument)
{
    struct scene *scene = argument;
    fine(tp_put(scene->db, txn, "never", 5, "", 0));
    return 42;
}

static int looks_for_it(tp_txn *txn, void *argument)
{
    struct scene *scene = argument;
    return tp_get(scene->db, txn, "never", 5, NULL);
}

static void functions(tp_env *env, tp_db *db)
{
    struct scene scene;
    scene.db = db;
    expect(tp_run(env, TP_DEFAULT, ends_it, NULL), TP_MISUSE, "the function has ended the transaction");
    expect(tp_run(env, TP_DEFAULT, has_its_own_code, &scene), 42, "the program's function returned 42");
    expect(tp_run(env, TP_DEFAULT, looks_for_it, &scene), TP_NOTFOUND, "there is no such record");
    fine(tp_begin(env, TP_DEFAULT, &scene.txn));
    fine(tp_put(db, scene.txn, "k", 1, "value", 5));
    fine(tp_update(db, scene.txn, "k", 1, calls_us, &scene));
    expect(tp_update(db, scene.txn, "nothing", 7, calls_us, &scene), TP_NOTFOUND, "");
    expect(tp_update(db, scene.txn, "k", 1, NULL, NULL), TP_MISUSE, "the function");
    fine(tp_abort(scene.txn));
}

int main(int argc, char **argv)
{
    tp_env *env;
    tp_db *db;
    tp_recno *recno;
    if (argc != 2)
        return 2;
    fine(tp_env_open(argv[1], NULL, 0, &env));
    fine(tp_btree_open(env, "words", &db));
    fine(tp_recno_open(env, "numbers", 8, &recno));
    nulls(argv[1], env, db, recno);
    lengths_and_kinds(env, db, recno);
    pages_not_given_back(env);
    not_handles(env, db);
    closed(argv[1], env);
    savepoints(env, db);
    functions(env, db);
    if (strcmp(tp_strerror(7), "this code is not a code of the library") != 0 || tp_is_retryable(TP_MISUSE) || !tp_is_retryable(TP_DEADLOCK))
        wrong += 1;
    fine(tp_recno_close(recno));
    fine(tp_db_close(db));
    fine(tp_env_close(env));
    expect(tp_env_close(env), TP_MISUSE, "ended or closed before");
    printf("%d wrong\n", wrong);
    return wrong == 0 ? 0 : 1;
}
