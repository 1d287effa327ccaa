/*
 * db(3)'s records by number: several processes insert and delete records, which renumbers the records for all of these
 * processes.
 *
 * usage: db3_records DIRECTORY open COUNT          makes COUNT cards, numbered from 0, in order
 *        db3_records DIRECTORY moves NAME COUNT    moves COUNT cards (if COUNT is 0: until it is killed), each with a line in the diary
 *        db3_records DIRECTORY marks NAME COUNT    inserts a mark in the middle, and writes to it through the cursor
 *        db3_records DIRECTORY audit               prints the numbers of cards, marks and diary lines, and the cards' sum
 *
 * A card is a record "card N", and every N exists once. A mark is a record "mark NAME N". A move deletes a card and inserts it
 * elsewhere. The diary has a line "NAME N" for each move, in the order of the commits. The diary's oldest lines are deleted.
 */
#include <db.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define LINES_MAX 64

static DB *cards, *diary;
static unsigned long state;

static void give_up(const char *what)
{
    fprintf(stderr, "%s: %s (%s)\n", what, strerror(errno), tp_error());
    exit(1);
}

static unsigned below(unsigned limit)
{
    state = state * 6364136223846793005ul + 1442695040888963407ul;
    return (unsigned)(state >> 33) % limit;
}

static DB *open_(const char *directory, const char *name)
{
    char path[4096];
    DB *db;
    snprintf(path, sizeof path, "%s/%s", directory, name);
    db = dbopen(path, O_RDWR | O_CREAT | (int)DB_TXN, 0666, DB_RECNO, NULL);
    if (db == NULL)
        give_up("dbopen");
    return db;
}

/* Reads a record as a string. */
static int seq(DB *db, recno_t *number, char *text, size_t room, unsigned how)
{
    DBT key, data;
    int code;
    key.data = number;
    key.size = sizeof *number;
    code = db->seq(db, &key, &data, how);
    if (code != 0)
        return code;
    memcpy(number, key.data, sizeof *number);
    if (data.size >= room) {
        errno = ERANGE;
        return -1;
    }
    memcpy(text, data.data, data.size);
    text[data.size] = 0;
    return 0;
}

static int put(DB *db, recno_t number, const char *text, unsigned how)
{
    DBT key, data;
    key.data = &number;
    key.size = sizeof number;
    data.data = (void *)text;
    data.size = strlen(text);
    return db->put(db, &key, &data, how);
}

static int del(DB *db, recno_t number, unsigned how)
{
    DBT key;
    key.data = &number;
    key.size = sizeof number;
    return db->del(db, &key, how);
}

/* Makes one move and writes its line; returns -1 if the caller has to repeat the move. */
static int move(const char *name, int number)
{
    char card[64], line[64];
    recno_t last, from, to;
    if (seq(cards, &last, card, sizeof card, R_LAST) != 0)
        return -1;
    from = 1 + below(last);
    if (seq(cards, &from, card, sizeof card, R_CURSOR) != 0)
        return -1;
    /* A mark is not moved, because another process writes to it. */
    if (strncmp(card, "card ", 5) == 0) {
        if (del(cards, from, below(2) ? R_CURSOR : 0) != 0)
            return -1;
        to = 1 + below(last - 1);
        if (put(cards, below(2) ? to - 1 : last - 1, card, R_IAFTER) != 0)
            return -1;
    }
    snprintf(line, sizeof line, "%s %d", name, number);
    last = 0;
    if (seq(diary, &last, card, sizeof card, R_LAST) < 0 || put(diary, last, line, R_IAFTER) != 0)
        return -1;
    return last >= LINES_MAX ? del(diary, 1, 0) : 0;
}

static void ended(const char *what)
{
    int why = errno;
    if (txn_abort() != 0)
        give_up("txn_abort");
    errno = why;
    if (why != EDEADLK && why != EAGAIN)
        give_up(what);
}

static void moves(const char *name, int count)
{
    int done = 0;
    while (count == 0 || done < count) {
        if (txn_begin() != 0)
            give_up("txn_begin");
        if (move(name, done) != 0)
            ended("move");
        else if (txn_commit() == 0)
            done++;
        else if (errno != EAGAIN)
            give_up("txn_commit");
    }
    printf("%d done\n", done);
}

/* The cursor stays on its mark while other processes insert and remove cards in front of the mark. */
static void marks(const char *name, int count)
{
    char text[64], mine[64];
    recno_t number;
    int done;
    snprintf(mine, sizeof mine, "mark %s 0", name);
    /* All steps are in one transaction, because other processes renumber the records between two transactions. */
    for (;;) {
        if (txn_begin() != 0)
            give_up("txn_begin");
        if (seq(cards, &number, text, sizeof text, R_LAST) == 0 && put(cards, 1 + number / 2, mine, R_IBEFORE) == 0) {
            number = 1 + number / 2;
            if (seq(cards, &number, text, sizeof text, R_CURSOR) == 0 && txn_commit() == 0)
                break;
        }
        ended("mark");
    }
    for (done = 1; done <= count; done++) {
        snprintf(mine, sizeof mine, "mark %s %d", name, done);
        if (put(cards, 0, mine, R_CURSOR) != 0)
            give_up("put at the cursor");
        if (done % 8 != 0)
            continue;
        /* The cursor makes a step forward and a step back, in one transaction: between two transactions another process
         * could insert a card here. */
        while (txn_begin() == 0) {
            int there = seq(cards, &number, text, sizeof text, R_NEXT);
            int back = there < 0 ? -1 : seq(cards, &number, text, sizeof text, there == 0 ? R_PREV : R_LAST);
            if (back < 0)
                ended("there and back");
            else if (txn_commit() == 0)
                break;
        }
        if (strcmp(text, mine) != 0) {
            fprintf(stderr, "the cursor of %s has gone to \"%s\"\n", name, text);
            exit(1);
        }
    }
    printf("%d done\n", done - 1);
}

static void audit(void)
{
    char text[64], name[64];
    char names[16][64];
    int last[16];
    recno_t number = 0;
    int n, at, known = 0, count = 0, sum = 0, marked = 0, lines = 0;
    unsigned how;
    for (how = R_FIRST; seq(cards, &number, text, sizeof text, how) == 0; how = R_NEXT) {
        if (number != (recno_t)(count + marked + 1))
            printf("record %u has number %u\n", (unsigned)(count + marked + 1), (unsigned)number);
        if (sscanf(text, "card %d", &n) == 1)
            sum += n, count++;
        else if (sscanf(text, "mark %63s %d", name, &n) == 2)
            marked++;
        else
            printf("a record is neither a card nor a mark: \"%s\"\n", text);
    }
    for (how = R_FIRST; seq(diary, &number, text, sizeof text, how) == 0; how = R_NEXT, lines++) {
        if (sscanf(text, "%63s %d", name, &n) != 2)
            printf("a line has no name and number: \"%s\"\n", text);
        for (at = 0; at < known && strcmp(names[at], name) != 0; at++)
            ;
        if (at == known && known < 16) {
            strcpy(names[known++], name);
        } else if (n != last[at] + 1)
            printf("line %d of %s follows line %d\n", n, name, last[at]);
        last[at] = n;
    }
    printf("%d cards, sum %d, %d marks, %d lines\n", count, sum, marked, lines);
}

int main(int count, char **arguments)
{
    const char *what;
    char text[64];
    int n;
    if (count < 3)
        return 2;
    what = arguments[2];
    mkdir(arguments[1], 0777);
    cards = open_(arguments[1], "cards");
    diary = open_(arguments[1], "diary");
    for (what = arguments[count > 3 ? 3 : 2]; *what != 0; what++)
        state = state * 31 + (unsigned char)*what;
    what = arguments[2];
    if (strcmp(what, "open") == 0) {
        for (n = 0; n < atoi(arguments[3]); n++) {
            snprintf(text, sizeof text, "card %d", n);
            if (put(cards, (recno_t)n + 1, text, R_NOOVERWRITE) != 0)
                give_up("put");
        }
    } else if (strcmp(what, "audit") == 0)
        audit();
    else if (strcmp(what, "marks") == 0)
        marks(arguments[3], atoi(arguments[4]));
    else
        moves(arguments[3], atoi(arguments[4]));
    if (cards->close(cards) != 0 || diary->close(diary) != 0)
        give_up("close");
    return 0;
}
