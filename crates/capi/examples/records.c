/*
 * A database of records by number: appends, replaces and removes records, and visits them in both directions.
 *
 *   records DIRECTORY
 */
#include <stdio.h>
#include <string.h>

#include "libtp.h"

enum { SIZE = 8 };

static int failed(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, tp_error());
    return 1;
}

static void show(const char *where, uint64_t number, const tp_buffer *record)
{
    printf("%s: %lu %s\n", where, (unsigned long)number, (const char *)record->data);
}

static int change(tp_recno *days, tp_txn *txn, tp_buffer *record)
{
    static const char *const names[] = {"monday.", "tuesday", "wed....", "thursd.", "friday."};
    uint64_t number = 0;
    int code = TP_OK;
    for (size_t nth = 0; code == TP_OK && nth < sizeof names / sizeof names[0]; nth++)
        code = tp_recno_append(days, txn, names[nth], SIZE, &number);
    if (code != TP_OK)
        return code;
    printf("the last is %lu\n", (unsigned long)number);
    if ((code = tp_recno_get(days, txn, number - 2, record)) == TP_OK)
        show("get", number - 2, record);
    if (code == TP_OK)
        code = tp_recno_put(days, txn, number - 2, "midweek", SIZE);
    if (code == TP_OK)
        code = tp_recno_update_part(days, txn, number - 1, 6, "!", 1);
    if (code == TP_OK)
        code = tp_recno_delete(days, txn, number);
    if (code == TP_OK && tp_recno_get(days, txn, number, record) == TP_NOTFOUND)
        printf("%lu: %s\n", (unsigned long)number, tp_error());
    if (code == TP_OK && tp_recno_append(days, txn, "long", 5, NULL) == TP_LENGTH)
        printf("long: %s\n", tp_error());
    return code;
}

/* Adds to a record that is a number, with tp_recno_add. */
static int count_visits(tp_env *env, tp_txn *txn)
{
    tp_recno *visits;
    const int64_t none = 0;
    int64_t sum = 0;
    uint64_t number;
    int code = tp_recno_open(env, "visits", sizeof none, &visits);
    if (code == TP_OK)
        code = tp_recno_append_in_order(visits, txn, &none, sizeof none, &number);
    if (code == TP_OK && (code = tp_recno_add(visits, txn, number, 0, 5, &sum)) == TP_OK)
        printf("visits: %d\n", (int)sum);
    int closed = tp_recno_close(visits);
    return code == TP_OK ? closed : code;
}

static int walk(tp_recno *days, tp_txn *txn, tp_buffer *record)
{
    tp_recno_cursor *cursor;
    uint64_t number;
    int code = tp_recno_cursor_open(days, txn, &cursor);
    if (code != TP_OK)
        return code;
    if ((code = tp_recno_cursor_first(cursor, &number, record)) == TP_OK)
        show("first", number, record);
    while (code == TP_OK && (code = tp_recno_cursor_next(cursor, &number, record)) == TP_OK)
        show("next", number, record);
    if (code == TP_NOTFOUND && (code = tp_recno_cursor_last(cursor, &number, record)) == TP_OK)
        show("last", number, record);
    if (code == TP_OK && (code = tp_recno_cursor_prev(cursor, &number, record)) == TP_OK)
        show("prev", number, record);
    if (code == TP_OK && (code = tp_recno_cursor_seek(cursor, 2, &number, record)) == TP_OK)
        show("seek", number, record);
    tp_recno_cursor_close(cursor);
    return code;
}

int main(int argc, char **argv)
{
    tp_env *env;
    tp_recno *days, *again;
    tp_txn *txn;
    tp_buffer record = TP_BUFFER;
    uint32_t size;
    if (argc != 2)
        return 2;
    if (tp_env_open(argv[1], NULL, 0, &env) != TP_OK || tp_recno_open(env, "days", SIZE, &days) != TP_OK)
        return failed("open");
    if (tp_recno_open(env, "days", 0, &again) != TP_OK || tp_recno_record_size(again, &size) != TP_OK)
        return failed("open again");
    printf("records of %lu bytes\n", (unsigned long)size);
    if (tp_recno_close(again) != TP_OK || tp_begin(env, TP_DEFAULT, &txn) != TP_OK)
        return failed("begin");
    int code = change(days, txn, &record);
    if (code == TP_OK)
        code = walk(days, txn, &record);
    if (code == TP_OK)
        code = count_visits(env, txn);
    if (code != TP_OK) {
        failed("records");
        tp_abort(txn);
    } else if ((code = tp_commit(txn)) != TP_OK) {
        failed("commit");
    }
    tp_buffer_free(&record);
    if (tp_recno_close(days) != TP_OK || tp_env_close(env) != TP_OK)
        return failed("close");
    return code == TP_OK ? 0 : 1;
}
