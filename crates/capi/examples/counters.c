/*
 * The primitive calls: the program's own pages in transactions, in the six steps of the paper (LIBTP 4.4); log records
 * of a type that the program defines; and locks on objects that the program names.
 *
 *   counters DIRECTORY
 */
#include <stdio.h>
#include <string.h>

#include "libtp.h"

enum { ADD = 1 };

static int failed(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, tp_error());
    return 1;
}

/* Changes the number at the start of page 0. With `back`, undoes the change. */
static int change(void *page, size_t page_size, const void *argument, size_t argument_size, int back)
{
    int64_t count, by;
    if (page_size < sizeof count || argument_size != sizeof by)
        return 1;
    memcpy(&count, page, sizeof count);
    memcpy(&by, argument, sizeof by);
    count += back ? -by : by;
    memcpy(page, &count, sizeof count);
    return 0;
}

/* Step 6: provide redo and undo for each type of log record. */
static int redo_add(void *page, size_t page_size, const void *argument, size_t argument_size)
{
    return change(page, page_size, argument, argument_size, 0);
}

static int undo_add(void *page, size_t page_size, const void *argument, size_t argument_size)
{
    return change(page, page_size, argument, argument_size, 1);
}

static int add(tp_pages *fid, tp_txn *txn, int64_t by)
{
    return tp_log(fid, txn, 0, ADD, &by, sizeof by);
}

/* Reads and prints the number on page 0. */
static int show(tp_env *env, tp_pages *fid, const char *when)
{
    tp_txn *txn;
    void *page;
    size_t size;
    int64_t count = 0;
    if (tp_begin(env, TP_DEFAULT, &txn) != TP_OK)
        return failed("begin");
    /* Step 3: lock the page before you read it. Step 2: replace the read with buf_get. Step 5: unpin the page. */
    if (tp_lock(fid, txn, 0, READ_LOCK) != TP_OK || buf_get(fid, txn, 0, BF_PIN, &page, &size) != TP_OK)
        return failed("get");
    if (size != 0)
        memcpy(&count, page, sizeof count);
    printf("%s: %d\n", when, (int)count);
    if (buf_unpin(fid, txn, 0) != TP_OK || tp_unlock(fid, txn, 0) != TP_OK)
        return failed("unpin");
    return tp_commit(txn) == TP_OK ? 0 : failed("commit");
}

/* Writes a text to page 1. buf_unpin does step 4: it logs the change. */
static int write_note(tp_pages *fid, tp_txn *txn, const char *note)
{
    void *page;
    size_t size;
    int code = tp_lock(fid, txn, 1, WRITE_LOCK);
    if (code == TP_OK)
        code = buf_get(fid, txn, 1, BF_PIN, &page, &size);
    if (code == TP_OK) {
        printf("the note has %d bytes, and was \"%s\"\n", (int)size, (const char *)page);
        strcpy((char *)page, note);
        code = buf_unpin(fid, txn, 1);
    }
    return code;
}

int main(int argc, char **argv)
{
    tp_env *env;
    tp_pages *fid;
    tp_txn *one, *two;
    size_t size;
    void *page;

    if (argc != 2) {
        fprintf(stderr, "usage: counters DIRECTORY\n");
        return 2;
    }
    /* Step 1: replace the open with buf_open. */
    if (tp_log_type(ADD, "counter add", redo_add, undo_add) != TP_OK || tp_env_open(argv[1], NULL, 0, &env) != TP_OK ||
        buf_open(env, "counters", DB_SHARED | DB_TP, &fid) != TP_OK || buf_page_size(fid, &size) != TP_OK)
        return failed("open");
    printf("pages of %d bytes\n", (int)size);

    /* Two transactions change the page at once, and one of them aborts. */
    if (tp_begin(env, TP_DEFAULT, &one) != TP_OK || tp_begin(env, TP_DEFAULT, &two) != TP_OK)
        return failed("begin");
    if (add(fid, one, 1) != TP_OK || add(fid, two, 10) != TP_OK || add(fid, one, 100) != TP_OK)
        return failed("add");
    if (write_note(fid, one, "by the first") != TP_OK)
        return failed("note");
    if (tp_commit(one) != TP_OK || tp_abort(two) != TP_OK)
        return failed("end");
    if (show(env, fid, "one committed, one undone") != 0)
        return 1;

    /* buf_unpin does not write a page that the transaction has not locked for writing. */
    if (tp_begin(env, TP_DEFAULT, &one) != TP_OK || write_note(fid, one, "undone") != TP_OK)
        return failed("note");
    if (buf_get(fid, one, 0, BF_PIN, &page, NULL) != TP_OK)
        return failed("get");
    memset(page, 0, size);
    if (buf_unpin(fid, one, 0) == TP_OK)
        return failed("a page that was not locked was written");
    printf("not locked: %s\n", tp_strerror(TP_DATABASE));

    /* Lock objects that the program names. */
    if (lock_get(one, "printer", 7, WRITE_LOCK) != TP_OK || lock_get(one, "plotter", 7, READ_LOCK) != TP_OK ||
        lock_downgrade(one, "printer", 7, READ_LOCK) != TP_OK || lock_release(one, "plotter", 7) != TP_OK ||
        lock_unlock_all(one) != TP_OK)
        return failed("lock");
    if (lock_release(one, "printer", 7) == TP_OK)
        return failed("a lock was released twice");
    if (tp_abort(one) != TP_OK)
        return failed("abort");

    if (tp_begin(env, TP_DEFAULT, &one) != TP_OK || write_note(fid, one, "by the last") != TP_OK || tp_commit(one) != TP_OK)
        return failed("note");
    if (buf_close(fid) != TP_OK || tp_env_close(env) != TP_OK)
        return failed("close");
    return 0;
}
