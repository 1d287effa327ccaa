/*
 * A transaction that one process begins and another process commits.
 *
 *   handed DIRECTORY             begins the transaction, and starts another process of this program to continue it
 *   handed DIRECTORY WORD        continues the transaction for which tp_detach has stored this word, and commits it
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libtp.h"

static int failed(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, tp_error());
    return 1;
}

static int continue_transaction(tp_env *env, tp_db *stock, const char *word)
{
    tp_txn *txn;
    tp_buffer value = TP_BUFFER;
    if (tp_attach(env, word, &txn) != TP_OK)
        return failed("attach");
    if (tp_get(stock, txn, "apples", 6, &value) != TP_OK || tp_put(stock, txn, "pears", 5, "7", 1) != TP_OK)
        return failed("in the other process");
    printf("the other process sees %s apples\n", (const char *)value.data);
    tp_buffer_free(&value);
    return tp_commit(txn) == TP_OK ? 0 : failed("commit");
}

/* Runs this program in another process. */
static int other_process(const char *program, const char *directory, const char *word)
{
    int status;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        execl(program, program, directory, word, (char *)NULL);
        _exit(127);
    }
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static int begin(tp_env *env, tp_db *stock, char **argv)
{
    tp_txn *txn;
    tp_buffer word = TP_BUFFER, value = TP_BUFFER;
    uint64_t id;
    if (tp_begin(env, TP_DEFAULT, &txn) != TP_OK || tp_put(stock, txn, "apples", 6, "3", 1) != TP_OK || tp_detach(txn, &word) != TP_OK)
        return failed("begin");
    int status = other_process(argv[0], argv[1], word.data);
    if (tp_attach(env, word.data, &txn) == TP_NOT_PASSED)
        printf("again: %s\n", tp_strerror(TP_NOT_PASSED));
    /* Abort a transaction that no process takes over. */
    if (tp_begin(env, TP_DEFAULT, &txn) != TP_OK || tp_put(stock, txn, "apples", 6, "99", 2) != TP_OK || tp_txn_id(txn, &id) != TP_OK ||
        tp_detach(txn, &word) != TP_OK || tp_abort_detached(env, id) != TP_OK)
        return failed("abort");
    tp_buffer_free(&word);
    if (tp_begin(env, TP_DEFAULT, &txn) != TP_OK || tp_get(stock, txn, "apples", 6, &value) != TP_OK)
        return failed("look");
    printf("%s apples\n", (const char *)value.data);
    if (tp_get(stock, txn, "pears", 5, &value) != TP_OK || tp_set_durability(txn, TP_RELAXED) != TP_OK || tp_commit(txn) != TP_OK)
        return failed("look");
    printf("%s pears\n", (const char *)value.data);
    tp_buffer_free(&value);
    return status;
}

int main(int argc, char **argv)
{
    tp_env *env;
    tp_db *stock;
    if (argc != 2 && argc != 3)
        return 2;
    if (tp_env_open(argv[1], NULL, 0, &env) != TP_OK || tp_btree_open(env, "stock", &stock) != TP_OK)
        return failed("open");
    int status = argc == 3 ? continue_transaction(env, stock, argv[2]) : begin(env, stock, argv);
    if (tp_db_close(stock) != TP_OK || tp_env_close(env) != TP_OK)
        return failed("close");
    return status;
}
