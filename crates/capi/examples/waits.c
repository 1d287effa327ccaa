/*
 * Lock waits: limits a wait, ends a wait by a signal, and waits for a transaction of the same thread. Prints the
 * errors.
 *
 *   waits DIRECTORY
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>

#include "libtp.h"

/* Ends all lock waits. tp_cancel_waits could be the handler itself. */
static void stop_waiting(int number)
{
    tp_cancel_waits(number);
}

static int failed(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, tp_error());
    return 1;
}

int main(int argc, char **argv)
{
    struct itimerval soon = {{0, 0}, {0, 100000}};
    tp_env *env;
    tp_db *stock;
    tp_txn *holder, *waiter;
    if (argc != 2)
        return 2;
    if (tp_env_open(argv[1], NULL, 0, &env) != TP_OK || tp_btree_open(env, "stock", &stock) != TP_OK)
        return failed("open");
    if (tp_begin(env, TP_RELAXED, &holder) != TP_OK || tp_put(stock, holder, "pears", 5, "3", 1) != TP_OK)
        return failed("the holder");
    if (tp_begin(env, TP_RELAXED, &waiter) != TP_OK)
        return failed("the waiter");

    /* Try once, without a wait. */
    tp_set_lock_timeout(waiter, 0);
    if (tp_put(stock, waiter, "pears", 5, "4", 1) == TP_LOCK_TIMEOUT)
        printf("%s\n", strstr(tp_error(), "the record \"pears\" of database `stock`") ? "the error names the record" : tp_error());
    /* Wait until a signal comes. */
    tp_set_lock_timeout(waiter, -1);
    signal(SIGALRM, stop_waiting);
    setitimer(ITIMER_REAL, &soon, NULL);
    printf("%s\n", tp_strerror(tp_put(stock, waiter, "pears", 5, "4", 1)));
    tp_abort(waiter);

    /* A wait for another transaction of the same thread fails after about a second. */
    if (tp_begin(env, TP_RELAXED, &waiter) != TP_OK)
        return failed("the second waiter");
    printf("%s\n", tp_strerror(tp_put(stock, waiter, "pears", 5, "4", 1)));
    tp_abort(waiter);
    if (tp_commit(holder) != TP_OK)
        return failed("the commit");
    return tp_db_close(stock) == TP_OK && tp_env_close(env) == TP_OK ? 0 : failed("close");
}
