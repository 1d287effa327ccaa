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
 * Codes of the program's own. A function of the program that returns a code (tp_work, tp_index_function, tp_visit, tp_next_pair, tp_watch,
 * tp_log_visit) may return one of its own: any number but 0 and those from -31999 to -31000, which the library keeps for itself. The call
 * that led to the function then changes nothing, and returns that code; tp_error has a sentence with the code, tp_strerror says that the
 * code is not the library's, and tp_is_retryable says 0.
 *
 * Functions of the program (tp_work, tp_change, tp_page_change, tp_recode, tp_index_function, tp_visit, tp_next_pair, tp_watch,
 * tp_log_visit) return: neither longjmp nor a C++ exception may leave them.
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
typedef struct tp_multi tp_multi;               /* a database of keys with several values each */
typedef struct tp_list tp_list;                 /* a database of records by numbers that an insertion moves */
typedef struct tp_text tp_text;                 /* a file of text whose records a tp_list has */
typedef struct tp_index tp_index;               /* an index of a tp_db */
typedef struct tp_index_keys tp_index_keys;     /* the keys of a record in an index, while they are made */
typedef struct tp_segment tp_segment;           /* recoverable memory, which transactions join */
typedef struct tp_pages tp_pages;               /* a file of pages, whose bytes are the program's */
typedef struct tp_cursor tp_cursor;             /* a place in a tp_db */
typedef struct tp_recno_cursor tp_recno_cursor; /* a place in a tp_recno */
typedef struct tp_multi_cursor tp_multi_cursor; /* a place in a tp_multi */
typedef struct tp_list_cursor tp_list_cursor;   /* a place in a tp_list */
typedef struct tp_index_cursor tp_index_cursor; /* a place in a tp_index */
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
    TP_EXISTS = -31002,           /* tp_put_new: the key is there already; tp_multi_put: with this value */
    TP_DEADLOCK = -31003,         /* transactions waited for each other, and this one was chosen to end: abort it, run it again */
    TP_LOCK_TIMEOUT = -31004,     /* a lock was not granted within the time set: tp_error says who is in the way */
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
    TP_LOG_TYPE = -31025,         /* the log has records of a type of log record that was not registered */
    TP_NOT_PASSED = -31026,       /* the transaction cannot be passed on, or waits no more to be taken over */
    TP_NOT_EMPTY = -31027,        /* records are loaded into an empty database */
    TP_OUT_OF_ORDER = -31028,     /* records that were said to be sorted are not */
    TP_FILE = -31029,             /* a plain file cannot be read or changed as it was asked */
    TP_FILES_WAITING = -31030,    /* it is committed, and not all of its plain files are in their places: do not run it again */
    TP_BACKUP = -31031,           /* a backup cannot be taken there, or nothing can be restored from it */
    TP_CANCELLED = -31032,        /* tp_cancel_waits ended the wait for a lock: abort */
    TP_OWN_THREAD = -31033,       /* another transaction of this thread keeps the lock: end that first, or do both in one */
    TP_DROPPED = -31034,          /* the database was dropped, and the handle is from before */
    TP_OTHER = -31099             /* what this header does not know yet */
};

/* Commits are answered: */
enum {
    TP_DEFAULT = 0, /* as the environment's settings say */
    TP_SYNC = 1,    /* when they are on disk */
    TP_RELAXED = 2, /* at once: they survive any process, and are on disk a tenth of a second later */
    TP_RIO = 3      /* at once, from memory that outlives a crash of the system */
};

/* Added to the durability of tp_run: the transaction is run again also when it did not get a lock in time. */
enum {
    TP_AGAIN = 16
};

/* For tp_env_open, added up. */
enum {
    TP_NO_CREATE = 1,  /* an environment that is not there is not made */
    TP_KEEP_FILES = 2, /* where shared memory and log files disagree the files are right */
    TP_KEEP_REGION = 4 /* where they disagree the shared memory is right */
};

/* How the keys of a range are bounded, for tp_range: one of the first two, one of the second two, or of either none; or TP_PREFIX alone. */
enum {
    TP_FROM = 1,  /* the low key and those above */
    TP_ABOVE = 2, /* those above the low key */
    TP_UPTO = 4,  /* the high key and those below */
    TP_BELOW = 8, /* those below the high key */
    TP_PREFIX = 16 /* those that begin with the low key */
};

/*
 * Some of the keys of a database: {"b", 1, "p", 1, TP_FROM | TP_BELOW}, {"pe", 2, NULL, 0, TP_PREFIX}. What how does not ask for is
 * not looked at. Where a tp_range is wanted NULL is all keys.
 */
typedef struct tp_range {
    const void *low;
    size_t low_size;
    const void *high;
    size_t high_size;
    unsigned int how;
} tp_range;

/* The address of a record, to be kept in another record as it is. */
typedef struct tp_link {
    unsigned char bytes[16];
} tp_link;

/* A pair that a function of the program lends, until it is called again or its call has returned. */
typedef struct tp_pair {
    const void *key;
    size_t key_size;
    const void *value;
    size_t value_size;
} tp_pair;

/* How the values of a key stand, for tp_multi_open. */
enum {
    TP_SORTED = 1,      /* as a sorted set */
    TP_AS_THEY_CAME = 2 /* as a list, in the order in which they came */
};

/* For tp_load and tp_multi_load. */
enum {
    TP_LOAD_SORTED = 1 /* the records come in the order of their keys: one that does not is refused, and all of them */
};

/* For tp_segment_open_at, added up; tp_segment_survives answers 0 or one of the last two. */
enum {
    TP_GUARDED = 1,         /* a store that was not declared ends the process, as in vista_map_guarded */
    TP_ANYWHERE = 2,        /* nothing in it is a pointer: it need not lie at its own address */
    TP_SURVIVES_SYSTEM = 4, /* on the program's word: its memory outlives a crash of the operating system */
    TP_SURVIVES_POWER = 8   /* on the program's word: also the loss of power */
};

/* What a transaction does, for tp_run: it returns TP_OK to commit, and anything else to abort. */
typedef int tp_work(tp_txn *txn, void *argument);

/* Changes a value where it lies, for tp_update. It calls nothing of this library. */
typedef void tp_change(void *value, size_t size, void *argument);

/*
 * Makes other bytes of some, for tp_order: up to room of them, at made. Returns how many there are; if that is more than room it is
 * called again with more, as strxfrm would be. It always makes the same of the same, in every process that uses the database, may be called by
 * several threads at once, cannot fail, and calls nothing of this library.
 */
typedef size_t tp_recode(const void *bytes, size_t size, void *made, size_t room, void *argument);

/*
 * Says under which keys a record is found in an index, for tp_index_open: it adds each with tp_index_add, none or several, and
 * returns TP_OK. Anything else refuses the record: what was to store it changes nothing and returns that. It is called by whichever
 * thread writes, several at once, while the record is locked. It always makes the same of the same record, in every process that
 * writes to the database, and calls nothing of this library but tp_index_add and tp_error.
 */
typedef int tp_index_function(const void *key, size_t key_size, const void *value, size_t value_size, tp_index_keys *keys,
                              void *argument);

/* Is shown a pair, for tp_cursor_each, which is lent until it returns: TP_OK for the next. The transaction is in use meanwhile. */
typedef int tp_visit(const void *key, size_t key_size, const void *value, size_t value_size, void *argument);

/* Brings the next pair, for tp_load: TP_OK and a pair, or TP_NOTFOUND behind the last. Anything else breaks the load off, and is
 * returned. It does not touch the database that is loaded. */
typedef int tp_next_pair(tp_pair *pair, void *argument);

/* Is told now and then how far a call is: what is done ("sorting"), how much of it, and of how much, 0 if nobody knows. */
typedef void tp_watch(const char *what, uint64_t done, uint64_t total, void *argument);

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

/* Looks at everything a database's pages say of each other, and at its indices: what is wrong, each a sentence with a zero behind it;
 * nothing, in a good one. For a database at rest: changes made meanwhile can be reported as faults. */
int tp_env_verify(tp_env *env, const char *name, tp_buffer *findings);

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
 * or not, with TP_FILES_WAITING it is kept, and a plain file is not in its place yet, with any other code it was aborted. Only where
 * the handle was refused (TP_MISUSE) it goes on. */
int tp_commit(tp_txn *txn);

/* As tp_commit, and does not wait for the disk: others see it at once, and tp_wait_durable waits for it. */
int tp_commit_async(tp_txn *txn, tp_pending **pending);

/* Waits until the commit is on disk, and ends the handle, whatever is returned. */
int tp_wait_durable(tp_pending *pending);

/* Ends the handle of a commit that nobody waits for. */
int tp_pending_free(tp_pending *pending);

/* Takes back what the transaction did, and ends it, whatever is returned. */
int tp_abort(tp_txn *txn);

/* Runs work in transactions until one commits: again after each that ended with a code that is retryable. A code of the program's own
 * that work returns is returned, after the transaction was aborted; work is not run again. */
int tp_run(tp_env *env, int durability, tp_work *work, void *argument);

/* The transaction's number, as tools show it. */
int tp_txn_id(tp_txn *txn, uint64_t *id);

/* Answers the commit at another durability than the one it was begun with, to which TP_DEFAULT goes back. */
int tp_set_durability(tp_txn *txn, int durability);

/* The longest that its locks are waited for from now on, in milliseconds, whatever the settings say: 0 is not at all, and less is for
 * ever. For one call it is said before, and taken back behind. */
int tp_set_lock_timeout(tp_txn *txn, int64_t millis);

/*
 * Ends every wait for a lock of the transactions that run in this process now: the calls that wait return TP_CANCELLED within some
 * milliseconds, and so does the next call of such a transaction that would have to wait. Other calls, and a commit, go on. It may be
 * called in a signal handler, and be one: signal(SIGINT, tp_cancel_waits). What it is given is not looked at.
 */
void tp_cancel_waits(int signal);

/* Passes a running transaction on, with its locks and all it did: whoever has the word, a text, goes on with it by tp_attach, a
 * thread or another process of the environment, once. What was done since its savepoints stays, and they are forgotten. Ends the
 * handle, whatever is returned: if this fails it was undone (TP_NOT_PASSED, if it has joined memory, or read or changed plain
 * files); only with TP_MISUSE and TP_FULL it goes on. If this process dies, or closes the environment, before it is taken over, it
 * is undone. What tp_set_durability said is not passed on. */
int tp_detach(tp_txn *txn, tp_buffer *word);

/* Goes on with a transaction that was passed on. TP_NOT_PASSED if it is not to be had any more. */
int tp_attach(tp_env *env, const char *word, tp_txn **txn);

/* Takes back a transaction that was passed on and that nobody has taken over, by its number; TP_NOT_PASSED if none of that number
 * waits. */
int tp_abort_detached(tp_env *env, uint64_t id);

/* Notes how far the transaction is. What is stored to joined memory from now on is declared from now on, also where it was before. */
int tp_savepoint(tp_txn *txn, uint64_t *savepoint);

/* Ends a savepoint, and those made after it: what was done since is the transaction's. */
int tp_savepoint_keep(tp_txn *txn, uint64_t savepoint);

/* Takes back what the transaction did since, and ends the savepoint and those made after it; the transaction goes on with all its
 * locks. Memory that was joined since is as it was then, and stays joined; what is stored to is declared again. If this fails the transaction cannot be committed any more. */
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
 * Names an order of keys, for the databases that this process opens from now on: encode makes of a key the bytes whose order is
 * meant, and decode makes of these the key. Keys of which it makes the same bytes are one key. The name, of 1 to 64 bytes, is
 * kept in the file. The functions, and what argument points to, stay until the environments are closed. The library itself has
 * "descending", "ascii-caseless" and "little-endian" (unsigned numbers of one length).
 */
int tp_order(const char *name, tp_recode *encode, tp_recode *decode, void *argument);

/* Opens a B-tree whose keys are in an order of that name, and makes it if it is missing. TP_DATABASE if they are in another. */
int tp_btree_open_ordered(tp_env *env, const char *name, const char *order, tp_db **db);

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

/* How many of these keys there are. In a transaction the number stays until that ends. */
int tp_count(tp_db *db, tp_txn *txn, const tp_range *range, uint64_t *count);

/* Removes all of these keys, and says how many there were, unless count is NULL; that there were none is no error. If this fails
 * some may be gone: abort, or go back to a savepoint. */
int tp_delete_range(tp_db *db, tp_txn *txn, const tp_range *range, uint64_t *count);

/* The address of a key's record; TP_NOTFOUND if there is no such key. The key is locked for reading. Not in a snapshot. */
int tp_link_of(tp_db *db, tp_txn *txn, const void *key, size_t key_size, tp_link *link);

/* The record that a link leads to, without a search; TP_NOTFOUND if it is not there any more: it was removed, or moved, and its key
 * knows. Another is never taken for it. key or value may be NULL. */
int tp_get_at(tp_db *db, tp_txn *txn, const tp_link *link, tp_buffer *key, tp_buffer *value);

/*
 * Loads the pairs that next brings into a database that is empty (a B-tree), and says how many keys it has then; of equal ones the
 * last counts. It is a transaction of its own, which nobody else's is at work beside; where it fails nothing was loaded. The flags
 * are TP_LOAD_SORTED, or 0: then they are sorted first, in about so much memory (0: 64 MiB) and a file. Pages are filled to
 * fill_percent, 10 to 100 (0: 100). watch may be NULL; it is given the same argument.
 */
int tp_load(tp_db *db, unsigned int flags, unsigned int fill_percent, uint64_t memory, tp_next_pair *next, tp_watch *watch,
            void *argument, uint64_t *count);

/* Merges pages that hold little, so that those that stay are filled to fill_percent at most, 10 to 100, while others read and write:
 * how many were gone over, and merged, unless NULL. The file does not become shorter: what is won is used for what comes next. */
int tp_compact(tp_db *db, unsigned int fill_percent, tp_watch *watch, void *argument, uint64_t *leaves, uint64_t *merged);

/* A cursor, which stands nowhere. In a transaction what it passes is locked for reading, the gaps between included. It ends with
 * the transaction; its handle is given back by tp_cursor_close, before that or after. A call that fails leaves a cursor where it stood,
 * and so does one that answers TP_NOTFOUND, but for two: tp_cursor_next stands behind all then, and tp_cursor_prev before all. Where
 * the record is removed that a cursor stands on, the cursor stands between the neighbours. So it is with every kind of cursor. */
int tp_cursor_open(tp_db *db, tp_txn *txn, tp_cursor **cursor);

/* As tp_cursor_open, over these keys alone: it goes and locks no further. */
int tp_cursor_open_range(tp_db *db, tp_txn *txn, const tp_range *range, tp_cursor **cursor);

int tp_cursor_close(tp_cursor *cursor);

/* The first pair, or TP_NOTFOUND if there is none. Here and below key or value may be NULL for who does not want it. */
int tp_cursor_first(tp_cursor *cursor, tp_buffer *key, tp_buffer *value);

/* The last pair. */
int tp_cursor_last(tp_cursor *cursor, tp_buffer *key, tp_buffer *value);

/* The first pair whose key is `from` or greater. */
int tp_cursor_seek(tp_cursor *cursor, const void *from, size_t from_size, tp_buffer *key, tp_buffer *value);

/* The first pair behind a key, whether that is there or not: where one goes on that stood there. In a hash file, too. */
int tp_cursor_behind(tp_cursor *cursor, const void *from, size_t from_size, tp_buffer *key, tp_buffer *value);

/* The next pair, the first if the cursor stands nowhere; TP_NOTFOUND behind the last. */
int tp_cursor_next(tp_cursor *cursor, tp_buffer *key, tp_buffer *value);

/* Shows visit the next pair, as tp_cursor_next gives it, and all behind, until it returns something else than TP_OK: that is returned,
 * and the cursor stands on that pair. None is copied for the program: the fastest way through many. */
int tp_cursor_each(tp_cursor *cursor, tp_visit *visit, void *argument);

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

/* -- Databases of keys with several values each -- */

/* Opens one whose keys have several values each, TP_SORTED or TP_AS_THEY_CAME, and makes it if it is missing. order is the name of
 * an order of the keys (tp_order), or NULL. */
int tp_multi_open(tp_env *env, const char *name, int how, const char *order, tp_multi **multi);

/* Closes it. TP_IN_USE while a transaction has a cursor over it. */
int tp_multi_close(tp_multi *multi);

/* The longest key it takes; if values are sorted the longest key and value together. A zero byte in a key counts twice. */
int tp_multi_pair_max(tp_multi *multi, size_t *size);

/* Adds a value to those of a key. TP_EXISTS if they are sorted and it is there already. Where values stand as they came, another transaction
 * that adds a value to the same key waits until this transaction ends. */
int tp_multi_put(tp_multi *multi, tp_txn *txn, const void *key, size_t key_size, const void *value, size_t value_size);

/* The first value of a key, or TP_NOTFOUND. */
int tp_multi_get(tp_multi *multi, tp_txn *txn, const void *key, size_t key_size, tp_buffer *value);

/* How many values a key has. */
int tp_multi_count(tp_multi *multi, tp_txn *txn, const void *key, size_t key_size, uint64_t *count);

/* Removes a key with all its values, and says how many there were, unless count is NULL; TP_NOTFOUND if there was none. */
int tp_multi_delete(tp_multi *multi, tp_txn *txn, const void *key, size_t key_size, uint64_t *count);

/* Removes one value of a key, the first that is equal; TP_NOTFOUND if there was none. */
int tp_multi_delete_value(tp_multi *multi, tp_txn *txn, const void *key, size_t key_size, const void *value, size_t value_size);

/* How many pairs these keys have. In a transaction the number stays until that ends. */
int tp_multi_count_range(tp_multi *multi, tp_txn *txn, const tp_range *range, uint64_t *count);

/* Removes all of these keys with all their values, and says how many pairs there were, unless count is NULL. As tp_delete_range. */
int tp_multi_delete_range(tp_multi *multi, tp_txn *txn, const tp_range *range, uint64_t *count);

/* As tp_load. Sorted are pairs whose keys are, and, if they are, the values of each key. */
int tp_multi_load(tp_multi *multi, unsigned int flags, unsigned int fill_percent, uint64_t memory, tp_next_pair *next,
                  tp_watch *watch, void *argument, uint64_t *count);

/* As tp_compact. */
int tp_multi_compact(tp_multi *multi, unsigned int fill_percent, tp_watch *watch, void *argument, uint64_t *leaves,
                     uint64_t *merged);

/* As the calls of tp_cursor, over all pairs: the keys in order, and the values of each. */
int tp_multi_cursor_open(tp_multi *multi, tp_txn *txn, tp_multi_cursor **cursor);
int tp_multi_cursor_open_range(tp_multi *multi, tp_txn *txn, const tp_range *range, tp_multi_cursor **cursor);
int tp_multi_cursor_close(tp_multi_cursor *cursor);
int tp_multi_cursor_first(tp_multi_cursor *cursor, tp_buffer *key, tp_buffer *value);
int tp_multi_cursor_last(tp_multi_cursor *cursor, tp_buffer *key, tp_buffer *value);
int tp_multi_cursor_seek(tp_multi_cursor *cursor, const void *from, size_t from_size, tp_buffer *key, tp_buffer *value);
int tp_multi_cursor_next(tp_multi_cursor *cursor, tp_buffer *key, tp_buffer *value);
int tp_multi_cursor_prev(tp_multi_cursor *cursor, tp_buffer *key, tp_buffer *value);

/* The next value of the same key; TP_NOTFOUND if there is none, and the cursor stays, also where the pair in its place is gone. */
int tp_multi_cursor_next_value(tp_multi_cursor *cursor, tp_buffer *key, tp_buffer *value);

/* The first value of the next key; TP_NOTFOUND if there is none, and the cursor stays. */
int tp_multi_cursor_next_key(tp_multi_cursor *cursor, tp_buffer *key, tp_buffer *value);

/* The last value of the key before; TP_NOTFOUND if there is none, and the cursor stays. */
int tp_multi_cursor_prev_key(tp_multi_cursor *cursor, tp_buffer *key, tp_buffer *value);

/* Replaces the value that the cursor stands on. In a list the new one has its place; a sorted one goes to its own, and the cursor
 * stays. TP_NOTFOUND if the pair is gone, or the cursor stands nowhere. */
int tp_multi_cursor_put(tp_multi_cursor *cursor, const void *value, size_t value_size);

/* Removes the pair that the cursor stands on; the cursor stays there, between its neighbours. TP_NOTFOUND as above. */
int tp_multi_cursor_delete(tp_multi_cursor *cursor);

/* Which pair it stands on: bytes for tp_multi_cursor_go_to, of this database alone. */
int tp_multi_cursor_place(tp_multi_cursor *cursor, tp_buffer *place);

/* Goes to that pair, or to the first behind if it has gone. */
int tp_multi_cursor_go_to(tp_multi_cursor *cursor, const void *place, size_t place_size, tp_buffer *key, tp_buffer *value);

/* -- Lists: records of any length, numbered from 1 without gaps -- */

/* Opens a list, and makes it if it is missing: who inserts a record, or removes one, changes the numbers of all that follow. */
int tp_list_open(tp_env *env, const char *name, tp_list **list);

/* Closes it. TP_IN_USE while a transaction has a cursor over it, or a file of text is open. */
int tp_list_close(tp_list *list);

/* How many records there are. */
int tp_list_count(tp_list *list, tp_txn *txn, uint64_t *count);

/* The record of that number; TP_NOTFOUND if there are not so many. */
int tp_list_get(tp_list *list, tp_txn *txn, uint64_t number, tp_buffer *record);

/* As tp_list_get, locked for writing at once. */
int tp_list_get_for_update(tp_list *list, tp_txn *txn, uint64_t number, tp_buffer *record);

/* Stores a record in the place of that number's. Behind the last, records without bytes take the numbers between, up to a million. */
int tp_list_put(tp_list *list, tp_txn *txn, uint64_t number, const void *record, size_t record_size);

/* Stores a record behind the last, and says its number, unless number is NULL. */
int tp_list_append(tp_list *list, tp_txn *txn, const void *record, size_t record_size, uint64_t *number);

/* Makes a record the one of that number: the one that had it, and all behind, get the next higher. */
int tp_list_insert_before(tp_list *list, tp_txn *txn, uint64_t number, const void *record, size_t record_size);

/* Inserts a record behind the one of that number; before all with 0. */
int tp_list_insert_after(tp_list *list, tp_txn *txn, uint64_t number, const void *record, size_t record_size);

/* Removes a record: all behind it get the next lower number. TP_NOTFOUND if there are not so many. */
int tp_list_delete(tp_list *list, tp_txn *txn, uint64_t number);

/* As the calls of tp_recno_cursor. A cursor stands on a number: where others insert or remove before it, another record has that
 * number then. What is changed through it, it allows for. tp_list_cursor_seek goes to that very number. */
int tp_list_cursor_open(tp_list *list, tp_txn *txn, tp_list_cursor **cursor);
int tp_list_cursor_close(tp_list_cursor *cursor);
int tp_list_cursor_first(tp_list_cursor *cursor, uint64_t *number, tp_buffer *record);
int tp_list_cursor_last(tp_list_cursor *cursor, uint64_t *number, tp_buffer *record);
int tp_list_cursor_seek(tp_list_cursor *cursor, uint64_t number, tp_buffer *record);
int tp_list_cursor_next(tp_list_cursor *cursor, uint64_t *number, tp_buffer *record);
int tp_list_cursor_prev(tp_list_cursor *cursor, uint64_t *number, tp_buffer *record);

/* The number it stands on, or TP_NOTFOUND. */
int tp_list_cursor_number(tp_list_cursor *cursor, uint64_t *number);

/* Replaces the record that it stands on. TP_NOTFOUND, here and below, if it stands on none. */
int tp_list_cursor_put(tp_list_cursor *cursor, const void *record, size_t record_size);

/* Stores a record under a number, and goes there. */
int tp_list_cursor_set(tp_list_cursor *cursor, uint64_t number, const void *record, size_t record_size);

/* Inserts a record before the one that it stands on, and stays on that, whose number is the next higher then. */
int tp_list_cursor_insert_before(tp_list_cursor *cursor, const void *record, size_t record_size, uint64_t *number);

/* Inserts a record behind the one that it stands on, and stays. */
int tp_list_cursor_insert_after(tp_list_cursor *cursor, const void *record, size_t record_size, uint64_t *number);

/* Removes the record that it stands on; the cursor stays there, between its neighbours. */
int tp_list_cursor_delete(tp_list_cursor *cursor);

/* Reads a file of text into a list, if they are not the same already. With record_size 0 records end with byte, '\n' mostly; else each
 * has so many bytes, shorter ones filled up with byte. A list whose changes were not written back stays as it is. TP_DATABASE if both
 * were changed since they were the same. */
int tp_text_open(tp_list *list, const char *path, size_t record_size, int byte, tp_text **text);

/* Writes the file if the list was changed since it was read or last written: whole, into another that takes its name. is_written,
 * which may be NULL, is 1 if it did, and else 0. */
int tp_text_sync(tp_text *text, int *is_written);

/* As tp_text_sync, and ends the handle, whatever is returned: what was not written is committed in the list, and is written the
 * next time. Only where the handle was refused (TP_MISUSE, TP_IN_USE) it stays. */
int tp_text_close(tp_text *text);

/* -- Databases as a whole -- */

/* Drops a database with its indices when the transaction commits: its name can be used again then. Until the transaction ends nobody
 * else uses the database; handles from before are refused after the commit (TP_DROPPED). The commit waits while a backup is taken. */
int tp_drop(tp_txn *txn, const char *name);

/* Gives a database another name when the transaction commits; handles from before go on. TP_DATABASE if another has that name, unless
 * the transaction drops or renames that one. */
int tp_rename(tp_txn *txn, const char *name, const char *new_name);

/* Removes all records of a database and the entries of its indices; count, which may be NULL, is how many records there were. The
 * database is used on at once. TP_DATABASE of an index and of a file of pages. */
int tp_empty(tp_txn *txn, const char *name, uint64_t *count);

/* Of what kind a database is ("btree", "multi", "list", "index", "hash", "recno", "pages", or "missing" if its file is not in its place),
 * and the bytes of its file. Each place may be NULL. */
int tp_env_database(tp_env *env, const char *name, const char **kind, uint64_t *bytes);

/* How many records a database has, as a snapshot of now shows it: takes as long as reading them. 0 of a file of pages. */
int tp_env_count_records(tp_env *env, const char *name, uint64_t *count);

/* -- Plain files, changed together with records -- */

/*
 * Makes a file when the transaction commits, outside of the environment, seen by every program and by none before. The contents are
 * written beside it at once. A commit of a transaction with files is answered when it is on disk and the files are in their places
 * (TP_FILES_WAITING: committed, and not all of them could be put there yet). TP_FILE if something is there already, or no file can be
 * there. A path goes through no symbolic link, has no `..', and is not in the environment's directory.
 */
int tp_file_create(tp_txn *txn, const char *path, const void *contents, size_t size);

/* Replaces a file's contents when the transaction commits: the new one has the old one's mode, owner and group. TP_FILE if there is
 * none. */
int tp_file_replace(tp_txn *txn, const char *path, const void *contents, size_t size);

/* Gives a file another name when the transaction commits, and replaces what has that. Both lie in one file system. */
int tp_file_rename(tp_txn *txn, const char *from, const char *to);

/* Removes a file when the transaction commits. */
int tp_file_remove(tp_txn *txn, const char *path);

/* What is in a file as the transaction sees it: of another's files all or none. TP_NOTFOUND if there is none. The path is locked until
 * the transaction ends. contents may be NULL. */
int tp_file_read(tp_txn *txn, const char *path, tp_buffer *contents);

/* The files that committed transactions have changed and that are not known to be in their places, each path with a zero behind it:
 * those of a directory that is not there (a disk that is not mounted), and for a moment those that are just put there. */
int tp_env_waiting_files(tp_env *env, tp_buffer *paths);

/* Gives up such a file, because its directory was removed for good. is_forgotten, which may be NULL, is 1 if it waited, and else 0. */
int tp_env_forget_file(tp_env *env, const char *path, int *is_forgotten);

/* -- Indices: records by something else than their keys -- */

/*
 * An index of a database, kept by the function: if there is none of that name it is made of all records, in one transaction. From then
 * on every change of a record changes the index with it. Each process that writes to the database calls this before, with the same
 * function; else its writes are refused (TP_DATABASE). The function, and what argument points to, stay until the environment is
 * closed: closing the index does not end them.
 */
int tp_index_open(tp_db *db, const char *name, tp_index_function *function, void *argument, tp_index **index);

/* Closes it; it is kept all the same. TP_IN_USE while a transaction has a cursor over it. */
int tp_index_close(tp_index *index);

/* In a tp_index_function: a key under which the record is found. What is added twice counts once. */
int tp_index_add(tp_index_keys *keys, const void *key, size_t key_size);

/* Drops an index of the database, which is not kept any more; TP_NOTFOUND if it is not kept already. */
int tp_index_drop(tp_db *db, const char *name);

/* How many records are found under a key of the index. */
int tp_index_count(tp_index *index, tp_txn *txn, const void *index_key, size_t index_key_size, uint64_t *count);

/* The first record that is found under a key of the index, or TP_NOTFOUND; key or value may be NULL. */
int tp_index_get(tp_index *index, tp_txn *txn, const void *index_key, size_t index_key_size, tp_buffer *key, tp_buffer *value);

/* Whether records and index agree, by the function: what is wrong, each a sentence with a zero behind it. */
int tp_index_verify(tp_index *index, tp_txn *txn, tp_buffer *findings);

/* As the calls of tp_cursor, over these keys of the index, NULL for all: the records of each are in the order of their keys. Each of
 * the three buffers may be NULL. */
int tp_index_cursor_open(tp_index *index, tp_txn *txn, const tp_range *range, tp_index_cursor **cursor);
int tp_index_cursor_close(tp_index_cursor *cursor);
int tp_index_cursor_first(tp_index_cursor *cursor, tp_buffer *index_key, tp_buffer *key, tp_buffer *value);
int tp_index_cursor_last(tp_index_cursor *cursor, tp_buffer *index_key, tp_buffer *key, tp_buffer *value);
int tp_index_cursor_seek(tp_index_cursor *cursor, const void *from, size_t from_size, tp_buffer *index_key, tp_buffer *key,
                         tp_buffer *value);
int tp_index_cursor_next(tp_index_cursor *cursor, tp_buffer *index_key, tp_buffer *key, tp_buffer *value);
int tp_index_cursor_prev(tp_index_cursor *cursor, tp_buffer *index_key, tp_buffer *key, tp_buffer *value);

/* -- Recoverable memory in a transaction; vista.h has memory by itself -- */

/* Opens a segment of memory of the environment, in its directory, whose flat part has so many bytes, and makes it if it is missing; 0
 * takes one that is there as it is. It outlives every process; what it outlives beyond that tp_segment_survives says. */
int tp_segment_open(tp_env *env, const char *name, uint64_t size, tp_segment **segment);

/* As tp_segment_open, in the file at path, with flags: TP_GUARDED, TP_ANYWHERE, TP_SURVIVES_SYSTEM, TP_SURVIVES_POWER, or 0. */
int tp_segment_open_at(tp_env *env, const char *path, uint64_t size, unsigned int flags, tp_segment **segment);

/* Closes it: its memory is not to be used any more. TP_IN_USE while a transaction has joined it. */
int tp_segment_close(tp_segment *segment);

/* What its memory survives beyond the death of processes: 0, TP_SURVIVES_SYSTEM or TP_SURVIVES_POWER. */
int tp_segment_survives(tp_segment *segment, unsigned int *what);

/* Joins it: it is locked until the transaction ends, and what is stored to it stands if the transaction commits, and else is taken back.
 * Its flat part begins at memory and has so many bytes, unless size is NULL. The transaction is not passed
 * on. Again it answers the same. */
int tp_segment_join(tp_segment *segment, tp_txn *txn, void **memory, size_t *size);

/* Declares that the transaction, which has joined it, may change these bytes; before it stores to them, and again after tp_savepoint and
 * tp_savepoint_roll_back. */
int tp_segment_set_range(tp_segment *segment, tp_txn *txn, void *place, size_t size);

/* Allocates from the segment's heap, a multiple of 16; an abort gives it back. What is there is not cleared, and is declared like
 * anything else before it is stored to. */
int tp_segment_malloc(tp_segment *segment, tp_txn *txn, size_t size, void **place);

/* Frees what was allocated there, when the transaction commits. A disk without room refuses no free. */
int tp_segment_free(tp_segment *segment, tp_txn *txn, void *place);

/* -- Backups -- */

/* For tp_backup: what was logged since is added to the backup that is there. */
enum {
    TP_BACKUP_MORE = 1
};

/* For tp_restore, which state: the latest; all that was logged before a log sequence number, and committed; what was on disk at a time, in
 * microseconds since 1970. */
enum {
    TP_UNTIL_END = 0,
    TP_UNTIL_LSN = 1,
    TP_UNTIL_TIME = 2
};

/* A backup, and what can be had from it. */
typedef struct {
    uint64_t earliest;   /* the earliest state: all that was logged before this number */
    uint64_t end;        /* the latest */
    uint64_t files;      /* databases, and their bytes */
    uint64_t file_bytes;
    uint64_t log_bytes;  /* bytes of log */
} tp_backed_up;

/* Copies the environment to a directory, which is made, or empty, while everybody goes on; segments of memory are not in it. watch and
 * done may be NULL. */
int tp_backup(tp_env *env, const char *to, unsigned int flags, tp_watch *watch, void *argument, tp_backed_up *done);

/* Reads all of a backup, and checks every page and every log record. */
int tp_backup_check(const char *backup, tp_watch *watch, void *argument, tp_backed_up *found);

/* Makes an environment of a backup, in a directory that is made, or has nothing but a libtp.toml. Its log goes on from end, which may be
 * NULL. Types of log records that the program has are registered before. */
int tp_restore(const char *backup, const char *to, int until, uint64_t value, tp_watch *watch, void *argument, uint64_t *end);

/* -- The primitive calls -- */

/* For buf_open, added up. They say what is so in any case: pages are in the cache that all processes share, and are changed under
 * transactions. */
enum {
    DB_SHARED = 1,
    DB_TP = 2
};

/* For buf_get: the page stays as it is for the transaction until buf_unpin. */
enum {
    BF_PIN = 1
};

/* Modes of locks: to be read by several, to be changed by one. */
enum {
    READ_LOCK = 1,
    WRITE_LOCK = 2
};

/*
 * Makes a change of a page, or takes it back, as the argument says; 0 if it did, anything else refuses. It works on a copy, may be
 * called more than once for one change, in any process that has registered it, depends on nothing but what it is given, and calls
 * nothing of this library.
 */
typedef int tp_page_change(void *page, size_t page_size, const void *argument, size_t argument_size);

/* Registers a type of log record, for the environments that this process opens from now on: its code from 1 on, its name of 1 to 64
 * bytes, what makes the change, and what takes it back. With NULL for undo the bytes come back that were there before. */
int tp_log_type(uint16_t code, const char *name, tp_page_change *redo, tp_page_change *undo);

/* Opens a file of pages, and makes it if it is missing. The flags are DB_SHARED and DB_TP, or 0. */
int buf_open(tp_env *env, const char *name, unsigned int flags, tp_pages **fid);

/* Closes it. */
int buf_close(tp_pages *fid);

/* The bytes of a page. */
int buf_page_size(tp_pages *fid, size_t *size);

/* Gets a page, which is a copy that is the transaction's until buf_unpin, or until the transaction ends. The size is 0 if nobody has
 * written the page yet, which is zeros then; it may be NULL. how is BF_PIN. Lock the page before. A transaction with a copy that was
 * changed and not unpinned is not committed (TP_MISUSE). Going back to a savepoint leaves copies as they are: unpin them before. */
int buf_get(tp_pages *fid, tp_txn *txn, uint32_t pageno, int how, void **page, size_t *size);

/* Gives a page back: what was changed in it is logged, then the page is changed, which has to be locked with WRITE_LOCK. Refused
 * (TP_DATABASE), nothing is changed, and the copy is gone all the same. */
int buf_unpin(tp_pages *fid, tp_txn *txn, uint32_t pageno);

/* Locks a page until the transaction ends: READ_LOCK or WRITE_LOCK. */
int tp_lock(tp_pages *fid, tp_txn *txn, uint32_t pageno, int mode);

/* Gives a page's READ_LOCK back before that. */
int tp_unlock(tp_pages *fid, tp_txn *txn, uint32_t pageno);

/* Logs a change of a registered type and makes it, by its redo on this argument. A type with an undo needs no lock before: several
 * transactions make such changes of a page at once. */
int tp_log(tp_pages *fid, tp_txn *txn, uint32_t pageno, uint16_t code, const void *argument, size_t argument_size);

/* A record of the log. */
typedef struct {
    uint64_t lsn;             /* its log sequence number */
    uint64_t prev;            /* that of its transaction's record before; 0 if it is the first */
    uint64_t txn;             /* its transaction; 0 for none */
    uint16_t code;            /* of its type */
    uint16_t is_compensation; /* 1 if it takes back what another record has done */
    const char *kind;         /* the name of its type */
    const char *text;         /* what it says */
    const void *body;         /* its bytes, as the type has them */
    size_t body_size;
} tp_log_record;

/* Is shown a record, which is lent until it returns: TP_OK for the next. It may use the library. */
typedef int tp_log_visit(const tp_log_record *record, void *argument);

/* Shows one record; TP_NOTFOUND if it is not kept any more, or was not logged yet. */
int log_read(tp_env *env, uint64_t lsn, tp_log_visit *visit, void *argument);

/* Shows all records from one on (0: the oldest kept) up to the end of the log, until visit returns something else than TP_OK, which is
 * returned. Nothing is changed by it. */
int log_roll(tp_env *env, uint64_t from, tp_log_visit *visit, void *argument);

/* Shows a record, the one that its transaction had logged before, and so on back to its first, as log_roll does. Nothing is taken back
 * by it. */
int log_unroll(tp_env *env, uint64_t last, tp_log_visit *visit, void *argument);

/* Where log_unroll begins: the last record that a running transaction has logged; 0 if none. */
int tp_last_lsn(tp_txn *txn, uint64_t *lsn);

/* Locks an object that the program names, until the transaction ends; a lock that is held is traded for the stronger one. */
int lock_get(tp_txn *txn, const void *name, size_t name_size, int mode);

/* Trades it for a weaker one. */
int lock_downgrade(tp_txn *txn, const void *name, size_t name_size, int mode);

/* Gives it back before the transaction ends. */
int lock_release(tp_txn *txn, const void *name, size_t name_size);

/* Gives back the locks of all such objects. Those of records and pages stay until the transaction ends. */
int lock_unlock_all(tp_txn *txn);

#ifdef __cplusplus
}
#endif
#endif
