/*
 * Databases that O_TRUNC replaces by new databases in shared mode, and databases that it leaves unchanged.
 *
 * usage: db3_anew DIRECTORY refused     checks that a failed opening leaves the database unchanged
 *        db3_anew DIRECTORY bfname      checks that the database that bfname names is not replaced
 *        db3_anew DIRECTORY kinds       checks that a database of a kind that db(3) never makes is not replaced
 *        db3_anew DIRECTORY others      checks handles that were open before the database was emptied or replaced
 *        db3_anew DIRECTORY race        two processes replace the database all the time, and a third process always finds it
 *        db3_anew DIRECTORY make        makes the B-tree stock with one pair
 *        db3_anew DIRECTORY anew        replaces stock by a hash file
 *        db3_anew DIRECTORY look        prints whether stock is the B-tree or the hash file, and whether another database exists
 */
#include <db.h>
#include <libtp.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *directory;
static int wrong;

static void check(int is_right, int line, const char *what)
{
    if (!is_right) {
        wrong++;
        printf("line %d: %s (errno %d %s; %s)\n", line, what, errno, strerror(errno), tp_error());
    }
}

#define CHECK(what) check((what), __LINE__, #what)
#define REFUSED(flags, type, info, number) \
    (errno = 0, CHECK(open_("stock", flags, type, info) == NULL), CHECK(errno == (number)), CHECK(is_whole()))

static const char *path_of(const char *name)
{
    static char path[4096];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return path;
}

static DB *open_(const char *name, int flags, DBTYPE type, const void *info)
{
    return dbopen(path_of(name), flags | (int)DB_TXN, 0640, type, info);
}

static DBT dbt(const char *text)
{
    DBT made;
    made.data = (void *)text;
    made.size = strlen(text);
    return made;
}

static int put(DB *db, const char *key, const char *data)
{
    DBT k = dbt(key), d = dbt(data);
    return db->put(db, &k, &d, 0);
}

static int has(DB *db, const char *key)
{
    DBT k = dbt(key), d;
    return db->get(db, &k, &d, 0) == 0;
}

/* Returns whether stock is the B-tree with its pair. */
static int is_whole(void)
{
    int kept_errno = errno, is_there;
    DB *db = open_("stock", O_RDONLY, DB_BTREE, NULL);
    is_there = db != NULL && has(db, "pears") && db->close(db) == 0;
    errno = kept_errno;
    return is_there;
}

static void make(void)
{
    DB *db = open_("stock", O_RDWR | O_CREAT, DB_BTREE, NULL);
    CHECK(db != NULL && put(db, "pears", "7") == 0 && db->close(db) == 0);
}

static int first_byte(const void *key, size_t key_size, const void *value, size_t value_size, tp_index_keys *keys, void *argument)
{
    (void)key, (void)key_size, (void)argument;
    return value_size == 0 ? TP_OK : tp_index_add(keys, value, 1);
}

/* Makes an index of a database, and a file of pages. */
static void make_others(void)
{
    tp_env *env;
    tp_db *db;
    tp_index *by_byte;
    tp_pages *pages;
    CHECK(tp_env_open(directory, NULL, 0, &env) == TP_OK && tp_btree_open(env, "people", &db) == TP_OK);
    CHECK(tp_index_open(db, "people.by_byte", first_byte, NULL, &by_byte) == TP_OK);
    CHECK(buf_open(env, "heap", 0, &pages) == TP_OK);
    CHECK(buf_close(pages) == TP_OK && tp_index_close(by_byte) == TP_OK && tp_db_close(db) == TP_OK);
    CHECK(tp_env_close(env) == TP_OK);
}

static int is_kind(const char *name, const char *kind)
{
    tp_env *env;
    const char *found = "";
    uint64_t bytes;
    int is_it = tp_env_open(directory, NULL, 0, &env) == TP_OK;
    is_it = is_it && tp_env_database(env, name, &found, &bytes) == TP_OK && strcmp(found, kind) == 0;
    return tp_env_close(env) == TP_OK && is_it;
}

/* With is_new, stores a record of four bytes. Otherwise checks that the record is there. */
static int numbers(int is_new)
{
    tp_env *env;
    tp_recno *recno;
    tp_txn *txn;
    tp_buffer found;
    static uint64_t number;
    int is_right;
    memset(&found, 0, sizeof found);
    is_right = tp_env_open(directory, NULL, 0, &env) == TP_OK && tp_recno_open(env, "numbers", 4, &recno) == TP_OK;
    is_right = is_right && tp_begin(env, TP_DEFAULT, &txn) == TP_OK;
    if (is_new)
        is_right = is_right && tp_recno_append(recno, txn, "seed", 4, &number) == TP_OK;
    else
        is_right = is_right && tp_recno_get(recno, txn, number, &found) == TP_OK && found.size == 4;
    tp_buffer_free(&found);
    return is_right && tp_commit(txn) == TP_OK && tp_recno_close(recno) == TP_OK && tp_env_close(env) == TP_OK;
}

static void refused(void)
{
    DB *db;

    make();
    /* First the text file does not exist. Then a directory has its name. */
    REFUSED(O_RDWR | O_TRUNC, DB_RECNO, NULL, ENOENT);
    CHECK(mkdir(path_of("stock"), 0777) == 0);
    REFUSED(O_RDWR | O_TRUNC | O_CREAT, DB_RECNO, NULL, EISDIR);
    CHECK(rmdir(path_of("stock")) == 0);
    /* An opening for reading only replaces no database. */
    REFUSED(O_RDONLY | O_TRUNC, DB_HASH, NULL, EINVAL);
    REFUSED(O_RDONLY | O_TRUNC | O_CREAT, DB_RECNO, NULL, EINVAL);
    CHECK(access(path_of("stock"), F_OK) != 0);
    /* With O_CREAT and no directory in the way, the database is replaced by the list of a text file. */
    db = open_("stock", O_RDWR | O_CREAT | O_TRUNC, DB_RECNO, NULL);
    CHECK(db != NULL && db->close(db) == 0 && access(path_of("stock"), F_OK) == 0 && is_kind("stock", "list"));
}

static void bfname(void)
{
    RECNOINFO info;
    char kept[4096];

    make();
    /* O_TRUNC empties the file at the path, not the file that bfname names. */
    memset(&info, 0, sizeof info);
    info.bval = '\n';
    snprintf(kept, sizeof kept, "%s/stock", directory);
    info.bfname = kept;
    CHECK(open_("lines", O_RDWR | O_CREAT | O_TRUNC, DB_RECNO, &info) == NULL && errno == EINVAL && is_whole());
    /* The same holds for a database whose records belong to no text file. */
    CHECK(numbers(1));
    snprintf(kept, sizeof kept, "%s/numbers", directory);
    info.flags = R_FIXEDLEN;
    info.reclen = 4;
    CHECK(open_("lines", O_RDWR | O_CREAT | O_TRUNC, DB_RECNO, &info) == NULL && errno == EINVAL);
    CHECK(numbers(0));
}

static void kinds(void)
{
    make_others();
    CHECK(open_("people.by_byte", O_RDWR | O_CREAT | O_TRUNC, DB_BTREE, NULL) == NULL && errno == EINVAL);
    CHECK(open_("people.by_byte", O_RDWR | O_CREAT | O_TRUNC, DB_RECNO, NULL) == NULL && errno == EINVAL);
    CHECK(is_kind("people.by_byte", "index"));
    CHECK(open_("heap", O_RDWR | O_CREAT | O_TRUNC, DB_HASH, NULL) == NULL && errno == EINVAL);
    CHECK(open_("heap", O_RDWR | O_CREAT | O_TRUNC, DB_RECNO, NULL) == NULL && errno == EINVAL);
    CHECK(is_kind("heap", "pages"));
    /* The new database is first made under the name stock.successor. If a database with records has this name already,
     * the opening fails. */
    make();
    {
        DB *db = open_("stock.successor", O_RDWR | O_CREAT, DB_BTREE, NULL);
        CHECK(db != NULL && put(db, "plums", "2") == 0 && db->close(db) == 0);
        CHECK(open_("stock", O_RDWR | O_TRUNC, DB_HASH, NULL) == NULL && errno == EINVAL);
        CHECK(is_whole());
        db = open_("stock.successor", O_RDONLY, DB_BTREE, NULL);
        CHECK(db != NULL && has(db, "plums") && db->close(db) == 0);
    }
}

static void others(void)
{
    BTREEINFO info;
    DB *other, *db;

    make();
    other = open_("stock", O_RDWR, DB_BTREE, NULL);
    CHECK(other != NULL);
    if (other == NULL)
        return;
    /* A database of the same type is only emptied, whatever page size the program asks for: the older handle stays
     * valid. */
    memset(&info, 0, sizeof info);
    for (info.psize = 4096; info.psize <= 65536; info.psize *= 4) {
        db = open_("stock", O_RDWR | O_TRUNC, DB_BTREE, &info);
        CHECK(db != NULL && !has(db, "pears") && put(other, "pears", "7") == 0);
        CHECK(db != NULL && has(db, "pears") && db->close(db) == 0);
    }
    /* For another type O_TRUNC makes a new database. The older handle has the old database, which was dropped. */
    db = open_("stock", O_RDWR | O_TRUNC, DB_HASH, NULL);
    CHECK(db != NULL && put(db, "plums", "2") == 0 && db->close(db) == 0);
    errno = 0;
    CHECK(put(other, "pears", "7") == RET_ERROR && errno == ESTALE);
    CHECK(other->close(other) == 0);
}

static void race(void)
{
    int process, round;

    make();
    for (process = 0; process < 3; process++) {
        if (fork() != 0)
            continue;
        for (round = process; round < 100; round++) {
            int flags = process < 2 ? O_RDWR | O_TRUNC : O_RDONLY;
            DB *db = open_("stock", flags, round % 2 ? DB_HASH : DB_BTREE, NULL);
            /* The database may be of the other type, or another process may have replaced it during this call. */
            CHECK(db != NULL ? db->close(db) == 0 : errno == ESTALE || errno == EINVAL);
        }
        _exit(wrong != 0 && fflush(stdout) == 0);
    }
    for (process = 0; process < 3; process++) {
        int status = -1;
        CHECK(wait(&status) > 0 && status == 0);
    }
}

static void look(void)
{
    tp_env *env;
    tp_buffer names;
    DB *db = open_("stock", O_RDONLY, DB_BTREE, NULL);
    int is_tree = db != NULL && has(db, "pears");
    int is_hash = db == NULL && (db = open_("stock", O_RDONLY, DB_HASH, NULL)) != NULL;
    CHECK(db == NULL || db->close(db) == 0);
    memset(&names, 0, sizeof names);
    CHECK(tp_env_open(directory, NULL, 0, &env) == TP_OK && tp_env_databases(env, &names) == TP_OK);
    printf("%s%s\n", is_tree ? "the B-tree" : is_hash ? "the hash file" : "nothing",
           names.size > strlen("stock") + 1 ? ", and another" : "");
    tp_buffer_free(&names);
    CHECK(tp_env_close(env) == TP_OK);
}

int main(int count, char **arguments)
{
    const char *what = count == 3 ? arguments[2] : "";
    DB *db;
    if (count != 3)
        return 2;
    directory = arguments[1];
    mkdir(directory, 0777);
    if (strcmp(what, "refused") == 0)
        refused();
    else if (strcmp(what, "bfname") == 0)
        bfname();
    else if (strcmp(what, "kinds") == 0)
        kinds();
    else if (strcmp(what, "others") == 0)
        others();
    else if (strcmp(what, "race") == 0)
        race();
    else if (strcmp(what, "make") == 0)
        make();
    else if (strcmp(what, "look") == 0)
        look();
    else if (strcmp(what, "anew") == 0) {
        db = open_("stock", O_RDWR | O_TRUNC, DB_HASH, NULL);
        CHECK(db != NULL && db->close(db) == 0);
    } else
        return 2;
    if (wrong != 0 || strcmp(what, "look") != 0)
        printf("%d wrong\n", wrong);
    return wrong != 0;
}
