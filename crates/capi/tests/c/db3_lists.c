/*
 * Runs the cases of the test lists for db(3) of 4.4BSD (tests 1 to 13 and 20, and the list of the hash tests) and of
 * NetBSD and FreeBSD (named cases). Each function performs one test; its comment has the test's number and names. The
 * words and data are generated here. A model of the file, a sorted array, computes the expected answers.
 *
 * usage: db3_lists DIRECTORY MODE [SHARE [TEST]]
 *
 * MODE is plain; lock (DB_LOCK); txn (DB_TXN, each call is a transaction); or within (DB_TXN, in transactions of the caller with
 * hundreds of calls). SHARE divides the counts of the large tests, for valgrind. With TEST only that test is performed.
 *
 * Four cases differ from the lists:
 *   - NetBSD's btree_recursive_traversal removes pages of the tree through the library's internals, and then uses R_RNEXT and R_RPREV,
 *     which 4.4BSD does not have. Here the test loads and reads the same file, and checks that the two flags are refused.
 *   - In shared mode pages have 4096 bytes or more: a smaller psize or bsize is accepted and rounded up.
 *   - In shared mode a hash function of the program is accepted and not called (hash(3)), and a key has at most a quarter of a page
 *     (tp_btree_open(3)), so the test driver2 here expects an error for a longer key.
 *   - The data of one key are in the order of insertion; 4.4BSD promises no order. In a hash file, a deletion with R_CURSOR deletes the
 *     record at the cursor (docs/design/0018-db3.md).
 */
#include <db.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define LINES_MAX 20  /* failed checks that are printed */
#define CALLS_MAX 300 /* calls in a transaction of the caller */
#define TEXT_MAX 2048 /* bytes of a generated text */
#define WORD_MAX 32

static const char *directory, *mode, *running = "";
static int mode_flags, is_within, wrong, checks;
static unsigned share = 1;
static char variant[128];

static void check(int is_right, int line, const char *what)
{
    checks++;
    if (is_right)
        return;
    if (wrong++ < LINES_MAX)
        printf("%s: %s %s: line %d: %s (errno %d %s; %s)\n", mode, running, variant, line, what, errno, strerror(errno), tp_error());
}

#define CHECK(what) check((what), __LINE__, #what)
#define REFUSED(call, number) (errno = 0, CHECK((call) == RET_ERROR), CHECK(errno == (number)))

static void *memory(size_t size)
{
    void *block = calloc(1, size + 1);
    if (block == NULL)
        abort();
    return block;
}

/* Returns whether each call is a transaction that waits for the disk. The large tests are then smaller; mode within
 * runs them in full. */
static int is_slow(void)
{
    return strcmp(mode, "txn") == 0;
}

/* Returns the count of a large test in this mode and with this SHARE. */
static unsigned large(unsigned count)
{
    unsigned parts = is_slow() ? 40 * share : share;
    return count / parts < 40 ? 40 : count / parts;
}

/* Returns the step through a list of bucket sizes and fill factors: 4 for a short run, otherwise 1. */
static unsigned next_variant(void)
{
    return is_slow() || share > 3 ? 4 : 1;
}

/* The model. */

struct item {
    size_t key_size, size;
    unsigned char *key, *data;
    int is_seen;
};

struct file {
    DB *db;
    DBTYPE type;
    int has_duplicates;
    struct item **items; /* in the order of the keys, or by number */
    size_t count, room;
    unsigned calls;
    char path[4096];
};

static struct item *item(const DBT *key, const DBT *data)
{
    struct item *made = memory(sizeof *made);
    made->key_size = key == NULL ? 0 : key->size;
    made->size = data == NULL ? 0 : data->size;
    made->key = memory(made->key_size);
    made->data = memory(made->size);
    if (made->key_size > 0)
        memcpy(made->key, key->data, made->key_size);
    if (made->size > 0)
        memcpy(made->data, data->data, made->size);
    return made;
}

static void free_item(struct item *old)
{
    free(old->key);
    free(old->data);
    free(old);
}

static int compare(const DBT *key, const struct item *other)
{
    size_t common = key->size < other->key_size ? key->size : other->key_size;
    int order = common == 0 ? 0 : memcmp(key->data, other->key, common);
    return order != 0 ? order : (key->size > other->key_size) - (key->size < other->key_size);
}

/* Returns the first place whose key is not below this key. With is_after, returns the first place whose key is above
 * this key. */
static size_t place(const struct file *file, const DBT *key, int is_after)
{
    size_t low = 0, high = file->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = compare(key, file->items[middle]);
        if (order > 0 || (is_after && order == 0))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void model_insert(struct file *file, size_t at, struct item *made)
{
    if (file->count == file->room) {
        file->room = file->room == 0 ? 256 : 2 * file->room;
        file->items = realloc(file->items, file->room * sizeof *file->items);
        if (file->items == NULL)
            abort();
    }
    memmove(file->items + at + 1, file->items + at, (file->count - at) * sizeof *file->items);
    file->items[at] = made;
    file->count++;
}

static void model_remove(struct file *file, size_t at)
{
    free_item(file->items[at]);
    file->count--;
    memmove(file->items + at, file->items + at + 1, (file->count - at) * sizeof *file->items);
}

static recno_t number_of(const DBT *key)
{
    recno_t number = 0;
    memcpy(&number, key->data, sizeof number);
    return number;
}

/* Returns the item of a key, or NULL. */
static struct item *model_find(const struct file *file, const DBT *key)
{
    size_t at = file->type == DB_RECNO ? number_of(key) - 1 : place(file, key, 0);
    if (at >= file->count || (file->type != DB_RECNO && compare(key, file->items[at]) != 0))
        return NULL;
    return file->items[at];
}

static void model_put(struct file *file, const DBT *key, const DBT *data, unsigned flags)
{
    size_t at;
    if (file->type == DB_RECNO) {
        at = number_of(key) - 1;
        while (file->count < at)
            model_insert(file, file->count, item(NULL, NULL));
        if (flags != R_IBEFORE && at < file->count)
            model_remove(file, at);
        model_insert(file, at, item(NULL, data));
        return;
    }
    at = place(file, key, 1);
    if (!file->has_duplicates && model_find(file, key) != NULL)
        model_remove(file, --at);
    model_insert(file, at, item(key, data));
}

/* Files. */

static DBT dbt(const void *bytes, size_t size)
{
    DBT made;
    made.data = (void *)bytes;
    made.size = size;
    return made;
}

static int is_same(const DBT *found, const unsigned char *bytes, size_t size)
{
    return found->size == size && (size == 0 || memcmp(found->data, bytes, size) == 0);
}

/* Runs before each call of a large test. In mode within, begins a transaction if none runs, and commits after CALLS_MAX
 * calls. */
static void call(struct file *file)
{
    if (!is_within)
        return;
    if (file->calls == CALLS_MAX) {
        CHECK(txn_commit() == 0);
        file->calls = 0;
    }
    if (file->calls++ == 0)
        CHECK(txn_begin() == 0);
}

static void commit(struct file *file)
{
    if (file->calls > 0)
        CHECK(txn_commit() == 0);
    file->calls = 0;
}

static int open_again(struct file *file, int flags, const void *info)
{
    file->db = dbopen(file->path, flags | mode_flags, 0600, file->type, info);
    CHECK(file->db != NULL && file->db->type == file->type);
    return file->db != NULL;
}

/*
 * Opens a new file in its own directory. In shared mode the directory is an environment. psize matters only for a
 * process's first file in an environment, so each page size needs a new environment.
 */
static int open_new(struct file *file, DBTYPE type, const void *info)
{
    static int number;
    memset(file, 0, sizeof *file);
    file->type = type;
    number++;
    snprintf(file->path, sizeof file->path, "%s/%d", directory, number);
    if (mkdir(file->path, 0777) != 0)
        CHECK(errno == 0);
    snprintf(file->path, sizeof file->path, "%s/%d/file", directory, number);
    return open_again(file, O_RDWR | O_CREAT, info);
}

static void close_(struct file *file)
{
    commit(file);
    CHECK(file->db->close(file->db) == 0);
    file->db = NULL;
}

static void forget(struct file *file)
{
    while (file->count > 0)
        free_item(file->items[--file->count]);
    free(file->items);
    file->items = NULL;
    file->room = 0;
}

static void finish(struct file *file)
{
    close_(file);
    forget(file);
}

/* Each of put, get and del makes a call with the file, and does the same with the model. */

static void put(struct file *file, DBT key, DBT data, unsigned flags)
{
    call(file);
    CHECK(file->db->put(file->db, &key, &data, flags) == 0);
    model_put(file, &key, &data, flags);
}

static void get(struct file *file, DBT key)
{
    DBT data;
    const struct item *expected = model_find(file, &key);
    int code;
    call(file);
    code = file->db->get(file->db, &key, &data, 0);
    if (expected == NULL)
        CHECK(code == RET_SPECIAL);
    else
        CHECK(code == 0 && is_same(&data, expected->data, expected->size));
}

static void del(struct file *file, DBT key)
{
    const struct item *expected = model_find(file, &key);
    int code;
    call(file);
    code = file->db->del(file->db, &key, 0);
    CHECK(code == (expected == NULL ? RET_SPECIAL : 0));
    while (file->type != DB_RECNO && model_find(file, &key) != NULL)
        model_remove(file, place(file, &key, 0));
}

/* Moves the cursor. The expected item of the model is at this place; if the model has no such place, the step must find
 * no record. */
static void step(struct file *file, unsigned flags, DBT key, size_t at)
{
    DBT data;
    int code;
    call(file);
    code = file->db->seq(file->db, &key, &data, flags);
    if (at >= file->count) {
        CHECK(code == RET_SPECIAL);
        return;
    }
    CHECK(code == 0 && is_same(&data, file->items[at]->data, file->items[at]->size));
    if (code != 0)
        return;
    if (file->type == DB_RECNO)
        CHECK(key.size == sizeof(recno_t) && number_of(&key) == at + 1);
    else
        CHECK(is_same(&key, file->items[at]->key, file->items[at]->key_size));
}

/* Visits all records: in a hash file each once, and in other files in order. */
static void walk(struct file *file, int is_backward)
{
    DBT key = dbt(NULL, 0), data;
    size_t at;
    unsigned how = R_FIRST;
    if (file->type != DB_HASH) {
        for (at = 0; at < file->count; at++) {
            how = is_backward ? (at == 0 ? R_LAST : R_PREV) : (at == 0 ? R_FIRST : R_NEXT);
            step(file, how, key, is_backward ? file->count - 1 - at : at);
        }
        step(file, at == 0 ? R_FIRST : is_backward ? R_PREV : R_NEXT, key, file->count);
        return;
    }
    for (at = 0; at < file->count; at++)
        file->items[at]->is_seen = 0;
    for (at = 0;; at++, how = R_NEXT) {
        struct item *expected;
        int code;
        call(file);
        code = file->db->seq(file->db, &key, &data, how);
        CHECK(code == (at < file->count ? 0 : RET_SPECIAL));
        if (code != 0)
            return;
        expected = model_find(file, &key);
        CHECK(expected != NULL && !expected->is_seen && is_same(&data, expected->data, expected->size));
        if (expected != NULL)
            expected->is_seen = 1;
    }
}

/* Words and data. */

/* Makes the word with a number below 216000. Different numbers give different words, and the words are in the order of
 * the numbers. */
static DBT word(char *to, unsigned number)
{
    static const char *const endings[] = {"", "s", "ed", "ing", "able", "ation", "iveness", "ologically"};
    unsigned part;
    for (part = 3600; part > 0; part /= 60) {
        *to++ = "bdfgklmnprst"[number / part % 60 / 5];
        *to++ = "aeiou"[number / part % 5];
    }
    strcpy(to, endings[number * 7 % 8]);
    to -= 6;
    return dbt(to, strlen(to));
}

static DBT reversed(char *to, unsigned number)
{
    DBT found = word(to, number);
    size_t at;
    for (at = 0; at < found.size / 2; at++) {
        char kept = to[at];
        to[at] = to[found.size - 1 - at];
        to[found.size - 1 - at] = kept;
    }
    return found;
}

/* Makes a text of at least this length without a newline, which begins with the text begin. */
static DBT text(const char *begin, size_t size)
{
    static char bytes[TEXT_MAX * 5];
    size_t at, begun = strlen(begin);
    if (size < begun)
        size = begun;
    memcpy(bytes, begin, begun);
    for (at = begun; at < size; at++)
        bytes[at] = "seven words of seven letters, "[at % 30];
    return dbt(bytes, size);
}

/* Makes the line with this number, for a test of records. */
static DBT line(unsigned number, size_t filled)
{
    char begin[64];
    int begun = snprintf(begin, sizeof begin, "%05u: record %u: ", number, number);
    return text(begin, (size_t)begun + filled);
}

static DBT numbered(recno_t *number, unsigned value)
{
    *number = value;
    return dbt(number, sizeof *number);
}

static DBT name(char *to, const char *format, unsigned number)
{
    sprintf(to, format, number);
    return dbt(to, strlen(to));
}

/* Makes a key for a file of any type: a record number, or a word. */
static DBT key_of(const struct file *file, char *to, recno_t *number, unsigned value)
{
    return file->type == DB_RECNO ? numbered(number, value + 1) : word(to, value);
}

static const char *type_name(DBTYPE type)
{
    return type == DB_BTREE ? "btree" : type == DB_HASH ? "hash" : "recno";
}

static void as(DBTYPE type, const char *what, unsigned number, unsigned other)
{
    snprintf(variant, sizeof variant, "(%s %s %u %u)", type_name(type), what, number, other);
}

static const void *tree_info(unsigned psize, int lorder, unsigned long flags)
{
    static BTREEINFO info;
    memset(&info, 0, sizeof info);
    info.psize = psize;
    info.lorder = lorder;
    info.flags = flags;
    return &info;
}

static const void *hash_info(unsigned bsize, unsigned ffactor, unsigned nelem, int lorder)
{
    static HASHINFO info;
    memset(&info, 0, sizeof info);
    info.bsize = bsize;
    info.ffactor = ffactor;
    info.nelem = nelem;
    info.cachesize = 65536;
    info.lorder = lorder;
    return &info;
}

/* Puts 200 pairs, and gets each pair directly after its put. */
static void small_pairs(DBTYPE type, int is_medium)
{
    struct file file;
    char to[WORD_MAX], value[WORD_MAX];
    recno_t number;
    unsigned at;
    as(type, "", 0, 0);
    if (!open_new(&file, type, NULL))
        return;
    for (at = 0; at < 200; at++) {
        put(&file, key_of(&file, to, &number, at), is_medium ? text("", 52) : word(value, at), 0);
        get(&file, key_of(&file, to, &number, at));
    }
    walk(&file, 0);
    finish(&file);
}

/* 4.4BSD test 1; NetBSD small_btree, small_hash, small_recno: small keys, small data. */
static void test_1(void)
{
    small_pairs(DB_BTREE, 0);
    small_pairs(DB_HASH, 0);
    small_pairs(DB_RECNO, 0);
}

/* 4.4BSD test 2; NetBSD medium_btree, medium_hash, medium_recno: small keys, data of 52 bytes. */
static void test_2(void)
{
    small_pairs(DB_HASH, 1);
    small_pairs(DB_BTREE, 1);
    small_pairs(DB_RECNO, 1);
}

/* Makes data for test 3: any bytes, as in the program files that 4.4BSD's test uses. */
static DBT program(unsigned char *bytes, unsigned which)
{
    static const size_t sizes[] = {0, 1, 340000, 5, 4096, 511, 512, 513, 16384, 65535, 65536, 65537, 9999, 140001};
    size_t at, size = which < sizeof sizes / sizeof *sizes ? sizes[which] : which * 7919 % 40000;
    unsigned state = which;
    for (at = 0; at < size; at++) {
        state = state * 1664525 + 1013904223;
        bytes[at] = (unsigned char)(state >> 24);
    }
    return dbt(bytes, size);
}

static void big_data(DBTYPE type, const void *info, unsigned psize)
{
    static unsigned char bytes[340000];
    struct file file;
    char to[WORD_MAX];
    recno_t number;
    unsigned at, count = 60 / share < 14 ? 14 : 60 / share;
    as(type, "psize", psize, 0);
    if (!open_new(&file, type, info))
        return;
    for (at = 0; at < count; at++) {
        put(&file, key_of(&file, to, &number, at), program(bytes, at), 0);
        get(&file, key_of(&file, to, &number, at));
    }
    walk(&file, 0);
    finish(&file);
}

/* 4.4BSD test 3; NetBSD big_btree, big_hash, big_recno: small keys, big data, three page sizes. */
static void test_3(void)
{
    static const unsigned sizes[] = {512, 16384, 65536};
    RECNOINFO info;
    unsigned at;
    big_data(DB_HASH, NULL, 0);
    for (at = 0; at < 3; at++) {
        big_data(DB_BTREE, tree_info(sizes[at], 0, 0), sizes[at]);
        memset(&info, 0, sizeof info);
        info.psize = sizes[at];
        big_data(DB_RECNO, &info, sizes[at]);
    }
}

/* Puts or gets count records: from, from + step_, and so on. */
static void records(struct file *file, int is_put, unsigned from, unsigned step_, unsigned count, unsigned lengths)
{
    recno_t number;
    for (; count > 0; count--, from += step_) {
        if (is_put)
            put(file, numbered(&number, from), line(from, from % lengths == 0 ? 55 : from % lengths), 0);
        else
            get(file, numbered(&number, from));
    }
}

/* 4.4BSD test 4; NetBSD random_recno: records with scattered numbers; the records in between are empty. */
static void test_4(void)
{
    struct file file;
    recno_t number;
    int is_put;
    unsigned far = 19234 / share;
    if (!open_new(&file, DB_RECNO, NULL))
        return;
    for (is_put = 1; is_put >= 0; is_put--) {
        records(&file, is_put, 37, 17, 89, 41);
        records(&file, is_put, 1, 1, 15, 41);
        records(&file, is_put, far, 27, 62, 41);
    }
    records(&file, 0, 16, 1, 21, 41);
    get(&file, numbered(&number, far - 1));
    get(&file, numbered(&number, far + 61 * 27 + 1));
    finish(&file);
}

/* 4.4BSD test 5; NetBSD reverse_recno: records from the last to the first. */
static void test_5(void)
{
    struct file file;
    unsigned count = large(1500);
    if (!open_new(&file, DB_RECNO, NULL))
        return;
    records(&file, 1, count, -1u, count, 34);
    records(&file, 0, count, -1u, count, 34);
    walk(&file, 0);
    finish(&file);
}

/* 4.4BSD test 6; NetBSD alternate_recno: the odd records, then the even ones. */
static void test_6(void)
{
    struct file file;
    unsigned half = large(1200) / 2;
    if (!open_new(&file, DB_RECNO, NULL))
        return;
    records(&file, 1, 1, 2, half, 34);
    records(&file, 1, 2, 2, half - 1, 34);
    records(&file, 0, 1, 1, 2 * half - 1, 34);
    walk(&file, 1);
    finish(&file);
}

/* Deletes the record at the cursor. In the model the record is at this place. */
static void del_here(struct file *file, size_t at)
{
    DBT key = dbt(NULL, 0);
    call(file);
    CHECK(file->db->del(file->db, &key, R_CURSOR) == 0);
    model_remove(file, at);
}

static void delete_at_cursor(DBTYPE type)
{
    struct file file;
    char to[WORD_MAX];
    recno_t number;
    unsigned at;
    DBT last = type == DB_RECNO ? numbered(&number, 120) : dbt("99", 2);
    DBT nothing = dbt(NULL, 0);
    as(type, "", 0, 0);
    if (!open_new(&file, type, NULL))
        return;
    for (at = 1; at <= 120; at++) {
        recno_t own;
        put(&file, type == DB_RECNO ? numbered(&own, at) : name(to, "%u", at), line(at, 55), 0);
    }
    for (at = 0; at < 120; at++)
        step(&file, R_NEXT, nothing, at);
    step(&file, R_CURSOR, last, 119);
    del_here(&file, 119);
    step(&file, R_NEXT, nothing, 119);
    step(&file, R_CURSOR, type == DB_RECNO ? numbered(&number, 1) : dbt("1", 1), 0);
    del_here(&file, 0);
    step(&file, R_FIRST, nothing, 0);
    walk(&file, 0);
    finish(&file);
}

/* 4.4BSD test 7; NetBSD delete_btree, delete_recno: deletes the last and the first record at the cursor. */
static void test_7(void)
{
    delete_at_cursor(DB_BTREE);
    delete_at_cursor(DB_RECNO);
}

/* Syncs the file, and returns its size on the disk. */
static long size_of(struct file *file)
{
    struct stat there;
    commit(file);
    CHECK(file->db->sync(file->db, 0) == 0);
    CHECK(fstat(file->db->fd(file->db), &there) == 0);
    return (long)there.st_size;
}

static void repeated(DBTYPE type)
{
    static unsigned char bytes[340000];
    struct file file;
    long early = 0;
    unsigned round;
    DBT one = dbt("key1", 4), two = dbt("key2", 4);
    as(type, "", 0, 0);
    if (!open_new(&file, type, NULL))
        return;
    for (round = 1; round <= 40; round++) {
        put(&file, one, program(bytes, 13), 0);
        put(&file, two, program(bytes, 2), 0);
        if (round % 8 == 0) {
            get(&file, two);
            get(&file, one);
        }
        if (round == 10)
            early = size_of(&file);
        else if (round % 10 == 0)
            CHECK(size_of(&file) <= 2 * early);
        del(&file, one);
        del(&file, two);
    }
    walk(&file, 0);
    finish(&file);
}

/*
 * 4.4BSD test 8; NetBSD repeated_btree, repeated_hash: big data of two keys is put and deleted in ten rounds. Thirty
 * further rounds check that the file reuses its pages: after each sync the file has at most twice the bytes that it had
 * after the first sync. (A plain file may have twice the bytes that its pairs need.)
 */
static void test_8(void)
{
    repeated(DB_BTREE);
    repeated(DB_HASH);
}

/* 4.4BSD test 9; NetBSD duplicate_btree: one key with 271 data, and 272 other keys. */
static void test_9(void)
{
    struct file file;
    char to[WORD_MAX];
    unsigned at;
    if (!open_new(&file, DB_BTREE, tree_info(0, 0, R_DUP)))
        return;
    file.has_duplicates = 1;
    for (at = 1; at <= 543; at++)
        put(&file, at % 2 == 0 ? dbt("twice", 5) : name(to, "once %u", at), line(at, 55), 0);
    walk(&file, 0);
    walk(&file, 1);
    get(&file, dbt("twice", 5));
    finish(&file);
}

static void cursor_flags(DBTYPE type, int is_put)
{
    struct file file;
    char to[WORD_MAX];
    recno_t number;
    unsigned at;
    DBT key, data = dbt("some data", 9);
    as(type, "put", (unsigned)is_put, 0);
    if (!open_new(&file, type, NULL))
        return;
    for (at = 0; at < 10; at++)
        put(&file, key_of(&file, to, &number, at), line(at, 55), 0);
    key = key_of(&file, to, &number, 0);
    call(&file);
    if (is_put)
        REFUSED(file.db->put(file.db, &key, &data, R_CURSOR), EINVAL);
    else
        REFUSED(file.db->del(file.db, &key, R_CURSOR), EINVAL);
    walk(&file, 0);
    finish(&file);
}

/* 4.4BSD test 10; NetBSD cursor_flags_btree, cursor_flags_recno: R_CURSOR is refused if the cursor was never set. */
static void test_10(void)
{
    cursor_flags(DB_BTREE, 0);
    cursor_flags(DB_RECNO, 0);
    cursor_flags(DB_BTREE, 1);
    cursor_flags(DB_RECNO, 1);
}

/* 4.4BSD test 11; NetBSD reverse_order_recno: each record is inserted before the first. */
static void test_11(void)
{
    struct file file;
    recno_t number;
    unsigned at, count = large(779);
    if (!open_new(&file, DB_RECNO, NULL))
        return;
    for (at = 1; at <= count; at++)
        put(&file, numbered(&number, 1), line(at, 55), at == 1 ? 0 : R_IBEFORE);
    walk(&file, 1);
    finish(&file);
}

/* 4.4BSD test 12; NetBSD small_page_btree: 20000 words with their letters in reverse order, on small pages. */
static void test_12(void)
{
    struct file file;
    char to[WORD_MAX];
    unsigned at, count = large(20000);
    if (!open_new(&file, DB_BTREE, tree_info(512, 0, 0)))
        return;
    for (at = 0; at < count; at++) {
        put(&file, reversed(to, at), text("", 25), 0);
        get(&file, reversed(to, at));
    }
    walk(&file, 0);
    finish(&file);
}

/* 4.4BSD test 13; NetBSD byte_orders_btree, byte_orders_hash: the file is closed, and opened again with its byte order. */
static void test_13(void)
{
    static const int orders[] = {1234, 4321};
    struct file file;
    char to[WORD_MAX], value[WORD_MAX];
    unsigned at, turn;
    for (turn = 0; turn < 4; turn++) {
        DBTYPE type = turn % 2 == 0 ? DB_BTREE : DB_HASH;
        int order = orders[turn / 2];
        const void *info = type == DB_BTREE ? tree_info(0, order, 0) : hash_info(0, 0, 0, order);
        as(type, "lorder", (unsigned)order, 0);
        if (!open_new(&file, type, info))
            continue;
        for (at = 0; at < 50; at++) {
            put(&file, word(to, at), word(value, at), 0);
            get(&file, word(to, at));
        }
        close_(&file);
        if (!open_again(&file, O_RDWR | O_CREAT, info))
            continue;
        for (at = 0; at < 50; at++)
            get(&file, word(to, at));
        walk(&file, 0);
        finish(&file);
    }
}

struct sizes {
    unsigned bsize, ffactors[3];
};

/* NetBSD added the last three sizes. */
static const struct sizes buckets[] = {
    {256, {11, 14, 21}},      {512, {21, 28, 43}},       {1024, {43, 57, 85}},      {2048, {85, 114, 171}},   {4096, {171, 228, 341}},
    {8192, {341, 455, 683}},  {16384, {341, 455, 683}},  {32768, {341, 455, 683}},  {65536, {341, 455, 683}},
};

/* 4.4BSD test 20; NetBSD bsize_ffactor: 10000 words with data of 1 to 55 bytes, for each bucket size and fill factor. */
static void test_20(void)
{
    struct file file;
    char to[WORD_MAX];
    unsigned at, turn, count = large(10000);
    for (turn = 0; turn < 3 * (sizeof buckets / sizeof *buckets); turn += next_variant()) {
        unsigned bsize = buckets[turn / 3].bsize, ffactor = buckets[turn / 3].ffactors[turn % 3];
        as(DB_HASH, "bsize, ffactor", bsize, ffactor);
        if (!open_new(&file, DB_HASH, hash_info(bsize, ffactor, 25000, 0)))
            continue;
        for (at = 1; at <= count; at++)
            put(&file, word(to, at), text("", at % 34 == 0 ? 55 : at % 34), 0);
        for (at = 1; at <= count; at++)
            get(&file, word(to, at));
        finish(&file);
    }
}

/* NetBSD four_char_hash: one pair is put and deleted, with buckets of 32768 bytes (FreeBSD) and 65536 bytes. */
static void four_char_hash(void)
{
    struct file file;
    unsigned bsize;
    for (bsize = 32768; bsize <= 65536; bsize *= 2) {
        as(DB_HASH, "bsize", bsize, 0);
        if (!open_new(&file, DB_HASH, hash_info(bsize, 0, 0, 0)))
            continue;
        put(&file, dbt("1234", 4), dbt("1234", 4), 0);
        del(&file, dbt("1234", 4));
        get(&file, dbt("1234", 4));
        walk(&file, 0);
        finish(&file);
    }
}

/* Makes one of 65536 keys of 1 to 256 equal bytes. The factor is odd, so different numbers give different keys. */
static DBT torture_key(unsigned char *to, unsigned number)
{
    unsigned mixed = (number * 40503u + 12345u) & 0xffff;
    memset(to, (int)(mixed >> 8), (mixed & 0xff) + 1);
    return dbt(to, (mixed & 0xff) + 1);
}

/*
 * NetBSD bsize_torture: 1000 keys and data of 1 to 256 bytes are put, found, deleted, and then not found, in buckets of
 * each size. The plain file is in memory, as in NetBSD's test.
 */
static void bsize_torture(void)
{
    struct file file;
    unsigned char to[256];
    unsigned at, bsize, count = large(1000);
    for (bsize = 2048; bsize <= 65536; bsize *= 2) {
        const void *info = hash_info(bsize, 128, 65536, 0);
        as(DB_HASH, "bsize", bsize, 0);
        if (!open_new(&file, DB_HASH, info))
            continue;
        if (mode_flags == 0) {
            CHECK(file.db->close(file.db) == 0);
            file.db = dbopen(NULL, O_RDWR | O_CREAT | O_TRUNC, 0, DB_HASH, info);
            CHECK(file.db != NULL);
            if (file.db == NULL)
                continue;
        }
        for (at = 0; at < count; at++)
            put(&file, torture_key(to, at), text("", at * 149 % 256 + 1), R_NOOVERWRITE);
        for (at = 0; at < count; at++)
            get(&file, torture_key(to, at));
        for (at = 0; at < count; at++)
            del(&file, torture_key(to, at));
        for (at = 0; at < count; at++)
            get(&file, torture_key(to, at));
        walk(&file, 0);
        finish(&file);
    }
}

/*
 * NetBSD btree_weird_page_split: eight pairs of about half a page, in descending order, for each length near half a
 * page. O_TRUNC empties the file for each length. In shared mode a second handle of the file keeps the environment open
 * for all lengths, because opening an environment takes long.
 */
static void weird_page_split(void)
{
    struct file file;
    char to[WORD_MAX];
    unsigned psize, size, number;
    for (psize = 512; psize <= 8192; psize *= 2) {
        const void *info = tree_info(psize, 0, 0);
        DB *first;
        if (!open_new(&file, DB_BTREE, info))
            continue;
        first = file.db;
        for (size = psize / 2 - 40; size <= psize / 2; size += share) {
            as(DB_BTREE, "psize, size", psize, size);
            if (!open_again(&file, O_RDWR | O_CREAT | O_TRUNC, info))
                break;
            for (number = 8; number-- > 0;) {
                name(to, "a%03u", number);
                put(&file, dbt(to, 4), text(to, size - 6), 0);
            }
            walk(&file, 0);
            finish(&file);
        }
        CHECK(first->close(first) == 0);
    }
}

static void put_sized(struct file *file, char letter, unsigned number, size_t size)
{
    char to[WORD_MAX];
    sprintf(to, "%c%03u", letter, number);
    put(file, dbt(to, 4), text(to, 4 + size), 0);
}

/* NetBSD btree_tricky_page_split: a page that is not the leftmost is split at its first slot. Runs lengths near the
 * critical length. */
static void tricky_page_split(void)
{
    struct file file;
    size_t size, at;
    unsigned turn, distance;
    char letter;
    for (distance = 0; distance < (mode_flags == 0 ? 21 : 5); distance += share) {
        size = distance % 2 == 0 ? 2014 + distance / 2 : 2014 - (distance + 1) / 2;
        as(DB_BTREE, "size", (unsigned)size, 0);
        if (!open_new(&file, DB_BTREE, tree_info(4096, 0, 0)))
            continue;
        put_sized(&file, 'z', 999, 1024);
        put_sized(&file, 'z', 998, 1024);
        put_sized(&file, 'y', 999, 1024);
        put_sized(&file, 'y', 990, 1024);
        for (turn = 0; turn < 2; turn++) {
            for (letter = 'd'; letter >= 'a'; letter--) {
                put_sized(&file, letter, turn == 0 ? 999 : 998, 1024);
                put_sized(&file, letter, 990, 1024);
            }
            if (turn == 0) {
                put_sized(&file, 'y', 998, 1024);
                del(&file, dbt("y990", 4));
            }
        }
        put_sized(&file, 'y', 997, size);
        commit(&file);
        CHECK(file.db->sync(file.db, 0) == 0);
        walk(&file, 0);
        for (at = 0; at < file.count; at++)
            get(&file, dbt(file.items[at]->key, file.items[at]->key_size));
        finish(&file);
    }
}

/* NetBSD btree_recursive_traversal, without the removal of pages. Its two flags, which 4.4BSD's db.h does not have, are
 * refused. */
static void recursive_traversal(void)
{
    struct file file;
    char to[WORD_MAX];
    unsigned at, count = large(20000);
    DBT key = dbt(NULL, 0), data;
    if (!open_new(&file, DB_BTREE, tree_info(512, 0, 0)))
        return;
    for (at = 0; at < count; at++) {
        name(to, "AA%05u", at);
        put(&file, dbt(to, 7), text(to + 2, 32), 0);
    }
    walk(&file, 0);
    for (at = 128; at <= 129; at++)
        REFUSED(file.db->seq(file.db, &key, &data, at), EINVAL);
    finish(&file);
}

/* Puts two pairs into a file of 512-byte pages, in each byte order, and finds them after the file was opened again. */
static void two_pairs(size_t key_size, size_t data_size)
{
    struct file file;
    char one[TEXT_MAX], other[TEXT_MAX];
    int order;
    memset(one, 'x', sizeof one);
    memset(other, 'x', sizeof other);
    memcpy(one, "foo1234", 7);
    memcpy(other, "bar1234", 7);
    for (order = 1234; order <= 4321; order += 4321 - 1234) {
        const void *info = tree_info(512, order, 0);
        as(DB_BTREE, "lorder", (unsigned)order, 0);
        if (!open_new(&file, DB_BTREE, info))
            continue;
        put(&file, dbt(one, key_size), dbt(one, data_size), 0);
        put(&file, dbt(other, key_size), dbt(other, data_size), 0);
        close_(&file);
        if (!open_again(&file, O_RDWR | O_CREAT, info))
            continue;
        get(&file, dbt(one, key_size));
        get(&file, dbt(other, key_size));
        walk(&file, 0);
        finish(&file);
    }
}

/* NetBSD btree_byteswap_unaligned_access_bksd (big keys), _skbd (big data), and btree_known_byte_order. */
static void byteswap(void)
{
    two_pairs(491, 1);
    two_pairs(7, 491);
}

/* NetBSD t_db_hash_seq, test_hash_seq6: while the cursor visits all records, five of six records are deleted at the
 * cursor. */
static void hash_seq6(void)
{
    struct file file;
    unsigned char bytes[300], seen[100];
    DBT key, data;
    unsigned at, found = 0, how = R_FIRST;
    const void *info = hash_info(4096, 32, 256, 0);
    memset(bytes, 0, sizeof bytes);
    memset(seen, 0, sizeof seen);
    if (!open_new(&file, DB_HASH, info))
        return;
    CHECK(file.db->close(file.db) == 0);
    if (!open_again(&file, O_RDWR | O_CREAT | O_TRUNC, info))
        return;
    for (at = 0; at < 100; at++) {
        bytes[132] = (unsigned char)at;
        put(&file, dbt(bytes, sizeof bytes), dbt(seen, 80), 0);
    }
    for (;; how = R_NEXT) {
        int code;
        call(&file);
        code = file.db->seq(file.db, &key, &data, how);
        if (code != 0) {
            CHECK(code == RET_SPECIAL && found == 100);
            break;
        }
        CHECK(key.size == sizeof bytes && ((unsigned char *)key.data)[132] < 100);
        at = ((unsigned char *)key.data)[132] % 100;
        CHECK(!seen[at]);
        found += !seen[at];
        seen[at] = 1;
        if (at % 6 != 0) {
            bytes[132] = (unsigned char)at;
            key = dbt(bytes, sizeof bytes);
            del_here(&file, place(&file, &key, 0));
        }
    }
    CHECK(file.count == 17);
    walk(&file, 0);
    finish(&file);
}

/* The programs of 4.4BSD's hash tests, one after the other: create, read, verify, walk, delete. */
static void page_fill(unsigned bsize, unsigned ffactor, unsigned nelem, unsigned count, int is_long)
{
    struct file file;
    char to[WORD_MAX], value[WORD_MAX];
    unsigned at, turn;
    as(DB_HASH, is_long ? "long, bsize, ffactor" : "bsize, ffactor", bsize, ffactor);
    if (!open_new(&file, DB_HASH, hash_info(bsize, ffactor, nelem, 0)))
        return;
    for (at = 0; at < count; at++)
        put(&file, word(to, at), is_long ? text("", at * 997 % 8000) : word(value, at), R_NOOVERWRITE);
    close_(&file);
    /* 4.4BSD's reading programs give other sizes than the file has. These sizes have no effect. */
    for (turn = 0; turn < 2; turn++) {
        if (!open_again(&file, O_RDONLY, turn == 0 ? hash_info(256, 8, nelem, 0) : hash_info(64, 1, nelem, 0)))
            return;
        for (at = 0; at < count; at++)
            get(&file, word(to, at));
        walk(&file, 0);
        close_(&file);
    }
    if (!open_again(&file, O_RDWR, NULL))
        return;
    for (at = 0; at < count; at++)
        del(&file, word(to, at));
    walk(&file, 0);
    finish(&file);
}

/* 4.4BSD's list of hash tests: the bucket sizes and fill factors of test 20 with words, and others with long data. */
static void hash_list(void)
{
    static const struct sizes longs[] = {{1024, {1, 2, 4}}, {2048, {1, 2, 4}}, {4096, {1, 2, 4}}, {8192, {2, 4, 8}}};
    unsigned turn;
    for (turn = 0; turn < 18; turn += next_variant())
        page_fill(buckets[turn / 3].bsize, buckets[turn / 3].ffactors[turn % 3], 25000, large(400), 0);
    for (turn = 0; turn < 12; turn += next_variant())
        page_fill(longs[turn / 3].bsize, longs[turn / 3].ffactors[turn % 3], 600, large(80), 1);
}

static uint32_t cruel_hash(const void *bytes, size_t size)
{
    (void)bytes;
    (void)size;
    return 17;
}

static void one_hash_value(unsigned bsize, size_t key_max)
{
    struct file file;
    char to[TEXT_MAX];
    unsigned at, turn, state = 17, count = large(500);
    HASHINFO info;
    memset(&info, 0, sizeof info);
    info.bsize = bsize;
    info.ffactor = 5;
    info.nelem = 1;
    info.hash = cruel_hash;
    as(DB_HASH, "bsize", bsize, 0);
    if (!open_new(&file, DB_HASH, &info))
        return;
    memset(to, 0, sizeof to);
    for (at = 1; at <= count; at++) {
        DBT key, data;
        state = state * 1103515245 + 12345;
        sprintf(to, "key %u", at);
        key = dbt(to, 128 + (state >> 10) % 1024);
        data = text(to, 128 + (state >> 20) % 1024);
        if (key.size <= key_max) {
            put(&file, key, data, R_NOOVERWRITE);
            continue;
        }
        call(&file);
        REFUSED(file.db->put(file.db, &key, &data, R_NOOVERWRITE), EINVAL);
        CHECK(strstr(tp_error(), "1024 bytes") != NULL);
    }
    for (turn = 0; turn < 2; turn++) {
        walk(&file, 0);
        close_(&file);
        if (turn == 0 && !open_again(&file, O_RDWR, &info))
            return;
    }
    forget(&file);
}

/*
 * 4.4BSD's list of hash tests, driver2: 500 pairs with one hash value, with keys and data of 128 to 1151 bytes, on
 * pages that are too small for one pair. In shared mode a key has at most a quarter of a page (tp_btree_open(3)): on
 * pages of 4096 bytes a key of more than 1024 bytes is refused, and on pages of 8192 bytes all keys are accepted.
 */
static void driver_2(void)
{
    one_hash_value(1024, mode_flags == 0 ? TEXT_MAX : 1024);
    one_hash_value(8192, TEXT_MAX);
}

struct test {
    const char *name;
    void (*run)(void);
};

static const struct test tests[] = {
    {"1", test_1},
    {"2", test_2},
    {"3", test_3},
    {"4", test_4},
    {"5", test_5},
    {"6", test_6},
    {"7", test_7},
    {"8", test_8},
    {"9", test_9},
    {"10", test_10},
    {"11", test_11},
    {"12", test_12},
    {"13", test_13},
    {"20", test_20},
    {"four_char_hash", four_char_hash},
    {"bsize_torture", bsize_torture},
    {"btree_weird_page_split", weird_page_split},
    {"btree_tricky_page_split", tricky_page_split},
    {"btree_recursive_traversal", recursive_traversal},
    {"btree_byteswap", byteswap},
    {"hash_seq6", hash_seq6},
    {"hash_list", hash_list},
    {"driver2", driver_2},
};

int main(int count, char **arguments)
{
    size_t at;
    if (count < 3 || count > 5)
        return 2;
    directory = arguments[1];
    mode = arguments[2];
    if (count > 3 && atoi(arguments[3]) > 0)
        share = (unsigned)atoi(arguments[3]);
    mkdir(directory, 0777);
    is_within = strcmp(mode, "within") == 0;
    if (strcmp(mode, "lock") == 0)
        mode_flags = DB_LOCK;
    else if (strcmp(mode, "txn") == 0 || is_within)
        mode_flags = (int)DB_TXN;
    else if (strcmp(mode, "plain") != 0)
        return 2;
    for (at = 0; at < sizeof tests / sizeof *tests; at++) {
        if (count == 5 && strcmp(arguments[4], tests[at].name) != 0)
            continue;
        running = tests[at].name;
        variant[0] = 0;
        tests[at].run();
    }
    printf("%d wrong\n", wrong);
    if (getenv("COUNT") != NULL)
        printf("%d checks\n", checks);
    return wrong != 0;
}
