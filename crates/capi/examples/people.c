/*
 * An index, which finds records by another key than their own: people by their town.
 *
 *   people DIRECTORY
 */
#include <stdio.h>
#include <string.h>

#include "libtp.h"

static int failed(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, tp_error());
    return 1;
}

enum { NO_TOWN = 7 };

/* Adds the town of a record "town: profession" to the index. Refuses a record without a town. */
static int town(const void *key, size_t key_size, const void *value, size_t value_size, tp_index_keys *keys, void *argument)
{
    const char *end = value_size == 0 ? NULL : memchr(value, ':', value_size);
    (void)key;
    (void)key_size;
    *(int *)argument += 1;
    return end == NULL ? NO_TOWN : tp_index_add(keys, value, (size_t)(end - (const char *)value));
}

static int put(tp_db *people, tp_txn *txn, const char *name, const char *what)
{
    return tp_put(people, txn, name, strlen(name), what, strlen(what));
}

static int store(tp_db *people, tp_txn *txn)
{
    int code = put(people, txn, "ada", "London: countess");
    if (code == TP_OK)
        code = put(people, txn, "alan", "London: logician");
    if (code == TP_OK)
        code = put(people, txn, "kurt", "Brno: logician");
    if (code == TP_OK)
        code = put(people, txn, "emmy", "Erlangen: algebraist");
    if (code == TP_OK && put(people, txn, "nemo", "nowhere") == NO_TOWN)
        printf("nemo: %s\n", tp_error());
    return code;
}

static int show(const char *what, tp_index *by_town, tp_txn *txn, const tp_range *range)
{
    tp_index_cursor *cursor;
    tp_buffer from = TP_BUFFER, name = TP_BUFFER;
    int code = tp_index_cursor_open(by_town, txn, range, &cursor);
    if (code != TP_OK)
        return code;
    printf("%s:", what);
    for (code = tp_index_cursor_first(cursor, &from, &name, NULL); code == TP_OK; code = tp_index_cursor_next(cursor, &from, &name, NULL))
        printf(" %s-%s", (const char *)from.data, (const char *)name.data);
    printf("\n");
    tp_buffer_free(&from);
    tp_buffer_free(&name);
    tp_index_cursor_close(cursor);
    return code == TP_NOTFOUND ? TP_OK : code;
}

static int look(tp_index *by_town, tp_txn *txn)
{
    const tp_range l = {"L", 1, NULL, 0, TP_PREFIX};
    tp_index_cursor *cursor;
    tp_buffer from = TP_BUFFER, name = TP_BUFFER, what = TP_BUFFER;
    uint64_t count;
    int code = tp_index_count(by_town, txn, "London", 6, &count);
    if (code == TP_OK && (code = tp_index_get(by_town, txn, "London", 6, &name, &what)) == TP_OK)
        printf("the first of %lu in London: %s, %s\n", (unsigned long)count, (const char *)name.data, (const char *)what.data);
    if (code == TP_OK)
        code = show("towns with L", by_town, txn, &l);
    if (code == TP_OK && (code = tp_index_cursor_open(by_town, txn, NULL, &cursor)) == TP_OK) {
        if ((code = tp_index_cursor_seek(cursor, "C", 1, &from, &name, &what)) == TP_OK)
            printf("from C on: %s %s %s\n", (const char *)from.data, (const char *)name.data, (const char *)what.data);
        if (code == TP_OK && (code = tp_index_cursor_last(cursor, &from, &name, NULL)) == TP_OK)
            printf("last: %s %s\n", (const char *)from.data, (const char *)name.data);
        if (code == TP_OK && (code = tp_index_cursor_prev(cursor, &from, &name, NULL)) == TP_OK)
            printf("before: %s %s\n", (const char *)from.data, (const char *)name.data);
        tp_index_cursor_close(cursor);
    }
    tp_buffer_free(&from);
    tp_buffer_free(&name);
    tp_buffer_free(&what);
    return code;
}

static int verify(tp_env *env, tp_index *by_town)
{
    tp_buffer findings = TP_BUFFER;
    tp_txn *snapshot;
    int code = tp_snapshot(env, &snapshot);
    if (code == TP_OK && (code = tp_index_verify(by_town, snapshot, &findings)) == TP_OK)
        printf("the index: %s\n", findings.size == 0 ? "nothing is wrong" : (const char *)findings.data);
    tp_abort(snapshot);
    if (code == TP_OK && (code = tp_env_verify(env, "people", &findings)) == TP_OK)
        printf("the database: %s\n", findings.size == 0 ? "nothing is wrong" : (const char *)findings.data);
    tp_buffer_free(&findings);
    return code;
}

int main(int argc, char **argv)
{
    tp_env *env;
    tp_db *people;
    tp_index *by_town;
    tp_txn *txn;
    int calls = 0;
    if (argc != 2)
        return 2;
    if (tp_env_open(argv[1], NULL, 0, &env) != TP_OK || tp_btree_open(env, "people", &people) != TP_OK ||
        tp_index_open(people, "people by town", town, &calls, &by_town) != TP_OK)
        return failed("open");
    int code = tp_begin(env, TP_DEFAULT, &txn);
    if (code != TP_OK)
        return failed("begin");
    if (store(people, txn) != TP_OK || look(by_town, txn) != TP_OK)
        code = failed("people");
    else if (put(people, txn, "alan", "Manchester: logician") != TP_OK || tp_delete(people, txn, "ada", 3) != TP_OK ||
             show("later", by_town, txn, NULL) != TP_OK)
        code = failed("change");
    if (code == TP_OK)
        code = tp_commit(txn);
    else
        tp_abort(txn);
    if (code == TP_OK && verify(env, by_town) != TP_OK)
        code = failed("verify");
    printf("the function was %s\n", calls == 0 ? "never called" : "called");
    if (tp_index_close(by_town) != TP_OK || tp_index_drop(people, "people by town") != TP_OK)
        return failed("drop");
    if (tp_db_close(people) != TP_OK || tp_env_close(env) != TP_OK)
        return failed("close");
    return code == TP_OK ? 0 : 1;
}
