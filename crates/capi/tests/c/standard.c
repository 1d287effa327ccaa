/* Closes the standard descriptors, and checks that no file of the library gets their numbers. usage: standard DIRECTORY
 *
 * The exit status is the number of the first step after which a standard descriptor is open, or 100 or more if a call
 * fails. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "db.h"
#include "libtp.h"
#include "vista.h"

/* Returns whether the descriptors 0, 1 and 2 are all closed. */
static int all_free(void)
{
    for (int number = 0; number < 3; number++) {
        if (fcntl(number, F_GETFD) != -1 || errno != EBADF) return 0;
    }
    return 1;
}

int main(int argc, char **argv)
{
    if (argc < 2 || chdir(argv[1])) return 100;
    for (int number = 0; number < 3; number++) close(number);

    tp_env *env;
    tp_db *names;
    tp_txn *txn;
    if (tp_env_open("environment", NULL, 0, &env) || tp_btree_open(env, "names", &names)) return 101;
    if (tp_begin(env, TP_SYNC, &txn) || tp_put(names, txn, "key", 3, "value", 5) || tp_commit(txn)) return 102;
    if (!all_free()) return 1;

    DBT key = {"key", 3}, value = {"value", 5};
    DB *plain = dbopen("plain", O_RDWR | O_CREAT, 0600, DB_BTREE, NULL);
    if (!plain || plain->put(plain, &key, &value, 0) || plain->sync(plain, 0)) return 103;
    if (!all_free()) return 2;
    if (plain->close(plain)) return 104;

    DB *shared = dbopen("shared", O_RDWR | O_CREAT | DB_TXN, 0600, DB_BTREE, NULL);
    if (!shared || shared->put(shared, &key, &value, 0) || shared->fd(shared) < 3) return 105;
    if (!all_free()) return 3;
    if (shared->close(shared)) return 106;

    vista_init();
    vista *segment = vista_map("segment", 1 << 16);
    if (!segment || vista_begin_transaction(segment) || vista_end_transaction(segment)) return 107;
    if (!all_free()) return 4;
    if (vista_unmap(segment)) return 108;

    if (tp_db_close(names), tp_env_close(env)) return 109;
    return all_free() ? 0 : 5;
}
