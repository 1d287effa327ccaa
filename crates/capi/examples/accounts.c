/*
 * The users of a system: one transaction changes their records and the plain files that other programs read.
 *
 *   accounts DIRECTORY PLACE
 *
 * PLACE is a new directory for the files, outside of the environment's directory.
 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "libtp.h"

struct accounts {
    tp_env *env;
    tp_db *users;
    char passwd[4096];
    char group[4096];
};

static int failed(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, tp_error());
    return 1;
}

/* Appends a line to a file. */
static int append(tp_txn *txn, const char *path, const char *line)
{
    tp_buffer old = TP_BUFFER;
    char all[512];
    int code = tp_file_read(txn, path, &old);
    if (code == TP_NOTFOUND) {
        code = tp_file_create(txn, path, line, strlen(line));
    } else if (code == TP_OK) {
        int length = snprintf(all, sizeof all, "%s%s", (const char *)old.data, line);
        code = tp_file_replace(txn, path, all, (size_t)length);
    }
    tp_buffer_free(&old);
    return code;
}

static int margo(tp_txn *txn, void *argument)
{
    struct accounts *accounts = argument;
    int code = tp_put(accounts->users, txn, "margo", 5, "1001", 4);
    if (code == TP_OK)
        code = append(txn, accounts->passwd, "margo:x:1001:\n");
    return code == TP_OK ? append(txn, accounts->group, "staff:x:50:margo\n") : code;
}

/* Changes a record and both files, then fails, so that tp_run aborts the transaction. */
static int mistake(tp_txn *txn, void *argument)
{
    struct accounts *accounts = argument;
    int code = tp_put(accounts->users, txn, "guest", 5, "0", 1);
    if (code == TP_OK)
        code = append(txn, accounts->passwd, "guest:x:0:\n");
    if (code == TP_OK)
        code = tp_file_remove(txn, accounts->group);
    return code == TP_OK ? 1 : code;
}

static int moved(tp_txn *txn, void *argument)
{
    struct accounts *accounts = argument;
    char old[4200];
    snprintf(old, sizeof old, "%s.old", accounts->group);
    int code = tp_file_rename(txn, accounts->group, old);
    if (code == TP_OK && tp_file_read(txn, accounts->group, NULL) == TP_NOTFOUND)
        printf("group: already renamed, for this transaction\n");
    return code == TP_OK ? append(txn, accounts->passwd, "mike:x:1002:\n") : code;
}

static void show(const char *what, const char *path)
{
    char line[80];
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        printf("%s: none\n", what);
        return;
    }
    while (fgets(line, sizeof line, file) != NULL)
        printf("%s: %s", what, line);
    fclose(file);
}

int main(int argc, char **argv)
{
    struct accounts accounts;
    tp_buffer waiting = TP_BUFFER;
    int code, is_forgotten;
    if (argc != 3)
        return 2;
    if (mkdir(argv[2], 0755) != 0) {
        perror(argv[2]);
        return 1;
    }
    snprintf(accounts.passwd, sizeof accounts.passwd, "%s/passwd", argv[2]);
    snprintf(accounts.group, sizeof accounts.group, "%s/group", argv[2]);
    if (tp_env_open(argv[1], NULL, 0, &accounts.env) != TP_OK || tp_btree_open(accounts.env, "users", &accounts.users) != TP_OK)
        return failed("open");
    if (tp_run(accounts.env, TP_DEFAULT, margo, &accounts) != TP_OK)
        return failed("margo");
    code = tp_run(accounts.env, TP_DEFAULT, mistake, &accounts);
    printf("undone: %s\n", code == 1 ? tp_error() : "no");
    show("passwd", accounts.passwd);
    show("group", accounts.group);
    if (tp_run(accounts.env, TP_DEFAULT, moved, &accounts) != TP_OK)
        return failed("moved");
    show("passwd", accounts.passwd);
    show("group", accounts.group);
    if (tp_env_waiting_files(accounts.env, &waiting) != TP_OK)
        return failed("waiting");
    printf("%s\n", waiting.size == 0 ? "all files are in their places" : (const char *)waiting.data);
    tp_buffer_free(&waiting);
    /* Gives up the change of a file whose directory will not come back. Here no file waits. */
    if (tp_env_forget_file(accounts.env, accounts.group, &is_forgotten) != TP_OK)
        return failed("forget");
    printf("%s\n", is_forgotten ? "given up" : "nothing to give up");
    if (tp_db_close(accounts.users) != TP_OK || tp_env_close(accounts.env) != TP_OK)
        return failed("close");
    return 0;
}
