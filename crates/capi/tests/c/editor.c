/*
 * An editor that uses db(3) as nvi does: it opens the text file only for reading, its edits go to the file of bfname
 * (KEPT), it has a list of changes in memory, and it recovers the edits from KEPT without the text file.
 *
 * usage: editor edit TEXT KEPT: edits, syncs the edits to KEPT, makes another edit, and waits to be killed
 *        editor recover TEXT KEPT: writes the synced edits in KEPT to TEXT
 */
#include <db.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void must(int is_right, const char *what)
{
    if (!is_right) {
        printf("%s: %s; %s\n", what, strerror(errno), tp_error());
        exit(1);
    }
}

static DBT dbt(const void *bytes, size_t size)
{
    DBT made;
    made.data = (void *)bytes;
    made.size = size;
    return made;
}

static void put(DB *lines, recno_t number, const char *text, unsigned flags)
{
    DBT key = dbt(&number, sizeof number), line = dbt(text, strlen(text));
    must(lines->put(lines, &key, &line, flags) == 0, "put");
}

static recno_t last(DB *lines)
{
    DBT key, line;
    recno_t number;
    must(lines->seq(lines, &key, &line, R_LAST) == 0, "the last line");
    memcpy(&number, key.data, sizeof number);
    return number;
}

static DB *opened(const char *text, const char *kept)
{
    RECNOINFO info;
    DB *lines;
    memset(&info, 0, sizeof info);
    info.bval = '\n';
    info.psize = 1024;
    info.bfname = (char *)kept;
    lines = dbopen(text, O_NONBLOCK | O_RDONLY, 0666, DB_RECNO, &info);
    must(lines != NULL, "dbopen");
    return lines;
}

static void edit(const char *text, const char *kept)
{
    DB *lines = opened(text, kept);
    DB *changes = dbopen(NULL, O_CREAT | O_NONBLOCK | O_RDWR, 0600, DB_RECNO, NULL);
    struct flock whole;
    recno_t number, count = last(lines);
    must(changes != NULL, "dbopen in memory");
    memset(&whole, 0, sizeof whole);
    whole.l_type = F_RDLCK;
    must(fcntl(lines->fd(lines), F_SETLK, &whole) == 0, "the lock of the text");
    must(lines->sync(lines, R_RECNOSYNC) == 0, "the first sync");
    for (number = 1; number <= 100; number++) {
        DBT key = dbt(&number, sizeof number), change = dbt("\1\n\0with any bytes", 16);
        must(changes->put(changes, &key, &change, 0) == 0, "a change noted");
        put(lines, number * 2, "inserted", R_IBEFORE);
    }
    put(lines, 1, "the first line", 0);
    put(lines, 0, "a line before all", R_IAFTER);
    put(lines, last(lines), "the end", R_IAFTER);
    number = 5;
    for (count = 0; count < 3; count++) {
        DBT key = dbt(&number, sizeof number);
        must(lines->del(lines, &key, 0) == 0, "del");
    }
    must(lines->sync(lines, R_RECNOSYNC) == 0, "sync");
    put(lines, 1, "not safe yet", 0);
    printf("safe\n");
    fflush(stdout);
    for (;;)
        pause();
}

static void recover(const char *text, const char *kept)
{
    DB *lines = opened(NULL, kept);
    DBT key, line;
    int code;
    FILE *file = fopen(text, "w");
    must(file != NULL, "the text");
    for (code = lines->seq(lines, &key, &line, R_FIRST); code == 0; code = lines->seq(lines, &key, &line, R_NEXT))
        must(fwrite(line.data, 1, line.size, file) == line.size && putc('\n', file) == '\n', "a line");
    must(code == RET_SPECIAL && fclose(file) == 0, "the lines");
    must(lines->close(lines) == 0, "close");
}

int main(int count, char **arguments)
{
    must(count == 4, "usage: editor edit|recover TEXT KEPT");
    if (strcmp(arguments[1], "edit") == 0)
        edit(arguments[2], arguments[3]);
    recover(arguments[2], arguments[3]);
    return 0;
}
