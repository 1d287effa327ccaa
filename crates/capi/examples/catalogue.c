/*
 * Whole databases: makes a new catalogue, replaces the old catalogue by the new catalogue in one transaction, and lists the
 * databases.
 *
 *   catalogue DIRECTORY     the directory is created if it is missing
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "libtp.h"

static int failed(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, tp_error());
    return 1;
}

static int list(tp_env *env)
{
    tp_buffer names = TP_BUFFER;
    const char *name, *end, *kind;
    uint64_t bytes, records;
    int code = tp_env_databases(env, &names);
    for (name = names.data, end = name + names.size; code == TP_OK && name < end; name += strlen(name) + 1) {
        code = tp_env_database(env, name, &kind, &bytes);
        if (code == TP_OK && (code = tp_env_count_records(env, name, &records)) == TP_OK)
            printf("%s: %s, %" PRIu64 " records, %s\n", name, kind, records, bytes > 0 ? "a file" : "no file");
    }
    tp_buffer_free(&names);
    return code;
}

static int replace(tp_txn *txn, void *unused)
{
    int code = tp_drop(txn, "catalogue");
    (void)unused;
    if (code == TP_OK || code == TP_NO_DATABASE)
        code = tp_rename(txn, "catalogue.new", "catalogue");
    return code;
}

static int fill(tp_txn *txn, void *db)
{
    int code = tp_put(db, txn, "pears", 5, "7", 1);
    return code == TP_OK ? tp_put(db, txn, "plums", 5, "9", 1) : code;
}

int main(int argc, char **argv)
{
    tp_env *env;
    tp_db *made;
    tp_txn *txn;
    uint64_t count;
    if (argc != 2)
        return 2;
    if (tp_env_open(argv[1], NULL, 0, &env) != TP_OK || tp_btree_open(env, "catalogue.new", &made) != TP_OK)
        return failed("open");
    if (tp_run(env, TP_DEFAULT, fill, made) != TP_OK || tp_db_close(made) != TP_OK)
        return failed("fill");
    if (tp_run(env, TP_DEFAULT, replace, NULL) != TP_OK || list(env) != TP_OK)
        return failed("replace");
    if (tp_begin(env, TP_DEFAULT, &txn) != TP_OK)
        return failed("begin");
    if (tp_empty(txn, "catalogue", &count) != TP_OK) {
        tp_abort(txn);
        return failed("empty");
    }
    if (tp_commit(txn) != TP_OK || list(env) != TP_OK)
        return failed("commit");
    printf("%" PRIu64 " records were removed\n", count);
    return tp_env_close(env) == TP_OK ? 0 : failed("close");
}
