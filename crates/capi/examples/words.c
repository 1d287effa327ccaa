/*
 * A B-tree: stores, finds and removes words, and visits them in both directions.
 *
 *   words DIRECTORY
 */
#include <stdio.h>
#include <string.h>

#include "libtp.h"

static int failed(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, tp_error());
    return 1;
}

/* Converts a value to upper case in place. */
static void loud(void *value, size_t size, void *argument)
{
    char *letters = value;
    (void)argument;
    for (size_t nth = 0; nth < size; nth++)
        if (letters[nth] >= 'a' && letters[nth] <= 'z')
            letters[nth] = (char)(letters[nth] - 'a' + 'A');
}

static int store(tp_db *words, tp_txn *txn)
{
    static const char *const pairs[][2] = {{"pear", "birne"}, {"apple", "apfel"}, {"plum", "pflaume"}, {"fig", "feige"}};
    for (size_t nth = 0; nth < sizeof pairs / sizeof pairs[0]; nth++) {
        const char *key = pairs[nth][0], *value = pairs[nth][1];
        int code = tp_put_new(words, txn, key, strlen(key), value, strlen(value));
        if (code != TP_OK)
            return code;
    }
    return tp_put(words, txn, "plum", 4, "zwetschge", 9);
}

static int change(tp_db *words, tp_txn *txn, tp_buffer *value)
{
    int code = tp_get_for_update(words, txn, "fig", 3, value);
    if (code == TP_OK)
        code = tp_put(words, txn, "fig", 3, "FEIGE", value->size);
    if (code == TP_OK)
        code = tp_update(words, txn, "apple", 5, loud, NULL);
    if (code == TP_OK)
        code = tp_update_part(words, txn, "plum", 4, 0, "Z", 1);
    if (code == TP_OK)
        code = tp_delete(words, txn, "pear", 4);
    if (code == TP_OK && tp_delete(words, txn, "pear", 4) == TP_NOTFOUND)
        printf("pear: %s\n", tp_error());
    if (code == TP_OK && tp_put_new(words, txn, "fig", 3, "", 0) == TP_EXISTS)
        printf("fig: %s\n", tp_error());
    return code;
}

/* Reads two words at once. */
static int read_both(tp_db *words, tp_txn *txn)
{
    tp_wanted wanted[2] = {{"plum", 4, TP_BUFFER, TP_OK}, {"kiwi", 4, TP_BUFFER, TP_OK}};
    int code = tp_prefetch(words, txn, "plum", 4);
    if (code == TP_OK && (code = tp_get_many(words, txn, wanted, 2)) == TP_OK)
        printf("both: %s, %s\n", (const char *)wanted[0].value.data, wanted[1].code == TP_NOTFOUND ? "no kiwi" : "kiwi");
    tp_buffer_free(&wanted[0].value);
    tp_buffer_free(&wanted[1].value);
    return code;
}

/* Prints a pair. Both buffers can be printed as strings, because a zero byte follows the bytes in a buffer. */
static void show(const char *where, const tp_buffer *key, const tp_buffer *value)
{
    printf("%s: %s %s\n", where, (const char *)key->data, (const char *)value->data);
}

static int walk(tp_db *words, tp_txn *txn)
{
    tp_cursor *cursor;
    tp_buffer key = TP_BUFFER, value = TP_BUFFER;
    int code = tp_cursor_open(words, txn, &cursor);
    if (code != TP_OK)
        return code;
    if ((code = tp_cursor_first(cursor, &key, &value)) == TP_OK)
        show("first", &key, &value);
    while (code == TP_OK && (code = tp_cursor_next(cursor, &key, &value)) == TP_OK)
        show("next", &key, &value);
    if (code == TP_NOTFOUND && (code = tp_cursor_last(cursor, &key, &value)) == TP_OK)
        show("last", &key, &value);
    while (code == TP_OK && (code = tp_cursor_prev(cursor, &key, &value)) == TP_OK)
        show("prev", &key, &value);
    if (code == TP_NOTFOUND && (code = tp_cursor_seek(cursor, "b", 1, &key, NULL)) == TP_OK)
        printf("from b on: %s\n", (const char *)key.data);
    tp_cursor_close(cursor);
    tp_buffer_free(&key);
    tp_buffer_free(&value);
    return code;
}

int main(int argc, char **argv)
{
    tp_env *env;
    tp_db *words;
    tp_txn *txn;
    tp_buffer value = TP_BUFFER;
    size_t longest;
    if (argc != 2)
        return 2;
    if (tp_env_open(argv[1], NULL, 0, &env) != TP_OK || tp_btree_open(env, "words", &words) != TP_OK)
        return failed("open");
    if (tp_db_key_max(words, &longest) != TP_OK)
        return failed("key_max");
    printf("keys of up to %lu bytes\n", (unsigned long)longest);
    int code = tp_begin(env, TP_DEFAULT, &txn);
    if (code != TP_OK)
        return failed("begin");
    code = store(words, txn);
    if (code == TP_OK && (code = tp_get(words, txn, "plum", 4, &value)) == TP_OK)
        printf("plum: %s, %lu bytes\n", (const char *)value.data, (unsigned long)value.size);
    if (code == TP_OK)
        code = change(words, txn, &value);
    if (code == TP_OK)
        code = read_both(words, txn);
    if (code == TP_OK)
        code = walk(words, txn);
    if (code != TP_OK) {
        failed("words");
        tp_abort(txn);
    } else if ((code = tp_commit(txn)) != TP_OK) {
        failed("commit");
    }
    tp_buffer_free(&value);
    if (tp_db_close(words) != TP_OK || tp_env_close(env) != TP_OK)
        return failed("close");
    return code == TP_OK ? 0 : 1;
}
