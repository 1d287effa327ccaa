/*
 * A telephone book with db.h: names in a B-tree and numbers in a hash file, which change together. Except for DB_TXN
 * and the three calls on transactions it is an ordinary program for db(3).
 *
 * usage: phones DIRECTORY
 */
#include <db.h>

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static DB *names, *numbers;

static DBT text(const char *letters)
{
    DBT made;
    made.data = (void *)letters;
    made.size = strlen(letters);
    return made;
}

static int failed(const char *what)
{
    printf("%s: %s (%s)\n", what, strerror(errno), tp_error());
    return 1;
}

/* Stores a name and its number in both files, or in neither. */
static int enter(const char *name, const char *number)
{
    DBT person = text(name), digits = text(number);
    int code = -1, failure;
    do {
        if (txn_begin() != 0)
            return -1;
        code = numbers->put(numbers, &digits, &person, R_NOOVERWRITE);
        if (code == RET_SUCCESS)
            code = names->put(names, &person, &digits, 0);
        if (code == RET_SUCCESS)
            return txn_commit();
        /* The number is taken, or this transaction is the victim of a deadlock. */
        failure = errno;
        if (txn_abort() != 0)
            return -1;
    } while (code == RET_ERROR && failure == EDEADLK);
    return code;
}

static int print_from(const char *letters)
{
    DBT name = text(letters), number;
    int code;
    for (code = names->seq(names, &name, &number, R_CURSOR); code == RET_SUCCESS;
         code = names->seq(names, &name, &number, R_NEXT))
        printf("%.*s %.*s\n", (int)name.size, (const char *)name.data, (int)number.size, (const char *)number.data);
    return code;
}

int main(int argc, char **argv)
{
    BTREEINFO info;
    char path[1024];
    DBT one = text("a"), other = text("b");
    if (argc != 2)
        return 2;
    mkdir(argv[1], 0777);
    memset(&info, 0, sizeof info);
    info.flags = R_DUP;
    info.compare = db_compare_caseless;
    snprintf(path, sizeof path, "%s/names", argv[1]);
    names = dbopen(path, O_RDWR | O_CREAT | (int)DB_TXN, 0666, DB_BTREE, &info);
    snprintf(path, sizeof path, "%s/numbers", argv[1]);
    numbers = dbopen(path, O_RDWR | O_CREAT | (int)DB_TXN, 0666, DB_HASH, NULL);
    if (names == NULL || numbers == NULL)
        return failed("dbopen");
    if (enter("Ada", "12") != 0 || enter("bob", "34") != 0 || enter("ada", "56") != 0)
        return failed("enter");
    printf("the number 34 again: %d\n", enter("Cid", "34"));
    if (print_from("a") != RET_SPECIAL)
        return failed("seq");
    printf("orders: %d %d %d\n", db_compare_caseless(&one, &other), db_compare_descending(&one, &other),
           db_compare_little_endian(&one, &other));
    if (names->close(names) != 0 || numbers->close(numbers) != 0)
        return failed("close");
    return 0;
}
