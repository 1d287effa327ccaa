/*
 * The part of Berkeley DB 3's interface that nvi 1.81 uses. nvi_db.c carries it out with <db.h> of this library, for
 * DB_RECNO only. The build of nvi includes this header as db.h.
 */
#ifndef NVI_DB_H
#define NVI_DB_H

#include <stddef.h>
#include <sys/types.h>

#define DB_VERSION_MAJOR 3
#define DB_VERSION_MINOR 1

#define DB_BUFFER_SMALL (-30999)
#define DB_NOTFOUND (-30998)

typedef u_int32_t db_recno_t;
typedef enum { DB_RECNO = 3 } DBTYPE;

/* Names in the declarations of nvi, which are not used. */
typedef struct db_txn DB_TXN;
typedef struct db_lsn {
    u_int32_t file, offset;
} DB_LSN;
typedef int db_recops;

typedef struct db_dbt {
    void *data;
    u_int32_t size;
    u_int32_t ulen; /* the number of bytes at data, with DB_DBT_USERMEM */
    u_int32_t flags;
} DBT;

#define DB_DBT_USERMEM 1 /* data is memory of the caller */

/* Flags that have no effect here. */
#define DB_CREATE 0
#define DB_INIT_MPOOL 0
#define DB_MPOOL_CREATE 0
#define DB_NOMMAP 0
#define DB_NOSYNC 0
#define DB_PRIVATE 0
#define DB_RENUMBER 0
#define DB_SNAPSHOT 0
#define DB_THREAD 0
#define DB_TRUNCATE 0

#define DB_MAX_RECORDS 0xffffffff

/* What a call does. */
enum { DB_SET = 1, DB_FIRST, DB_LAST, DB_AFTER, DB_BEFORE, DB_APPEND };

typedef struct db_env {
    int (*open)(struct db_env *, const char *path, u_int32_t flags, int mode);
    int (*close)(struct db_env *, u_int32_t flags);
    int (*remove)(struct db_env *, const char *path, u_int32_t flags);
} DB_ENV;

typedef struct db_cursor {
    int (*c_get)(struct db_cursor *, DBT *key, DBT *data, u_int32_t what);
    int (*c_put)(struct db_cursor *, DBT *key, DBT *data, u_int32_t what);
    int (*c_close)(struct db_cursor *);
    struct db_file *file;
    db_recno_t number; /* 0: the cursor has no place yet */
} DBC;

typedef struct db_file {
    int (*open)(struct db_file *, const char *file, const char *database, DBTYPE type, u_int32_t flags, int mode);
    int (*close)(struct db_file *, u_int32_t flags);
    int (*cursor)(struct db_file *, DB_TXN *, DBC **, u_int32_t flags);
    int (*del)(struct db_file *, DB_TXN *, DBT *key, u_int32_t flags);
    int (*fd)(struct db_file *, int *descriptor);
    int (*get)(struct db_file *, DB_TXN *, DBT *key, DBT *data, u_int32_t flags);
    int (*put)(struct db_file *, DB_TXN *, DBT *key, DBT *data, u_int32_t flags);
    int (*set_flags)(struct db_file *, u_int32_t flags);
    int (*set_pagesize)(struct db_file *, u_int32_t size);
    int (*set_re_delim)(struct db_file *, int byte);
    int (*set_re_source)(struct db_file *, const char *text);
    int (*sync)(struct db_file *, u_int32_t flags);
    void *lines;        /* the DB of dbopen(3) */
    char *source;       /* the text file from which the lines are read */
    int delimiter;      /* the byte that ends a line of the text file */
    unsigned page_size; /* 0: the usual size */
    int is_kept;        /* the lines are kept in a file, too */
} DB;

int db_create(DB **, DB_ENV *, u_int32_t flags);
int db_env_create(DB_ENV **, u_int32_t flags);
char *db_strerror(int code);

#endif
