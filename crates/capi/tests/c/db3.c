/*
 * Checks the statements of db(3)'s manual pages: dbopen(3), btree(3), hash(3), recno(3) of 4.4BSD. The checks run in plain mode, in
 * shared mode, and in transactions of the caller. Above each check is the statement that it checks.
 *
 * usage: db3 DIRECTORY MODE [PREFIX]
 *        MODE is plain, memory, lock, txn or within. The names of all files begin with PREFIX, so that several processes can run these
 *        checks in one directory.
 */
#include <db.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *directory, *mode, *prefix = "";
static int mode_flags, is_within, is_memory, wrong, checks;

static void check(int is_right, int line, const char *what)
{
    checks++;
    if (!is_right) {
        wrong++;
        printf("%s: line %d: %s (errno %d %s; %s)\n", mode, line, what, errno, strerror(errno), tp_error());
    }
}

#define CHECK(what) check((what), __LINE__, #what)
#define REFUSED(call, number) (errno = 0, CHECK((call) == RET_ERROR), CHECK(errno == (number)))

static DBT dbt(const char *text)
{
    DBT made;
    made.data = (void *)text;
    made.size = strlen(text);
    return made;
}

static int is(const DBT *found, const char *text)
{
    return found->size == strlen(text) && memcmp(found->data, text, found->size) == 0;
}

static int put(DB *db, const char *key, const char *data, unsigned flags)
{
    DBT k = dbt(key), d = dbt(data);
    return db->put(db, &k, &d, flags);
}

static int del(DB *db, const char *key, unsigned flags)
{
    DBT k = dbt(key);
    return db->del(db, &k, flags);
}

/* Returns whether a get finds this data. With NULL for the data, returns whether the key is missing. */
static int gets_(DB *db, const char *key, const char *data)
{
    DBT k = dbt(key), d;
    int code = db->get(db, &k, &d, 0);
    return data == NULL ? code == RET_SPECIAL : code == RET_SUCCESS && is(&d, data);
}

/* Returns whether a step leads to this pair. With NULL for the key, returns whether the step finds no pair. */
static int steps(DB *db, unsigned flags, const char *from, const char *key, const char *data)
{
    DBT k = dbt(from), d;
    int code = db->seq(db, &k, &d, flags);
    return key == NULL ? code == RET_SPECIAL : code == RET_SUCCESS && is(&k, key) && is(&d, data);
}

static const char *path_of(const char *name)
{
    static char path[4096];
    if (is_memory)
        return NULL;
    snprintf(path, sizeof path, "%s/%s%s", directory, prefix, name);
    return path;
}

static DB *open_(const char *name, int flags, DBTYPE type, const void *info)
{
    return dbopen(path_of(name), flags | mode_flags, 0640, type, info);
}

static void begin(void)
{
    if (is_within)
        CHECK(txn_begin() == 0);
}

static void commit(void)
{
    if (is_within)
        CHECK(txn_commit() == 0);
}

/* Closes the file and opens it again, if the mode has files. */
static DB *again(DB *db, const char *name, DBTYPE type, const void *info)
{
    if (is_memory)
        return db;
    CHECK(db->close(db) == 0);
    db = open_(name, O_RDWR, type, info);
    CHECK(db != NULL);
    return db;
}

static void opening(void)
{
    BTREEINFO tree;
    HASHINFO hash;
    RECNOINFO recno;
    DB *db;

    memset(&tree, 0, sizeof tree);
    memset(&hash, 0, sizeof hash);
    memset(&recno, 0, sizeof recno);
    /* "[EINVAL] A parameter has been specified (hash function, pad byte etc.) that is incompatible with the current file
     * specification or which is not meaningful for the function": */
    tree.lorder = 17;
    CHECK(open_("bad", O_RDWR | O_CREAT, DB_BTREE, &tree) == NULL && errno == EINVAL);
    tree.lorder = 0;
    tree.psize = 100;
    CHECK(open_("bad", O_RDWR | O_CREAT, DB_BTREE, &tree) == NULL && errno == EINVAL);
    tree.psize = 0;
    tree.minkeypage = 1;
    CHECK(open_("bad", O_RDWR | O_CREAT, DB_BTREE, &tree) == NULL && errno == EINVAL);
    tree.minkeypage = 0;
    tree.flags = 64;
    CHECK(open_("bad", O_RDWR | O_CREAT, DB_BTREE, &tree) == NULL && errno == EINVAL);
    hash.lorder = 17;
    CHECK(open_("bad", O_RDWR | O_CREAT, DB_HASH, &hash) == NULL && errno == EINVAL);
    recno.flags = R_FIXEDLEN;
    CHECK(open_("bad", O_RDWR | O_CREAT, DB_RECNO, &recno) == NULL && errno == EINVAL);
    CHECK(open_("bad", O_WRONLY | O_CREAT, DB_BTREE, NULL) == NULL && errno == EINVAL);
    CHECK(open_("bad", O_RDWR | O_APPEND, DB_BTREE, NULL) == NULL && errno == EINVAL);
    CHECK(open_("bad", O_RDWR | O_CREAT, (DBTYPE)7, NULL) == NULL && errno == EINVAL);
    /* "The order in which integers are stored in the metadata, 4321 or 1234": both are accepted. */
    tree.flags = 0;
    tree.lorder = 4321;
    tree.psize = 4096;
    tree.cachesize = 65536;
    tree.minkeypage = 4;
    db = open_("order", O_RDWR | O_CREAT, DB_BTREE, &tree);
    CHECK(db != NULL && db->type == DB_BTREE);
    if (db == NULL)
        return;
    CHECK(put(db, "a", "1", 0) == 0);
    db = again(db, "order", DB_BTREE, NULL);
    CHECK(gets_(db, "a", "1"));
    CHECK(db->close(db) == 0);
    if (is_memory)
        return;
    /* "as open(2)": */
    CHECK(open_("none", O_RDWR, DB_BTREE, NULL) == NULL && errno == ENOENT);
    CHECK(open_("nowhere/none", O_RDWR | O_CREAT, DB_BTREE, NULL) == NULL && errno == ENOENT);
    CHECK(open_("order", O_RDWR | O_CREAT | O_EXCL, DB_BTREE, NULL) == NULL && errno == EEXIST);
    /* "[EFTYPE] A file is incorrectly formatted" or of another type: */
    CHECK(open_("order", O_RDWR, DB_HASH, NULL) == NULL && errno == EFTYPE);
    /* O_RDONLY: */
    db = open_("order", O_RDONLY, DB_BTREE, NULL);
    CHECK(db != NULL);
    CHECK(gets_(db, "a", "1"));
    REFUSED(put(db, "b", "2", 0), EPERM);
    REFUSED(del(db, "a", 0), EPERM);
    CHECK(db->sync(db, 0) == 0);
    CHECK(db->close(db) == 0);
    /* O_TRUNC: */
    db = open_("order", O_RDWR | O_TRUNC, DB_BTREE, NULL);
    CHECK(db != NULL && steps(db, R_FIRST, "", NULL, NULL));
    CHECK(db->close(db) == 0);
    /* O_TRUNC replaces a file of another type by a new file, with the settings of this call: */
    db = open_("order", O_RDWR | O_TRUNC, DB_HASH, NULL);
    CHECK(db != NULL && db->type == DB_HASH && put(db, "b", "2", 0) == 0 && gets_(db, "b", "2") && db->close(db) == 0);
    CHECK(open_("order", O_RDWR, DB_BTREE, NULL) == NULL && errno == EFTYPE);
    tree.flags = R_DUP;
    tree.psize = 16384;
    db = open_("order", O_RDWR | O_TRUNC, DB_BTREE, &tree);
    CHECK(db != NULL && put(db, "a", "1", 0) == 0 && put(db, "a", "2", 0) == 0);
    CHECK(db != NULL && steps(db, R_FIRST, "", "a", "1") && steps(db, R_NEXT, "", "a", "2") && db->close(db) == 0);
}

static void pairs(DBTYPE type, const char *name)
{
    char key[32], data[32];
    DBT k, d;
    DB *db = open_(name, O_RDWR | O_CREAT, type, NULL);
    int n, descriptor;

    CHECK(db != NULL);
    if (db == NULL)
        return;
    begin();
    /* "get: ... If the key is not in the file 1": */
    CHECK(gets_(db, "one", NULL));
    CHECK(put(db, "one", "1", 0) == 0);
    CHECK(gets_(db, "one", "1"));
    /* "The default behavior of the put routine is to enter the new key/data pair, replacing any previously existing key": */
    CHECK(put(db, "one", "eins", 0) == 0);
    CHECK(gets_(db, "one", "eins"));
    /* "R_NOOVERWRITE: Enter the new key/data pair only if the key does not previously exist ... 1": */
    CHECK(put(db, "one", "uno", R_NOOVERWRITE) == RET_SPECIAL);
    CHECK(gets_(db, "one", "eins"));
    CHECK(put(db, "two", "", R_NOOVERWRITE) == 0);
    CHECK(gets_(db, "two", ""));
    /* "Del routines return ... 1 if the specified key was not in the file": */
    CHECK(del(db, "three", 0) == RET_SPECIAL);
    CHECK(del(db, "two", 0) == 0);
    CHECK(gets_(db, "two", NULL));
    /* A key may have any bytes. */
    k.data = (void *)"\0\xff\0";
    k.size = 3;
    d = dbt("zeros");
    CHECK(db->put(db, &k, &d, 0) == 0);
    CHECK(db->get(db, &k, &d, 0) == 0 && is(&d, "zeros"));
    CHECK(db->del(db, &k, 0) == 0);
    /* "[EINVAL] ... a flag that is not meaningful for the function": */
    REFUSED(db->get(db, &k, &d, R_NEXT), EINVAL);
    REFUSED(put(db, "x", "y", R_IAFTER), EINVAL);
    REFUSED(put(db, "x", "y", R_IBEFORE), EINVAL);
    REFUSED(put(db, "x", "y", 99), EINVAL);
    REFUSED(del(db, "x", R_NEXT), EINVAL);
    REFUSED(steps(db, 99, "", "", "") - 1, EINVAL);
    REFUSED(db->sync(db, R_RECNOSYNC), EINVAL);
    /* The cursor was never set. */
    REFUSED(del(db, "x", R_CURSOR), EINVAL);
    /* The data that a get returns stay valid until the next call, and may be an argument of that call. */
    k = dbt("one");
    CHECK(db->get(db, &k, &d, 0) == 0);
    CHECK(db->put(db, &d, &k, 0) == 0);
    CHECK(gets_(db, "eins", "one"));
    CHECK(del(db, "eins", 0) == 0 && del(db, "one", 0) == 0);
    for (n = 0; n < 300; n++) {
        sprintf(key, "key %03d", n);
        sprintf(data, "%d", n * n);
        CHECK(put(db, key, data, 0) == 0);
    }
    commit();
    CHECK(db->sync(db, 0) == 0);
    db = again(db, name, type, NULL);
    begin();
    /* R_FIRST and then R_NEXT visit each pair once. With DB_BTREE they visit the pairs in the order of the keys. */
    {
        char seen[300] = {0};
        int last = -1, is_sorted = 1, found = 0;
        int code;
        unsigned how = R_FIRST;
        memset(&k, 0, sizeof k);
        while ((code = db->seq(db, &k, &d, how)) == 0) {
            n = -1;
            memcpy(key, k.data, k.size < 31 ? k.size : 31);
            key[k.size < 31 ? k.size : 31] = 0;
            if (sscanf(key, "key %d", &n) == 1 && n >= 0 && n < 300 && !seen[n])
                seen[n] = 1, found++;
            is_sorted &= n > last;
            last = n;
            how = R_NEXT;
        }
        CHECK(code == RET_SPECIAL && found == 300);
        CHECK(is_sorted || type == DB_HASH);
    }
    /* "R_CURSOR (del): Delete the record referenced by the cursor": the loop deletes every second record. */
    {
        int kept = 0, deleted = 0;
        unsigned how = R_FIRST;
        while (db->seq(db, &k, &d, how) == 0) {
            how = R_NEXT;
            if ((kept + deleted) % 2 == 0) {
                CHECK(db->del(db, &k, R_CURSOR) == 0);
                /* After that, a second deletion at the cursor finds no pair. */
                if (deleted == 0)
                    CHECK(del(db, "", R_CURSOR) == RET_SPECIAL);
                deleted++;
            } else
                kept++;
        }
        CHECK(kept == 150 && deleted == 150);
    }
    if (type == DB_HASH) {
        /* "R_LAST, R_PREV: applicable only to the DB_BTREE and DB_RECNO access methods". The manual allows R_CURSOR,
         * but in a hash file there is no next greater key, and db 1.85 refused R_CURSOR, too. */
        REFUSED(db->seq(db, &k, &d, R_LAST), EINVAL);
        REFUSED(db->seq(db, &k, &d, R_PREV), EINVAL);
        k = dbt("one");
        REFUSED(db->seq(db, &k, &d, R_CURSOR), EINVAL);
        REFUSED(put(db, "x", "y", R_CURSOR), EINVAL);
        REFUSED(put(db, "x", "y", R_SETCURSOR), EINVAL);
    }
    commit();
    /* "fd: a file descriptor representative of the underlying database ... -1, ENOENT if in memory": */
    descriptor = db->fd(db);
    if (is_memory)
        CHECK(descriptor == -1 && errno == ENOENT);
    else {
        struct stat there;
        CHECK(fstat(descriptor, &there) == 0 && S_ISREG(there.st_mode));
        if (mode_flags == 0)
            CHECK((there.st_mode & 0777) == 0640);
    }
    CHECK(db->close(db) == 0);
}

static void order_of_keys(void)
{
    DB *db = open_("cursor", O_RDWR | O_CREAT, DB_BTREE, NULL);
    CHECK(db != NULL);
    if (db == NULL)
        return;
    begin();
    CHECK(steps(db, R_FIRST, "", NULL, NULL) && steps(db, R_LAST, "", NULL, NULL));
    CHECK(steps(db, R_NEXT, "", NULL, NULL) && steps(db, R_PREV, "", NULL, NULL));
    CHECK(put(db, "b", "2", 0) == 0 && put(db, "d", "4", 0) == 0 && put(db, "f", "6", 0) == 0);
    /* "R_NEXT: ... If the cursor is not yet set, this is the same as the R_FIRST flag"; and R_PREV is the same as
     * R_LAST: */
    CHECK(steps(db, R_NEXT, "", "b", "2"));
    CHECK(steps(db, R_NEXT, "", "d", "4"));
    CHECK(steps(db, R_PREV, "", "b", "2"));
    CHECK(steps(db, R_PREV, "", NULL, NULL));
    CHECK(steps(db, R_LAST, "", "f", "6"));
    CHECK(steps(db, R_NEXT, "", NULL, NULL));
    CHECK(steps(db, R_FIRST, "", "b", "2"));
    /* "R_CURSOR: The data associated with the specified key is returned ... for the DB_BTREE ... the smallest key greater than
     * or equal to the specified key, permitting partial key matches and range searches": */
    CHECK(steps(db, R_CURSOR, "c", "d", "4"));
    CHECK(steps(db, R_NEXT, "", "f", "6"));
    CHECK(steps(db, R_CURSOR, "g", NULL, NULL));
    CHECK(steps(db, R_CURSOR, "", "b", "2"));
    /* If the pair at the cursor is deleted, the cursor is between the pair's neighbours. */
    CHECK(steps(db, R_CURSOR, "d", "d", "4"));
    CHECK(del(db, "d", 0) == 0);
    CHECK(put(db, "e", "5", 0) == 0);
    CHECK(steps(db, R_NEXT, "", "e", "5"));
    CHECK(del(db, "", R_CURSOR) == 0);
    CHECK(steps(db, R_PREV, "", "b", "2"));
    /* "R_SETCURSOR: Store the key/data pair, setting or initializing the position of the cursor to reference it": */
    CHECK(put(db, "c", "3", R_SETCURSOR) == 0);
    CHECK(steps(db, R_NEXT, "", "f", "6"));
    CHECK(steps(db, R_PREV, "", "c", "3"));
    /* "R_CURSOR (put): Replace the key/data pair referenced by the cursor": */
    CHECK(put(db, "c", "drei", R_CURSOR) == 0);
    CHECK(gets_(db, "c", "drei"));
    CHECK(put(db, "cc", "33", R_CURSOR) == 0);
    CHECK(gets_(db, "c", NULL) && gets_(db, "cc", "33"));
    CHECK(steps(db, R_NEXT, "", "f", "6"));
    CHECK(del(db, "", R_CURSOR) == 0);
    REFUSED(put(db, "f", "6", R_CURSOR), EINVAL);
    commit();
    CHECK(db->close(db) == 0);
}

static void several_values(void)
{
    BTREEINFO info;
    DB *db;
    DBT k, d;

    memset(&info, 0, sizeof info);
    info.flags = R_DUP;
    db = open_("several", O_RDWR | O_CREAT, DB_BTREE, &info);
    CHECK(db != NULL);
    if (db == NULL)
        return;
    begin();
    /* "R_DUP: Permit duplicate entries in the tree". The data of a key are in the order in which they were put. */
    CHECK(put(db, "m", "z", 0) == 0 && put(db, "a", "1", 0) == 0 && put(db, "m", "y", 0) == 0);
    CHECK(put(db, "m", "x", 0) == 0 && put(db, "z", "9", 0) == 0 && put(db, "m", "y", 0) == 0);
    CHECK(put(db, "m", "w", R_NOOVERWRITE) == RET_SPECIAL);
    commit();
    /* The file's header says that its keys may have duplicates, so this open needs no R_DUP. */
    db = again(db, "several", DB_BTREE, NULL);
    begin();
    CHECK(gets_(db, "m", "z"));
    /* "seq with R_CURSOR will always return the logical first of any group of duplicate keys": */
    CHECK(steps(db, R_CURSOR, "m", "m", "z"));
    CHECK(steps(db, R_NEXT, "", "m", "y"));
    CHECK(steps(db, R_NEXT, "", "m", "x"));
    CHECK(steps(db, R_NEXT, "", "m", "y"));
    CHECK(steps(db, R_NEXT, "", "z", "9"));
    CHECK(steps(db, R_PREV, "", "m", "y"));
    CHECK(steps(db, R_PREV, "", "m", "x"));
    /* A duplicate is replaced at its place, and another is deleted. */
    CHECK(put(db, "m", "X", R_CURSOR) == 0);
    CHECK(steps(db, R_PREV, "", "m", "y"));
    CHECK(del(db, "", R_CURSOR) == 0);
    CHECK(steps(db, R_NEXT, "", "m", "X"));
    CHECK(steps(db, R_PREV, "", "m", "z"));
    CHECK(put(db, "m", "last", R_SETCURSOR) == 0);
    CHECK(steps(db, R_NEXT, "", "z", "9"));
    CHECK(steps(db, R_PREV, "", "m", "last"));
    CHECK(steps(db, R_PREV, "", "m", "y"));
    /* "del: ... removes key/data pairs": it removes all pairs of the key. */
    CHECK(del(db, "m", 0) == 0 && del(db, "m", 0) == RET_SPECIAL);
    k = dbt("");
    CHECK(db->seq(db, &k, &d, R_FIRST) == 0 && is(&k, "a"));
    CHECK(steps(db, R_NEXT, "", "z", "9") && steps(db, R_NEXT, "", NULL, NULL));
    commit();
    CHECK(db->close(db) == 0);
}

static int backwards(const DBT *one, const DBT *other)
{
    size_t common = one->size < other->size ? one->size : other->size;
    int order = memcmp(other->data, one->data, common);
    return order != 0 ? order : (one->size < other->size) - (one->size > other->size);
}

static size_t no_prefix(const DBT *one, const DBT *other)
{
    (void)one;
    return other->size;
}

static uint32_t poor_hash(const void *bytes, size_t size)
{
    (void)bytes;
    return (uint32_t)size;
}

static void functions(void)
{
    BTREEINFO tree;
    HASHINFO hash;
    DB *db;

    memset(&tree, 0, sizeof tree);
    memset(&hash, 0, sizeof hash);
    /* A comparison function of the library may be given in any mode. */
    tree.compare = db_compare_caseless;
    db = open_("caseless", O_RDWR | O_CREAT, DB_BTREE, &tree);
    CHECK(db != NULL);
    if (db != NULL) {
        begin();
        CHECK(put(db, "b", "1", 0) == 0 && put(db, "A", "2", 0) == 0 && put(db, "B", "3", 0) == 0);
        CHECK(gets_(db, "a", "2") && gets_(db, "b", "3"));
        CHECK(put(db, "a", "4", R_NOOVERWRITE) == RET_SPECIAL);
        commit();
        CHECK(db->close(db) == 0);
    }
    tree.compare = backwards;
    tree.prefix = no_prefix;
    hash.hash = poor_hash;
    if (mode_flags != 0) {
        /* A comparison function of the program is refused, because other processes do not have it. */
        CHECK(open_("mine", O_RDWR | O_CREAT, DB_BTREE, &tree) == NULL && errno == EINVAL);
        CHECK(strstr(tp_error(), "tp_order") != NULL && strstr(tp_error(), "db_order") != NULL);
        /* The program's hash function is ignored: the library chooses the place of each pair itself. */
        db = open_("spread", O_RDWR | O_CREAT, DB_HASH, &hash);
        CHECK(db != NULL && put(db, "b", "2", 0) == 0 && put(db, "a", "1", 0) == 0 && gets_(db, "a", "1") && gets_(db, "b", "2"));
        CHECK(db != NULL && db->close(db) == 0);
        return;
    }
    db = open_("backwards", O_RDWR | O_CREAT, DB_BTREE, &tree);
    CHECK(db != NULL);
    CHECK(put(db, "b", "2", 0) == 0 && put(db, "a", "1", 0) == 0 && put(db, "c", "3", 0) == 0);
    db = again(db, "backwards", DB_BTREE, &tree);
    CHECK(steps(db, R_FIRST, "", "c", "3") && steps(db, R_NEXT, "", "b", "2") && steps(db, R_NEXT, "", "a", "1"));
    CHECK(steps(db, R_CURSOR, "bb", "b", "2"));
    CHECK(db->close(db) == 0);
    db = open_("poor", O_RDWR | O_CREAT, DB_HASH, &hash);
    CHECK(db != NULL);
    CHECK(put(db, "b", "2", 0) == 0 && put(db, "a", "1", 0) == 0 && put(db, "c", "3", 0) == 0);
    db = again(db, "poor", DB_HASH, &hash);
    CHECK(gets_(db, "a", "1") && gets_(db, "b", "2") && gets_(db, "c", "3"));
    CHECK(db->close(db) == 0);
    /* The manual demands the same hash function at each open. Another function is refused: */
    if (!is_memory)
        CHECK(open_("poor", O_RDWR, DB_HASH, NULL) == NULL && errno == EINVAL);
}

static int put_number(DB *db, recno_t number, const char *data, unsigned flags, recno_t *stored)
{
    DBT k, d = dbt(data);
    int code;
    k.data = &number;
    k.size = sizeof number;
    code = db->put(db, &k, &d, flags);
    if (stored != NULL && code == 0)
        memcpy(stored, k.data, sizeof *stored);
    return code;
}

static int del_number(DB *db, recno_t number, unsigned flags)
{
    DBT k;
    k.data = &number;
    k.size = sizeof number;
    return db->del(db, &k, flags);
}

static int gets_number(DB *db, recno_t number, const char *data)
{
    DBT k, d;
    int code;
    k.data = &number;
    k.size = sizeof number;
    code = db->get(db, &k, &d, 0);
    return data == NULL ? code == RET_SPECIAL : code == RET_SUCCESS && is(&d, data);
}

static int steps_number(DB *db, unsigned flags, recno_t from, recno_t number, const char *data)
{
    DBT k, d;
    int code;
    recno_t found;
    k.data = &from;
    k.size = sizeof from;
    code = db->seq(db, &k, &d, flags);
    if (data == NULL || code != RET_SUCCESS)
        return data == NULL && code == RET_SPECIAL;
    memcpy(&found, k.data, sizeof found);
    return k.size == sizeof found && found == number && is(&d, data);
}

static void fixed_records(void)
{
    RECNOINFO info;
    recno_t stored;
    DB *db;

    memset(&info, 0, sizeof info);
    info.flags = R_FIXEDLEN;
    info.reclen = 4;
    info.bval = '.';
    stored = 0;
    db = open_("fixed", O_RDWR | O_CREAT, DB_RECNO, &info);
    CHECK(db != NULL);
    if (db == NULL)
        return;
    begin();
    CHECK(gets_number(db, 1, NULL));
    REFUSED(gets_number(db, 0, "") - 1, EINVAL);
    /* "fixed-length records ... padded with bval"; "If ... the record is too long, EINVAL": */
    CHECK(put_number(db, 1, "one", 0, NULL) == 0);
    REFUSED(put_number(db, 2, "seven", 0, NULL), EINVAL);
    CHECK(gets_number(db, 1, "one."));
    /* "if skipping records, create empty ones": */
    CHECK(put_number(db, 4, "four", 0, NULL) == 0);
    CHECK(gets_number(db, 2, "....") && gets_number(db, 3, "....") && gets_number(db, 4, "four"));
    CHECK(gets_number(db, 5, NULL));
    CHECK(put_number(db, 4, "vier", R_NOOVERWRITE, NULL) == RET_SPECIAL);
    CHECK(put_number(db, 5, "five", R_NOOVERWRITE, NULL) == 0);
    CHECK(put_number(db, 2, "two", R_SETCURSOR, NULL) == 0);
    CHECK(steps_number(db, R_NEXT, 0, 3, "...."));
    CHECK(put_number(db, 0, "drei", R_CURSOR, NULL) == 0);
    CHECK(gets_number(db, 3, "drei"));
    CHECK(steps_number(db, R_FIRST, 0, 1, "one.") && steps_number(db, R_PREV, 0, 0, NULL));
    CHECK(steps_number(db, R_LAST, 0, 5, "five") && steps_number(db, R_NEXT, 0, 0, NULL));
    CHECK(steps_number(db, R_CURSOR, 4, 4, "four") && steps_number(db, R_CURSOR, 9, 0, NULL));
    commit();
    db = again(db, "fixed", DB_RECNO, &info);
    CHECK(gets_number(db, 1, "one.") && gets_number(db, 5, "five") && gets_number(db, 6, NULL));
    begin();
    /* Insertions and deletions also renumber records of fixed length. */
    CHECK(steps_number(db, R_CURSOR, 3, 3, "drei"));
    CHECK(del_number(db, 1, 0) == 0 && gets_number(db, 1, "two.") && gets_number(db, 5, NULL));
    CHECK(put_number(db, 1, "1", R_IBEFORE, &stored) == 0 && stored == 1 && gets_number(db, 1, "1..."));
    CHECK(put_number(db, 0, "0000", R_IAFTER, &stored) == 0 && stored == 1);
    REFUSED(put_number(db, 1, "seven", R_IBEFORE, NULL), EINVAL);
    CHECK(put_number(db, 2, ".1", R_CURSOR, NULL) == 0 && gets_number(db, 4, ".1.."));
    CHECK(steps_number(db, R_PREV, 0, 3, "two.") && del_number(db, 0, R_CURSOR) == 0);
    CHECK(put_number(db, 2, ".1", 0, NULL) == 0 && put_number(db, 3, "two", 0, NULL) == 0);
    CHECK(put_number(db, 4, "drei", 0, NULL) == 0 && put_number(db, 8, "8", 0, NULL) == 0);
    CHECK(gets_number(db, 5, "five") && gets_number(db, 6, "....") && gets_number(db, 8, "8..."));
    while (del_number(db, 6, 0) == 0)
        ;
    CHECK(put_number(db, 5, "", 0, NULL) == 0);
    commit();
    CHECK(db->close(db) == 0);
}

/* Returns whether the contents of the text file are this text. */
static int text_is(const char *name, const char *wanted)
{
    char text[256];
    size_t size;
    FILE *file = fopen(path_of(name), "r");
    if (file == NULL)
        return 0;
    size = fread(text, 1, sizeof text, file);
    fclose(file);
    return size == strlen(wanted) && memcmp(text, wanted, size) == 0;
}

static void write_text(const char *name, const char *how, const char *text)
{
    FILE *file = fopen(path_of(name), how);
    CHECK(file != NULL);
    if (file == NULL)
        return;
    fputs(text, file);
    fclose(file);
}

static void lines(void)
{
    recno_t stored = 0;
    DB *db = open_("lines", O_RDWR | O_CREAT, DB_RECNO, NULL);

    CHECK(db != NULL);
    if (db == NULL)
        return;
    begin();
    CHECK(put_number(db, 1, "one", 0, NULL) == 0 && put_number(db, 3, "three", 0, NULL) == 0);
    CHECK(gets_number(db, 2, ""));
    /* "R_IAFTER: Append the data immediately after the data referenced by key ... The record number of the appended pair is
     * returned in the key structure": */
    CHECK(put_number(db, 1, "one and a half", R_IAFTER, &stored) == 0 && stored == 2);
    CHECK(put_number(db, 4, "before", R_IBEFORE, &stored) == 0 && stored == 4);
    CHECK(put_number(db, 0, "zero", R_IAFTER, &stored) == 0 && stored == 1);
    CHECK(gets_number(db, 1, "zero") && gets_number(db, 2, "one") && gets_number(db, 3, "one and a half"));
    CHECK(gets_number(db, 4, "") && gets_number(db, 5, "before") && gets_number(db, 6, "three"));
    /* "the deletion of record number one causes record number five to be renumbered to record number four": */
    CHECK(del_number(db, 4, 0) == 0 && del_number(db, 9, 0) == RET_SPECIAL);
    CHECK(gets_number(db, 5, "three") && gets_number(db, 6, NULL));
    /* "as well as the cursor, if positioned after record number one, to shift down one record": */
    CHECK(steps_number(db, R_CURSOR, 3, 3, "one and a half"));
    CHECK(del_number(db, 1, 0) == 0);
    CHECK(steps_number(db, R_NEXT, 0, 3, "before"));
    /* If the record at the cursor is deleted, the cursor is between the record's neighbours. */
    CHECK(del_number(db, 0, R_CURSOR) == 0);
    CHECK(del_number(db, 0, R_CURSOR) == RET_SPECIAL);
    REFUSED(put_number(db, 0, "x", R_CURSOR, NULL), EINVAL);
    CHECK(steps_number(db, R_NEXT, 0, 3, "three"));
    CHECK(steps_number(db, R_PREV, 0, 2, "one and a half"));
    CHECK(del_number(db, 2, 0) == 0);
    CHECK(steps_number(db, R_PREV, 0, 1, "one"));
    /* "records inserted behind the cursor will not be returned while records inserted in front of the cursor will be": */
    CHECK(put_number(db, 1, "behind", R_IBEFORE, NULL) == 0 && put_number(db, 2, "in front", R_IAFTER, NULL) == 0);
    CHECK(steps_number(db, R_NEXT, 0, 3, "in front"));
    CHECK(del_number(db, 1, 0) == 0);
    /* "R_SETCURSOR", and "R_CURSOR: Replace the key/data pair referenced by the cursor": */
    CHECK(put_number(db, 5, "five", R_SETCURSOR, NULL) == 0);
    CHECK(put_number(db, 1, "first", R_IBEFORE, NULL) == 0);
    CHECK(put_number(db, 0, "fuenf", R_CURSOR, NULL) == 0 && gets_number(db, 6, "fuenf"));
    CHECK(steps_number(db, R_PREV, 0, 5, "") && steps_number(db, R_NEXT, 0, 6, "fuenf"));
    CHECK(put_number(db, 6, "six", R_NOOVERWRITE, NULL) == RET_SPECIAL && gets_number(db, 6, "fuenf"));
    CHECK(del_number(db, 6, 0) == 0 && del_number(db, 5, 0) == 0 && del_number(db, 1, 0) == 0);
    /* After the last record, R_IAFTER acts like a put, and makes empty records in between. */
    CHECK(put_number(db, 5, "six", R_IAFTER, &stored) == 0 && stored == 6 && gets_number(db, 4, "") && gets_number(db, 5, ""));
    CHECK(del_number(db, 4, 0) == 0 && del_number(db, 4, 0) == 0 && del_number(db, 4, 0) == 0);
    commit();
    CHECK(db->sync(db, R_RECNOSYNC) == 0);
    db = again(db, "lines", DB_RECNO, NULL);
    CHECK(gets_number(db, 1, "one") && gets_number(db, 2, "in front") && gets_number(db, 3, "three"));
    CHECK(gets_number(db, 4, NULL));
    CHECK(db->close(db) == 0);
}

static void text_file(void)
{
    RECNOINFO info;
    struct stat there;
    DB *db;
    DBT k, d;

    if (is_memory)
        return;
    memset(&info, 0, sizeof info);
    /* "The flat-file format is a byte stream file": any program can read and write it. */
    CHECK(open_("text", O_RDWR, DB_RECNO, NULL) == NULL && errno == ENOENT);
    write_text("text", "w", "one\n\nthree");
    CHECK(open_("text", O_RDWR | O_CREAT | O_EXCL, DB_RECNO, NULL) == NULL && errno == EEXIST);
    db = open_("text", O_RDWR, DB_RECNO, NULL);
    CHECK(db != NULL);
    if (db == NULL)
        return;
    CHECK(gets_number(db, 1, "one") && gets_number(db, 2, "") && gets_number(db, 3, "three") && gets_number(db, 4, NULL));
    /* No record was changed, so a sync writes nothing, not even the missing end of the last line. */
    CHECK(db->sync(db, 0) == 0 && text_is("text", "one\n\nthree"));
    CHECK(put_number(db, 2, "two", 0, NULL) == 0);
    CHECK(text_is("text", "one\n\nthree"));
    CHECK(db->sync(db, 0) == 0 && text_is("text", "one\ntwo\nthree\n"));
    begin();
    CHECK(del_number(db, 1, 0) == 0);
    /* In a transaction of the caller, the file is written when the transaction ends. */
    CHECK(db->sync(db, 0) == 0);
    commit();
    CHECK(text_is("text", "two\nthree\n"));
    begin();
    CHECK(put_number(db, 2, "four", R_IAFTER, NULL) == 0);
    CHECK(db->close(db) == 0);
    commit();
    CHECK(text_is("text", "two\nthree\nfour\n"));
    /* "R_SNAPSHOT requires that a snapshot of the file be taken when dbopen is called", "R_NOKEY: the cursor routines are not
     * required to fill in the key structure": */
    write_text("text", "a", "five");
    info.flags = R_SNAPSHOT | R_NOKEY;
    info.bval = '\n';
    db = open_("text", O_RDWR, DB_RECNO, &info);
    CHECK(db != NULL);
    if (db == NULL)
        return;
    CHECK(gets_number(db, 4, "five"));
    k = dbt("as it was");
    CHECK(db->seq(db, &k, &d, R_LAST) == 0 && is(&d, "five") && is(&k, "as it was"));
    write_text("text", "w", "one\ntwo\n");
    CHECK(gets_number(db, 4, "five"));
    CHECK(db->close(db) == 0);
    /* O_RDONLY, and O_TRUNC: */
    db = open_("text", O_RDONLY, DB_RECNO, NULL);
    CHECK(db != NULL && gets_number(db, 1, "one") && gets_number(db, 3, NULL));
    if (mode_flags == 0) {
        /* As in 4.4BSD, the text file is only read, and changes stay in memory. */
        CHECK(put_number(db, 1, "x", 0, NULL) == 0 && del_number(db, 2, 0) == 0 && put_number(db, 1, "y", R_IAFTER, NULL) == 0);
        CHECK(gets_number(db, 1, "x") && gets_number(db, 2, "y") && db->sync(db, 0) == 0);
    } else {
        REFUSED(put_number(db, 1, "x", 0, NULL), EPERM);
        REFUSED(del_number(db, 1, 0), EPERM);
        REFUSED(put_number(db, 1, "x", R_IAFTER, NULL), EPERM);
    }
    CHECK(db->close(db) == 0 && text_is("text", "one\ntwo\n"));
    db = open_("text", O_RDWR | O_TRUNC, DB_RECNO, NULL);
    CHECK(db != NULL && gets_number(db, 1, NULL) && text_is("text", ""));
    CHECK(put_number(db, 2, "new", 0, NULL) == 0);
    CHECK(db->close(db) == 0 && text_is("text", "\nnew\n"));
    /* "The delimiting byte to be used to mark the end of a record": */
    info.flags = 0;
    info.bval = ':';
    write_text("fields", "w", "a:b\n:c");
    db = open_("fields", O_RDWR, DB_RECNO, &info);
    CHECK(db != NULL && gets_number(db, 1, "a") && gets_number(db, 2, "b\n") && gets_number(db, 3, "c"));
    CHECK(del_number(db, 2, 0) == 0 && db->close(db) == 0 && text_is("fields", "a:c:"));
    /* "any changes made to the default values ... must be explicitly specified each time the file is opened": with other values, the
     * file has other records. In shared mode other values are refused, because other processes may have the file open. */
    info.bval = 'c';
    db = open_("fields", O_RDONLY, DB_RECNO, &info);
    if (mode_flags == 0)
        CHECK(db != NULL && gets_number(db, 1, "a:") && gets_number(db, 2, ":") && db->close(db) == 0);
    else
        CHECK(db == NULL && errno == EINVAL);
    /* "the pad character": the file of fixed_records. */
    CHECK(text_is("fixed", "0000.1..two.drei...."));
    CHECK(stat(path_of("fixed"), &there) == 0 && (there.st_mode & 0777) == 0640);
    info.flags = R_FIXEDLEN;
    info.reclen = 3;
    info.bval = ' ';
    write_text("columns", "w", "abcdef h");
    db = open_("columns", O_RDWR, DB_RECNO, &info);
    CHECK(db != NULL && gets_number(db, 2, "def") && gets_number(db, 3, " h ") && gets_number(db, 4, NULL));
    CHECK(del_number(db, 1, 0) == 0 && put_number(db, 1, "g", R_IAFTER, NULL) == 0);
    CHECK(db->close(db) == 0 && text_is("columns", "defg   h "));
}

static void kept_elsewhere(void)
{
    RECNOINFO info;
    char kept[4096];
    DB *db;

    if (is_memory)
        return;
    memset(&info, 0, sizeof info);
    info.bval = '\n';
    snprintf(kept, sizeof kept, "%s/%skept", directory, prefix);
    info.bfname = kept;
    /* "bfname ... specifies the name of the btree file" that has the records; "R_RECNOSYNC: apply to the btree file which
     * underlies the recno file, not the recno file itself": */
    db = open_("behind", O_RDWR | O_CREAT, DB_RECNO, &info);
    CHECK(db != NULL);
    if (db == NULL)
        return;
    CHECK(put_number(db, 1, "one", 0, NULL) == 0);
    CHECK(db->sync(db, R_RECNOSYNC) == 0 && text_is("behind", ""));
    CHECK(put_number(db, 2, "two", 0, NULL) == 0 && put_number(db, 1, "half", R_IBEFORE, NULL) == 0);
    CHECK(db->close(db) == 0 && text_is("behind", "half\none\ntwo\n"));
    if (mode_flags == 0) {
        DBT k, d;
        db = open_("kept", O_RDWR, DB_BTREE, NULL);
        CHECK(db != NULL && db->seq(db, &k, &d, R_FIRST) == 0 && k.size == 4 && is(&d, "half"));
        CHECK(db->seq(db, &k, &d, R_LAST) == 0 && memcmp(k.data, "\0\0\0\3", 4) == 0 && is(&d, "two"));
        CHECK(db->close(db) == 0);
        db = open_("behind", O_RDWR, DB_RECNO, &info);
        CHECK(db != NULL && del_number(db, 1, 0) == 0 && db->close(db) == 0);
        db = open_("kept", O_RDWR, DB_BTREE, NULL);
        CHECK(db != NULL && db->seq(db, &k, &d, R_LAST) == 0 && k.size == 4 && is(&d, "two"));
        CHECK(memcmp(k.data, "\0\0\0\2", 4) == 0 && db->close(db) == 0);
        /* If the text file is open only for reading, changes go only to the B-tree file. Without a text file, the
         * records are read from the B-tree file, as an editor's recovery does. */
        db = open_("behind", O_RDONLY, DB_RECNO, &info);
        CHECK(db != NULL && put_number(db, 1, "edited", 0, NULL) == 0 && put_number(db, 3, "added", 0, NULL) == 0);
        CHECK(db->sync(db, R_RECNOSYNC) == 0 && db->close(db) == 0 && text_is("behind", "one\ntwo\n"));
        /* Opening the text file only for reading does not overwrite the edits in the B-tree file. */
        db = open_("behind", O_RDONLY, DB_RECNO, &info);
        CHECK(db != NULL && gets_number(db, 1, "one") && db->sync(db, 0) == 0 && db->close(db) == 0);
        db = dbopen(NULL, O_RDONLY, 0600, DB_RECNO, &info);
        CHECK(db != NULL && gets_number(db, 1, "edited") && gets_number(db, 2, "two") && gets_number(db, 3, "added"));
        CHECK(db != NULL && gets_number(db, 4, NULL) && del_number(db, 2, 0) == 0 && db->close(db) == 0);
        db = dbopen(NULL, O_RDWR, 0600, DB_RECNO, &info);
        CHECK(db != NULL && gets_number(db, 2, "added") && gets_number(db, 3, NULL) && db->close(db) == 0);
        /* The records in the B-tree file do not have the length reclen. */
        info.flags = R_FIXEDLEN;
        info.reclen = 6;
        CHECK(dbopen(NULL, O_RDWR, 0600, DB_RECNO, &info) == NULL && errno == EFTYPE);
        info.flags = 0;
        /* A B-tree file with other keys than record numbers is refused and not changed. */
        snprintf(kept, sizeof kept, "%s/%spairs", directory, prefix);
        db = dbopen(kept, O_RDWR | O_CREAT, 0600, DB_BTREE, NULL);
        CHECK(db != NULL && put(db, "pears", "7", 0) == 0 && db->close(db) == 0);
        CHECK(open_("behind", O_RDWR, DB_RECNO, &info) == NULL && errno == EFTYPE);
        db = dbopen(kept, O_RDONLY, 0600, DB_BTREE, NULL);
        CHECK(db != NULL && gets_(db, "pears", "7") && db->close(db) == 0);
        snprintf(kept, sizeof kept, "%s/%smissing", directory, prefix);
        CHECK(dbopen(NULL, O_RDONLY, 0600, DB_RECNO, &info) == NULL && errno == ENOENT);
        return;
    }
    CHECK(access(path_of("kept.tp"), F_OK) == 0 && access(path_of("behind.tp"), F_OK) != 0);
    /* Each of these records would become two records in the text file. */
    db = open_("behind", O_RDWR, DB_RECNO, &info);
    CHECK(db != NULL);
    REFUSED(put_number(db, 1, "a\nb", 0, NULL), EINVAL);
    REFUSED(put_number(db, 1, "a\nb", R_IAFTER, NULL), EINVAL);
    CHECK(db->close(db) == 0 && text_is("behind", "half\none\ntwo\n"));
    if (!is_within)
        return;
    /* Opening reads the text file. This cannot be done in a running transaction, so the opening is refused. */
    db = open_("tree", O_RDWR, DB_BTREE, NULL);
    begin();
    CHECK(db != NULL && gets_(db, "none", NULL));
    CHECK(open_("behind", O_RDWR, DB_RECNO, &info) == NULL && errno == EINVAL);
    commit();
    CHECK(db->close(db) == 0);
}

/* As long as the text file has no records, a record may have any bytes, also the byte that ends the records of a text
 * file. */
static void any_bytes(void)
{
    DB *db = open_("bytes", O_RDWR | O_CREAT, DB_RECNO, NULL);
    CHECK(db != NULL);
    if (db == NULL)
        return;
    CHECK(put_number(db, 1, "two\nlines", 0, NULL) == 0 && put_number(db, 1, "\n", R_IAFTER, NULL) == 0);
    CHECK(put_number(db, 4, "four", 0, NULL) == 0 && db->sync(db, 0) == 0);
    CHECK(gets_number(db, 1, "two\nlines") && gets_number(db, 2, "\n") && gets_number(db, 3, ""));
    CHECK(db->close(db) == 0);
    if (mode_flags == 0)
        return;
    CHECK(text_is("bytes", ""));
    db = open_("bytes", O_RDWR, DB_RECNO, NULL);
    CHECK(db != NULL && gets_number(db, 1, "two\nlines") && gets_number(db, 2, "\n") && gets_number(db, 4, "four"));
    CHECK(put_number(db, 1, "one", 0, NULL) == 0 && put_number(db, 2, "two", 0, NULL) == 0);
    CHECK(db->close(db) == 0 && text_is("bytes", "one\ntwo\n\nfour\n"));
}

/* Calls with a file that is opened without DB_TXN do not belong to the thread's transaction. Such a call is refused if
 * the transaction has used the file, because the call might wait for the transaction. It is not refused if the
 * transaction has not used the file. */
static void beside(const char *name, DBTYPE type)
{
    recno_t number = 1;
    DBT key, data = dbt("1"), found;
    DB *in = open_(name, O_RDWR | O_CREAT, type, NULL);
    DB *out = dbopen(path_of(name), O_RDWR | DB_LOCK, 0640, type, NULL);
    DB *elsewhere = dbopen(path_of("elsewhere"), O_RDWR | O_CREAT | DB_LOCK, 0640, DB_HASH, NULL);
    CHECK(in != NULL && out != NULL && elsewhere != NULL);
    if (in == NULL || out == NULL || elsewhere == NULL)
        return;
    key.data = &number;
    key.size = sizeof number;
    CHECK(txn_begin() == 0);
    CHECK(out->put(out, &key, &data, 0) == 0);
    CHECK(in->put(in, &key, &data, 0) == 0);
    REFUSED(out->put(out, &key, &data, 0), EDEADLK);
    CHECK(strstr(tp_error(), name) != NULL && strstr(tp_error(), "DB_TXN") != NULL);
    REFUSED(out->get(out, &key, &found, 0), EDEADLK);
    REFUSED(out->seq(out, &key, &found, R_FIRST), EDEADLK);
    REFUSED(out->del(out, &key, 0), EDEADLK);
    CHECK(put(elsewhere, "a", "1", 0) == 0 && gets_(elsewhere, "a", "1"));
    CHECK(in->get(in, &key, &found, 0) == 0 && is(&found, "1"));
    CHECK(txn_commit() == 0);
    CHECK(out->get(out, &key, &found, 0) == 0 && is(&found, "1"));
    CHECK(in->close(in) == 0 && out->close(out) == 0 && elsewhere->close(elsewhere) == 0);
}

/* txn_begin, txn_commit, txn_abort. */
static void transactions(void)
{
    DB *db, *other;
    /* Without a transaction, a commit and an abort are refused; a thread has one transaction at a time. */
    REFUSED(txn_commit(), EINVAL);
    REFUSED(txn_abort(), EINVAL);
    CHECK(txn_begin() == 0);
    REFUSED(txn_begin(), EINVAL);
    CHECK(txn_abort() == 0);
    if (mode_flags != (int)DB_TXN)
        return;
    db = open_("one", O_RDWR | O_CREAT, DB_BTREE, NULL);
    other = open_("two", O_RDWR | O_CREAT, DB_HASH, NULL);
    CHECK(db != NULL && other != NULL);
    if (db == NULL || other == NULL)
        return;
    /* An abort undoes the changes of all files. */
    CHECK(put(db, "a", "1", 0) == 0);
    CHECK(txn_begin() == 0);
    CHECK(put(db, "a", "2", 0) == 0 && put(other, "b", "2", 0) == 0 && gets_(db, "a", "2"));
    CHECK(txn_abort() == 0);
    CHECK(gets_(db, "a", "1") && gets_(other, "b", NULL));
    CHECK(txn_begin() == 0);
    CHECK(put(db, "a", "3", 0) == 0 && put(other, "b", "3", 0) == 0);
    CHECK(txn_commit() == 0);
    CHECK(gets_(db, "a", "3") && gets_(other, "b", "3"));
    /* Closing a file in a transaction does not end the transaction. */
    CHECK(txn_begin() == 0);
    CHECK(put(other, "c", "4", 0) == 0);
    CHECK(other->close(other) == 0);
    CHECK(put(db, "c", "4", 0) == 0);
    CHECK(txn_commit() == 0);
    CHECK(db->close(db) == 0);
    db = open_("two", O_RDONLY, DB_HASH, NULL);
    CHECK(db != NULL && gets_(db, "c", "4"));
    CHECK(db->close(db) == 0);
    beside("one", DB_BTREE);
    beside("two", DB_HASH);
    beside("three", DB_RECNO);
}

int main(int count, char **arguments)
{
    if (count != 3 && count != 4)
        return 2;
    directory = arguments[1];
    mode = arguments[2];
    if (count == 4)
        prefix = arguments[3];
    mkdir(directory, 0777);
    is_memory = strcmp(mode, "memory") == 0;
    is_within = strcmp(mode, "within") == 0;
    if (strcmp(mode, "lock") == 0)
        mode_flags = DB_LOCK | DB_SHMEM;
    if (strcmp(mode, "txn") == 0 || is_within)
        mode_flags = (int)DB_TXN;
    opening();
    pairs(DB_BTREE, "tree");
    pairs(DB_HASH, "hash");
    order_of_keys();
    several_values();
    functions();
    fixed_records();
    lines();
    text_file();
    kept_elsewhere();
    any_bytes();
    transactions();
    printf("%d wrong\n", wrong);
    if (getenv("COUNT") != NULL)
        printf("%d checks\n", checks);
    return wrong != 0;
}
