/* Checks calls with duplicates, lists, indices, memory and passed-on transactions, in a process that forks and in
 * several threads.
 *
 *   apart DIRECTORY fork        the child calls each function with its parent's handles; then the parent continues
 *   apart DIRECTORY threads     threads write to an indexed database at once; then one thread passes a transaction on to another
 *                               (tp_detach, tp_attach)
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libtp.h"

enum { THREADS = 4, ROUNDS = 50, REFUSED = 7 };

struct handles {
    char directory[4096];
    tp_env *env;
    tp_db *db;
    tp_index *index;
    tp_multi *multi;
    tp_multi_cursor *tags;
    tp_list *list;
    tp_list_cursor *lines;
    tp_text *text;
    tp_segment *segment;
    tp_index_cursor *cursor;
    tp_txn *txn;
    void *memory;
    int nth;
};

static int failed(const char *what)
{
    printf("%s: %s\n", what, tp_error());
    return 1;
}

/* Adds the first letter of the value to the index. Refuses an empty value. */
static int letter(const void *key, size_t key_size, const void *value, size_t value_size, tp_index_keys *keys, void *argument)
{
    (void)key;
    (void)key_size;
    (void)argument;
    return value_size == 0 ? REFUSED : tp_index_add(keys, value, 1);
}

static int open_handles(struct handles *handles)
{
    char path[4200];
    snprintf(path, sizeof path, "%s.text", handles->directory);
    if (tp_env_open(handles->directory, NULL, 0, &handles->env) != TP_OK || tp_btree_open(handles->env, "words", &handles->db) != TP_OK ||
        tp_index_open(handles->db, "by letter", letter, NULL, &handles->index) != TP_OK ||
        tp_multi_open(handles->env, "tags", TP_AS_THEY_CAME, NULL, &handles->multi) != TP_OK ||
        tp_list_open(handles->env, "lines", &handles->list) != TP_OK || tp_text_open(handles->list, path, 0, '\n', &handles->text) != TP_OK ||
        tp_segment_open(handles->env, "memory", 64, &handles->segment) != TP_OK)
        return failed("open");
    return 0;
}

/* Closes all handles. `text` is the expected code of tp_text_close: TP_OK, or TP_FORKED in the child. */
static int close_handles(struct handles *handles, int text)
{
    if (tp_text_close(handles->text) != text || tp_list_close(handles->list) != TP_OK || tp_multi_close(handles->multi) != TP_OK ||
        tp_index_close(handles->index) != TP_OK || tp_segment_close(handles->segment) != TP_OK || tp_db_close(handles->db) != TP_OK ||
        tp_env_close(handles->env) != TP_OK)
        return failed("close");
    return 0;
}

static int begin(struct handles *handles)
{
    tp_txn *txn;
    if (tp_begin(handles->env, TP_DEFAULT, &txn) != TP_OK || tp_put(handles->db, txn, "ada", 3, "countess", 8) != TP_OK ||
        tp_multi_put(handles->multi, txn, "ada", 3, "one", 3) != TP_OK || tp_multi_cursor_open(handles->multi, txn, &handles->tags) != TP_OK ||
        tp_list_append(handles->list, txn, "one", 3, NULL) != TP_OK || tp_list_cursor_open(handles->list, txn, &handles->lines) != TP_OK ||
        tp_index_cursor_open(handles->index, txn, NULL, &handles->cursor) != TP_OK ||
        tp_segment_join(handles->segment, txn, &handles->memory, NULL) != TP_OK ||
        tp_segment_set_range(handles->segment, txn, handles->memory, sizeof(long)) != TP_OK)
        return failed("begin");
    *(long *)handles->memory = 4711;
    handles->txn = txn;
    return 0;
}

static int next(tp_pair *pair, void *argument)
{
    (void)pair;
    (void)argument;
    return TP_NOTFOUND;
}

/* Runs in the child: every call with a handle of the parent must return TP_FORKED. Returns the number of wrong answers.
 * Flushes the output, because the child then ends by _exit. */
static int try_all(struct handles *theirs)
{
    tp_txn *txn = theirs->txn, *other;
    tp_segment *segment;
    tp_buffer word = TP_BUFFER;
    void *memory;
    uint64_t count;
    const int codes[] = {
        tp_put(theirs->db, txn, "x", 1, "x", 1),
        tp_count(theirs->db, txn, NULL, &count),
        tp_delete_range(theirs->db, txn, NULL, NULL),
        tp_multi_put(theirs->multi, txn, "x", 1, "x", 1),
        tp_multi_cursor_next(theirs->tags, NULL, NULL),
        tp_multi_cursor_place(theirs->tags, &word) == TP_NOTFOUND ? TP_FORKED : TP_OK,
        tp_list_append(theirs->list, txn, "x", 1, NULL),
        tp_list_cursor_next(theirs->lines, NULL, NULL),
        tp_text_sync(theirs->text, NULL),
        tp_index_get(theirs->index, txn, "c", 1, NULL, NULL),
        tp_index_cursor_next(theirs->cursor, NULL, NULL, NULL),
        tp_index_verify(theirs->index, txn, &word),
        tp_index_drop(theirs->db, "by letter"),
        tp_segment_join(theirs->segment, txn, &memory, NULL),
        tp_segment_set_range(theirs->segment, txn, theirs->memory, 8),
        tp_segment_open(theirs->env, "other", 64, &segment),
        tp_load(theirs->db, 0, 0, 0, next, NULL, NULL, NULL),
        tp_compact(theirs->db, 80, NULL, NULL, NULL, NULL),
        tp_env_verify(theirs->env, "words", &word),
        tp_attach(theirs->env, "x/1.1.1", &other),
        tp_abort_detached(theirs->env, 1),
        tp_detach(txn, &word),
    };
    int wrong = 0;
    for (size_t nth = 0; nth < sizeof codes / sizeof codes[0]; nth++)
        if (codes[nth] != TP_FORKED) {
            printf("call %d: %d\n", (int)nth, codes[nth]);
            wrong += 1;
        }
    tp_buffer_free(&word);
    /* The child may close the handles that it inherited. This changes nothing in the parent. */
    tp_multi_cursor_close(theirs->tags);
    tp_list_cursor_close(theirs->lines);
    tp_index_cursor_close(theirs->cursor);
    wrong += close_handles(theirs, TP_FORKED);
    fflush(stdout);
    return wrong;
}

static int show(struct handles *handles)
{
    tp_txn *txn;
    tp_buffer value = TP_BUFFER;
    uint64_t number;
    if (tp_begin(handles->env, TP_DEFAULT, &txn) != TP_OK || tp_segment_join(handles->segment, txn, &handles->memory, NULL) != TP_OK)
        return failed("show");
    printf("memory %ld\n", *(long *)handles->memory);
    if (tp_index_get(handles->index, txn, "c", 1, &value, NULL) != TP_OK)
        return failed("index");
    printf("index %s\n", (const char *)value.data);
    if (tp_multi_get(handles->multi, txn, "ada", 3, &value) != TP_OK || tp_list_count(handles->list, txn, &number) != TP_OK)
        return failed("several");
    printf("several %s, a list of %lu\n", (const char *)value.data, (unsigned long)number);
    tp_buffer_free(&value);
    return tp_abort(txn) != TP_OK;
}

static int forks(struct handles *handles)
{
    int status = 0;
    if (begin(handles) != 0)
        return 1;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        _exit(try_all(handles));
    waitpid(child, &status, 0);
    printf("the child ended with %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    if (tp_multi_cursor_close(handles->tags) != TP_OK || tp_list_cursor_close(handles->lines) != TP_OK ||
        tp_index_cursor_next(handles->cursor, NULL, NULL, NULL) != TP_OK || tp_index_cursor_close(handles->cursor) != TP_OK ||
        tp_commit(handles->txn) != TP_OK)
        return failed("commit");
    return show(handles);
}

struct write {
    struct handles *handles;
    int nth;
    int round;
};

static int write_one(tp_txn *txn, void *argument)
{
    const struct write *write = argument;
    char key[16], value[16];
    snprintf(key, sizeof key, "%d", write->round % 8);
    snprintf(value, sizeof value, "%c%d", 'a' + (write->round + write->nth) % 3, write->nth);
    int code = tp_multi_put(write->handles->multi, txn, key, strlen(key), value, strlen(value));
    if (code == TP_OK)
        code = tp_list_append(write->handles->list, txn, value, strlen(value), NULL);
    if (code == TP_OK)
        code = tp_put(write->handles->db, txn, key, strlen(key), value, write->round % 10 == 9 ? 0 : strlen(value));
    return code;
}

static void *writes(void *argument)
{
    struct write write;
    write.handles = argument;
    write.nth = write.handles->nth;
    for (write.round = 0; write.round < ROUNDS; write.round++) {
        int expected = write.round % 10 == 9 ? REFUSED : TP_OK;
        int code = tp_run(write.handles->env, TP_RELAXED, write_one, &write);
        if (code != expected) {
            printf("round %d: %d: %s\n", write.round, code, tp_error());
            return argument;
        }
    }
    return NULL;
}

/* Continues the transaction from the text that tp_detach stored, in a thread that does not have its handle. */
static void *goes_on(void *argument)
{
    struct handles *handles = argument;
    tp_txn *txn;
    tp_buffer *word = handles->memory;
    if (tp_attach(handles->env, word->data, &txn) != TP_OK || tp_put(handles->db, txn, "passed", 6, "on", 2) != TP_OK || tp_commit(txn) != TP_OK)
        failed("in the other thread");
    return NULL;
}

static int pass_on(struct handles *handles)
{
    pthread_t thread;
    tp_buffer word = TP_BUFFER;
    tp_txn *txn;
    uint64_t count;
    if (tp_begin(handles->env, TP_DEFAULT, &txn) != TP_OK || tp_put(handles->db, txn, "begun", 5, "here", 4) != TP_OK || tp_detach(txn, &word) != TP_OK)
        return failed("detach");
    handles->memory = &word;
    pthread_create(&thread, NULL, goes_on, handles);
    pthread_join(thread, NULL);
    tp_buffer_free(&word);
    if (tp_begin(handles->env, TP_DEFAULT, &txn) != TP_OK || tp_index_count(handles->index, txn, "h", 1, &count) != TP_OK)
        return failed("passed on");
    printf("begun here: %lu\n", (unsigned long)count);
    if (tp_index_count(handles->index, txn, "o", 1, &count) != TP_OK)
        return failed("passed on");
    printf("passed on: %lu\n", (unsigned long)count);
    return tp_abort(txn) != TP_OK;
}

static int threads(struct handles *handles)
{
    pthread_t all[THREADS];
    struct handles copies[THREADS];
    tp_txn *snapshot;
    tp_buffer findings = TP_BUFFER;
    uint64_t count, letters = 0, lines;
    void *ended;
    int bad = 0;
    for (int nth = 0; nth < THREADS; nth++) {
        copies[nth] = *handles;
        copies[nth].nth = nth;
        pthread_create(&all[nth], NULL, writes, &copies[nth]);
    }
    for (int nth = 0; nth < THREADS; nth++) {
        pthread_join(all[nth], &ended);
        bad |= ended != NULL;
    }
    if (bad || tp_snapshot(handles->env, &snapshot) != TP_OK || tp_index_verify(handles->index, snapshot, &findings) != TP_OK)
        return failed("threads");
    printf("the index: %s\n", findings.size == 0 ? "nothing is wrong" : (const char *)findings.data);
    for (char at = 'a'; at <= 'c'; at++, letters += count)
        if (tp_index_count(handles->index, snapshot, &at, 1, &count) != TP_OK)
            return failed("count");
    if (tp_list_count(handles->list, snapshot, &lines) != TP_OK || tp_count(handles->db, snapshot, NULL, &count) != TP_OK)
        return failed("count");
    printf("%lu records, %lu in the index, %lu lines\n", (unsigned long)count, (unsigned long)letters, (unsigned long)lines);
    tp_buffer_free(&findings);
    return tp_abort(snapshot) != TP_OK || pass_on(handles);
}

int main(int argc, char **argv)
{
    static struct handles handles;
    if (argc != 3)
        return 2;
    snprintf(handles.directory, sizeof handles.directory, "%s", argv[1]);
    if (open_handles(&handles) != 0)
        return 1;
    int status = strcmp(argv[2], "fork") == 0 ? forks(&handles) : threads(&handles);
    return close_handles(&handles, TP_OK) != 0 ? 1 : status;
}
