/*
 * libtp.h: transactions over records on disk, which any number of processes share.
 *
 * An environment is a directory. Any number of processes open it at once and change its databases in transactions. Any of them may
 * be killed at any instruction: the others repair what it held in the shared memory, undo what it had not committed, and go on.
 *
 *     tp_env *env;
 *     tp_db *accounts;
 *     tp_txn *txn;
 *     if (tp_env_open("bank", NULL, 0, &env) != TP_OK || tp_btree_open(env, "accounts", &accounts) != TP_OK)
 *         ...
 *     int code = tp_begin(env, TP_DEFAULT, &txn);
 *     if (code == TP_OK)
 *         code = tp_put(accounts, txn, "alice", 5, "10", 2);
 *     if (code == TP_OK)
 *         code = tp_commit(txn);
 *     else
 *         tp_abort(txn);
 *     if (code != TP_OK)
 *         fprintf(stderr, "%s\n", tp_error());
 *
 * Answers. Every call that can fail returns TP_OK (zero) or one of the codes below, which are all negative. tp_error then has a
 * sentence: which file, page or value, what was kept, what to do. A call that fails has changed nothing, unless it is said
 * otherwise, and an answer that was to be a handle is NULL.
 *
 * Handles. What the library hands out is no address of anything: it is looked up. NULL, a handle of another kind and one that was
 * closed are refused (TP_MISUSE), not followed. tp_env_close, tp_abort and the other calls that close something do nothing with NULL.
 *
 * Memory. What is handed in is lent for the call. What is handed out is copied into a tp_buffer, which is the program's: it stays
 * as it is until the program uses the buffer again or frees it.
 *
 * Threads. Environments and databases may be used by all threads at once. A transaction, with its cursors, is used by one
 * thread at a time, not always by the same; if two use it at once, one of them is refused (TP_MISUSE). Errors are told to the
 * thread that made the call.
 *
 * Fork. Handles do not go through a fork: in the child every call with one of the parent's answers TP_FORKED, and the parent goes on
 * as if nothing had been. The child opens the environment for itself. It may end its parent's transactions and close its
 * environment, which changes nothing of theirs.
 *
 * Functions of the program (tp_work, tp_change) return: neither longjmp nor a C++ exception may leave them.
 */
#ifndef LIBTP_H
#define LIBTP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this header. tp_version has that of the library. */
#define TP_VERSION "0.1.0"

typedef struct tp_env tp_env;                   /* an environment */
typedef struct tp_txn tp_txn;                   /* a transaction, or a snapshot */
typedef struct tp_db tp_db;                     /* a database of keys and values */
typedef struct tp_recno tp_recno;               /* a database of records by number */
typedef struct tp_cursor tp_cursor;             /* a place in a tp_db */
typedef struct tp_recno_cursor tp_recno_cursor; /* a place in a tp_recno */
typedef struct tp_pending tp_pending;           /* a commit of tp_commit_async */

/*
 * A buffer for answers. To begin with it is TP_BUFFER, or all zero. Each answer replaces the last. Behind the size bytes lies a
 * zero, so that a text can be used as one; room says how much memory there is. The memory is malloc's: the program may put
 * its own there (with room its length), or take it, and set data to NULL and room to 0; what is left tp_buffer_free gives back.
 */
typedef struct tp_buffer {
    void *data;
    size_t size;
    size_t room;
} tp_buffer;

#define TP_BUFFER {NULL, 0, 0}

enum {
    TP_OK = 0,
    TP_NOTFOUND = -31001,         /* there is no such record, or none further on */
    TP_EXISTS = -31002,           /* tp_put_new: the key is there already */
    TP_DEADLOCK = -31003,         /* transactions waited for each other, and this one was chosen to end: abort it, run it again */
    TP_LOCK_TIMEOUT = -31004,     /* a lock was not granted within the time set: abort, and run it again */
    TP_REBUILT = -31005,          /* the shared memory was made anew; the transaction was undone: abort, and run it again */
    TP_PANICKED = -31006,         /* a bug of the library, or damaged memory, cost this transaction alone: abort, and run it again */
    TP_SNAPSHOT_TOO_OLD = -31007, /* the snapshot needs what is not kept any more: begin another */
    TP_OUTCOME_UNKNOWN = -31008,  /* the commit was written, and whether it is kept is not known: look before running it again */
    TP_HALF_UNDONE = -31009,      /* a part of it could not be taken back, so the commit undid all of it */
    TP_FULL = -31010,             /* something is full: a disk, a table, memory */
    TP_CORRUPT = -31011,          /* a file, a page or a log record is damaged */
    TP_FAILED = -31012,           /* writing to disk failed: no more changes are taken until the environment is opened anew */
    TP_LENGTH = -31013,           /* a key, value or record has a length that the database does not take */
    TP_NO_DATABASE = -31014,      /* there is no such database */
    TP_DATABASE = -31015,         /* the database is of another kind, or its name cannot be a file's */
    TP_ENVIRONMENT = -31016,      /* the directory is no environment, or cannot be opened here */
    TP_NOT_LASTING = -31017,      /* TP_RIO was asked for, and the memory does not outlive the system */
    TP_SEGMENT = -31018,          /* a segment of memory cannot be opened or joined */
    TP_FORKED = -31019,           /* the handle is the parent's: open the environment in this process */
    TP_SETTINGS = -31020,         /* the settings cannot be read */
    TP_IO = -31021,               /* reading or writing failed */
    TP_MISUSE = -31022,           /* NULL, a handle of another kind, a closed one, one that another thread uses */
    TP_IN_USE = -31023,           /* what was to be closed is used, and stays open */
    TP_BUG = -31024,              /* a bug of the library that came again, or is the caller's to know */
    TP_OTHER = -31099             /* what this header does not know yet */
};

/* Commits are answered: */
enum {
    TP_DEFAULT = 0, /* as the environment's settings say */
    TP_SYNC = 1,    /* when they are on disk */
    TP_RELAXED = 2, /* at once: they survive any process, and are on disk a tenth of a second later */
    TP_RIO = 3      /* at once, from memory that outlives a crash of the system */
};

/* For tp_env_open, added up. */
enum {
    TP_NO_CREATE = 1,  /* an environment that is not there is not made */
    TP_KEEP_FILES = 2, /* where shared memory and log files disagree the files are right */
    TP_KEEP_REGION = 4 /* where they disagree the shared memory is right */
};

/* What a transaction does, for tp_run: it returns TP_OK to commit, and anything else to abort. */
typedef int tp_work(tp_txn *txn, void *argument);

/* Changes a value where it lies, for tp_update. It calls nothing of this library. */
typedef void tp_change(void *value, size_t size, void *argument);

/* -- The library -- */

/* The version of the library, as "0.1.0". */
const char *tp_version(void);

/* What was wrong with this thread's last call that did not return TP_OK: a sentence, which stands until its next such call. */
const char *tp_error(void);

/* What a code means, in a few words. */
const char *tp_strerror(int code);

/* Whether the same transaction, run again from its beginning, may succeed without anyone doing anything (or the same reading, in
 * another snapshot): 1 or 0. */
int tp_is_retryable(int code);

/* Gives the buffer's memory back. It can be used again, as one that is new. */
void tp_buffer_free(tp_buffer *buffer);

/* -- Environments -- */

/* Opens the environment in the directory, and makes it if it is missing. The settings are a text as in libtp.toml ("memory =
 * \"64MiB\"\ndurability = \"relaxed\""), and go over what that file says; NULL sets nothing. The flags are TP_NO_CREATE, TP_KEEP_FILES
 * or TP_KEEP_REGION, or 0. Restarts from the log where that is needed. */
int tp_env_open(const char *directory, const char *settings, unsigned int flags, tp_env **env);

/* Closes it. TP_IN_USE while a transaction goes on or a database is open. */
int tp_env_close(tp_env *env);

/* The names of its databases, sorted, each with a zero behind it. */
int tp_env_databases(tp_env *env, tp_buffer *names);

/* What opening did, as JSON: {"how":"restarted","millis":12,"log_bytes":...}. */
int tp_env_opened(tp_env *env, tp_buffer *json);

/* What it does and holds, as JSON, with the names of `tp stat --json`. */
int tp_env_stat(tp_env *env, tp_buffer *json);

/* Takes a checkpoint now, if nobody else is taking one. */
int tp_env_checkpoint(tp_env *env);

/* Writes to disk what has been committed so far. */
int tp_env_flush(tp_env *env);

/* One round of background work, for who opened with "no_background = true". */
int tp_env_background_step(tp_env *env);

/* -- Transactions -- */

/* Begins a transaction, whose commit is answered as durability says: TP_DEFAULT, TP_SYNC, TP_RELAXED or TP_RIO. */
int tp_begin(tp_env *env, int durability, tp_txn **txn);

/* Keeps what the transaction did, savepoints and all, and ends it, whatever is returned: with TP_OUTCOME_UNKNOWN it may be kept
 * or not, with any other code it was aborted. Only where the handle was refused (TP_MISUSE) it goes on. */
int tp_commit(tp_txn *txn);

/* As tp_commit, and does not wait for the disk: others see it at once, and tp_wait_durable waits for it. */
int tp_commit_async(tp_txn *txn, tp_pending **pending);

/* Waits until the commit is on disk, and ends the handle, whatever is returned. */
int tp_wait_durable(tp_pending *pending);

/* Ends the handle of a commit that nobody waits for. */
int tp_pending_free(tp_pending *pending);

/* Takes back what the transaction did, and ends it, whatever is returned. */
int tp_abort(tp_txn *txn);

/* Runs work in transactions until one commits: again after each that ended with a code that is retryable. A code of its own that
 * work returns is returned, after the transaction was aborted. */
int tp_run(tp_env *env, int durability, tp_work *work, void *argument);

/* The transaction's number, as tools show it. */
int tp_txn_id(tp_txn *txn, uint64_t *id);

/* Notes how far the transaction is. */
int tp_savepoint(tp_txn *txn, uint64_t *savepoint);

/* Ends a savepoint, and those made after it: what was done since is the transaction's. */
int tp_savepoint_keep(tp_txn *txn, uint64_t savepoint);

/* Takes back what the transaction did since, and ends the savepoint and those made after it; the transaction goes on with all its
 * locks. If this fails the transaction cannot be committed any more. */
int tp_savepoint_roll_back(tp_txn *txn, uint64_t savepoint);

/* Begins a snapshot: what everybody had committed by now, to be read without a lock, while others write. It is given to the calls
 * that read, and ends with tp_commit or tp_abort, which are the same for it. */
int tp_snapshot(tp_env *env, tp_txn **snapshot);

/* Waits until all that the snapshot shows is on disk. */
int tp_snapshot_durable(tp_txn *snapshot);

/* -- Databases of keys and values -- */

/* Opens a B-tree, and makes it if it is missing. */
int tp_btree_open(tp_env *env, const char *name, tp_db **db);

/*
 * Opens a hash file, and makes it if it is missing: keys are found in one step and have no order. Its cursors go one way, with
 * tp_cursor_first and tp_cursor_next; the others are refused (TP_DATABASE).
 */
int tp_hash_open(tp_env *env, const char *name, tp_db **db);

/* Closes it. TP_IN_USE while a transaction has a cursor over it. */
int tp_db_close(tp_db *db);

/* The longest key it takes. */
int tp_db_key_max(tp_db *db, size_t *size);

/* The value of a key, or TP_NOTFOUND. In a transaction the key is locked for reading until that ends. */
int tp_get(tp_db *db, tp_txn *txn, const void *key, size_t key_size, tp_buffer *value);

/* As tp_get, locked for writing at once: a tp_put of the same key then ends in no deadlock over it. */
int tp_get_for_update(tp_db *db, tp_txn *txn, const void *key, size_t key_size, tp_buffer *value);

/* Lets change work on the value of a key, whose length stays; TP_NOTFOUND if there is no such key. */
int tp_update(tp_db *db, tp_txn *txn, const void *key, size_t key_size, tp_change *change, void *argument);

/* Stores a value under a key, whatever was there. */
int tp_put(tp_db *db, tp_txn *txn, const void *key, size_t key_size, const void *value, size_t value_size);

/* Stores a value under a key that is not there yet; else TP_EXISTS. */
int tp_put_new(tp_db *db, tp_txn *txn, const void *key, size_t key_size, const void *value, size_t value_size);

/* Removes a key and its value; TP_NOTFOUND if there was none. */
int tp_delete(tp_db *db, tp_txn *txn, const void *key, size_t key_size);

/* A cursor, which stands nowhere. In a transaction what it passes is locked for reading, the gaps between included. It ends with
 * the transaction; its handle is given back by tp_cursor_close, before that or after. */
int tp_cursor_open(tp_db *db, tp_txn *txn, tp_cursor **cursor);

int tp_cursor_close(tp_cursor *cursor);

/* The first pair, or TP_NOTFOUND if there is none. Here and below key or value may be NULL for who does not want it. */
int tp_cursor_first(tp_cursor *cursor, tp_buffer *key, tp_buffer *value);

/* The last pair. */
int tp_cursor_last(tp_cursor *cursor, tp_buffer *key, tp_buffer *value);

/* The first pair whose key is `from` or greater. */
int tp_cursor_seek(tp_cursor *cursor, const void *from, size_t from_size, tp_buffer *key, tp_buffer *value);

/* The next pair, the first if the cursor stands nowhere; TP_NOTFOUND behind the last. */
int tp_cursor_next(tp_cursor *cursor, tp_buffer *key, tp_buffer *value);

/* The pair before, the last if the cursor stands nowhere; TP_NOTFOUND before the first. */
int tp_cursor_prev(tp_cursor *cursor, tp_buffer *key, tp_buffer *value);

/* -- Databases of records by number -- */

/* Opens a database of records that all have record_size bytes, and makes it if it is missing. 0 takes one that is there as it
 * is. */
int tp_recno_open(tp_env *env, const char *name, uint32_t record_size, tp_recno **recno);

/* Closes it. TP_IN_USE while a transaction has a cursor over it. */
int tp_recno_close(tp_recno *recno);

/* The bytes of each record. */
int tp_recno_record_size(tp_recno *recno, uint32_t *size);

/* The record with the number, or TP_NOTFOUND. */
int tp_recno_get(tp_recno *recno, tp_txn *txn, uint64_t number, tp_buffer *record);

/* Stores a record under the number, whatever was there. */
int tp_recno_put(tp_recno *recno, tp_txn *txn, uint64_t number, const void *record, size_t record_size);

/* Stores a record under the next free number, and says which, unless number is NULL. Numbers of aborted transactions stay
 * empty. */
int tp_recno_append(tp_recno *recno, tp_txn *txn, const void *record, size_t record_size, uint64_t *number);

/* Removes a record; TP_NOTFOUND if there was none. */
int tp_recno_delete(tp_recno *recno, tp_txn *txn, uint64_t number);

/* As the calls of tp_cursor, in the order of the numbers. */
int tp_recno_cursor_open(tp_recno *recno, tp_txn *txn, tp_recno_cursor **cursor);
int tp_recno_cursor_close(tp_recno_cursor *cursor);
int tp_recno_cursor_first(tp_recno_cursor *cursor, uint64_t *number, tp_buffer *record);
int tp_recno_cursor_last(tp_recno_cursor *cursor, uint64_t *number, tp_buffer *record);
int tp_recno_cursor_seek(tp_recno_cursor *cursor, uint64_t from, uint64_t *number, tp_buffer *record);
int tp_recno_cursor_next(tp_recno_cursor *cursor, uint64_t *number, tp_buffer *record);
int tp_recno_cursor_prev(tp_recno_cursor *cursor, uint64_t *number, tp_buffer *record);

#ifdef __cplusplus
}
#endif
#endif
