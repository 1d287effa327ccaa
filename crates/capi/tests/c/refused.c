/* Calls that a program must not make with ranges, keys with several values, lists, plain files, indices, segments and
 * transactions that are passed on: each fails with its code and a text, and has no other effect. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libtp.h"

static int wrong;

static void expect_at(int line, int code, int expected, const char *part)
{
    const char *said = expected == TP_OK ? "" : tp_error();
    if (code == expected && strstr(said, part) != NULL)
        return;
    wrong += 1;
    printf("line %d: %d (%s), expected %d and \"%s\"\n", line, code, code == TP_OK ? "" : tp_error(), expected, part);
}

#define expect(code, expected, part) expect_at(__LINE__, (code), (expected), (part))
#define fine(code) expect_at(__LINE__, (code), TP_OK, "")
#define holds(condition) ((condition) ? (void)0 : (void)(wrong += 1, printf("line %d: " #condition "\n", __LINE__)))

struct scene {
    const char *directory;
    tp_env *env;
    tp_env *other;
    tp_db *db;
    tp_db *hash;
    tp_txn *txn;
    tp_txn *theirs;
    tp_txn *snapshot;
};

static size_t as_is(const void *bytes, size_t size, void *made, size_t room, void *argument)
{
    (void)argument;
    if (size != 0 && size <= room)
        memcpy(made, bytes, size);
    return size;
}

/* An encoding that is always too long: returns a size that no memory has. */
static size_t endless(const void *bytes, size_t size, void *made, size_t room, void *argument)
{
    (void)bytes;
    (void)made;
    (void)room;
    (void)argument;
    return size + ((size_t)-1 >> 1);
}

/* Visits a pair with a call that is not allowed: a get in the cursor's transaction. Returns the code of the get. */
static int uses_it(const void *key, size_t key_size, const void *value, size_t value_size, void *argument)
{
    struct scene *scene = argument;
    (void)value;
    (void)value_size;
    return tp_get(scene->hash, scene->txn, key, key_size, NULL);
}

static void ranges(struct scene *scene)
{
    tp_db *db = scene->db;
    tp_cursor *cursor = NULL;
    tp_link link;
    uint64_t count = 7;
    tp_range both = {"a", 1, "b", 1, TP_FROM | TP_ABOVE}, unknown = {"a", 1, NULL, 0, 64}, null = {NULL, 3, NULL, 0, TP_FROM};
    tp_range mixed = {"a", 1, "b", 1, TP_PREFIX | TP_BELOW}, prefix = {"a", 1, NULL, 0, TP_PREFIX};
    tp_range turned = {"b", 1, "a", 1, TP_FROM | TP_UPTO}, nothing_said = {NULL, 9, NULL, 9, 0};
    expect(tp_count(db, scene->txn, &both, &count), TP_MISUSE, "tp_count: 0x3 does not describe a range");
    holds(count == 0);
    expect(tp_count(db, scene->txn, &unknown, &count), TP_MISUSE, "0x40 does not describe");
    expect(tp_count(db, scene->txn, &mixed, &count), TP_MISUSE, "only TP_PREFIX");
    expect(tp_count(db, scene->txn, &null, &count), TP_MISUSE, "NULL was given for the low key of a range of 3 bytes");
    expect(tp_count(db, scene->txn, NULL, NULL), TP_MISUSE, "place of the count");
    expect(tp_count(NULL, scene->txn, NULL, &count), TP_MISUSE, "NULL was given for a database");
    expect(tp_count(db, NULL, NULL, &count), TP_MISUSE, "NULL was given for a transaction");
    expect(tp_count(db, scene->theirs, NULL, &count), TP_MISUSE, "different environment handles");
    expect(tp_count(scene->hash, scene->txn, NULL, &count), TP_DATABASE, "have no order");
    expect(tp_delete_range(db, scene->snapshot, NULL, NULL), TP_MISUSE, "a snapshot was given");
    expect(tp_cursor_open_range(db, scene->txn, &both, &cursor), TP_MISUSE, "does not describe a range");
    expect(tp_cursor_open_range(scene->hash, scene->txn, &prefix, &cursor), TP_DATABASE, "have no order");
    holds(cursor == NULL);
    fine(tp_cursor_open(scene->hash, scene->txn, &cursor));
    expect(tp_cursor_each(cursor, NULL, NULL), TP_MISUSE, "the function");
    expect(tp_cursor_each(NULL, uses_it, scene), TP_MISUSE, "NULL was given for a cursor");
    fine(tp_cursor_each(cursor, uses_it, scene));
    fine(tp_cursor_close(cursor));
    fine(tp_put(scene->hash, scene->txn, "a", 1, "1", 1));
    fine(tp_cursor_open(scene->hash, scene->txn, &cursor));
    expect(tp_cursor_each(cursor, uses_it, scene), TP_MISUSE, "another call of this program uses a transaction");
    fine(tp_cursor_close(cursor));
    fine(tp_put(db, scene->txn, "a", 1, "1", 1));
    fine(tp_count(db, scene->txn, &turned, &count));
    holds(count == 0);
    fine(tp_count(db, scene->txn, &nothing_said, &count));
    holds(count == 1);
    expect(tp_link_of(db, scene->txn, "a", 1, NULL), TP_MISUSE, "place of the link");
    expect(tp_link_of(db, scene->txn, "none", 4, &link), TP_NOTFOUND, "no such record");
    expect(tp_link_of(db, scene->snapshot, "a", 1, &link), TP_MISUSE, "a snapshot was given");
    expect(tp_get_at(db, scene->txn, NULL, NULL, NULL), TP_MISUSE, "NULL was given for the link");
    memset(&link, 0xa5, sizeof link);
    expect(tp_get_at(db, scene->txn, &link, NULL, NULL), TP_NOTFOUND, "");
}

static void orders(struct scene *scene)
{
    static char name[66];
    tp_db *db;
    tp_txn *txn;
    memset(name, 'x', sizeof name - 1);
    expect(tp_order(NULL, as_is, as_is, NULL), TP_MISUSE, "the name");
    expect(tp_order("half", as_is, NULL, NULL), TP_MISUSE, "a function");
    expect(tp_order("", as_is, as_is, NULL), TP_MISUSE, "1 to 64 bytes");
    expect(tp_order(name, as_is, as_is, NULL), TP_MISUSE, "1 to 64 bytes");
    expect(tp_order("descending", as_is, as_is, NULL), TP_MISUSE, "an order of the library");
    fine(tp_order("endless", endless, as_is, NULL));
    expect(tp_btree_open_ordered(scene->env, "ordered", "unknown", &db), TP_MISUSE, "no order `unknown` was registered");
    expect(tp_btree_open_ordered(scene->env, "ordered", NULL, &db), TP_MISUSE, "the name of the order");
    expect(tp_btree_open_ordered(scene->env, "words", "descending", &db), TP_DATABASE, "`descending`");
    holds(db == NULL);
    fine(tp_btree_open_ordered(scene->env, "ordered", "endless", &db));
    fine(tp_begin(scene->env, TP_DEFAULT, &txn));
    expect(tp_put(db, txn, "k", 1, "", 0), TP_LENGTH, "a key of 1048576 bytes");
    fine(tp_abort(txn));
    fine(tp_db_close(db));
}

static void several(struct scene *scene)
{
    static char much[3000];
    tp_multi *multi = NULL, *twice = NULL;
    tp_multi_cursor *cursor, *left, *reading;
    tp_txn *txn;
    tp_buffer value = TP_BUFFER;
    uint64_t count = 7;
    expect(tp_multi_open(scene->env, "tags", 3, NULL, &multi), TP_MISUSE, "3 is not an order of values");
    expect(tp_multi_open(scene->env, NULL, TP_SORTED, NULL, &multi), TP_MISUSE, "the name");
    expect(tp_multi_open(scene->env, "tags", TP_SORTED, NULL, NULL), TP_MISUSE, "place of the database");
    expect(tp_multi_open(scene->env, "tags", TP_SORTED, "unknown", &multi), TP_MISUSE, "unknown");
    holds(multi == NULL);
    fine(tp_multi_open(scene->env, "tags", TP_SORTED, NULL, &multi));
    expect(tp_multi_open(scene->env, "tags", TP_AS_THEY_CAME, NULL, &twice), TP_DATABASE, "sorted");
    expect(tp_multi_open(scene->env, "words", TP_SORTED, NULL, &twice), TP_DATABASE, "one value a key");
    expect(tp_multi_pair_max(multi, NULL), TP_MISUSE, "place of the length");
    fine(tp_begin(scene->env, TP_DEFAULT, &txn));
    expect(tp_multi_put(multi, txn, much, sizeof much, "", 0), TP_LENGTH, "a key with its value");
    expect(tp_multi_put((tp_multi *)(void *)scene->db, txn, "k", 1, "", 0), TP_MISUSE, "and a database was given");
    expect(tp_multi_put(multi, scene->theirs, "k", 1, "", 0), TP_MISUSE, "different environment handles");
    expect(tp_multi_put(multi, scene->snapshot, "k", 1, "", 0), TP_MISUSE, "a snapshot was given");
    expect(tp_multi_get(multi, txn, "k", 1, &value), TP_NOTFOUND, "");
    expect(tp_multi_count(multi, txn, "k", 1, NULL), TP_MISUSE, "place of the count");
    fine(tp_multi_count(multi, txn, "k", 1, &count));
    holds(count == 0);
    expect(tp_multi_count_range(multi, txn, NULL, NULL), TP_MISUSE, "place of the count");
    expect(tp_multi_delete_range(multi, scene->snapshot, NULL, &count), TP_MISUSE, "a snapshot was given");
    expect(tp_multi_cursor_open_range(multi, txn, NULL, NULL), TP_MISUSE, "the cursor");
    fine(tp_multi_delete_range(multi, txn, NULL, NULL));
    expect(tp_multi_delete(multi, txn, "k", 1, NULL), TP_NOTFOUND, "");
    expect(tp_multi_delete_value(multi, txn, "k", 1, "v", 1), TP_NOTFOUND, "");
    fine(tp_multi_put(multi, txn, NULL, 0, NULL, 0));
    fine(tp_multi_put(multi, txn, "k", 1, "v", 1));
    expect(tp_multi_put(multi, txn, "k", 1, "v", 1), TP_EXISTS, "");
    fine(tp_multi_cursor_open(multi, txn, &cursor));
    fine(tp_multi_cursor_open(multi, txn, &left));
    fine(tp_multi_cursor_open(multi, scene->snapshot, &reading));
    expect(tp_multi_cursor_place(cursor, &value), TP_NOTFOUND, "");
    expect(tp_multi_cursor_place(cursor, NULL), TP_MISUSE, "the buffer");
    expect(tp_multi_cursor_delete(cursor), TP_NOTFOUND, "");
    expect(tp_multi_cursor_put(cursor, "x", 1), TP_NOTFOUND, "");
    expect(tp_multi_cursor_put(reading, "x", 1), TP_MISUSE, "a snapshot was given");
    expect(tp_multi_cursor_delete(reading), TP_MISUSE, "a snapshot was given");
    expect(tp_multi_cursor_first(reading, NULL, NULL), TP_NOTFOUND, "");
    expect(tp_multi_cursor_go_to(cursor, NULL, 3, NULL, NULL), TP_MISUSE, "NULL was given for a place of 3 bytes");
    expect(tp_multi_cursor_first((tp_multi_cursor *)(void *)txn, NULL, NULL), TP_MISUSE, "and a transaction was given");
    fine(tp_multi_cursor_last(cursor, NULL, &value));
    fine(tp_multi_cursor_close(cursor));
    expect(tp_multi_cursor_next(cursor, NULL, NULL), TP_MISUSE, "ended or closed before");
    expect(tp_multi_close(multi), TP_IN_USE, "in use 2 times");
    fine(tp_multi_cursor_close(reading));
    fine(tp_abort(txn));
    expect(tp_multi_cursor_next(left, NULL, NULL), TP_MISUSE, "the cursor's transaction has ended");
    fine(tp_multi_cursor_close(left));
    fine(tp_multi_cursor_close(NULL));
    fine(tp_multi_close(multi));
    expect(tp_multi_close(multi), TP_MISUSE, "ended or closed before");
    fine(tp_multi_close(NULL));
    tp_buffer_free(&value);
}

static void lists(struct scene *scene)
{
    tp_list *list = NULL, *other = NULL;
    tp_list_cursor *cursor, *reading;
    tp_text *text = NULL;
    tp_txn *txn;
    uint64_t number = 7;
    char path[4096];
    FILE *file;
    snprintf(path, sizeof path, "%s/text", scene->directory);
    expect(tp_list_open(scene->env, NULL, &list), TP_MISUSE, "the name");
    expect(tp_list_open(scene->env, "words", &list), TP_DATABASE, "btree");
    fine(tp_list_open(scene->env, "lines", &list));
    expect(tp_text_open(list, NULL, 0, '\n', &text), TP_MISUSE, "the path");
    expect(tp_text_open(list, path, 0, 256, &text), TP_MISUSE, "256 is not a byte");
    expect(tp_text_open(list, scene->directory, 0, '\n', &text), TP_IO, "cannot be read");
    expect(tp_text_open(NULL, path, 0, '\n', &text), TP_MISUSE, "NULL was given for a list");
    holds(text == NULL);
    fine(tp_text_open(list, path, 0, '\n', &text));
    expect(tp_list_close(list), TP_IN_USE, "in use 1 times");
    fine(tp_begin(scene->env, TP_DEFAULT, &txn));
    expect(tp_list_put(list, txn, 0, "", 0), TP_IO, "0");
    expect(tp_list_get(list, txn, 1, NULL), TP_NOTFOUND, "");
    expect(tp_list_get_for_update(list, scene->snapshot, 1, NULL), TP_MISUSE, "a snapshot was given");
    expect(tp_list_delete(list, txn, 1), TP_NOTFOUND, "");
    expect(tp_list_count(list, txn, NULL), TP_MISUSE, "place of the count");
    expect(tp_list_append(list, scene->theirs, "", 0, NULL), TP_MISUSE, "different environment handles");
    fine(tp_list_append(list, txn, "one\nand more", 12, &number));
    fine(tp_list_cursor_open(list, txn, &cursor));
    fine(tp_list_cursor_open(list, scene->snapshot, &reading));
    expect(tp_list_cursor_number(cursor, &number), TP_NOTFOUND, "");
    expect(tp_list_cursor_number(cursor, NULL), TP_MISUSE, "place of the number");
    expect(tp_list_cursor_put(cursor, "x", 1), TP_NOTFOUND, "");
    expect(tp_list_cursor_insert_after(cursor, "x", 1, NULL), TP_NOTFOUND, "");
    expect(tp_list_cursor_delete(cursor), TP_NOTFOUND, "");
    expect(tp_list_cursor_seek(cursor, 0, NULL), TP_NOTFOUND, "");
    expect(tp_list_cursor_seek(cursor, 2, NULL), TP_NOTFOUND, "");
    expect(tp_list_cursor_first(reading, NULL, NULL), TP_NOTFOUND, "");
    expect(tp_list_cursor_put(reading, "x", 1), TP_MISUSE, "a snapshot was given");
    expect(tp_list_cursor_set(reading, 1, "x", 1), TP_MISUSE, "a snapshot was given");
    expect(tp_list_cursor_next((tp_list_cursor *)(void *)text, NULL, NULL), TP_MISUSE, "and a text file was given");
    fine(tp_list_cursor_close(reading));
    fine(tp_commit(txn));
    expect(tp_list_cursor_next(cursor, NULL, NULL), TP_MISUSE, "the cursor's transaction has ended");
    fine(tp_list_cursor_close(cursor));
    fine(tp_list_cursor_close(NULL));
    /* The first record contains a newline, so it cannot be written as one line. */
    expect(tp_text_sync(text, NULL), TP_DATABASE, "record 1 cannot be written");
    expect(tp_text_close(text), TP_DATABASE, "record 1 cannot be written");
    expect(tp_text_close(text), TP_MISUSE, "ended or closed before");
    expect(tp_text_sync(text, NULL), TP_MISUSE, "ended or closed before");
    fine(tp_text_close(NULL));
    file = fopen(path, "w");
    if (file == NULL || fputs("another's\n", file) < 0 || fclose(file) != 0)
        wrong += 1;
    expect(tp_text_open(list, path, 0, '\n', &text), TP_DATABASE, "nothing was changed");
    fine(tp_list_open(scene->other, "lines", &other));
    fine(tp_list_close(other));
    fine(tp_list_close(list));
    expect(tp_list_close(list), TP_MISUSE, "ended or closed before");
    fine(tp_list_close(NULL));
}

static void whole_databases(struct scene *scene)
{
    tp_txn *txn;
    tp_db *gone;
    tp_buffer value = TP_BUFFER;
    const char *kind = "";
    uint64_t count = 7, bytes = 0;
    fine(tp_btree_open(scene->env, "gone", &gone));
    fine(tp_begin(scene->env, TP_DEFAULT, &txn));
    expect(tp_drop(NULL, "gone"), TP_MISUSE, "tp_drop: NULL was given for a transaction");
    expect(tp_drop(txn, NULL), TP_MISUSE, "the name");
    expect(tp_drop(txn, "nothing"), TP_NO_DATABASE, "nothing");
    expect(tp_drop(scene->snapshot, "gone"), TP_MISUSE, "a snapshot was given");
    expect(tp_rename(txn, "gone", NULL), TP_MISUSE, "the new name");
    expect(tp_rename(txn, "gone", "gone/by"), TP_DATABASE, "slash");
    expect(tp_empty(txn, "nothing", &count), TP_NO_DATABASE, "nothing");
    holds(count == 0);
    fine(tp_put(gone, txn, "a", 1, "b", 1));
    fine(tp_empty(txn, "gone", NULL));
    fine(tp_put(gone, txn, "a", 1, "b", 1));
    fine(tp_commit(txn));
    expect(tp_env_database(scene->env, "nothing", &kind, &bytes), TP_NO_DATABASE, "nothing");
    expect(tp_env_count_records(scene->env, "gone", NULL), TP_MISUSE, "place of the count");
    fine(tp_env_database(scene->env, "gone", &kind, &bytes));
    holds(strcmp(kind, "btree") == 0 && bytes > 0);
    fine(tp_env_database(scene->env, "gone", NULL, NULL));
    fine(tp_begin(scene->env, TP_DEFAULT, &txn));
    fine(tp_rename(txn, "gone", "elsewhere"));
    fine(tp_commit(txn));
    fine(tp_env_count_records(scene->env, "elsewhere", &count));
    holds(count == 1);
    fine(tp_begin(scene->env, TP_DEFAULT, &txn));
    fine(tp_get(gone, txn, "a", 1, &value));
    fine(tp_drop(txn, "elsewhere"));
    fine(tp_commit(txn));
    fine(tp_begin(scene->env, TP_DEFAULT, &txn));
    expect(tp_get(gone, txn, "a", 1, &value), TP_DROPPED, "elsewhere");
    fine(tp_abort(txn));
    tp_buffer_free(&value);
    fine(tp_db_close(gone));
}

static void plain_files(struct scene *scene)
{
    tp_txn *txn;
    tp_buffer contents = TP_BUFFER;
    char path[4200], other[4200], within[4200];
    char word[64];
    int is_forgotten = 7;
    FILE *file;
    snprintf(path, sizeof path, "%s.plain", scene->directory);
    snprintf(other, sizeof other, "%s.other", scene->directory);
    snprintf(within, sizeof within, "%s/plain", scene->directory);
    fine(tp_begin(scene->env, TP_DEFAULT, &txn));
    expect(tp_file_create(NULL, path, "", 0), TP_MISUSE, "tp_file_create: NULL was given for a transaction");
    expect(tp_file_create(txn, NULL, "", 0), TP_MISUSE, "the path");
    expect(tp_file_create(txn, path, NULL, 1), TP_MISUSE, "NULL was given for the contents of 1 bytes");
    expect(tp_file_create(scene->snapshot, path, "", 0), TP_MISUSE, "a snapshot was given");
    expect(tp_file_create(txn, within, "", 0), TP_FILE, "environment");
    expect(tp_file_create(txn, "", "", 0), TP_FILE, "");
    expect(tp_file_replace(txn, path, "", 0), TP_FILE, "there is no such file");
    expect(tp_file_replace(txn, NULL, "", 0), TP_MISUSE, "the path");
    expect(tp_file_remove(txn, path), TP_FILE, "there is no such file");
    expect(tp_file_remove(NULL, path), TP_MISUSE, "a transaction");
    expect(tp_file_rename(txn, path, other), TP_FILE, "there is no such file");
    expect(tp_file_rename(txn, path, NULL), TP_MISUSE, "the new path");
    expect(tp_file_rename(txn, NULL, other), TP_MISUSE, "the old path");
    expect(tp_file_read(txn, path, &contents), TP_NOTFOUND, "");
    expect(tp_file_read(scene->snapshot, path, &contents), TP_MISUSE, "a snapshot was given");
    fine(tp_file_create(txn, path, NULL, 0));
    expect(tp_file_create(txn, path, "", 0), TP_FILE, "it exists already");
    fine(tp_file_read(txn, path, NULL));
    fine(tp_file_read(txn, path, &contents));
    holds(contents.size == 0 && contents.data != NULL);
    expect(tp_detach(txn, &contents), TP_NOT_PASSED, "plain files");
    fine(tp_begin(scene->env, TP_DEFAULT, &txn));
    fine(tp_file_create(txn, path, "ours", 4));
    file = fopen(path, "w");
    if (file == NULL || fputs("theirs", file) < 0 || fclose(file) != 0)
        wrong += 1;
    expect(tp_commit(txn), TP_FILE, path);
    file = fopen(path, "r");
    holds(file != NULL && fgets(word, sizeof word, file) != NULL && strcmp(word, "theirs") == 0);
    if (file != NULL)
        fclose(file);
    expect(tp_env_waiting_files(scene->env, NULL), TP_MISUSE, "the buffer");
    expect(tp_env_waiting_files(NULL, &contents), TP_MISUSE, "NULL was given for an environment");
    fine(tp_env_waiting_files(scene->env, &contents));
    holds(contents.size == 0);
    fine(tp_env_forget_file(scene->env, path, &is_forgotten));
    holds(is_forgotten == 0);
    fine(tp_env_forget_file(scene->env, path, NULL));
    expect(tp_env_forget_file(scene->env, NULL, NULL), TP_MISUSE, "the path");
    tp_buffer_free(&contents);
}

struct mover {
    const char *here;
    const char *away;
    volatile int is_over;
};

/* Acts as another program: gives the directory another name and then the old name, again and again. */
static void *moves(void *argument)
{
    struct mover *mover = argument;
    while (!mover->is_over) {
        rename(mover->here, mover->away);
        usleep(200);
        rename(mover->away, mover->here);
        usleep(200);
    }
    return NULL;
}

/* Makes commits while another thread renames the directory of their files. If the file cannot be put in its place, the
 * code of the commit says whether the transaction is committed. */
static void files_that_wait(struct scene *scene)
{
    tp_txn *txn;
    tp_db *db;
    tp_buffer contents = TP_BUFFER;
    pthread_t thread;
    struct mover mover;
    char here[4200], away[4200], path[4300], key[16];
    int code = TP_OK, number;
    snprintf(here, sizeof here, "%s.here", scene->directory);
    snprintf(away, sizeof away, "%s.away", scene->directory);
    mover.here = here;
    mover.away = away;
    mover.is_over = 0;
    fine(tp_btree_open(scene->env, "waiting", &db));
    if (mkdir(here, 0755) != 0 || pthread_create(&thread, NULL, moves, &mover) != 0) {
        wrong += 1;
        return;
    }
    for (number = 0; number < 5000 && code != TP_FILES_WAITING; number++) {
        snprintf(path, sizeof path, "%s/%d", here, number);
        snprintf(key, sizeof key, "%d", number);
        fine(tp_begin(scene->env, TP_DEFAULT, &txn));
        fine(tp_put(db, txn, key, strlen(key), "made", 4));
        if (tp_file_create(txn, path, "ours", 4) != TP_OK) {
            fine(tp_abort(txn));
            continue;
        }
        code = tp_commit(txn);
        if (code == TP_FILES_WAITING)
            expect(code, TP_FILES_WAITING, here);
        fine(tp_begin(scene->env, TP_DEFAULT, &txn));
        expect(tp_get(db, txn, key, strlen(key), NULL), code == TP_OK || code == TP_FILES_WAITING ? TP_OK : TP_NOTFOUND, "");
        fine(tp_abort(txn));
    }
    mover.is_over = 1;
    pthread_join(thread, NULL);
    expect(code, TP_FILES_WAITING, "");
    holds(!tp_is_retryable(code));
    fine(tp_begin(scene->env, TP_DEFAULT, &txn));
    fine(tp_file_read(txn, path, &contents));
    holds(contents.data != NULL && strcmp(contents.data, "ours") == 0);
    fine(tp_abort(txn));
    fine(tp_db_close(db));
    tp_buffer_free(&contents);
}

/* The code that the function returns when the library calls it in a transaction of the library, for which C has no
 * handle. */
enum { OF_ITS_OWN = 43 };

struct kept {
    tp_index_keys *keys;
    struct scene *scene;
    int code;
};

/* Adds the value twice, and makes calls that must fail. Returns the code in its argument. */
static int function(const void *key, size_t key_size, const void *value, size_t value_size, tp_index_keys *keys, void *argument)
{
    struct kept *kept = argument;
    (void)key;
    (void)key_size;
    kept->keys = keys;
    expect(tp_index_add(keys, NULL, 3), TP_MISUSE, "NULL was given for a key of 3 bytes");
    expect(tp_index_add((tp_index_keys *)(void *)kept->scene->db, "", 0), TP_MISUSE, "and a database was given");
    if (kept->code != OF_ITS_OWN)
        expect(tp_put(kept->scene->db, kept->scene->txn, "k", 1, "", 0), TP_MISUSE, "another call of this program uses");
    fine(tp_index_add(keys, value, value_size));
    fine(tp_index_add(keys, value, value_size));
    return kept->code;
}

static void indices(struct scene *scene)
{
    static char much[3000];
    struct kept kept = {NULL, NULL, 0};
    tp_db *db;
    tp_index *index = NULL, *refused = NULL;
    tp_index_cursor *cursor;
    tp_txn *txn;
    tp_buffer findings = TP_BUFFER;
    uint64_t count = 7;
    kept.scene = scene;
    fine(tp_hash_open(scene->env, "people", &db));
    expect(tp_index_open(db, "by value", NULL, NULL, &index), TP_MISUSE, "the function");
    expect(tp_index_open(db, NULL, function, &kept, &index), TP_MISUSE, "the name");
    expect(tp_index_open(db, "by value", function, &kept, NULL), TP_MISUSE, "place of the index");
    expect(tp_index_open(NULL, "by value", function, &kept, &index), TP_MISUSE, "NULL was given for a database");
    expect(tp_index_open(db, "words", function, &kept, &index), TP_DATABASE, "not an index");
    holds(index == NULL);
    fine(tp_index_open(db, "by value", function, &kept, &index));
    txn = scene->txn;
    fine(tp_put(db, txn, "ada", 3, "countess", 8));
    expect(tp_index_add(kept.keys, "late", 4), TP_MISUSE, "the keys of an index was given that was ended or closed before");
    expect(tp_index_add(NULL, "", 0), TP_MISUSE, "NULL was given for the keys of an index");
    /* A refused put leaves the record unchanged, and returns the function's code. */
    kept.code = 42;
    expect(tp_put(db, txn, "ada", 3, "queen", 5), 42, "the function of the index `by value` refuses the record: it returned 42; nothing was changed");
    kept.code = TP_FULL;
    expect(tp_put_new(db, txn, "alan", 4, "logician", 8), TP_FULL, "refuses the record");
    kept.code = 0;
    expect(tp_put(db, txn, "long", 4, much, sizeof much), TP_LENGTH, "in the index `by value`");
    expect(tp_get(db, txn, "alan", 4, NULL), TP_NOTFOUND, "");
    fine(tp_get(db, txn, "ada", 3, &findings));
    holds(strcmp(findings.data, "countess") == 0);
    fine(tp_index_count(index, txn, "queen", 5, &count));
    holds(count == 0);
    fine(tp_index_count(index, txn, "countess", 8, &count));
    holds(count == 1);
    expect(tp_index_get(index, txn, "queen", 5, NULL, NULL), TP_NOTFOUND, "");
    expect(tp_index_get(index, scene->theirs, "queen", 5, NULL, NULL), TP_MISUSE, "different environment handles");
    expect(tp_index_count(index, txn, "queen", 5, NULL), TP_MISUSE, "place of the count");
    expect(tp_index_verify(index, txn, NULL), TP_MISUSE, "the buffer");
    fine(tp_index_verify(index, txn, &findings));
    holds(findings.size == 0);
    expect(tp_index_get(index, scene->snapshot, "countess", 8, NULL, NULL), TP_DATABASE, "made after the snapshot was taken");
    fine(tp_index_cursor_open(index, txn, NULL, &cursor));
    expect(tp_index_close(index), TP_IN_USE, "in use 1 times");
    expect(tp_index_cursor_seek(cursor, NULL, 2, NULL, NULL, NULL), TP_MISUSE, "a key of the index of 2 bytes");
    fine(tp_index_cursor_next(cursor, NULL, NULL, NULL));
    expect(tp_index_cursor_next(cursor, NULL, NULL, NULL), TP_NOTFOUND, "");
    fine(tp_index_cursor_close(cursor));
    expect(tp_index_cursor_next(cursor, NULL, NULL, NULL), TP_MISUSE, "ended or closed before");
    fine(tp_index_cursor_close(NULL));
    fine(tp_commit(txn));
    fine(tp_begin(scene->env, TP_DEFAULT, &scene->txn));
    /* If an index cannot be made because the function refuses a record, no index remains. */
    kept.code = OF_ITS_OWN;
    expect(tp_index_open(db, "refused", function, &kept, &refused), OF_ITS_OWN, "refuses the record");
    holds(refused == NULL);
    kept.code = 0;
    fine(tp_put(db, scene->txn, "kurt", 4, "logician", 8));
    /* An environment handle without the index's function may not write to the database. */
    fine(tp_db_close(db));
    fine(tp_hash_open(scene->other, "people", &db));
    fine(tp_abort(scene->txn));
    expect(tp_put(db, scene->theirs, "kurt", 4, "logician", 8), TP_DATABASE, "it has the index `by value`");
    fine(tp_db_close(db));
    fine(tp_abort(scene->theirs));
    fine(tp_begin(scene->other, TP_DEFAULT, &scene->theirs));
    fine(tp_begin(scene->env, TP_DEFAULT, &scene->txn));
    fine(tp_hash_open(scene->env, "people", &db));
    expect(tp_index_drop(db, "words"), TP_DATABASE, "not an index of");
    expect(tp_index_drop(db, NULL), TP_MISUSE, "the name");
    fine(tp_index_drop(db, "by value"));
    expect(tp_index_drop(db, "by value"), TP_NOTFOUND, "");
    fine(tp_index_close(index));
    expect(tp_index_close(index), TP_MISUSE, "ended or closed before");
    fine(tp_index_close(NULL));
    fine(tp_db_close(db));
    expect(tp_env_verify(scene->env, "nothing", &findings), TP_NO_DATABASE, "nothing");
    expect(tp_env_verify(scene->env, "words", NULL), TP_MISUSE, "the buffer");
    tp_buffer_free(&findings);
}

static int breaks_off(tp_pair *pair, void *argument)
{
    int *left = argument;
    pair->key = left;
    pair->key_size = sizeof *left;
    *left -= 1;
    return *left == 0 ? 42 : TP_OK;
}

static int brings_null(tp_pair *pair, void *argument)
{
    (void)argument;
    pair->key_size = 4;
    return TP_OK;
}

static void loads(struct scene *scene)
{
    tp_db *db;
    uint64_t count = 7;
    int left = 5;
    fine(tp_btree_open(scene->env, "bulk", &db));
    expect(tp_load(db, 2, 0, 0, breaks_off, NULL, &left, &count), TP_MISUSE, "0x2");
    holds(count == 0);
    expect(tp_load(db, 0, 0, 0, NULL, NULL, NULL, &count), TP_MISUSE, "the function");
    expect(tp_load(NULL, 0, 0, 0, breaks_off, NULL, &left, &count), TP_MISUSE, "NULL was given for a database");
    expect(tp_load(db, 0, 300, 0, breaks_off, NULL, &left, &count), TP_DATABASE, "between 10 and 100");
    left = 5;
    expect(tp_load(db, 0, 0, 0, breaks_off, NULL, &left, &count), 42, "the program's function returned 42, and nothing was loaded");
    expect(tp_load(db, 0, 0, 0, brings_null, NULL, NULL, NULL), TP_MISUSE, "NULL was given for a key of 4 bytes");
    expect(tp_load(scene->hash, 0, 0, 0, breaks_off, NULL, &left, NULL), TP_DATABASE, "Store them one by one");
    expect(tp_compact(scene->hash, 80, NULL, NULL, NULL, NULL), TP_DATABASE, "can be compacted");
    expect(tp_compact(db, 1000, NULL, NULL, NULL, NULL), TP_DATABASE, "between 10 and 100");
    fine(tp_compact(db, 80, NULL, NULL, &count, NULL));
    expect(tp_multi_compact((tp_multi *)(void *)db, 80, NULL, NULL, NULL, NULL), TP_MISUSE, "and a database was given");
    fine(tp_db_close(db));
}

static void passing(struct scene *scene)
{
    tp_txn *txn, *again = NULL;
    tp_buffer word = TP_BUFFER;
    uint64_t id, savepoint;
    fine(tp_begin(scene->env, TP_DEFAULT, &txn));
    fine(tp_txn_id(txn, &id));
    expect(tp_detach(txn, NULL), TP_MISUSE, "the buffer");
    expect(tp_detach(scene->snapshot, &word), TP_MISUSE, "a snapshot was given");
    expect(tp_abort_detached(scene->env, id), TP_NOT_PASSED, "waits to be taken over");
    expect(tp_attach(scene->env, NULL, &again), TP_MISUSE, "the word");
    expect(tp_attach(scene->env, "no word", &again), TP_NOT_PASSED, "is not the text of a detached transaction");
    fine(tp_put(scene->db, txn, "passed", 6, "on", 2));
    fine(tp_savepoint(txn, &savepoint));
    fine(tp_put(scene->db, txn, "part", 4, "kept", 4));
    fine(tp_detach(txn, &word));
    expect(tp_commit(txn), TP_MISUSE, "ended or closed before");
    expect(tp_attach(scene->env, word.data, NULL), TP_MISUSE, "place of the transaction");
    fine(tp_attach(scene->env, word.data, &txn));
    expect(tp_attach(scene->other, word.data, &again), TP_NOT_PASSED, "another session has taken it over");
    holds(again == NULL);
    expect(tp_savepoint_roll_back(txn, savepoint), TP_MISUSE, "has no savepoint");
    fine(tp_get(scene->db, txn, "part", 4, NULL));
    expect(tp_set_durability(txn, 9), TP_MISUSE, "9 is not a durability");
    expect(tp_set_durability(scene->snapshot, TP_SYNC), TP_MISUSE, "a snapshot was given");
    fine(tp_set_durability(txn, TP_RIO));
    expect(tp_commit(txn), TP_NOT_LASTING, "survives");
    fine(tp_begin(scene->env, TP_RELAXED, &txn));
    fine(tp_set_durability(txn, TP_RIO));
    fine(tp_set_durability(txn, TP_DEFAULT));
    fine(tp_commit(txn));
    tp_buffer_free(&word);
}

static void memory(struct scene *scene)
{
    tp_segment *segment = NULL, *same;
    tp_txn *txn;
    tp_buffer word = TP_BUFFER;
    void *at = NULL, *place = NULL;
    size_t size = 7;
    uint64_t savepoint;
    int elsewhere = 0;
    expect(tp_segment_open(scene->env, NULL, 64, &segment), TP_MISUSE, "the name");
    expect(tp_segment_open(scene->env, "a/b", 64, &segment), TP_SEGMENT, "a/b");
    expect(tp_segment_open(scene->env, "memory", 64, NULL), TP_MISUSE, "place of the segment");
    expect(tp_segment_open_at(scene->env, "x", 64, 128, &segment), TP_MISUSE, "0x80");
    expect(tp_segment_open_at(scene->env, NULL, 64, 0, &segment), TP_MISUSE, "the path");
    holds(segment == NULL);
    fine(tp_segment_open(scene->env, "memory", 64, &segment));
    fine(tp_segment_open(scene->env, "memory", 64, &same));
    fine(tp_segment_close(same));
    expect(tp_segment_survives(segment, NULL), TP_MISUSE, "place of the events that it survives");
    fine(tp_begin(scene->env, TP_DEFAULT, &txn));
    expect(tp_segment_set_range(segment, txn, &elsewhere, sizeof elsewhere), TP_MISUSE, "has not joined the segment");
    expect(tp_segment_malloc(segment, txn, 8, &place), TP_MISUSE, "has not joined the segment");
    expect(tp_segment_join(segment, txn, NULL, &size), TP_MISUSE, "place of the memory");
    expect(tp_segment_join(segment, scene->snapshot, &at, &size), TP_MISUSE, "a snapshot was given");
    expect(tp_segment_join(segment, scene->theirs, &at, &size), TP_MISUSE, "different environment handles");
    expect(tp_segment_join(NULL, txn, &at, &size), TP_MISUSE, "NULL was given for a segment of memory");
    holds(at == NULL && size == 0);
    fine(tp_segment_join(segment, txn, &at, &size));
    fine(tp_segment_join(segment, txn, &place, NULL));
    holds(at == place && at != NULL && size == 64);
    expect(tp_segment_close(segment), TP_IN_USE, "in use 1 times");
    expect(tp_segment_set_range(segment, txn, &elsewhere, sizeof elsewhere), TP_SEGMENT, "the 4 bytes at");
    expect(tp_segment_set_range(segment, txn, at, 65), TP_SEGMENT, "65 bytes");
    expect(tp_segment_set_range(segment, txn, NULL, 1), TP_SEGMENT, "the 1 bytes at");
    expect(tp_segment_free(segment, txn, &elsewhere), TP_SEGMENT, "no allocated memory begins");
    expect(tp_segment_malloc(segment, txn, 8, NULL), TP_MISUSE, "place of the memory");
    expect(tp_segment_malloc(segment, txn, (size_t)-1 >> 2, &place), TP_SEGMENT, "");
    holds(place == NULL);
    fine(tp_segment_set_range(segment, txn, at, 1));
    *(char *)at = 1;
    fine(tp_savepoint(txn, &savepoint));
    fine(tp_segment_set_range(segment, txn, at, 2));
    memset(at, 2, 2);
    fine(tp_segment_malloc(segment, txn, 8, &place));
    fine(tp_savepoint_roll_back(txn, savepoint));
    holds(((char *)at)[0] == 1 && ((char *)at)[1] == 0);
    expect(tp_segment_free(segment, txn, place), TP_SEGMENT, "no allocated memory begins");
    fine(tp_commit(txn));
    fine(tp_begin(scene->env, TP_DEFAULT, &txn));
    fine(tp_segment_join(segment, txn, &at, NULL));
    expect(tp_detach(txn, &word), TP_NOT_PASSED, "it has joined memory");
    expect(tp_abort(txn), TP_MISUSE, "ended or closed before");
    expect(tp_segment_join(segment, txn, &at, NULL), TP_MISUSE, "ended or closed before");
    fine(tp_segment_close(segment));
    expect(tp_segment_close(segment), TP_MISUSE, "ended or closed before");
    fine(tp_segment_close(NULL));
    tp_buffer_free(&word);
}

int main(int argc, char **argv)
{
    struct scene scene;
    if (argc != 2)
        return 2;
    memset(&scene, 0, sizeof scene);
    scene.directory = argv[1];
    fine(tp_env_open(argv[1], NULL, 0, &scene.env));
    fine(tp_env_open(argv[1], NULL, 0, &scene.other));
    fine(tp_btree_open(scene.env, "words", &scene.db));
    fine(tp_hash_open(scene.env, "hash", &scene.hash));
    fine(tp_begin(scene.env, TP_DEFAULT, &scene.txn));
    fine(tp_begin(scene.other, TP_DEFAULT, &scene.theirs));
    fine(tp_snapshot(scene.env, &scene.snapshot));
    ranges(&scene);
    orders(&scene);
    several(&scene);
    lists(&scene);
    whole_databases(&scene);
    plain_files(&scene);
    files_that_wait(&scene);
    indices(&scene);
    loads(&scene);
    passing(&scene);
    memory(&scene);
    fine(tp_abort(scene.txn));
    fine(tp_abort(scene.theirs));
    fine(tp_abort(scene.snapshot));
    fine(tp_db_close(scene.db));
    fine(tp_db_close(scene.hash));
    fine(tp_env_close(scene.other));
    fine(tp_env_close(scene.env));
    printf("%d wrong\n", wrong);
    return wrong == 0 ? 0 : 1;
}
