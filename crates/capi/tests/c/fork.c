/* A process that forks while its environment is open; and a process whose child is killed.
 *
 *   fork DIRECTORY handles     the child uses its parent's handles, which fails, and opens the environment for itself
 *   fork DIRECTORY killed      the child is killed after it has locked and changed a record, and the parent continues
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libtp.h"

static int failed(const char *what)
{
    printf("%s: %s\n", what, tp_error());
    return 1;
}

struct place {
    tp_env *env;
    tp_db *db;
};

static int open_place(const char *directory, struct place *place)
{
    if (tp_env_open(directory, NULL, 0, &place->env) != TP_OK || tp_btree_open(place->env, "words", &place->db) != TP_OK)
        return failed("open");
    return 0;
}

static int close_place(const struct place *place)
{
    return tp_db_close(place->db) != TP_OK || tp_env_close(place->env) != TP_OK ? failed("close") : 0;
}

struct pair {
    tp_db *db;
    const char *key;
    const char *value;
};

static int store(tp_txn *txn, void *argument)
{
    const struct pair *pair = argument;
    return tp_put(pair->db, txn, pair->key, strlen(pair->key), pair->value, strlen(pair->value));
}

static int stored(const struct place *place, const char *key, const char *value)
{
    struct pair pair;
    pair.db = place->db;
    pair.key = key;
    pair.value = value;
    return tp_run(place->env, TP_SYNC, store, &pair) != TP_OK ? failed(key) : 0;
}

static int show(const struct place *place, const char *key)
{
    tp_txn *snapshot;
    tp_buffer value = TP_BUFFER;
    if (tp_snapshot(place->env, &snapshot) != TP_OK || tp_get(place->db, snapshot, key, strlen(key), &value) != TP_OK)
        return failed(key);
    printf("%s: %s\n", key, (const char *)value.data);
    tp_buffer_free(&value);
    return tp_abort(snapshot) != TP_OK;
}

/* Runs in the child. The child then ends by _exit, so that it does not print its copy of the parent's output. */
static int try_handles(const char *directory, const struct place *theirs, tp_txn *txn)
{
    struct place mine;
    tp_txn *other;
    tp_env *env = theirs->env;
    tp_buffer value = TP_BUFFER;
    if (tp_put(theirs->db, txn, "child", 5, "x", 1) != TP_FORKED || strstr(tp_error(), "cannot use the handles of its parent") == NULL)
        return 10;
    if (tp_begin(env, TP_DEFAULT, &other) != TP_FORKED || tp_get(theirs->db, txn, "parent", 6, &value) != TP_FORKED)
        return 11;
    if (tp_snapshot(env, &other) != TP_FORKED || tp_env_flush(env) != TP_FORKED)
        return 12;
    /* The child may close the handles that it inherited. This changes nothing in the parent. */
    if (tp_abort(txn) != TP_FORKED || close_place(theirs) != 0)
        return 13;
    if (open_place(directory, &mine) != 0 || stored(&mine, "child", "its own") != 0 || close_place(&mine) != 0)
        return 14;
    tp_buffer_free(&value);
    return 0;
}

static int handles(const char *directory)
{
    struct place place;
    tp_txn *txn;
    int status = 0;
    if (open_place(directory, &place) != 0)
        return 1;
    if (tp_begin(place.env, TP_DEFAULT, &txn) != TP_OK || tp_put(place.db, txn, "parent", 6, "goes on", 7) != TP_OK)
        return failed("begin");
    pid_t child = fork();
    if (child == 0)
        _exit(try_handles(directory, &place, txn));
    waitpid(child, &status, 0);
    printf("the child ended with %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    if (tp_commit(txn) != TP_OK)
        return failed("commit");
    return show(&place, "parent") || show(&place, "child") || close_place(&place);
}

static int dies_with_a_lock(const char *directory, int to_parent)
{
    struct place place;
    tp_txn *txn;
    if (open_place(directory, &place) != 0 || tp_begin(place.env, TP_DEFAULT, &txn) != TP_OK ||
        tp_put(place.db, txn, "shared", 6, "never committed", 15) != TP_OK)
        return failed("child");
    if (write(to_parent, "!", 1) != 1)
        return 1;
    for (;;)
        pause();
}

static int killed(const char *directory)
{
    struct place place;
    int ends[2], status = 0;
    char word;
    if (pipe(ends) != 0)
        return 1;
    pid_t child = fork();
    if (child == 0)
        _exit(dies_with_a_lock(directory, ends[1]));
    close(ends[1]);
    if (open_place(directory, &place) != 0 || read(ends[0], &word, 1) != 1)
        return 1;
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    close(ends[0]);
    printf("the child was ended by signal %d\n", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    if (stored(&place, "shared", "by the parent") != 0)
        return 1;
    return show(&place, "shared") || close_place(&place);
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    return strcmp(argv[2], "handles") == 0 ? handles(argv[1]) : killed(argv[1]);
}
