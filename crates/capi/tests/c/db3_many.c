/*
 * Several processes use db(3) on the same files.
 *
 * usage: db3_many DIRECTORY transfers SEED COUNT    moves money between accounts in COUNT transactions (DB_TXN), or until it is
 *                                                    killed if COUNT is 0
 *        db3_many DIRECTORY open COUNT               makes COUNT accounts with 100 each
 *        db3_many DIRECTORY audit                    prints the number of accounts, their sum, and the number of journal entries
 *        db3_many DIRECTORY shared FLAGS COUNT       one process puts, and the other sees each put at once (DB_LOCK, DB_SHMEM)
 *        db3_many DIRECTORY forked                   the child of a fork cannot use a shared file of its parent
 *        db3_many DIRECTORY turns COUNT              processes take turns with a plain file, which they lock
 */
#include <db.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static DB *accounts, *journal;

static void give_up(const char *what)
{
    fprintf(stderr, "%s: %s (%s)\n", what, strerror(errno), tp_error());
    exit(1);
}

static DB *open_(const char *directory, const char *name, int flags, DBTYPE type, void *info)
{
    char path[4096];
    DB *db;
    snprintf(path, sizeof path, "%s/%s", directory, name);
    db = dbopen(path, O_RDWR | O_CREAT | flags, 0666, type, info);
    if (db == NULL)
        give_up("dbopen");
    return db;
}

static void open_all(const char *directory)
{
    BTREEINFO info;
    memset(&info, 0, sizeof info);
    info.flags = R_DUP;
    accounts = open_(directory, "accounts", (int)DB_TXN, DB_HASH, NULL);
    journal = open_(directory, "journal", (int)DB_TXN, DB_BTREE, &info);
}

static int get_number(DB *db, int which, int *number)
{
    DBT key, data;
    int code;
    key.data = &which;
    key.size = sizeof which;
    code = db->get(db, &key, &data, 0);
    if (code == 0)
        memcpy(number, data.data, sizeof *number);
    return code;
}

static int put_number(DB *db, int which, int number)
{
    DBT key, data;
    key.data = &which;
    key.size = sizeof which;
    data.data = &number;
    data.size = sizeof number;
    return db->put(db, &key, &data, 0);
}

static int transfer(int from, int to, int amount)
{
    int has;
    if (get_number(accounts, from, &has) != 0 || put_number(accounts, from, has - amount) != 0)
        return -1;
    if (get_number(accounts, to, &has) != 0 || put_number(accounts, to, has + amount) != 0)
        return -1;
    return put_number(journal, from, amount);
}

static void transfers(unsigned seed, int count)
{
    int number, done = 0;
    for (number = 0; count == 0 || done < count; number++) {
        int from, to;
        seed = seed * 1103515245 + 12345;
        from = (int)(seed >> 16) % 4;
        to = (from + 1 + (int)(seed >> 20) % 3) % 4;
        if (txn_begin() != 0)
            give_up("txn_begin");
        if (transfer(from, to, (int)(seed >> 24) % 10) == 0) {
            if (txn_commit() == 0)
                done++;
            else if (errno != EAGAIN)
                give_up("txn_commit");
        } else {
            int why = errno;
            if (txn_abort() != 0)
                give_up("txn_abort");
            errno = why;
            if (why != EDEADLK && why != EAGAIN)
                give_up("transfer");
        }
    }
    printf("%d done\n", done);
}

static void audit(void)
{
    DBT key, data;
    int sum = 0, count = 0, entries = 0, number;
    unsigned how = R_FIRST;
    for (; accounts->seq(accounts, &key, &data, how) == 0; how = R_NEXT, count++) {
        memcpy(&number, data.data, sizeof number);
        sum += number;
    }
    for (how = R_FIRST; journal->seq(journal, &key, &data, how) == 0; how = R_NEXT)
        entries++;
    printf("%d accounts, sum %d, %d entries\n", count, sum, entries);
}

/* Two processes take turns in adding to one number; each sees the other's put at once. */
static void shared(const char *directory, int flags, int count)
{
    int to_child[2], to_parent[2], turn, number = 0;
    pid_t child;
    DB *db;
    char token = 'x';
    if (pipe(to_child) != 0 || pipe(to_parent) != 0)
        give_up("pipe");
    child = fork();
    db = open_(directory, "shared", flags, DB_BTREE, NULL);
    for (turn = 0; turn < count; turn++) {
        if (child == 0) {
            if (read(to_child[0], &token, 1) != 1 || get_number(db, 1, &number) != 0 || number != 2 * turn + 1)
                give_up("the child does not see it");
            if (put_number(db, 1, number + 1) != 0 || write(to_parent[1], &token, 1) != 1)
                give_up("child");
        } else {
            if (put_number(db, 1, 2 * turn + 1) != 0 || write(to_child[1], &token, 1) != 1)
                give_up("parent");
            if (read(to_parent[0], &token, 1) != 1 || get_number(db, 1, &number) != 0 || number != 2 * turn + 2)
                give_up("the parent does not see it");
        }
    }
    if (db->close(db) != 0)
        give_up("close");
    if (child == 0)
        exit(0);
    waitpid(child, &turn, 0);
    printf("%d\n", turn == 0 ? number : -1);
}

/* In the child, calls with the parent's file fail. The child opens the file itself, and then both processes continue. */
static void forked(const char *directory)
{
    DB *db = open_(directory, "forked", (int)DB_TXN, DB_BTREE, NULL);
    int number = 0, status = 0;
    pid_t child;
    if (put_number(db, 1, 1) != 0 || txn_begin() != 0 || put_number(db, 2, 2) != 0)
        give_up("put");
    child = fork();
    if (child == 0) {
        DB *own;
        if (put_number(db, 1, 5) != RET_ERROR || errno != ECHILD)
            give_up("the child's put");
        txn_abort();
        own = open_(directory, "forked", (int)DB_TXN, DB_BTREE, NULL);
        if (get_number(own, 1, &number) != 0 || number != 1 || put_number(own, 3, 3) != 0 || own->close(own) != 0)
            give_up("the child's own");
        _exit(0);
    }
    waitpid(child, &status, 0);
    if (status != 0 || txn_commit() != 0 || get_number(db, 2, &number) != 0 || number != 2)
        give_up("the parent");
    if (get_number(db, 3, &number) != 0 || db->close(db) != 0)
        give_up("the parent's get");
    printf("%d\n", number);
}

static void turns(const char *directory, int count)
{
    char path[4096];
    int child, turn, number = 0, status;
    snprintf(path, sizeof path, "%s/lock", directory);
    for (child = 0; child < 4; child++) {
        if (fork() != 0)
            continue;
        for (turn = 0; turn < count; turn++) {
            int lock = open(path, O_RDWR | O_CREAT, 0666);
            DB *db;
            if (lock < 0 || flock(lock, LOCK_EX) != 0)
                give_up("flock");
            db = open_(directory, "turns", 0, DB_HASH, NULL);
            number = 0;
            if (get_number(db, 1, &number) < 0 || put_number(db, 1, number + 1) != 0 || db->close(db) != 0)
                give_up("turn");
            close(lock);
        }
        exit(0);
    }
    while (wait(&status) > 0)
        if (status != 0)
            give_up("a child");
    {
        DB *db = open_(directory, "turns", 0, DB_HASH, NULL);
        if (get_number(db, 1, &number) != 0)
            give_up("get");
        db->close(db);
    }
    printf("%d\n", number);
}

int main(int count, char **arguments)
{
    const char *what;
    int number;
    if (count < 3)
        return 2;
    what = arguments[2];
    mkdir(arguments[1], 0777);
    if (strcmp(what, "shared") == 0) {
        shared(arguments[1], atoi(arguments[3]), atoi(arguments[4]));
        return 0;
    }
    if (strcmp(what, "forked") == 0) {
        forked(arguments[1]);
        return 0;
    }
    if (strcmp(what, "turns") == 0) {
        turns(arguments[1], atoi(arguments[3]));
        return 0;
    }
    open_all(arguments[1]);
    if (strcmp(what, "open") == 0) {
        for (number = 0; number < atoi(arguments[3]); number++)
            if (put_number(accounts, number, 100) != 0)
                give_up("put");
    } else if (strcmp(what, "audit") == 0)
        audit();
    else
        transfers((unsigned)atoi(arguments[3]), atoi(arguments[4]));
    if (accounts->close(accounts) != 0 || journal->close(journal) != 0)
        give_up("close");
    return 0;
}
