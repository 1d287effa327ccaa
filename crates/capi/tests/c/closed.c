/* Changes an environment and closes it. usage: closed DIRECTORY */
#include <libtp.h>

#include <stdio.h>

int main(int argc, char **argv)
{
    tp_env *env;
    tp_db *db;
    tp_txn *txn;
    if (argc < 2 || tp_env_open(argv[1], NULL, 0, &env) != TP_OK || tp_btree_open(env, "accounts", &db) != TP_OK ||
        tp_begin(env, TP_DEFAULT, &txn) != TP_OK || tp_put(db, txn, "key", 3, "value", 5) != TP_OK ||
        tp_commit(txn) != TP_OK || tp_db_close(db) != TP_OK || tp_env_close(env) != TP_OK) {
        fprintf(stderr, "%s\n", tp_error());
        return 1;
    }
    return 0;
}
