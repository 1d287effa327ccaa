/*
 * Carries out commands on a database of one kind, through two cursors of one transaction, and prints an answer to each.
 *
 *   cursors DIRECTORY KIND commit|abort|snapshot
 *
 * A command is a line of the standard input: a word, the number of a cursor, a key or a record number, and a value.
 * Keys and values are single letters.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libtp.h"

static tp_env *env;
static tp_txn *txn, *other;
static tp_db *db;
static tp_recno *recno;
static tp_multi *multi;
static tp_list *list;
static tp_index *by_value;
static const char *kind;
static void *cursors[2];
static tp_buffer key = TP_BUFFER, value = TP_BUFFER;

static int is(const char *word, const char *other_word)
{
    return strcmp(word, other_word) == 0;
}

static int add_value(const void *k, size_t k_size, const void *v, size_t v_size, tp_index_keys *keys, void *argument)
{
    (void)k;
    (void)k_size;
    (void)argument;
    return tp_index_add(keys, v, v_size);
}

static int open_database(void)
{
    const char *name = is(kind, "range") ? "tree" : kind;
    int code = TP_OK;
    if (is(name, "tree") || is(name, "index"))
        code = tp_btree_open(env, name, &db);
    else if (is(name, "hash"))
        code = tp_hash_open(env, name, &db);
    else if (is(name, "sorted") || is(name, "came"))
        code = tp_multi_open(env, name, is(name, "came") ? TP_AS_THEY_CAME : TP_SORTED, NULL, &multi);
    else if (is(name, "recno"))
        code = tp_recno_open(env, name, 1, &recno);
    else
        code = tp_list_open(env, name, &list);
    if (code == TP_OK && is(name, "index"))
        code = tp_index_open(db, "by value", add_value, NULL, &by_value);
    return code;
}

static int open_cursors(void)
{
    tp_range range = {"c", 1, "k", 1, TP_FROM | TP_BELOW};
    int code = TP_OK;
    for (int nth = 0; code == TP_OK && nth < 2; nth++) {
        void *at = &cursors[nth];
        if (by_value)
            code = tp_index_cursor_open(by_value, txn, NULL, at);
        else if (db && is(kind, "range"))
            code = tp_cursor_open_range(db, txn, &range, at);
        else if (db)
            code = tp_cursor_open(db, txn, at);
        else if (multi)
            code = tp_multi_cursor_open(multi, txn, at);
        else if (recno)
            code = tp_recno_cursor_open(recno, txn, at);
        else
            code = tp_list_cursor_open(list, txn, at);
    }
    return code;
}

static int go_index(tp_index_cursor *at, const char *word, const char *k)
{
    if (is(word, "first"))
        return tp_index_cursor_first(at, &value, &key, NULL);
    if (is(word, "last"))
        return tp_index_cursor_last(at, &value, &key, NULL);
    if (is(word, "next"))
        return tp_index_cursor_next(at, &value, &key, NULL);
    if (is(word, "prev"))
        return tp_index_cursor_prev(at, &value, &key, NULL);
    return tp_index_cursor_seek(at, k, 1, &value, &key, NULL);
}

static int go_pair(tp_cursor *at, const char *word, const char *k)
{
    if (is(word, "first"))
        return tp_cursor_first(at, &key, &value);
    if (is(word, "last"))
        return tp_cursor_last(at, &key, &value);
    if (is(word, "next"))
        return tp_cursor_next(at, &key, &value);
    if (is(word, "prev"))
        return tp_cursor_prev(at, &key, &value);
    if (is(word, "behind"))
        return tp_cursor_after(at, k, 1, &key, &value);
    return tp_cursor_seek(at, k, 1, &key, &value);
}

static int go_multi(tp_multi_cursor *at, const char *word, const char *k)
{
    if (is(word, "first"))
        return tp_multi_cursor_first(at, &key, &value);
    if (is(word, "last"))
        return tp_multi_cursor_last(at, &key, &value);
    if (is(word, "next"))
        return tp_multi_cursor_next(at, &key, &value);
    if (is(word, "prev"))
        return tp_multi_cursor_prev(at, &key, &value);
    if (is(word, "value"))
        return tp_multi_cursor_next_value(at, &key, &value);
    if (is(word, "next-key"))
        return tp_multi_cursor_next_key(at, &key, &value);
    if (is(word, "prev-key"))
        return tp_multi_cursor_prev_key(at, &key, &value);
    return tp_multi_cursor_seek(at, k, 1, &key, &value);
}

static int go_number(void *at, const char *word, const char *k, uint64_t *number)
{
    if (is(word, "first"))
        return list ? tp_list_cursor_first(at, number, &value) : tp_recno_cursor_first(at, number, &value);
    if (is(word, "last"))
        return list ? tp_list_cursor_last(at, number, &value) : tp_recno_cursor_last(at, number, &value);
    if (is(word, "next"))
        return list ? tp_list_cursor_next(at, number, &value) : tp_recno_cursor_next(at, number, &value);
    if (is(word, "prev"))
        return list ? tp_list_cursor_prev(at, number, &value) : tp_recno_cursor_prev(at, number, &value);
    *number = strtoull(k, NULL, 10);
    return list ? tp_list_cursor_seek(at, *number, &value) : tp_recno_cursor_seek(at, *number, number, &value);
}

static const char *said(int code)
{
    switch (code) {
    case TP_OK:
        return "ok";
    case TP_NOTFOUND:
        return "none";
    case TP_LOCK_TIMEOUT:
        return "timeout";
    default:
        return tp_error();
    }
}

static int put_by(tp_txn *by, const char *k, const char *v)
{
    int code;
    if (db)
        return tp_put(db, by, k, 1, v, 1);
    if (recno)
        return tp_recno_put(recno, by, strtoull(k, NULL, 10), v, 1);
    if (list)
        return tp_list_put(list, by, strtoull(k, NULL, 10), v, 1);
    code = tp_multi_put(multi, by, k, 1, v, 1);
    return code == TP_EXISTS ? TP_OK : code;
}

static int change(const char *word, void *at, const char *k, const char *v)
{
    static uint64_t savepoint;
    if (is(word, "put"))
        return put_by(txn, k, v);
    if (is(word, "delete") && db)
        return tp_delete(db, txn, k, 1);
    if (is(word, "delete") && recno)
        return tp_recno_delete(recno, txn, strtoull(k, NULL, 10));
    if (is(word, "delete") && list)
        return tp_list_delete(list, txn, strtoull(k, NULL, 10));
    if (is(word, "delete"))
        return tp_multi_delete(multi, txn, k, 1, NULL);
    if (is(word, "delete-value"))
        return tp_multi_delete_value(multi, txn, k, 1, v, 1);
    if (is(word, "delete-here"))
        return list ? tp_list_cursor_delete(at) : tp_multi_cursor_delete(at);
    if (is(word, "put-here"))
        return list ? tp_list_cursor_put(at, v, 1) : tp_multi_cursor_put(at, v, 1);
    if (is(word, "before-here"))
        return tp_list_cursor_insert_before(at, v, 1, NULL);
    if (is(word, "behind-here"))
        return tp_list_cursor_insert_after(at, v, 1, NULL);
    if (is(word, "save"))
        return tp_savepoint(txn, &savepoint);
    if (is(word, "keep"))
        return tp_savepoint_keep(txn, savepoint);
    if (is(word, "roll"))
        return tp_savepoint_roll_back(txn, savepoint);
    if (is(word, "other")) {
        int code = tp_begin(env, TP_SYNC, &other);
        if (code == TP_OK && (code = put_by(other, k, v)) != TP_OK) {
            tp_abort(other);
            other = NULL;
        }
        return code;
    }
    if (is(word, "free")) {
        tp_txn *held = other;
        other = NULL;
        return held ? tp_abort(held) : TP_OK;
    }
    return TP_MISUSE;
}

static void answer(char *line)
{
    char word[20], k[8] = "", v[8] = "";
    int nth = 0, code;
    uint64_t number = 0;
    void *at;
    static const char *const moves[] = {"first", "last", "next", "prev", "seek", "behind", "value", "next-key", "prev-key"};
    sscanf(line, "%19s %d %7s %7s", word, &nth, k, v);
    at = cursors[nth];
    for (size_t move = 0; move < sizeof moves / sizeof moves[0]; move++) {
        if (!is(word, moves[move]))
            continue;
        if (recno || list)
            code = go_number(at, word, k, &number);
        else
            code = by_value ? go_index(at, word, k) : multi ? go_multi(at, word, k) : go_pair(at, word, k);
        if (code != TP_OK)
            printf("%s\n", said(code));
        else if (recno || list)
            printf("%d %s\n", (int)number, value.size == 0 ? "." : (const char *)value.data);
        else if (by_value)
            printf("%s %s\n", (const char *)value.data, (const char *)key.data);
        else
            printf("%s %s\n", (const char *)key.data, (const char *)value.data);
        return;
    }
    printf("%s\n", said(change(word, at, k, v)));
}

static int close_all(int keeps)
{
    int code = TP_OK;
    if (other)
        tp_abort(other);
    for (int nth = 0; nth < 2; nth++) {
        void *at = cursors[nth];
        code |= by_value ? tp_index_cursor_close(at) : db ? tp_cursor_close(at) : multi ? tp_multi_cursor_close(at) :
                recno ? tp_recno_cursor_close(at) : tp_list_cursor_close(at);
    }
    code |= keeps ? tp_commit(txn) : tp_abort(txn);
    if (by_value)
        code |= tp_index_close(by_value);
    code |= db ? tp_db_close(db) : multi ? tp_multi_close(multi) : recno ? tp_recno_close(recno) : tp_list_close(list);
    code |= tp_env_close(env);
    return code == TP_OK ? 0 : 1;
}

int main(int count, char **arguments)
{
    char line[100];
    if (count != 4)
        return 2;
    kind = arguments[2];
    if (tp_env_open(arguments[1], "lock_timeout_millis = 0\n", 0, &env) != TP_OK || open_database() != TP_OK ||
        (is(arguments[3], "snapshot") ? tp_snapshot(env, &txn) : tp_begin(env, TP_SYNC, &txn)) != TP_OK || open_cursors() != TP_OK) {
        printf("%s\n", tp_error());
        return 1;
    }
    printf("ready\n");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        answer(line);
        fflush(stdout);
    }
    tp_buffer_free(&key);
    tp_buffer_free(&value);
    return close_all(is(arguments[3], "commit"));
}
