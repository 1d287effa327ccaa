/*
 * A list, and a text file whose lines are the list's records. Insertions and deletions renumber the records.
 *
 *   lines DIRECTORY FILE
 */
#include <stdio.h>
#include <string.h>

#include "libtp.h"

static int failed(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, tp_error());
    return 1;
}

static int show(const char *what, tp_list *list, tp_txn *txn)
{
    tp_list_cursor *cursor;
    tp_buffer record = TP_BUFFER;
    uint64_t number;
    int code = tp_list_cursor_open(list, txn, &cursor);
    if (code != TP_OK)
        return code;
    printf("%s:", what);
    for (code = tp_list_cursor_first(cursor, &number, &record); code == TP_OK; code = tp_list_cursor_next(cursor, &number, &record))
        printf(" %lu %s", (unsigned long)number, (const char *)record.data);
    printf("\n");
    tp_buffer_free(&record);
    tp_list_cursor_close(cursor);
    return code == TP_NOTFOUND ? TP_OK : code;
}

static int by_number(tp_list *list, tp_txn *txn)
{
    tp_buffer record = TP_BUFFER;
    uint64_t number, count;
    int code = tp_list_append(list, txn, "six", 3, &number);
    if (code == TP_OK)
        code = tp_list_insert_before(list, txn, 1, "zero", 4);
    if (code == TP_OK)
        code = tp_list_insert_after(list, txn, 1, "half", 4);
    if (code == TP_OK && (code = tp_list_get_for_update(list, txn, 3, &record)) == TP_OK)
        printf("three is %s\n", (const char *)record.data);
    if (code == TP_OK)
        code = tp_list_put(list, txn, 3, "ONE", record.size);
    if (code == TP_OK)
        code = tp_list_delete(list, txn, 2);
    if (code == TP_OK && (code = tp_list_get(list, txn, 2, &record)) == TP_OK)
        printf("two is %s\n", (const char *)record.data);
    if (code == TP_OK && (code = tp_list_count(list, txn, &count)) == TP_OK)
        printf("six was number %lu, there are %lu records\n", (unsigned long)number, (unsigned long)count);
    tp_buffer_free(&record);
    return code;
}

static int by_cursor(tp_list *list, tp_txn *txn)
{
    tp_list_cursor *cursor;
    tp_buffer record = TP_BUFFER;
    uint64_t number;
    int code = tp_list_cursor_open(list, txn, &cursor);
    if (code == TP_OK)
        code = tp_list_cursor_last(cursor, &number, &record);
    if (code == TP_OK)
        code = tp_list_cursor_prev(cursor, &number, &record);
    if (code == TP_OK)
        printf("before the last: %lu %s\n", (unsigned long)number, (const char *)record.data);
    if (code == TP_OK)
        code = tp_list_cursor_insert_before(cursor, "before", 6, &number);
    if (code == TP_OK)
        code = tp_list_cursor_insert_after(cursor, "after", 5, NULL);
    if (code == TP_OK)
        code = tp_list_cursor_put(cursor, "here", 4);
    if (code == TP_OK && (code = tp_list_cursor_number(cursor, &number)) == TP_OK)
        printf("here is %lu\n", (unsigned long)number);
    if (code == TP_OK)
        code = tp_list_cursor_seek(cursor, 1, &record);
    if (code == TP_OK)
        code = tp_list_cursor_delete(cursor);
    if (code == TP_OK)
        code = tp_list_cursor_set(cursor, 7, "seven", 5);
    tp_buffer_free(&record);
    tp_list_cursor_close(cursor);
    return code;
}

int main(int argc, char **argv)
{
    tp_env *env;
    tp_list *list;
    tp_text *text;
    tp_txn *txn;
    FILE *file;
    int is_written;
    if (argc != 3)
        return 2;
    if ((file = fopen(argv[2], "w")) == NULL || fputs("one\ntwo\nthree\n", file) < 0 || fclose(file) != 0) {
        perror(argv[2]);
        return 1;
    }
    if (tp_env_open(argv[1], NULL, 0, &env) != TP_OK || tp_list_open(env, "lines", &list) != TP_OK ||
        tp_text_open(list, argv[2], 0, '\n', &text) != TP_OK)
        return failed("open");
    int code = tp_begin(env, TP_DEFAULT, &txn);
    if (code != TP_OK)
        return failed("begin");
    if (show("read", list, txn) != TP_OK || by_number(list, txn) != TP_OK || show("by number", list, txn) != TP_OK ||
        by_cursor(list, txn) != TP_OK || show("by cursor", list, txn) != TP_OK)
        code = failed("lines");
    if (code == TP_OK)
        code = tp_commit(txn);
    else
        tp_abort(txn);
    for (int nth = 0; nth < 2; nth++) {
        if (tp_text_sync(text, &is_written) != TP_OK)
            return failed("sync");
        printf("%s\n", is_written ? "written" : "nothing to write");
    }
    if ((file = fopen(argv[2], "r")) != NULL) {
        char line[80];
        while (fgets(line, sizeof line, file) != NULL)
            printf("in the file: %s", line);
        fclose(file);
    }
    if (tp_text_close(text) != TP_OK || tp_list_close(list) != TP_OK || tp_env_close(env) != TP_OK)
        return failed("close");
    return code == TP_OK ? 0 : 1;
}
