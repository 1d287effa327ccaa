/*
 * Savepoints, with which a part of a transaction is undone; snapshots; and commits that return before they are on disk.
 *
 *   parts DIRECTORY
 */
#include <stdio.h>
#include <string.h>

#include "libtp.h"

static int failed(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, tp_error());
    return 1;
}

/* Prints a key's value as a transaction or a snapshot sees it. */
static void show(const char *title, tp_db *stock, tp_txn *reader, const char *key)
{
    tp_buffer value = TP_BUFFER;
    int code = tp_get(stock, reader, key, strlen(key), &value);
    printf("%s: %s %s\n", title, key, code == TP_OK ? (const char *)value.data : tp_error());
    tp_buffer_free(&value);
}

static int put(tp_db *stock, tp_txn *txn, const char *key, const char *value)
{
    return tp_put(stock, txn, key, strlen(key), value, strlen(value));
}

/* Makes a part with a part inside it, and undoes both: the end of a part ends the parts inside it. The changes before the
 * outer part stay. */
static int order(tp_db *stock, tp_txn *txn)
{
    uint64_t part, inner;
    int code = put(stock, txn, "apples", "3");
    if (code == TP_OK)
        code = tp_savepoint(txn, &part);
    if (code == TP_OK)
        code = put(stock, txn, "apples", "2");
    if (code == TP_OK)
        code = tp_savepoint(txn, &inner);
    if (code == TP_OK)
        code = put(stock, txn, "pears", "9");
    if (code == TP_OK)
        code = tp_savepoint_keep(txn, inner);
    if (code != TP_OK)
        return code;
    show("in the part", stock, txn, "apples");
    if ((code = tp_savepoint_roll_back(txn, part)) != TP_OK)
        return code;
    show("rolled back", stock, txn, "apples");
    show("rolled back", stock, txn, "pears");
    return TP_OK;
}

static int commit_later(tp_env *env, tp_db *stock)
{
    tp_pending *first, *second;
    tp_txn *txn;
    int code = tp_begin(env, TP_SYNC, &txn);
    if (code != TP_OK)
        return code;
    put(stock, txn, "figs", "1");
    if ((code = tp_commit_async(txn, &first)) != TP_OK || (code = tp_begin(env, TP_RELAXED, &txn)) != TP_OK)
        return code;
    put(stock, txn, "figs", "2");
    if ((code = tp_commit_async(txn, &second)) != TP_OK)
        return code;
    /* When a commit is on disk, all earlier commits are, too. */
    if ((code = tp_wait_durable(second)) != TP_OK)
        return code;
    return tp_pending_free(first);
}

int main(int argc, char **argv)
{
    tp_env *env;
    tp_db *stock;
    tp_txn *txn, *before, *after;
    uint64_t id;
    if (argc != 2)
        return 2;
    if (tp_env_open(argv[1], NULL, 0, &env) != TP_OK || tp_hash_open(env, "stock", &stock) != TP_OK)
        return failed("open");
    if (tp_snapshot(env, &before) != TP_OK || tp_begin(env, TP_DEFAULT, &txn) != TP_OK)
        return failed("begin");
    if (tp_txn_id(txn, &id) != TP_OK || id == 0)
        return failed("id");
    if (order(stock, txn) != TP_OK) {
        failed("order");
        tp_abort(txn);
        return 1;
    }
    if (tp_commit(txn) != TP_OK || commit_later(env, stock) != TP_OK)
        return failed("commit");
    if (tp_snapshot(env, &after) != TP_OK || tp_snapshot_durable(after) != TP_OK)
        return failed("snapshot");
    show("before", stock, before, "apples");
    show("after", stock, after, "apples");
    show("after", stock, after, "figs");
    tp_abort(before);
    tp_abort(after);
    if (tp_db_close(stock) != TP_OK || tp_env_close(env) != TP_OK)
        return failed("close");
    return 0;
}
