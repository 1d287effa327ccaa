/* A guarded segment of an environment: a store to a declared range succeeds, and a store in a transaction that has
 * declared no range ends the process. (If a transaction has declared a range, a store outside of it ends the process
 * only if the guard protects pages, not if it uses protection keys.)
 *
 *   guarded DIRECTORY [wild]
 */
#include <stdio.h>
#include <string.h>

#include "libtp.h"

static int failed(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, tp_error());
    return 1;
}

int main(int argc, char **argv)
{
    tp_env *env;
    tp_segment *segment;
    tp_txn *txn;
    void *memory;
    char path[4096];
    if (argc < 2)
        return 2;
    snprintf(path, sizeof path, "%s/guarded.vista", argv[1]);
    if (tp_env_open(argv[1], NULL, 0, &env) != TP_OK || tp_segment_open_at(env, path, 65536, TP_GUARDED, &segment) != TP_OK)
        return failed("open");
    if (tp_begin(env, TP_DEFAULT, &txn) != TP_OK || tp_segment_join(segment, txn, &memory, NULL) != TP_OK)
        return failed("join");
    long *longs = memory;
    if (tp_segment_set_range(segment, txn, longs, sizeof *longs) != TP_OK)
        return failed("set_range");
    longs[0] += 1;
    if (tp_commit(txn) != TP_OK || tp_begin(env, TP_DEFAULT, &txn) != TP_OK || tp_segment_join(segment, txn, &memory, NULL) != TP_OK)
        return failed("commit");
    if (argc > 2) {
        printf("stored to the declared range\n");
        fflush(stdout);
        *(volatile long *)&longs[4096] = 1000;
    }
    printf("%ld in the declared range, %ld outside it\n", longs[0], longs[4096]);
    if (tp_abort(txn) != TP_OK || tp_segment_close(segment) != TP_OK || tp_env_close(env) != TP_OK)
        return failed("close");
    return 0;
}
