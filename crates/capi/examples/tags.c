/*
 * Keys with several values: the values of a key are a sorted set, or a list in the order of insertion.
 *
 *   tags DIRECTORY
 */
#include <stdio.h>
#include <string.h>

#include "libtp.h"

static int failed(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, tp_error());
    return 1;
}

static int put(tp_multi *multi, tp_txn *txn, const char *key, const char *value)
{
    return tp_multi_put(multi, txn, key, strlen(key), value, strlen(value));
}

static int store(tp_multi *multi, tp_txn *txn)
{
    static const char *const pairs[][2] = {{"pear", "green"}, {"pear", "fruit"}, {"fig", "sweet"}, {"plum", "blue"}, {"pear", "soft"}};
    for (size_t nth = 0; nth < sizeof pairs / sizeof pairs[0]; nth++) {
        int code = put(multi, txn, pairs[nth][0], pairs[nth][1]);
        if (code != TP_OK)
            return code;
    }
    return TP_OK;
}

static int show(const char *what, tp_multi *multi, tp_txn *txn)
{
    tp_multi_cursor *cursor;
    tp_buffer key = TP_BUFFER, value = TP_BUFFER;
    int code = tp_multi_cursor_open(multi, txn, &cursor);
    if (code != TP_OK)
        return code;
    printf("%s:", what);
    for (code = tp_multi_cursor_first(cursor, &key, &value); code == TP_OK; code = tp_multi_cursor_next(cursor, &key, &value))
        printf(" %s-%s", (const char *)key.data, (const char *)value.data);
    printf("\n");
    tp_buffer_free(&key);
    tp_buffer_free(&value);
    tp_multi_cursor_close(cursor);
    return code == TP_NOTFOUND ? TP_OK : code;
}

/* Visits all values of one key, then the first value of the next key and the last value of the previous key. */
static int around(tp_multi *multi, tp_txn *txn)
{
    tp_multi_cursor *cursor;
    tp_buffer key = TP_BUFFER, value = TP_BUFFER, place = TP_BUFFER;
    int code = tp_multi_cursor_open(multi, txn, &cursor);
    if (code != TP_OK)
        return code;
    code = tp_multi_cursor_seek(cursor, "p", 1, &key, &value);
    printf("%s:", code == TP_OK ? (const char *)key.data : tp_error());
    for (; code == TP_OK; code = tp_multi_cursor_next_value(cursor, NULL, &value))
        printf(" %s", (const char *)value.data);
    printf("\n");
    if (code == TP_NOTFOUND && (code = tp_multi_cursor_place(cursor, &place)) == TP_OK)
        code = tp_multi_cursor_next_key(cursor, &key, &value);
    if (code == TP_OK)
        printf("next key: %s %s\n", (const char *)key.data, (const char *)value.data);
    if (code == TP_OK && (code = tp_multi_cursor_prev_key(cursor, &key, &value)) == TP_OK)
        printf("key before: %s %s\n", (const char *)key.data, (const char *)value.data);
    if (code == TP_OK && (code = tp_multi_cursor_last(cursor, &key, &value)) == TP_OK)
        printf("last: %s %s\n", (const char *)key.data, (const char *)value.data);
    if (code == TP_OK && (code = tp_multi_cursor_prev(cursor, &key, &value)) == TP_OK)
        printf("before: %s %s\n", (const char *)key.data, (const char *)value.data);
    if (code == TP_OK && (code = tp_multi_cursor_go_to(cursor, place.data, place.size, &key, &value)) == TP_OK)
        printf("back at: %s %s\n", (const char *)key.data, (const char *)value.data);
    /* Replace the pair under the cursor, then remove another pair. */
    if (code == TP_OK)
        code = tp_multi_cursor_put(cursor, "ripe", 4);
    if (code == TP_OK && (code = tp_multi_cursor_first(cursor, NULL, NULL)) == TP_OK)
        code = tp_multi_cursor_delete(cursor);
    tp_buffer_free(&key);
    tp_buffer_free(&value);
    tp_buffer_free(&place);
    tp_multi_cursor_close(cursor);
    return code;
}

static int change(tp_multi *multi, tp_txn *txn)
{
    tp_buffer value = TP_BUFFER;
    uint64_t count;
    int code = tp_multi_get(multi, txn, "pear", 4, &value);
    if (code == TP_OK && (code = tp_multi_count(multi, txn, "pear", 4, &count)) == TP_OK)
        printf("the first of %lu: %s\n", (unsigned long)count, (const char *)value.data);
    if (code == TP_OK && (code = put(multi, txn, "plum", "blue")) == TP_EXISTS) {
        printf("plum: %s\n", tp_error());
        code = TP_OK;
    }
    if (code == TP_OK)
        code = tp_multi_delete_value(multi, txn, "pear", 4, "ripe", 4);
    if (code == TP_OK && (code = tp_multi_delete(multi, txn, "plum", 4, &count)) == TP_OK)
        printf("%lu values of the plum removed\n", (unsigned long)count);
    tp_buffer_free(&value);
    return code;
}

/* Visits, counts and removes a range of keys. */
static int some(tp_multi *multi, tp_txn *txn)
{
    static const tp_range range = {"f", 1, "pear", 4, TP_FROM | TP_UPTO};
    tp_multi_cursor *cursor;
    tp_buffer key = TP_BUFFER;
    uint64_t count, gone;
    int code = tp_multi_cursor_open_range(multi, txn, &range, &cursor);
    if (code != TP_OK)
        return code;
    printf("up to the pear:");
    while ((code = tp_multi_cursor_next(cursor, &key, NULL)) == TP_OK)
        printf(" %s", (const char *)key.data);
    printf("\n");
    tp_buffer_free(&key);
    tp_multi_cursor_close(cursor);
    if (code == TP_NOTFOUND && (code = tp_multi_count_range(multi, txn, &range, &count)) == TP_OK &&
        (code = tp_multi_delete_range(multi, txn, &range, &gone)) == TP_OK)
        printf("%lu pairs counted, %lu removed\n", (unsigned long)count, (unsigned long)gone);
    return code;
}

int main(int argc, char **argv)
{
    tp_env *env;
    tp_multi *sorted, *listed;
    tp_txn *txn;
    size_t longest;
    if (argc != 2)
        return 2;
    if (tp_env_open(argv[1], NULL, 0, &env) != TP_OK || tp_multi_open(env, "sorted", TP_SORTED, NULL, &sorted) != TP_OK ||
        tp_multi_open(env, "listed", TP_AS_THEY_CAME, "ascii-caseless", &listed) != TP_OK || tp_multi_pair_max(sorted, &longest) != TP_OK)
        return failed("open");
    printf("key and value of up to %lu bytes\n", (unsigned long)longest);
    int code = tp_begin(env, TP_DEFAULT, &txn);
    if (code != TP_OK)
        return failed("begin");
    if (store(sorted, txn) != TP_OK || store(listed, txn) != TP_OK || put(listed, txn, "FIG", "sweet") != TP_OK)
        code = failed("store");
    else if (show("sorted", sorted, txn) != TP_OK || show("listed", listed, txn) != TP_OK || around(sorted, txn) != TP_OK ||
             around(listed, txn) != TP_OK || change(sorted, txn) != TP_OK || change(listed, txn) != TP_OK ||
             show("sorted", sorted, txn) != TP_OK || show("listed", listed, txn) != TP_OK || some(sorted, txn) != TP_OK ||
             some(listed, txn) != TP_OK)
        code = failed("tags");
    if (code == TP_OK)
        code = tp_commit(txn);
    else
        tp_abort(txn);
    if (tp_multi_close(sorted) != TP_OK || tp_multi_close(listed) != TP_OK || tp_env_close(env) != TP_OK)
        return failed("close");
    return code == TP_OK ? 0 : 1;
}
