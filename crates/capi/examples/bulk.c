/*
 * Loads many records at once, and compacts a database from which most records were removed.
 *
 *   bulk DIRECTORY
 */
#include <stdio.h>
#include <string.h>

#include "libtp.h"

enum { RECORDS = 20000 };

static int failed(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, tp_error());
    return 1;
}

/* A source of pairs. It lends its buffers key and value to the library until the library asks for the next pair. */
struct source {
    unsigned int nth;
    unsigned int step;
    unsigned int reports;
    char key[16];
    char value[64];
};

/* Supplies each number below RECORDS once, because step and RECORDS have no common factor. With a step above 1 the
 * numbers are unsorted. */
static int next(tp_pair *pair, void *argument)
{
    struct source *source = argument;
    if (source->nth == RECORDS)
        return TP_NOTFOUND;
    unsigned int number = source->nth * source->step % RECORDS;
    source->nth += 1;
    snprintf(source->key, sizeof source->key, "%08u", number);
    snprintf(source->value, sizeof source->value, "the record of number %u", number);
    pair->key = source->key;
    pair->key_size = strlen(source->key);
    pair->value = source->value;
    pair->value_size = strlen(source->value);
    return TP_OK;
}

static void watch(const char *what, uint64_t done, uint64_t total, void *argument)
{
    struct source *source = argument;
    (void)what;
    (void)done;
    (void)total;
    if (source != NULL)
        source->reports += 1;
}

static int thin_out(tp_env *env, tp_db *db)
{
    tp_txn *txn;
    int code = tp_begin(env, TP_DEFAULT, &txn);
    for (unsigned int number = 0; code == TP_OK && number < RECORDS; number++) {
        char key[16];
        snprintf(key, sizeof key, "%08u", number);
        if (number % 16 != 0)
            code = tp_delete(db, txn, key, strlen(key));
    }
    if (code == TP_OK)
        return tp_commit(txn);
    tp_abort(txn);
    return code;
}

int main(int argc, char **argv)
{
    tp_env *env;
    tp_db *sorted, *unsorted;
    tp_multi *multi;
    tp_txn *txn;
    tp_buffer value = TP_BUFFER;
    uint64_t count, leaves, merged;
    struct source one = {0, 1, 0, "", ""}, other = {0, 7919, 0, "", ""}, third = {0, 7919, 0, "", ""}, again = {0, 7919, 0, "", ""};
    if (argc != 2)
        return 2;
    if (tp_env_open(argv[1], NULL, 0, &env) != TP_OK || tp_btree_open(env, "sorted", &sorted) != TP_OK ||
        tp_btree_open(env, "unsorted", &unsorted) != TP_OK || tp_multi_open(env, "multi", TP_SORTED, NULL, &multi) != TP_OK)
        return failed("open");
    if (tp_load(sorted, TP_LOAD_SORTED, 90, 0, next, NULL, &one, &count) != TP_OK)
        return failed("sorted");
    printf("%lu loaded in order\n", (unsigned long)count);
    if (tp_load(unsorted, TP_LOAD_SORTED, 0, 0, next, NULL, &again, NULL) == TP_OUT_OF_ORDER)
        printf("not in order: %s\n", tp_strerror(TP_OUT_OF_ORDER));
    if (tp_load(unsorted, 0, 0, 1 << 18, next, watch, &other, &count) != TP_OK)
        return failed("unsorted");
    printf("%lu sorted and loaded, %s\n", (unsigned long)count, other.reports == 0 ? "without reports" : "with reports");
    if (tp_multi_load(multi, 0, 0, 0, next, watch, &third, &count) != TP_OK)
        return failed("multi");
    printf("%lu pairs\n", (unsigned long)count);
    again.nth = 0;
    if (tp_load(sorted, 0, 0, 0, next, NULL, &again, NULL) == TP_NOT_EMPTY)
        printf("twice: %s\n", tp_strerror(TP_NOT_EMPTY));
    if (tp_snapshot(env, &txn) != TP_OK || tp_get(unsorted, txn, "00012345", 8, &value) != TP_OK || tp_abort(txn) != TP_OK)
        return failed("get");
    printf("%s\n", (const char *)value.data);
    tp_buffer_free(&value);
    if (thin_out(env, sorted) != TP_OK || tp_compact(sorted, 80, watch, NULL, &leaves, &merged) != TP_OK)
        return failed("compact");
    printf("pages: %s\n", merged > leaves / 2 ? "most were merged" : "few were merged");
    if (tp_multi_compact(multi, 100, NULL, NULL, NULL, &merged) != TP_OK)
        return failed("compact multi");
    printf("%lu full pages were merged\n", (unsigned long)merged);
    if (tp_db_close(sorted) != TP_OK || tp_db_close(unsorted) != TP_OK || tp_multi_close(multi) != TP_OK || tp_env_close(env) != TP_OK)
        return failed("close");
    return 0;
}
