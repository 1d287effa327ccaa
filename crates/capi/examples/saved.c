/*
 * Makes a backup of an environment in use, adds later log to the backup, and restores two environments from it: one
 * with the latest state, and one with an earlier state.
 *
 *   saved DIRECTORY BACKUP FIRST SECOND
 */
#include <stdio.h>
#include <string.h>

#include "libtp.h"

static int failed(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, tp_error());
    return 1;
}

static void watch(const char *what, uint64_t done, uint64_t total, void *argument)
{
    (void)what;
    *(int *)argument += done <= total || total == 0;
}

static int store(tp_env *env, tp_db *db, const char *value)
{
    tp_txn *txn;
    int code = tp_begin(env, TP_DEFAULT, &txn);
    if (code == TP_OK && (code = tp_put(db, txn, "balance", 7, value, strlen(value))) == TP_OK)
        return tp_commit(txn);
    return code;
}

static int show(const char *directory)
{
    tp_env *env;
    tp_db *db;
    tp_txn *txn;
    tp_buffer value = TP_BUFFER;
    if (tp_env_open(directory, NULL, 0, &env) != TP_OK || tp_btree_open(env, "accounts", &db) != TP_OK ||
        tp_begin(env, TP_DEFAULT, &txn) != TP_OK || tp_get(db, txn, "balance", 7, &value) != TP_OK || tp_commit(txn) != TP_OK)
        return failed("show");
    printf("%.*s", (int)value.size, (const char *)value.data);
    tp_buffer_free(&value);
    return tp_db_close(db) == TP_OK && tp_env_close(env) == TP_OK ? 0 : failed("close");
}

int main(int argc, char **argv)
{
    tp_env *env;
    tp_db *db;
    tp_backed_up first, more, whole;
    uint64_t end;
    int reports = 0;

    if (argc != 5) {
        fprintf(stderr, "usage: saved DIRECTORY BACKUP FIRST SECOND\n");
        return 2;
    }
    if (tp_env_open(argv[1], NULL, 0, &env) != TP_OK || tp_btree_open(env, "accounts", &db) != TP_OK)
        return failed("open");
    if (store(env, db, "10") != TP_OK || tp_backup(env, argv[2], 0, watch, &reports, &first) != TP_OK)
        return failed("backup");
    printf("%d files, progress was reported: %s\n", (int)first.files, reports > 0 ? "yes" : "no");
    if (store(env, db, "20") != TP_OK || tp_backup(env, argv[2], TP_BACKUP_MORE, NULL, NULL, &more) != TP_OK)
        return failed("more");
    if (tp_backup_check(argv[2], NULL, NULL, &whole) != TP_OK)
        return failed("check");
    printf("begins with the first backup: %s, ends with the second: %s\n", whole.earliest == first.earliest ? "yes" : "no",
           whole.end == more.end && more.end > first.end ? "yes" : "no");
    /* The directory has a backup already. */
    printf("again: %s\n", tp_strerror(tp_backup(env, argv[2], 0, NULL, NULL, NULL)));

    if (tp_restore(argv[2], argv[3], TP_UNTIL_END, 0, NULL, NULL, &end) != TP_OK)
        return failed("restore");
    printf("at the end: ");
    if (show(argv[3]) != 0)
        return 1;
    if (tp_restore(argv[2], argv[4], TP_UNTIL_LSN, first.end, watch, &reports, NULL) != TP_OK)
        return failed("restore");
    printf("\nbefore that: ");
    if (show(argv[4]) != 0)
        return 1;
    printf("\nrestored again: %s\n", tp_strerror(tp_restore(argv[2], argv[4], TP_UNTIL_END, 0, NULL, NULL, NULL)));
    return tp_db_close(db) == TP_OK && tp_env_close(env) == TP_OK ? 0 : failed("close");
}
