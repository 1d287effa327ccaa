/*
 * Keys that are decimal numbers, in a file with the program's own comparison function. In plain mode the function
 * suffices. For a shared file the program also registers an encoding of the keys under a name, so that other processes
 * can use the order, too.
 *
 * usage: numbers DIRECTORY [shared]
 */
#include <db.h>
#include <libtp.h>

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Compares two numbers without leading zeros: the longer one is greater. */
static int by_number(const DBT *one, const DBT *other)
{
    if (one->size != other->size)
        return one->size < other->size ? -1 : 1;
    return memcmp(one->data, other->data, one->size);
}

/* Encodes a number in the same order: a byte with the number of digits, then the digits. */
static size_t with_length(const void *bytes, size_t size, void *made, size_t room, void *argument)
{
    (void)argument;
    if (size < room) {
        *(unsigned char *)made = (unsigned char)size;
        memcpy((unsigned char *)made + 1, bytes, size);
    }
    return size + 1;
}

static size_t without_length(const void *bytes, size_t size, void *made, size_t room, void *argument)
{
    (void)argument;
    if (size > 0 && size - 1 <= room)
        memcpy(made, (const unsigned char *)bytes + 1, size - 1);
    return size > 0 ? size - 1 : 0;
}

static int failed(const char *what)
{
    printf("%s: %s (%s)\n", what, strerror(errno), tp_error());
    return 1;
}

int main(int count, char **arguments)
{
    static const char *const numbers[] = {"100", "9", "23", "1000", "24"};
    char path[4096];
    BTREEINFO info;
    DBT key, data;
    DB *db;
    unsigned how;
    size_t n;

    if (count < 2)
        return 2;
    mkdir(arguments[1], 0777);
    snprintf(path, sizeof path, "%s/numbers", arguments[1]);
    memset(&info, 0, sizeof info);
    info.compare = by_number;
    if (count > 2) {
        /* The library refuses a comparison without a name. */
        if (dbopen(path, O_RDWR | O_CREAT | (int)DB_TXN, 0666, DB_BTREE, &info) != NULL)
            return failed("the library accepted a comparison without a name");
        if (db_order(by_number, "decimal") == 0)
            return failed("the library accepted an order that the program has not registered");
        if (tp_order("decimal", with_length, without_length, NULL) != TP_OK || db_order(by_number, "decimal") != 0)
            return failed("order");
    }
    db = dbopen(path, O_RDWR | O_CREAT | (count > 2 ? (int)DB_TXN : 0), 0666, DB_BTREE, &info);
    if (db == NULL)
        return failed("dbopen");
    for (n = 0; n < sizeof numbers / sizeof *numbers; n++) {
        key.data = data.data = (void *)numbers[n];
        key.size = data.size = strlen(numbers[n]);
        if (db->put(db, &key, &data, 0) != 0)
            return failed("put");
    }
    for (how = R_FIRST; db->seq(db, &key, &data, how) == 0; how = R_NEXT)
        printf("%.*s ", (int)key.size, (const char *)key.data);
    key.data = (void *)"99";
    key.size = 2;
    if (db->seq(db, &key, &data, R_CURSOR) != 0)
        return failed("seq");
    printf("from 99 on: %.*s\n", (int)key.size, (const char *)key.data);
    return db->close(db) == 0 ? 0 : failed("close");
}
