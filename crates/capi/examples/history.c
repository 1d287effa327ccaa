/*
 * Reads the log: backward, the records of one transaction from the last to the first; and forward, the records from its
 * last change on.
 *
 *   history DIRECTORY
 */
#include <stdio.h>
#include <string.h>

#include "libtp.h"

static int failed(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, tp_error());
    return 1;
}

static int show(const tp_log_record *record, void *when)
{
    printf("%s: %s%s, of %d bytes or more, %s\n", (const char *)when, record->is_compensation ? "undo of " : "", record->kind,
           record->body_size < 8 ? 0 : 8, record->prev == 0 ? "the first" : "and one before");
    return TP_OK;
}

struct searched {
    uint64_t txn;
    int seen;
};

/* Ends log_roll when it has read two records of the transaction: its last change and its end. Other records, for example
 * of a checkpoint, may be between these two. */
static int count(const tp_log_record *record, void *argument)
{
    struct searched *searched = argument;
    if (record->txn != searched->txn)
        return TP_OK;
    return ++searched->seen == 2 ? 1 : TP_OK;
}

int main(int argc, char **argv)
{
    tp_env *env;
    tp_db *db;
    tp_txn *txn;
    uint64_t last, before;
    struct searched searched = {0, 0};

    if (argc != 2) {
        fprintf(stderr, "usage: history DIRECTORY\n");
        return 2;
    }
    if (tp_env_open(argv[1], NULL, 0, &env) != TP_OK || tp_btree_open(env, "words", &db) != TP_OK)
        return failed("open");
    if (tp_begin(env, TP_DEFAULT, &txn) != TP_OK || tp_last_lsn(txn, &before) != TP_OK)
        return failed("begin");
    printf("last LSN before the first change: %d\n", (int)before);
    if (tp_put(db, txn, "one", 3, "eins", 4) != TP_OK || tp_put(db, txn, "two", 3, "zwei", 4) != TP_OK ||
        tp_put(db, txn, "one", 3, "une", 3) != TP_OK || tp_last_lsn(txn, &last) != TP_OK || tp_txn_id(txn, &searched.txn) != TP_OK)
        return failed("put");
    if (tp_commit(txn) != TP_OK)
        return failed("commit");

    /* Backward, along the transaction's own records. */
    if (log_unroll(env, last, show, "back") != TP_OK)
        return failed("unroll");
    if (log_read(env, last, show, "the last") != TP_OK)
        return failed("read");
    /* Forward: the transaction's last change and its end. */
    if (log_roll(env, last, count, &searched) == TP_OK && searched.seen == 0)
        return failed("roll");
    printf("forwards: %s\n", searched.seen >= 2 ? "the last change and the end" : "too few");
    /* A record that the log does not have. */
    printf("later: %s\n", tp_strerror(log_read(env, last + (1u << 30), show, "later")));
    if (tp_db_close(db) != TP_OK || tp_env_close(env) != TP_OK)
        return failed("close");
    return 0;
}
