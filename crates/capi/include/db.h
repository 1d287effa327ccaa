/*
 * db.h: the interface of 4.4BSD's db(3), version 1.85, over libtp.
 *
 * Programs written for db 1.85 compile against this header and link with -ltp. A file is opened in one of two modes:
 *
 *   plain      without DB_LOCK, DB_SHMEM and DB_TXN. One ordinary file, for one program at a time. sync and close write the
 *              changes to the file; until then the file does not change. Without a file name the database is in memory only.
 *   shared     with at least one of these flags. The file belongs to the environment of its directory (dbopen(3)), and any
 *              number of processes use it at once. With DB_TXN each call is a transaction, or a part of the transaction
 *              that the thread has begun with txn_begin.
 *
 * In both modes a DB_RECNO has a text file (recno(3)).
 *
 * Calls return 0 (RET_SUCCESS), 1 (RET_SPECIAL: there is no such key, or the key exists already) or -1 (RET_ERROR) with
 * errno set; tp_error then returns a text about the error. If a call stores an address in a DBT, the memory at that
 * address belongs to the library, and stays until the next call with the same DB.
 */
#ifndef _DB_H_
#define _DB_H_

#include <sys/types.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RET_ERROR -1 /* errno has the reason */
#define RET_SUCCESS 0
#define RET_SPECIAL 1 /* there is no such key, or the key exists already */

#ifndef EFTYPE
#define EFTYPE EINVAL /* a file of another kind */
#endif

#define MAX_PAGE_NUMBER 0xffffffff
#define MAX_PAGE_OFFSET 65535
#define MAX_REC_NUMBER 0xffffffff

typedef uint32_t pgno_t;
typedef uint16_t indx_t;
typedef uint32_t recno_t; /* numbers of records, from 1 */

/* A key, or data. */
typedef struct {
    void *data;
    size_t size;
} DBT;

/* Flags of the methods, with the methods that accept them. */
#define R_CURSOR 1      /* del, put, seq */
#define __R_UNUSED 127
#define R_FIRST 3       /* seq */
#define R_IAFTER 4      /* put (DB_RECNO) */
#define R_IBEFORE 5     /* put (DB_RECNO) */
#define R_LAST 6        /* seq (DB_BTREE, DB_RECNO) */
#define R_NEXT 7        /* seq */
#define R_NOOVERWRITE 8 /* put */
#define R_PREV 9        /* seq (DB_BTREE, DB_RECNO) */
#define R_SETCURSOR 10  /* put (DB_BTREE, DB_RECNO) */
#define R_RECNOSYNC 11  /* sync (DB_RECNO): do not write the text file */

typedef enum { DB_BTREE, DB_HASH, DB_RECNO } DBTYPE;

/* Flags of dbopen, in addition to those of open(2). */
#define DB_LOCK 0x20000000  /* calls of several processes exclude each other */
#define DB_SHMEM 0x40000000 /* the cache is in shared memory */
#define DB_TXN 0x80000000   /* calls are transactions; includes DB_LOCK and DB_SHMEM */

/* An open file. Its members are its methods: call them as in db->get(db, &key, &data, 0). */
typedef struct __db {
    DBTYPE type;
    int (*close)(struct __db *);
    int (*del)(const struct __db *, const DBT *, unsigned int);
    int (*get)(const struct __db *, const DBT *, DBT *, unsigned int);
    int (*put)(const struct __db *, DBT *, const DBT *, unsigned int);
    int (*seq)(const struct __db *, DBT *, DBT *, unsigned int);
    int (*sync)(const struct __db *, unsigned int);
    void *internal;
    int (*fd)(const struct __db *);
} DB;

#define BTREEMAGIC 0x053162
#define BTREEVERSION 3

/* The openinfo of a DB_BTREE. */
typedef struct {
    unsigned long flags;
#define R_DUP 1 /* a key may have several values, in the order of insertion */
    unsigned int cachesize;
    int maxkeypage;
    int minkeypage;
    unsigned int psize;
    int (*compare)(const DBT *, const DBT *);
    size_t (*prefix)(const DBT *, const DBT *);
    int lorder;
} BTREEINFO;

#define HASHMAGIC 0x061561
#define HASHVERSION 2

/* The openinfo of a DB_HASH. */
typedef struct {
    unsigned int bsize;
    unsigned int ffactor;
    unsigned int nelem;
    unsigned int cachesize;
    uint32_t (*hash)(const void *, size_t);
    int lorder;
} HASHINFO;

/* The openinfo of a DB_RECNO. */
typedef struct {
    unsigned long flags;
#define R_FIXEDLEN 1 /* all records have reclen bytes */
#define R_NOKEY 2    /* seq does not fill in the key */
#define R_SNAPSHOT 4 /* no effect: the whole file is read when it is opened, with or without this flag */
    unsigned int cachesize;
    unsigned int psize;
    int lorder;
    size_t reclen;
    unsigned char bval; /* the byte that ends a record, or that pads a record of fixed length */
    char *bfname;       /* a second file that has the records, too; NULL for no such file */
} RECNOINFO;

/* Opens a file, or a database in memory if file is NULL. Returns NULL with errno set if it fails. */
DB *dbopen(const char *file, int flags, int mode, DBTYPE type, const void *openinfo);

/*
 * Begin, commit or abort a transaction of the calling thread. The transaction includes all calls of the thread with
 * files of one directory that were opened with DB_TXN. Return 0, or -1 with errno set. If a call in the transaction
 * fails with EDEADLK, abort the transaction and run it again.
 */
int txn_begin(void);
int txn_commit(void);
int txn_abort(void);

/*
 * Comparison functions for a DB_BTREE. The library has names for their orders, so files in shared mode can use them,
 * too. db_compare_descending orders keys from the greatest to the least. db_compare_caseless treats the letters A to Z
 * like a to z. db_compare_little_endian compares unsigned numbers of one length with the least significant byte first.
 * The functions return a number below, equal to or above 0.
 */
int db_compare_descending(const DBT *one, const DBT *other);
int db_compare_caseless(const DBT *one, const DBT *other);
int db_compare_little_endian(const DBT *one, const DBT *other);

/*
 * Declares that a comparison function sorts in the order with this name: an order that tp_order (libtp.h) has
 * registered, or an order of the library. A DB_BTREE in shared mode can then use the function. Returns 0, or -1 with
 * errno set.
 */
int db_order(int (*compare)(const DBT *, const DBT *), const char *order);

/*
 * Returns a text about this thread's last call that failed. The text stays until the thread's next call that fails.
 */
const char *tp_error(void);

#ifdef __cplusplus
}
#endif

#endif /* _DB_H_ */
