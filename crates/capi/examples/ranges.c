/*
 * Visits, counts and removes ranges of the keys of a B-tree; sorts keys in the program's own order; and stores the address of a
 * record in another record.
 *
 *   ranges DIRECTORY
 */
#include <stdio.h>
#include <string.h>

#include "libtp.h"

static int failed(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, tp_error());
    return 1;
}

/* Encodes a word as a byte with its length, then the word: shorter words come first. */
static size_t with_length(const void *word, size_t size, void *made, size_t room, void *argument)
{
    (void)argument;
    if (size < room) {
        *(unsigned char *)made = (unsigned char)size;
        memcpy((char *)made + 1, word, size);
    }
    return size + 1;
}

static size_t without_length(const void *bytes, size_t size, void *made, size_t room, void *argument)
{
    (void)argument;
    if (size != 0 && size - 1 <= room)
        memcpy(made, (const char *)bytes + 1, size - 1);
    return size == 0 ? 0 : size - 1;
}

static int store(tp_db *db, tp_txn *txn)
{
    static const char *const words[] = {"pear", "apple", "plum", "fig", "peach", "grape"};
    for (size_t nth = 0; nth < sizeof words / sizeof words[0]; nth++) {
        int code = tp_put(db, txn, words[nth], strlen(words[nth]), "", 0);
        if (code != TP_OK)
            return code;
    }
    return TP_OK;
}

static int show(const char *what, tp_db *db, tp_txn *txn, const tp_range *range)
{
    tp_cursor *cursor;
    tp_buffer key = TP_BUFFER;
    int code = tp_cursor_open_range(db, txn, range, &cursor);
    if (code != TP_OK)
        return code;
    printf("%s:", what);
    while ((code = tp_cursor_next(cursor, &key, NULL)) == TP_OK)
        printf(" %s", (const char *)key.data);
    printf("\n");
    tp_buffer_free(&key);
    tp_cursor_close(cursor);
    return code == TP_NOTFOUND ? TP_OK : code;
}

/* Prints a key. Ends tp_cursor_each at the third key. */
static int first_three(const void *key, size_t key_size, const void *value, size_t value_size, void *argument)
{
    int *seen = argument;
    (void)value;
    (void)value_size;
    printf(" %.*s", (int)key_size, (const char *)key);
    return ++*seen == 3 ? 3 : TP_OK;
}

static int each(tp_db *words, tp_txn *txn)
{
    tp_cursor *cursor;
    tp_buffer key = TP_BUFFER;
    int seen = 0, code = tp_cursor_open(words, txn, &cursor);
    if (code != TP_OK)
        return code;
    printf("each:");
    code = tp_cursor_each(cursor, first_three, &seen);
    printf("; %s\n", tp_error());
    if (code == 3 && (code = tp_cursor_next(cursor, &key, NULL)) == TP_OK)
        printf("then %s\n", (const char *)key.data);
    tp_buffer_free(&key);
    tp_cursor_close(cursor);
    return code;
}

static int ranges(tp_db *words, tp_txn *txn)
{
    const tp_range middle = {"b", 1, "peach", 5, TP_FROM | TP_UPTO}, pe = {"pe", 2, NULL, 0, TP_PREFIX};
    const tp_range rest = {"peach", 5, NULL, 0, TP_ABOVE};
    tp_cursor *cursor;
    tp_buffer key = TP_BUFFER;
    uint64_t count;
    int code = show("all", words, txn, NULL);
    if (code == TP_OK)
        code = show("from b up to peach", words, txn, &middle);
    if (code == TP_OK && (code = tp_count(words, txn, &pe, &count)) == TP_OK)
        printf("%lu begin with pe\n", (unsigned long)count);
    if (code == TP_OK && (code = tp_delete_range(words, txn, &rest, &count)) == TP_OK)
        printf("%lu removed above peach\n", (unsigned long)count);
    if (code == TP_OK)
        code = show("left", words, txn, NULL);
    if (code == TP_OK)
        code = each(words, txn);
    /* Continue after a key that does not exist. */
    if (code == TP_OK && (code = tp_cursor_open(words, txn, &cursor)) == TP_OK) {
        if ((code = tp_cursor_after(cursor, "banana", 6, &key, NULL)) == TP_OK)
            printf("after banana: %s\n", (const char *)key.data);
        tp_cursor_close(cursor);
        tp_buffer_free(&key);
    }
    return code;
}

/* Stores the address of a record in another record, and reads the record at the address without a search. */
static int links(tp_db *parts, tp_txn *txn)
{
    tp_link link;
    tp_buffer key = TP_BUFFER, value = TP_BUFFER;
    int code = tp_put(parts, txn, "screw", 5, "steel", 5);
    if (code == TP_OK)
        code = tp_link_of(parts, txn, "screw", 5, &link);
    if (code == TP_OK)
        code = tp_put(parts, txn, "hinge", 5, &link, sizeof link);
    if (code == TP_OK)
        code = tp_get(parts, txn, "hinge", 5, &value);
    if (code == TP_OK) {
        memcpy(&link, value.data, sizeof link);
        code = tp_get_at(parts, txn, &link, &key, &value);
    }
    if (code == TP_OK)
        printf("the hinge has a %s of %s\n", (const char *)key.data, (const char *)value.data);
    if (code == TP_OK)
        code = tp_delete(parts, txn, "screw", 5);
    if (code == TP_OK && tp_get_at(parts, txn, &link, NULL, NULL) == TP_NOTFOUND)
        printf("the screw is no longer there\n");
    tp_buffer_free(&key);
    tp_buffer_free(&value);
    return code;
}

int main(int argc, char **argv)
{
    tp_env *env;
    tp_db *words, *by_length, *newest, *parts, *other;
    tp_txn *txn;
    if (argc != 2)
        return 2;
    if (tp_order("length", with_length, without_length, NULL) != TP_OK)
        return failed("order");
    if (tp_env_open(argv[1], NULL, 0, &env) != TP_OK || tp_btree_open(env, "words", &words) != TP_OK ||
        tp_btree_open_ordered(env, "by length", "length", &by_length) != TP_OK ||
        tp_btree_open_ordered(env, "backwards", "descending", &newest) != TP_OK || tp_hash_open(env, "parts", &parts) != TP_OK)
        return failed("open");
    int code = tp_begin(env, TP_DEFAULT, &txn);
    if (code != TP_OK)
        return failed("begin");
    if (store(words, txn) != TP_OK || store(by_length, txn) != TP_OK || store(newest, txn) != TP_OK)
        code = failed("store");
    else if (ranges(words, txn) != TP_OK || show("by length", by_length, txn, NULL) != TP_OK || show("backwards", newest, txn, NULL) != TP_OK)
        code = failed("ranges");
    else if (links(parts, txn) != TP_OK)
        code = failed("links");
    if (code == TP_OK)
        code = tp_commit(txn);
    else
        tp_abort(txn);
    if (tp_btree_open(env, "by length", &other) == TP_DATABASE)
        printf("in another order: %s\n", tp_strerror(TP_DATABASE));
    if (tp_db_close(words) != TP_OK || tp_db_close(by_length) != TP_OK || tp_db_close(newest) != TP_OK ||
        tp_db_close(parts) != TP_OK || tp_env_close(env) != TP_OK)
        return failed("close");
    return code == TP_OK ? 0 : 1;
}
