/*
 * Berkeley DB 3's interface for nvi (nvi_db.h), over <db.h> of this library. nvi uses recno files only.
 *
 * nvi reads a text file into a recno file (set_re_source), closes it, opens it again without the text, edits the lines,
 * and syncs them now and then. Here bfname names the recno file, and the text file is opened for reading
 * only. Each open is in plain mode, so a sync is what saves the lines from a crash.
 */
#define DB db185
#define DBT dbt185
#define DBTYPE dbtype185
#define DB_BTREE db185_btree
#define DB_HASH db185_hash
#define DB_RECNO db185_recno
#include <db_185.h>
#undef DB
#undef DBT
#undef DBTYPE
#undef DB_BTREE
#undef DB_HASH
#undef DB_RECNO
#undef DB_LOCK
#undef DB_SHMEM
#undef DB_TXN
#include "nvi_db.h"

#include <stdlib.h>
#include <string.h>

static db185 *lines_of(DB *file)
{
    return (db185 *)file->lines;
}

/* Returns the code of Berkeley DB 3 for a code of db 1.85. */
static int code_of(int code)
{
    return code == RET_SPECIAL ? DB_NOTFOUND : code == RET_ERROR ? errno : 0;
}

static db_recno_t number_in(const DBT *key)
{
    db_recno_t number;
    memcpy(&number, key->data, sizeof number);
    return number;
}

/* Passes a line to the caller of a call. */
static int passed(const dbt185 *line, DBT *data)
{
    data->size = (u_int32_t)line->size;
    if ((data->flags & DB_DBT_USERMEM) == 0) {
        data->data = line->data;
        return 0;
    }
    if (line->size > data->ulen)
        return DB_BUFFER_SMALL;
    if (line->size != 0)
        memcpy(data->data, line->data, line->size);
    return 0;
}

static int get_line(DB *file, db_recno_t number, DBT *data)
{
    dbt185 key, line;
    int code;
    key.data = &number;
    key.size = sizeof number;
    code = code_of(lines_of(file)->get(lines_of(file), &key, &line, 0));
    return code != 0 ? code : passed(&line, data);
}

static int put_line(DB *file, db_recno_t number, const DBT *data, unsigned how)
{
    dbt185 key, line;
    key.data = &number;
    key.size = sizeof number;
    line.data = data->data;
    line.size = data->size;
    return code_of(lines_of(file)->put(lines_of(file), &key, &line, how));
}

/* Finds the first or the last line, as `which` says. */
static int end_of(DB *file, unsigned which, db_recno_t *number, DBT *data)
{
    dbt185 key, line;
    int code = code_of(lines_of(file)->seq(lines_of(file), &key, &line, which));
    if (code != 0)
        return code;
    memcpy(number, key.data, sizeof *number);
    return data == NULL ? 0 : passed(&line, data);
}

static int cursor_get(DBC *cursor, DBT *key, DBT *data, u_int32_t what)
{
    db_recno_t number = 0;
    int code;
    if (what == DB_SET) {
        number = number_in(key);
        code = get_line(cursor->file, number, data);
    } else {
        code = end_of(cursor->file, what == DB_FIRST ? R_FIRST : R_LAST, &number, data);
    }
    if (code != 0)
        return code;
    cursor->number = number;
    key->data = &cursor->number;
    key->size = sizeof cursor->number;
    return 0;
}

static int cursor_put(DBC *cursor, DBT *key, DBT *data, u_int32_t what)
{
    (void)key;
    return put_line(cursor->file, cursor->number, data, what == DB_AFTER ? R_IAFTER : R_IBEFORE);
}

static int cursor_close(DBC *cursor)
{
    free(cursor);
    return 0;
}

static int file_cursor(DB *file, DB_TXN *txn, DBC **cursor, u_int32_t flags)
{
    (void)txn;
    (void)flags;
    *cursor = calloc(1, sizeof **cursor);
    if (*cursor == NULL)
        return ENOMEM;
    (*cursor)->c_get = cursor_get;
    (*cursor)->c_put = cursor_put;
    (*cursor)->c_close = cursor_close;
    (*cursor)->file = file;
    return 0;
}

static int file_open(DB *file, const char *kept, const char *database, DBTYPE type, u_int32_t flags, int mode)
{
    RECNOINFO info;
    memset(&info, 0, sizeof info);
    (void)type;
    (void)flags;
    info.bval = (unsigned char)file->delimiter;
    info.psize = file->page_size;
    info.bfname = (char *)kept;
    file->is_kept = kept != NULL;
    if (database != NULL)
        return EINVAL;
    if (file->source != NULL)
        file->lines = dbopen(file->source, O_RDONLY | O_NONBLOCK, mode, db185_recno, &info);
    else
        file->lines = dbopen(NULL, O_RDWR | O_CREAT, mode, db185_recno, &info);
    return file->lines == NULL ? errno : 0;
}

static int file_sync(DB *file, u_int32_t flags)
{
    (void)flags;
    return file->is_kept ? code_of(lines_of(file)->sync(lines_of(file), R_RECNOSYNC)) : 0;
}

static int file_close(DB *file, u_int32_t flags)
{
    int code = file->lines == NULL ? 0 : file_sync(file, flags);
    if (file->lines != NULL && lines_of(file)->close(lines_of(file)) != 0 && code == 0)
        code = errno;
    free(file->source);
    free(file);
    return code;
}

static int file_del(DB *file, DB_TXN *txn, DBT *key, u_int32_t flags)
{
    db_recno_t number = number_in(key);
    dbt185 of_line;
    (void)txn;
    (void)flags;
    of_line.data = &number;
    of_line.size = sizeof number;
    return code_of(lines_of(file)->del(lines_of(file), &of_line, 0));
}

static int file_fd(DB *file, int *descriptor)
{
    *descriptor = lines_of(file)->fd(lines_of(file));
    return *descriptor == -1 ? errno : 0;
}

static int file_get(DB *file, DB_TXN *txn, DBT *key, DBT *data, u_int32_t flags)
{
    (void)txn;
    (void)flags;
    return get_line(file, number_in(key), data);
}

static int file_put(DB *file, DB_TXN *txn, DBT *key, DBT *data, u_int32_t what)
{
    db_recno_t number;
    int code;
    (void)txn;
    if (what != DB_APPEND)
        return put_line(file, number_in(key), data, 0);
    code = end_of(file, R_LAST, &number, NULL);
    if (code != 0 && code != DB_NOTFOUND)
        return code;
    return put_line(file, code == 0 ? number + 1 : 1, data, 0);
}

static int file_set_flags(DB *file, u_int32_t flags)
{
    (void)file;
    (void)flags;
    return 0;
}

static int file_set_pagesize(DB *file, u_int32_t size)
{
    file->page_size = size;
    return 0;
}

static int file_set_re_delim(DB *file, int byte)
{
    file->delimiter = byte;
    return 0;
}

static int file_set_re_source(DB *file, const char *text)
{
    file->source = strdup(text);
    return file->source == NULL ? ENOMEM : 0;
}

int db_create(DB **made, DB_ENV *environment, u_int32_t flags)
{
    DB *file = calloc(1, sizeof *file);
    (void)environment;
    (void)flags;
    if (file == NULL)
        return ENOMEM;
    file->open = file_open;
    file->close = file_close;
    file->cursor = file_cursor;
    file->del = file_del;
    file->fd = file_fd;
    file->get = file_get;
    file->put = file_put;
    file->set_flags = file_set_flags;
    file->set_pagesize = file_set_pagesize;
    file->set_re_delim = file_set_re_delim;
    file->set_re_source = file_set_re_source;
    file->sync = file_sync;
    file->delimiter = '\n';
    *made = file;
    return 0;
}

static int env_open(DB_ENV *environment, const char *path, u_int32_t flags, int mode)
{
    (void)environment;
    (void)path;
    (void)flags;
    (void)mode;
    return 0;
}

static int env_close(DB_ENV *environment, u_int32_t flags)
{
    (void)flags;
    free(environment);
    return 0;
}

static int env_remove(DB_ENV *environment, const char *path, u_int32_t flags)
{
    (void)path;
    return env_close(environment, flags);
}

/* Makes an environment, which has no files here. */
int db_env_create(DB_ENV **made, u_int32_t flags)
{
    (void)flags;
    *made = calloc(1, sizeof **made);
    if (*made == NULL)
        return ENOMEM;
    (*made)->open = env_open;
    (*made)->close = env_close;
    (*made)->remove = env_remove;
    return 0;
}

char *db_strerror(int code)
{
    return code > 0 ? strerror(code) : (char *)"there is no such line";
}
