/*
 * libtp.h: transactions over records on disk, which any number of processes share.
 *
 * An environment is a directory. Any number of processes open it at once and change its databases in transactions. Any
 * of these processes may be killed at any instruction: the other processes repair the shared memory that the
 * killed process was changing, undo its uncommitted transactions, and continue.
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
 * Return values. Every call that can fail returns TP_OK (zero) or one of the codes of tp_error, which are all negative.
 * After a failure, tp_error returns a text that names the file, page or value concerned, says which changes were kept,
 * and advises what to do. A call that fails changes nothing, unless its description says otherwise. If a call that
 * stores a handle fails, it stores NULL.
 *
 * Handles. A handle is not an address: the library looks it up and never follows it. Every call refuses NULL, a handle
 * of another kind, and a closed handle with TP_MISUSE. Only tp_env_close, tp_abort and the other calls that close a
 * handle accept NULL, and then do nothing.
 *
 * Memory. The library reads arguments only during the call. It copies answers into a tp_buffer, which belongs to the
 * program: the bytes stay until the program passes the buffer to another call or frees it. Bytes of length 0 may be
 * NULL.
 *
 * Threads. All threads may use an environment and its databases at once. Only one thread at a time may use a
 * transaction and its cursors, but different threads may use them one after another. If two threads use a transaction
 * at once, one of the two calls returns TP_MISUSE. tp_error reports errors to the thread that made the call.
 *
 * Fork. A child process cannot use its parent's handles: calls with these handles return TP_FORKED and do not disturb
 * the parent. The child opens the environment for itself. The child may end its parent's transactions (this also
 * returns TP_FORKED), and may close its parent's databases and environment. Such calls free the child's copies of the
 * handles, and change nothing in the parent.
 *
 * Functions of the program. The functions that the program passes to the library (tp_work, tp_change, tp_page_change,
 * tp_recode, tp_index_function, tp_visit, tp_next_pair, tp_watch, tp_log_visit) must return: neither longjmp nor a C++
 * exception may leave them.
 *
 * Codes of the program. A function of the program that returns a code (tp_work, tp_index_function, tp_visit,
 * tp_next_pair, tp_log_visit) may return a code of its own: any number except 0 and the numbers from -31999 to -31000,
 * which belong to the library. The library call that called the function then changes nothing and returns the same
 * code. For such a code, tp_error returns a text with the code, tp_strerror says that it is not a code of the library,
 * and tp_is_retryable returns 0.
 *
 * Signals and output. The library catches no signal, prints nothing and ends no process, with one exception: in a
 * segment of vista_map_guarded, a store to undeclared memory ends the process. A panic in the library is a bug: it
 * prints a message on standard error, and the call returns TP_PANICKED or TP_BUG.
 *
 * Debugging. Programs can run under valgrind. If the environment is still open when the process ends, valgrind's leak
 * check takes hours, because it searches all addresses into which the shared memory can grow. Close the environment
 * first, or switch the leak check off (--leak-check=no).
 */
#ifndef LIBTP_H
#define LIBTP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tp_env tp_env;                   /* an environment */
typedef struct tp_txn tp_txn;                   /* a transaction, or a snapshot */
typedef struct tp_db tp_db;                     /* a database of keys and values */
typedef struct tp_recno tp_recno;               /* a database of records by number */
typedef struct tp_multi tp_multi;               /* a database of keys with several values each */
typedef struct tp_list tp_list;                 /* a database of records that insertions renumber */
typedef struct tp_text tp_text;                 /* a text file whose records are in a tp_list */
typedef struct tp_index tp_index;               /* an index of a tp_db */
typedef struct tp_index_keys tp_index_keys;     /* the index keys of a record, while a tp_index_function adds them */
typedef struct tp_segment tp_segment;           /* recoverable memory, which transactions can join */
typedef struct tp_pages tp_pages;               /* a file of pages whose contents the program defines */
typedef struct tp_cursor tp_cursor;             /* a cursor over a tp_db */
typedef struct tp_recno_cursor tp_recno_cursor; /* a cursor over a tp_recno */
typedef struct tp_multi_cursor tp_multi_cursor; /* a cursor over a tp_multi */
typedef struct tp_list_cursor tp_list_cursor;   /* a cursor over a tp_list */
typedef struct tp_index_cursor tp_index_cursor; /* a cursor over a tp_index */
typedef struct tp_pending tp_pending;           /* a commit made by tp_commit_async */

/*
 * Each comment below that begins with two dashes and a title begins a manual page, which has the name of the first
 * function below it. `cargo xtask install` makes the pages of this header.
 */

/* -- the reason of a failure, and the version of the library
 *
 *     if (code != TP_OK)
 *         fprintf(stderr, "%s: %s\n", tp_strerror(code), tp_error());
 */

/* The codes that calls return. */
enum {
    TP_OK = 0,                    /* success */
    TP_NOTFOUND = -31001,         /* there is no such record, or no further record */
    TP_EXISTS = -31002,           /* tp_put_new: the key exists; tp_multi_put: the key has this value */
    TP_DEADLOCK = -31003,         /* this transaction is the victim of a deadlock: abort it and run it again */
    TP_LOCK_TIMEOUT = -31004,     /* a lock was not granted in time: tp_error names the holders */
    TP_REBUILT = -31005,          /* the shared memory was rebuilt and the transaction undone: abort it and run it again */
    TP_PANICKED = -31006,         /* a bug of the library, or damaged memory, undid this transaction: abort, and run it again */
    TP_SNAPSHOT_TOO_OLD = -31007, /* the snapshot needs log that is no longer kept: begin another snapshot */
    TP_OUTCOME_UNKNOWN = -31008,  /* the commit was written, but may be lost: check the data before you run it again */
    TP_ROLLBACK_FAILED = -31009,      /* a rollback to a savepoint failed, so the whole transaction was undone: run it again */
    TP_FULL = -31010,             /* a disk, a table or memory is full */
    TP_CORRUPT = -31011,          /* a file, a page or a log record is damaged */
    TP_FAILED = -31012,           /* a write to disk failed: reopen the environment, which accepts no change until then */
    TP_LENGTH = -31013,           /* the database does not accept a key, value or record of this length */
    TP_NO_DATABASE = -31014,      /* there is no such database */
    TP_DATABASE = -31015,         /* the database is of another kind, or its name is no valid file name */
    TP_ENVIRONMENT = -31016,      /* the directory is no environment, or cannot be opened here */
    TP_NOT_LASTING = -31017,      /* TP_RIO was requested, and the memory does not survive a crash of the system */
    TP_SEGMENT = -31018,          /* a segment of memory cannot be opened or joined */
    TP_FORKED = -31019,           /* the handle belongs to the parent process: open the environment here */
    TP_SETTINGS = -31020,         /* the settings are wrong */
    TP_IO = -31021,               /* a read or a write failed */
    TP_MISUSE = -31022,           /* an invalid argument: NULL, a wrong or closed handle, or a handle in use by another thread */
    TP_IN_USE = -31023,           /* the handle is in use; it stays open */
    TP_BUG = -31024,              /* a bug of the library; running the call again does not help */
    TP_LOG_TYPE = -31025,         /* the log has records of a type that is not registered */
    TP_NOT_PASSED = -31026,       /* the transaction cannot be passed on, or no longer waits to be taken over */
    TP_NOT_EMPTY = -31027,        /* the database is not empty, so no records can be loaded into it */
    TP_OUT_OF_ORDER = -31028,     /* TP_LOAD_SORTED was given, and the records are not sorted */
    TP_FILE = -31029,             /* a plain file cannot be read or changed as requested */
    TP_FILES_WAITING = -31030,    /* committed, but some plain files are not in their places: do not run it again */
    TP_BACKUP = -31031,           /* no backup can be made there, or nothing can be restored from it */
    TP_CANCELLED = -31032,        /* tp_cancel_waits ended the wait for a lock: abort the transaction */
    TP_OWN_THREAD = -31033,       /* another transaction of this thread holds the lock: end that transaction, or use only one */
    TP_DROPPED = -31034,          /* the database was dropped after this handle was opened: open it again */
    TP_READ_ONLY = -31035,        /* the environment was opened for reading only */
    TP_OTHER = -31099             /* an error without a code in this header: tp_error describes it */
};

/*
 * Returns a text about this thread's last call that did not return TP_OK. The text stays until another call of the
 * thread does not return TP_OK. It is empty if no call of the thread has failed. Do not free it.
 */
const char *tp_error(void);

/* Returns the meaning of a code in a few words. Do not free the text. */
const char *tp_strerror(int code);

/*
 * Returns 1 if a transaction that failed with this code may succeed when it is run again from its beginning. If the
 * failed call was a read in a snapshot, 1 means that the read may succeed in a new snapshot. Returns 0 otherwise.
 */
int tp_is_retryable(int code);

/* The version of this header. tp_version returns the version of the library. */
#define TP_VERSION "0.1.0"

/* Returns the version of the library, such as "0.1.0". */
const char *tp_version(void);

/* -- buffers for answers */

/*
 * A buffer for answers. Initialize it with TP_BUFFER, or with zeros. Each answer replaces the previous answer, and the
 * memory grows as needed. size is the length of the answer in bytes. A zero byte, which size does not count, follows
 * the answer, so that data can be used as a C string. room is the number of bytes of memory at data. The memory comes
 * from malloc. The program may put its own malloc memory there (and set room to its length), or take the memory (and
 * set data to NULL and room to 0).
 */
typedef struct tp_buffer {
    void *data;
    size_t size;
    size_t room;
} tp_buffer;

#define TP_BUFFER {NULL, 0, 0}

/* Frees the buffer's memory. The buffer can then be used again. */
void tp_buffer_free(tp_buffer *buffer);

/* -- open and close an environment
 *
 *     tp_env *env;
 *     if (tp_env_open("bank", "durability = \"relaxed\"", 0, &env) != TP_OK)
 *         fprintf(stderr, "%s\n", tp_error());
 */

/* Flags of tp_env_open. Add them to give several. */
enum {
    TP_NO_CREATE = 1,  /* do not create a missing environment */
    TP_KEEP_FILES = 2, /* if shared memory and log files disagree (as after old files were copied back), use the files */
    TP_KEEP_REGION = 4 /* if shared memory and log files disagree, use the shared memory */
};

/*
 * Opens the environment in directory, creates it if it is missing, and stores its handle in *env. settings is NULL, or
 * a text in the form of the file libtp.toml ("memory = \"64MiB\"\ndurability = \"relaxed\""). The text overrides the
 * libtp.toml in the directory, if there is one. flags is 0 or a sum of TP_NO_CREATE, TP_KEEP_FILES and TP_KEEP_REGION;
 * the last two exclude each other. If the last processes that used the environment died, the call repairs their shared
 * memory or replays the log. Returns TP_ENVIRONMENT if the directory is no environment or cannot be opened, and
 * TP_SETTINGS if the settings are wrong.
 */
int tp_env_open(const char *directory, const char *settings, unsigned int flags, tp_env **env);

/*
 * Closes the environment. All commits are kept, whatever their durability. While the environment's handle has a running
 * transaction, a snapshot, an asynchronous commit or an open database, the call returns TP_IN_USE, and the handle stays
 * open.
 */
int tp_env_close(tp_env *env);

/* -- inspect an environment, and do its background work by hand */

/* Stores in names the sorted names of the environment's databases, each followed by a zero byte. */
int tp_env_databases(tp_env *env, tp_buffer *names);

/*
 * Checks the pages of the database name against each other, and checks its indices. Stores each fault in findings as a
 * sentence followed by a zero byte; the size is 0 if there is no fault. No process should change the database during
 * the call: changes can be reported as faults.
 */
int tp_env_verify(tp_env *env, const char *name, tp_buffer *findings);

/*
 * Stores a report of the work of tp_env_open in json: {"how":"restarted","millis":12,"log_bytes":...}. Later versions
 * may add members.
 */
int tp_env_opened(tp_env *env, tp_buffer *json);

/*
 * Stores the environment's activity and contents in json, with the names that `tp stat --json` uses. Later versions may
 * add members.
 */
int tp_env_stat(tp_env *env, tp_buffer *json);

/* Takes a checkpoint now, unless another session is taking one. Commits are kept without this call. */
int tp_env_checkpoint(tp_env *env);

/* Writes all commits so far to disk. Commits are kept without this call. */
int tp_env_flush(tp_env *env);

/*
 * Does one round of background work. A program that sets "no_background = true" calls this from time to time, because
 * the library then runs no threads in the program. Only background work notices that the file of the shared memory was
 * removed; it then writes the log to disk and has the memory rebuilt. If no process does background work after such a
 * removal, relaxed commits are lost with the last process.
 */
int tp_env_background_step(tp_env *env);

/* -- transactions
 *
 * A transaction reads and changes records as if no other transaction ran: the records stay locked until it ends. If
 * another transaction holds a lock that a call needs, the call waits for the lock: at most lock_timeout_millis (a
 * setting), and by default without limit. If the lock is not granted in time, the call returns TP_LOCK_TIMEOUT, and the
 * transaction continues without the lock. tp_error then names the record, the database, and the transactions and
 * processes that hold the lock, and says which of these processes are stopped. If a transaction waits for another
 * transaction of its own thread, directly or through other transactions, the call returns TP_OWN_THREAD after about a
 * second: while the thread waits, it cannot end the other transaction.
 *
 *     tp_txn *txn;
 *     int code = tp_begin(env, TP_DEFAULT, &txn);
 *     if (code == TP_OK && (code = tp_put(db, txn, "k", 1, "v", 1)) == TP_OK)
 *         code = tp_commit(txn);
 *     else
 *         tp_abort(txn);
 *
 * Let Ctrl-C end a lock wait and not the program:
 *
 *     signal(SIGINT, tp_cancel_waits);
 *     code = tp_put(db, txn, "k", 1, "v", 1);
 *     if (code == TP_CANCELLED)
 *         tp_abort(txn);
 */

/* Durability: when a commit returns. */
enum {
    TP_DEFAULT = 0, /* as the environment's settings say */
    TP_SYNC = 1,    /* when the commit is on disk */
    TP_RELAXED = 2, /* at once: the commit survives the death of processes, and is on disk a tenth of a second later */
    TP_RIO = 3      /* at once: the commit is in memory that survives a crash of the system (otherwise TP_NOT_LASTING) */
};

/*
 * Begins a transaction and stores its handle in *txn. durability decides when the commit returns: TP_DEFAULT, TP_SYNC,
 * TP_RELAXED or TP_RIO.
 */
int tp_begin(tp_env *env, int durability, tp_txn **txn);

/*
 * Commits the transaction, and with it the changes since its savepoints. Ends the transaction's cursors and the handle,
 * unless the call returns TP_MISUSE. After TP_OUTCOME_UNKNOWN the transaction may be committed or not: check the data
 * before you run it again. One process at a time writes the log for all: if that process is stopped (kill -STOP), a
 * synced commit waits until the process continues or is killed. If the transaction has a lock timeout, or the program
 * calls tp_cancel_waits, the commit ends with TP_OUTCOME_UNKNOWN, and tp_error names the process: the transaction is
 * committed in memory, and not known to be on disk. After TP_FILES_WAITING the transaction is committed, but a plain
 * file (tp_file_create) is not in its place yet: do not run the transaction again. After TP_MISUSE the transaction is
 * still running: the handle was refused, or a changed page was not unpinned. After any other code except TP_OK the
 * transaction was aborted.
 */
int tp_commit(tp_txn *txn);

/*
 * Commits as tp_commit does, but does not wait for the disk, whatever the transaction's durability is. Stores a handle
 * of the commit in *pending; tp_wait_durable waits until this commit is on disk. Other transactions see the changes at
 * once.
 */
int tp_commit_async(tp_txn *txn, tp_pending **pending);

/* Waits until the commit is on disk, and ends the handle, whatever it returns. */
int tp_wait_durable(tp_pending *pending);

/* Ends the handle of a commit without waiting. */
int tp_pending_free(tp_pending *pending);

/* Undoes the transaction. Ends its cursors and the handle, unless the call returns TP_MISUSE. */
int tp_abort(tp_txn *txn);

/* Changes the durability of the transaction's commit. TP_DEFAULT restores the durability given to tp_begin. */
int tp_set_durability(tp_txn *txn, int durability);

/*
 * Sets how long this transaction waits for each lock from now on, in milliseconds, whatever the settings say: with 0 it
 * does not wait, and with a negative number it waits without limit. The time is also the longest wait of the commit for
 * a stopped process that writes the log (see tp_commit). To limit a single call, set the time before the call and reset
 * it afterwards.
 */
int tp_set_lock_timeout(tp_txn *txn, int64_t millis);

/*
 * Ends all lock waits of the transactions that this process is running. The waiting calls return TP_CANCELLED within
 * some milliseconds. In a running transaction that does not wait now, the next call that would have to wait returns
 * TP_CANCELLED, too. A commit that waits because the process that writes the log is stopped returns TP_OUTCOME_UNKNOWN.
 * All other calls, and commits, work as usual. A signal handler may call this function, and the function itself may be
 * the handler: `signal(SIGINT, tp_cancel_waits)`, or in Python, with ctypes, `libc.signal(2, libtp.tp_cancel_waits)`.
 * It ignores its argument.
 */
void tp_cancel_waits(int signal);

/* Stores the transaction's number in *id. `tp` shows the same numbers. */
int tp_txn_id(tp_txn *txn, uint64_t *id);

/* -- run a function in a transaction until it commits
 *
 *     static int pay(tp_txn *txn, void *argument)
 *     {
 *         struct shop *shop = argument;
 *         return tp_put(shop->db, txn, "paid", 4, "yes", 3);
 *     }
 *     ...
 *     code = tp_run(env, TP_DEFAULT, pay, &shop);
 */

/* A flag to add to the durability of tp_run. */
enum {
    TP_AGAIN = 16 /* run the transaction again after TP_LOCK_TIMEOUT, too */
};

/*
 * Does the work of a transaction, for tp_run. The function returns TP_OK to commit; any other code aborts the
 * transaction. tp_run may call it several times, so it must do nothing outside of the transaction that may happen only
 * once. It must not end the transaction.
 */
typedef int tp_work(tp_txn *txn, void *argument);

/*
 * Calls work in a transaction and commits the transaction. If work or the commit returns a retryable code such as
 * TP_DEADLOCK (tp_is_retryable), tp_run runs work again in a new transaction, up to a thousand times. If work returns
 * any other code except TP_OK, for example a code of the program, tp_run aborts the transaction and returns that code.
 * So TP_LOCK_TIMEOUT ends the call, unless TP_AGAIN was added to durability, and TP_CANCELLED (tp_cancel_waits) always
 * ends it. Otherwise tp_run returns the code of the commit, or the retryable code of the last try.
 */
int tp_run(tp_env *env, int durability, tp_work *work, void *argument);

/* -- undo a part of a transaction
 *
 * To nest a transaction in another, make a savepoint before the inner part: keep the savepoint if the part succeeds,
 * and roll back to it otherwise. After TP_DEADLOCK abort the whole transaction and run it again, not only the part.
 *
 *     uint64_t part;
 *     tp_savepoint(txn, &part);
 *     if (order(txn) == TP_OK)
 *         tp_savepoint_keep(txn, part);
 *     else
 *         tp_savepoint_roll_back(txn, part);
 */

/*
 * Makes a savepoint and stores its number in *savepoint. The call ends the transaction's declarations of joined memory:
 * before further stores the program must declare the memory again with tp_segment_set_range, because a rollback to the
 * savepoint undoes only stores that were declared after the savepoint.
 */
int tp_savepoint(tp_txn *txn, uint64_t *savepoint);

/* Ends a savepoint and all later savepoints. The changes since the savepoint stay in the transaction. */
int tp_savepoint_keep(tp_txn *txn, uint64_t savepoint);

/*
 * Undoes the changes since a savepoint, newest first, and ends this savepoint and all later savepoints. The transaction
 * continues and keeps all its locks. Joined memory is rolled back, too: to its state at the savepoint, or at the join
 * if the join came later. The memory stays joined, and the program must declare it again before stores. If this call
 * fails, the transaction can no longer commit: its commit returns TP_ROLLBACK_FAILED.
 */
int tp_savepoint_roll_back(tp_txn *txn, uint64_t savepoint);

/* -- pass a running transaction on
 *
 *     tp_buffer word = TP_BUFFER;
 *     if (tp_detach(txn, &word) == TP_OK)
 *         puts(word.data);
 *
 * In the other process:
 *
 *     tp_attach(env, word_read, &txn);
 *     tp_commit(txn);
 */

/*
 * Passes the running transaction on, with its locks and changes, and stores a text in word. With tp_attach and this
 * text, one thread or process that uses the environment can continue the transaction. The text can be used once. The
 * transaction's savepoints end; the changes since the savepoints stay. After TP_MISUSE and TP_FULL the transaction is
 * still running, and the handle stays valid; in all other cases the call ends the handle. After any other failure the
 * transaction was undone (TP_NOT_PASSED if it has joined memory, read or changed plain files, or dropped or renamed
 * databases). If this process dies, or closes the environment, before the transaction is taken over, the transaction is
 * undone. The durability set by tp_set_durability is not passed on.
 */
int tp_detach(tp_txn *txn, tp_buffer *word);

/*
 * Continues the transaction for which tp_detach has stored word, and stores its new handle in *txn. The commit has the
 * durability of the environment's settings, unless tp_set_durability changes it. Returns TP_NOT_PASSED if the
 * transaction was undone, or if another thread or process has taken it over.
 */
int tp_attach(tp_env *env, const char *word, tp_txn **txn);

/*
 * Aborts the transaction with number id (tp_txn_id), which was passed on and not taken over. Returns TP_NOT_PASSED if
 * no transaction with this number waits to be taken over.
 */
int tp_abort_detached(tp_env *env, uint64_t id);

/* -- read the state of one moment
 *
 *     tp_txn *snapshot;
 *     if (tp_snapshot(env, &snapshot) == TP_OK) {
 *         code = tp_get(db, snapshot, "k", 1, &value);
 *         tp_abort(snapshot);
 *     }
 */

/*
 * Begins a snapshot and stores its handle in *snapshot. The snapshot shows the commits that could already be read when
 * it began, whichever process made them. It shows no later commit, however long the program holds it. A snapshot takes
 * no lock, so no transaction waits for it. Its calls wait only for the disk: a call that reads a commit which is not on
 * disk yet returns when the commit is on disk, unless the environment's commits are TP_RELAXED. Pass the snapshot to
 * the calls that read, in place of a transaction; calls that change something return TP_MISUSE. End the snapshot with
 * tp_commit or tp_abort: for a snapshot both calls do the same.
 *
 * If a record was changed after the snapshot began, the library reconstructs the earlier record from the log. It keeps
 * the log for a snapshot within limits (an hour, 4 GiB, unless the settings say otherwise); beyond these limits a call
 * may return TP_SNAPSHOT_TOO_OLD.
 */
int tp_snapshot(tp_env *env, tp_txn **snapshot);

/*
 * Waits until every commit that the snapshot shows is on disk. A program calls this before it passes on the records
 * that it has read.
 */
int tp_snapshot_durable(tp_txn *snapshot);

/* -- open and close a database of keys and values
 *
 *     tp_db *accounts;
 *     code = tp_btree_open(env, "accounts", &accounts);
 */

/* Opens the B-tree name, creates it if it is missing, and stores its handle in *db. All threads may use the handle. */
int tp_btree_open(tp_env *env, const char *name, tp_db **db);

/*
 * Opens the hash file name, creates it if it is missing, and stores its handle in *db. A hash file finds a key in one
 * step, but its keys have no order. A cursor over it only moves forward: tp_cursor_first, tp_cursor_next,
 * tp_cursor_after and tp_cursor_each move it, and the other moves return TP_DATABASE.
 */
int tp_hash_open(tp_env *env, const char *name, tp_db **db);

/* Closes the database. Returns TP_IN_USE while a transaction has a cursor over it. */
int tp_db_close(tp_db *db);

/* Stores in *size the length, in bytes, of the longest key that the database accepts: a quarter of a page. */
int tp_db_key_max(tp_db *db, size_t *size);

/* -- keys in an order of the program
 *
 * The library has the orders "descending", "ascii-caseless" and "little-endian" (unsigned numbers of one length). The
 * keys of a database of tp_multi_open may have an order, too.
 *
 *     static size_t same(const void *key, size_t size, void *made, size_t room, void *argument)
 *     {
 *         if (size <= room)
 *             memcpy(made, key, size);
 *         return size;
 *     }
 *     tp_order("as they are", same, same, NULL);
 *     tp_btree_open_ordered(env, "news", "descending", &news);
 */

/*
 * Converts the size bytes at the address bytes to other bytes, the result, for tp_order. The function stores at most
 * room bytes of the result at the address made, and returns the length of the whole result. If the length exceeds room,
 * the library calls the function again with more room (as with strxfrm). The function must give the same result for the
 * same bytes, in every process and every version of the program that uses the database: if you change the order, give
 * it another name. Several threads may call the function at once. It cannot fail, and must not call this library.
 */
typedef size_t tp_recode(const void *bytes, size_t size, void *made, size_t room, void *argument);

/*
 * Registers an order of keys under a name of 1 to 64 bytes, for the databases that this process opens from now on.
 * encode converts a key to encoded bytes: the order of the encoded bytes (as memcmp compares them) is the order of the
 * keys. decode converts the encoded bytes to the key. Keys with the same encoded bytes are the same key. The functions,
 * and the object at argument, must stay until all environments are closed.
 */
int tp_order(const char *name, tp_recode *encode, tp_recode *decode, void *argument);

/*
 * Opens the B-tree name, whose keys are in the named order, creates it if it is missing, and stores its handle in *db.
 * The database's file records the name of the order. Returns TP_DATABASE if the keys of the database are in another
 * order. (tp_btree_open returns TP_DATABASE for every database with a named order.)
 */
int tp_btree_open_ordered(tp_env *env, const char *name, const char *order, tp_db **db);

/* -- find, store and remove values by key
 *
 *     tp_buffer value = TP_BUFFER;
 *     code = tp_get(db, txn, "alice", 5, &value);
 *     if (code == TP_OK)
 *         printf("%s\n", (char *)value.data);
 *     tp_buffer_free(&value);
 */

/* Changes the size bytes of a value in place, for tp_update. It must not call this library. */
typedef void tp_change(void *value, size_t size, void *argument);

/*
 * Copies the value of a key to value, which may be NULL. Returns TP_NOTFOUND if there is no such key. A transaction
 * locks the key for reading until the transaction ends; a snapshot locks nothing.
 */
int tp_get(tp_db *db, tp_txn *txn, const void *key, size_t key_size, tp_buffer *value);

/*
 * Copies the value as tp_get does, but locks the key for writing at once, so that a later tp_put of the key cannot
 * deadlock with other transactions that do the same.
 */
int tp_get_for_update(tp_db *db, tp_txn *txn, const void *key, size_t key_size, tp_buffer *value);

/*
 * A key for tp_get_many, which stores the key's value in value and TP_OK in code. If there is no such key, it stores
 * TP_NOTFOUND in code, and leaves value as it was.
 */
typedef struct tp_wanted {
    const void *key;
    size_t key_size;
    tp_buffer value;
    int code;
} tp_wanted;

/*
 * Does tp_get for each of count keys, and stores value and code of each key. It is faster than single calls if the
 * records are not in the processor's cache. A transaction locks the keys in their order in the database, so
 * transactions that lock nothing else cannot deadlock with each other. The call also returns TP_OK if keys are missing.
 */
int tp_get_many(tp_db *db, tp_txn *txn, tp_wanted *wanted, size_t count);

/*
 * Makes the processor load a key's record from memory into its cache. Call this if the program does other work first
 * and then reads or changes the record. The call is a hint: it locks nothing and reads nothing from the disk.
 */
int tp_prefetch(tp_db *db, tp_txn *txn, const void *key, size_t key_size);

/*
 * Stores a value under a key, and replaces any earlier value. Returns TP_LENGTH if the key or the value is too long
 * (tp_db_key_max).
 */
int tp_put(tp_db *db, tp_txn *txn, const void *key, size_t key_size, const void *value, size_t value_size);

/* Stores a value under a new key. Returns TP_EXISTS if the key exists. */
int tp_put_new(tp_db *db, tp_txn *txn, const void *key, size_t key_size, const void *value, size_t value_size);

/* Calls change to change the value of a key in place; the length stays. Returns TP_NOTFOUND if there is no such key. */
int tp_update(tp_db *db, tp_txn *txn, const void *key, size_t key_size, tp_change *change, void *argument);

/*
 * Stores size bytes into the value of a key, beginning at the byte offset (0 is the first byte); the length of the
 * value stays. This is the cheapest change of a value. Returns TP_NOTFOUND if there is no such key, and TP_LENGTH if a
 * byte would lie outside of the value.
 */
int tp_update_part(tp_db *db, tp_txn *txn, const void *key, size_t key_size, size_t offset, const void *bytes, size_t size);

/*
 * Adds amount to a number in the value of a key, and stores the sum in *sum, unless sum is NULL. The number has eight
 * bytes, begins at the byte offset, and has its least significant byte first, like an int64_t on x86-64. The sum wraps
 * around. Returns TP_NOTFOUND and TP_LENGTH as tp_update_part does.
 */
int tp_add(tp_db *db, tp_txn *txn, const void *key, size_t key_size, size_t offset, int64_t amount, int64_t *sum);

/* Removes a key and its value. Returns TP_NOTFOUND if there is no such key. */
int tp_delete(tp_db *db, tp_txn *txn, const void *key, size_t key_size);

/* -- count and remove a range of keys
 *
 *     tp_range pears = {"pear", 4, NULL, 0, TP_PREFIX};
 *     uint64_t count;
 *     if (tp_delete_range(db, txn, &pears, &count) == TP_OK)
 *         printf("%lu removed\n", (unsigned long)count);
 */

/*
 * Flags for the bounds of a tp_range: at most one of TP_FROM and TP_ABOVE, plus at most one of TP_UPTO and TP_BELOW; or
 * only TP_PREFIX.
 */
enum {
    TP_FROM = 1,  /* the low key and the keys above it */
    TP_ABOVE = 2, /* the keys above the low key */
    TP_UPTO = 4,  /* the high key and the keys below it */
    TP_BELOW = 8, /* the keys below the high key */
    TP_PREFIX = 16 /* the keys that begin with the low key */
};

/*
 * A range of the keys of a database, for example {"b", 1, "p", 1, TP_FROM | TP_BELOW} or {"pe", 2, NULL, 0, TP_PREFIX}.
 * The library ignores low or high if the flags in how do not use it. For all keys, pass NULL instead of a tp_range. A
 * call with a range for a hash file returns TP_DATABASE, and so does a call with TP_PREFIX for a database whose keys
 * have a named order (tp_order).
 */
typedef struct tp_range {
    const void *low;
    size_t low_size;
    const void *high;
    size_t high_size;
    unsigned int how;
} tp_range;

/*
 * Stores in *count the number of keys in the range. In a transaction, no other transaction can change this number until
 * the transaction ends.
 */
int tp_count(tp_db *db, tp_txn *txn, const tp_range *range, uint64_t *count);

/*
 * Removes all keys in the range, and stores their number in *count, unless count is NULL. No other transaction can
 * insert a key into the range until this transaction ends. An empty range is no error. If the call fails, some keys may
 * be removed: abort the transaction, or roll back to a savepoint.
 */
int tp_delete_range(tp_db *db, tp_txn *txn, const tp_range *range, uint64_t *count);

/* -- visit a database in the order of its keys
 *
 * A new cursor has no position. In a transaction, a cursor locks the records that it visits, and the gaps between them,
 * for reading until the transaction ends; other transactions can change records that it has not visited. The cursor
 * ends with the transaction. A call that fails, or returns TP_NOTFOUND, leaves the cursor at its position: if
 * tp_cursor_next returns TP_NOTFOUND, the cursor is still at the last pair, tp_cursor_prev moves it to the pair before,
 * and another tp_cursor_next finds a pair that was put after it meanwhile. When the record at the cursor is removed, the
 * cursor is between the neighbours of that record. All this holds for every kind of cursor.
 *
 * A call that moves the cursor copies the pair at the new position to key and value, or returns TP_NOTFOUND. key or
 * value may be NULL.
 *
 *     tp_buffer key = TP_BUFFER, value = TP_BUFFER;
 *     while ((code = tp_cursor_next(cursor, &key, &value)) == TP_OK)
 *         printf("%s\n", (char *)key.data);
 */

/*
 * Visits a pair, for tp_cursor_each. Key and value stay until the function returns. The function returns TP_OK to
 * continue with the next pair. While it runs, calls with the same transaction return TP_MISUSE.
 */
typedef int tp_visit(const void *key, size_t key_size, const void *value, size_t value_size, void *argument);

/* Opens a cursor in a transaction or a snapshot, and stores its handle in *cursor. */
int tp_cursor_open(tp_db *db, tp_txn *txn, tp_cursor **cursor);

/* Opens a cursor over the keys in a range (tp_count). The cursor moves and locks only within the range. */
int tp_cursor_open_range(tp_db *db, tp_txn *txn, const tp_range *range, tp_cursor **cursor);

/* Frees the handle of a cursor, before or after the end of its transaction. */
int tp_cursor_close(tp_cursor *cursor);

/* Moves to the first pair. */
int tp_cursor_first(tp_cursor *cursor, tp_buffer *key, tp_buffer *value);

/* Moves to the last pair. */
int tp_cursor_last(tp_cursor *cursor, tp_buffer *key, tp_buffer *value);

/* Moves to the first pair whose key is `from` or greater. */
int tp_cursor_seek(tp_cursor *cursor, const void *from, size_t from_size, tp_buffer *key, tp_buffer *value);

/*
 * Moves to the first pair after the key `from`, whether or not that key exists. With this call a new cursor continues
 * where another cursor stopped. The call works in a hash file, too.
 */
int tp_cursor_after(tp_cursor *cursor, const void *from, size_t from_size, tp_buffer *key, tp_buffer *value);

/* Moves to the next pair, or to the first if the cursor has no position. */
int tp_cursor_next(tp_cursor *cursor, tp_buffer *key, tp_buffer *value);

/* Moves to the previous pair, or to the last if the cursor has no position. */
int tp_cursor_prev(tp_cursor *cursor, tp_buffer *key, tp_buffer *value);

/*
 * Calls visit with the next pair and with each further pair. If visit returns a code other than TP_OK, tp_cursor_each
 * returns that code, and the cursor is at the last pair visited. After the last pair, tp_cursor_each returns TP_OK.
 * Pairs are not copied, so this is the fastest way to visit many pairs.
 */
int tp_cursor_each(tp_cursor *cursor, tp_visit *visit, void *argument);

/* -- addresses of records
 *
 *     tp_link link;
 *     if (tp_link_of(parts, txn, "screw", 5, &link) == TP_OK)
 *         tp_put(parts, txn, "hinge", 5, &link, sizeof link);
 */

/* The address of a record. The program can store these bytes in another record. */
typedef struct tp_link {
    unsigned char bytes[16];
} tp_link;

/*
 * Stores the address of a key's record in *link, and locks the key for reading. Returns TP_NOTFOUND if there is no such
 * key. Refuses a snapshot.
 */
int tp_link_of(tp_db *db, tp_txn *txn, const void *key, size_t key_size, tp_link *link);

/*
 * Copies the record at a link, without a search. Returns TP_NOTFOUND if the record is no longer there: it was removed,
 * or it moved when its page was split or when it grew. Then search for the record by its key, and make a new link.
 * Compare the key that the call copies with the key that you expect: if the hashes of two keys are equal, the call can
 * copy another record. This happens for one of 2^64 pairs of keys, unless an attacker chooses the keys. key or value
 * may be NULL. Refuses a snapshot.
 */
int tp_get_at(tp_db *db, tp_txn *txn, const tp_link *link, tp_buffer *key, tp_buffer *value);

/* -- indices, which find records by other keys than their own
 *
 *     static int town(const void *key, size_t key_size, const void *value, size_t value_size,
 *                     tp_index_keys *keys, void *argument)
 *     {
 *         const char *end = memchr(value, ':', value_size);
 *         return end == NULL ? 1 : tp_index_add(keys, value, end - (const char *)value);
 *     }
 *     tp_index_open(people, "people by town", town, NULL, &by_town);
 *     tp_index_get(by_town, txn, "London", 6, &name, &person);
 */

/*
 * Adds the keys under which an index finds a record, for tp_index_open: calls tp_index_add for each of these keys (a
 * record may have none, one or several), and returns TP_OK. Any other code refuses the record: the call that was to
 * store the record changes nothing and returns that code, and tp_error names the index. The library calls the function
 * in each thread that writes to the database, also in several threads at once, while the record is locked. The function
 * must add the same keys for the same record in every process that writes to the database: if you change the keys that
 * it adds, give the index another name. Of this library, it may call only tp_index_add and tp_error.
 */
typedef int tp_index_function(const void *key, size_t key_size, const void *value, size_t value_size, tp_index_keys *keys,
                              void *argument);

/*
 * Opens the index name of a database, and stores its handle in *index. function computes its keys. If the index is
 * missing, the call builds it from all records, in one transaction; other transactions that write to the database wait
 * for this transaction. From then on every change of a record updates the index. Every process that writes to the
 * database must first call tp_index_open with the same function; otherwise its writes return TP_DATABASE. The function,
 * and the object at argument, must stay until the environment is closed, even if the index is closed before.
 */
int tp_index_open(tp_db *db, const char *name, tp_index_function *function, void *argument, tp_index **index);

/* Closes the handle; writes still update the index. Returns TP_IN_USE while a transaction has a cursor over it. */
int tp_index_close(tp_index *index);

/*
 * Adds a key under which the index finds the record. Only a tp_index_function calls this. If it adds a key twice, the
 * index has the key once.
 */
int tp_index_add(tp_index_keys *keys, const void *key, size_t key_size);

/* Drops an index of the database: writes no longer update it. Returns TP_NOTFOUND if the database has no such index. */
int tp_index_drop(tp_db *db, const char *name);

/* Stores in *count the number of records that have this index key. */
int tp_index_count(tp_index *index, tp_txn *txn, const void *index_key, size_t index_key_size, uint64_t *count);

/*
 * Copies the first record with an index key; a cursor (tp_index_cursor_open) visits all of them. Returns TP_NOTFOUND if
 * no record has this index key. key or value may be NULL.
 */
int tp_index_get(tp_index *index, tp_txn *txn, const void *index_key, size_t index_key_size, tp_buffer *key, tp_buffer *value);

/*
 * Computes the index keys of all records with the index's function, and compares them with the index. Stores each fault
 * in findings as a sentence followed by a zero byte; the size is 0 if there is no fault.
 */
int tp_index_verify(tp_index *index, tp_txn *txn, tp_buffer *findings);

/* -- visit records in the order of an index
 *
 * These calls work like the calls of tp_cursor. The range (tp_range) is a range of index keys, or NULL for all index
 * keys. A cursor visits the index keys in order, and the records of each index key in the order of their own keys. Each
 * of the three buffers may be NULL. A cursor in a transaction locks the index entries and the records that it visits
 * for reading. A cursor in a snapshot shows the index and the records as they were at the same moment.
 *
 *     tp_range l = {"L", 1, NULL, 0, TP_PREFIX};
 *     tp_index_cursor_open(by_town, txn, &l, &cursor);
 *     while (tp_index_cursor_next(cursor, &town, &name, NULL) == TP_OK)
 *         printf("%s: %s\n", (char *)town.data, (char *)name.data);
 */

int tp_index_cursor_open(tp_index *index, tp_txn *txn, const tp_range *range, tp_index_cursor **cursor);
int tp_index_cursor_close(tp_index_cursor *cursor);
int tp_index_cursor_first(tp_index_cursor *cursor, tp_buffer *index_key, tp_buffer *key, tp_buffer *value);
int tp_index_cursor_last(tp_index_cursor *cursor, tp_buffer *index_key, tp_buffer *key, tp_buffer *value);
int tp_index_cursor_seek(tp_index_cursor *cursor, const void *from, size_t from_size, tp_buffer *index_key, tp_buffer *key,
                         tp_buffer *value);
int tp_index_cursor_next(tp_index_cursor *cursor, tp_buffer *index_key, tp_buffer *key, tp_buffer *value);
int tp_index_cursor_prev(tp_index_cursor *cursor, tp_buffer *index_key, tp_buffer *key, tp_buffer *value);

/* -- databases of records by number
 *
 * Numbers begin with 1.
 *
 *     uint64_t number;
 *     code = tp_recno_append(history, txn, &entry, sizeof entry, &number);
 */

/*
 * Opens a database whose records all have record_size bytes, creates it if it is missing, and stores its handle in
 * *recno. With record_size 0 it opens an existing database, whatever its record size.
 */
int tp_recno_open(tp_env *env, const char *name, uint32_t record_size, tp_recno **recno);

/* Closes the database. Returns TP_IN_USE while a transaction has a cursor over it. */
int tp_recno_close(tp_recno *recno);

/* Stores the length of each record, in bytes, in *size. */
int tp_recno_record_size(tp_recno *recno, uint32_t *size);

/* Copies the record with this number. Returns TP_NOTFOUND if there is no such record. */
int tp_recno_get(tp_recno *recno, tp_txn *txn, uint64_t number, tp_buffer *record);

/*
 * Stores a record under a number, and replaces any earlier record. Returns TP_LENGTH if record_size is not the record
 * size of the database.
 */
int tp_recno_put(tp_recno *recno, tp_txn *txn, uint64_t number, const void *record, size_t record_size);

/* Stores size bytes into a record, beginning at the byte offset, as tp_update_part does into a value. */
int tp_recno_update_part(tp_recno *recno, tp_txn *txn, uint64_t number, size_t offset, const void *bytes, size_t size);

/* Adds amount to the number at the byte offset of a record, as tp_add does in a value. */
int tp_recno_add(tp_recno *recno, tp_txn *txn, uint64_t number, size_t offset, int64_t amount, int64_t *sum);

/*
 * Stores a record under a number that is higher than all used numbers. Stores the new number in *number, unless number
 * is NULL. Numbers may be skipped: if a transaction aborts, the numbers of its appended records stay unused. The number
 * is chosen without a lock, so the numbers follow no serial order: a transaction with a lower number may commit later,
 * and of two concurrent transactions that append to two databases, each may have the lower number in one of them.
 */
int tp_recno_append(tp_recno *recno, tp_txn *txn, const void *record, size_t record_size, uint64_t *number);

/*
 * Does as tp_recno_append, with numbers in the order of the commits: the transaction locks the end of the numbers until
 * it ends. Other transactions that append, in order or not, or that read to the end, wait for it. The order holds among
 * the records of tp_recno_append_in_order: a transaction that has called tp_recno_append before may commit later.
 */
int tp_recno_append_in_order(tp_recno *recno, tp_txn *txn, const void *record, size_t record_size, uint64_t *number);

/* Removes a record. Returns TP_NOTFOUND if there is no such record. */
int tp_recno_delete(tp_recno *recno, tp_txn *txn, uint64_t number);

/* -- visit records in the order of their numbers
 *
 * These calls work like the calls of tp_cursor. A call that moves the cursor stores the number of the record in
 * *number, and copies the record; number or record may be NULL. tp_recno_cursor_seek moves to the first record whose
 * number is `from` or greater.
 */

int tp_recno_cursor_open(tp_recno *recno, tp_txn *txn, tp_recno_cursor **cursor);
int tp_recno_cursor_close(tp_recno_cursor *cursor);
int tp_recno_cursor_first(tp_recno_cursor *cursor, uint64_t *number, tp_buffer *record);
int tp_recno_cursor_last(tp_recno_cursor *cursor, uint64_t *number, tp_buffer *record);
int tp_recno_cursor_seek(tp_recno_cursor *cursor, uint64_t from, uint64_t *number, tp_buffer *record);
int tp_recno_cursor_next(tp_recno_cursor *cursor, uint64_t *number, tp_buffer *record);
int tp_recno_cursor_prev(tp_recno_cursor *cursor, uint64_t *number, tp_buffer *record);

/* -- databases of keys with several values each
 *
 *     tp_multi *tags;
 *     tp_multi_open(env, "tags", TP_SORTED, NULL, &tags);
 *     tp_multi_put(tags, txn, "pear", 4, "green", 5);
 *     tp_multi_put(tags, txn, "pear", 4, "fruit", 5);
 */

/* The order of a key's values, for tp_multi_open. */
enum {
    TP_SORTED = 1,      /* a sorted set: the values in the order of their bytes, each value once */
    TP_AS_THEY_CAME = 2 /* a list: the values in the order of their insertion */
};

/*
 * Opens a database whose keys have several values each, creates it if it is missing, and stores its handle in *multi.
 * The argument how is the order of a key's values: TP_SORTED or TP_AS_THEY_CAME. The argument order is the name of an
 * order of the keys (tp_order), or NULL for the order of their bytes. Returns TP_DATABASE if the database was created
 * with other orders.
 */
int tp_multi_open(tp_env *env, const char *name, int how, const char *order, tp_multi **multi);

/* Closes the database. Returns TP_IN_USE while a transaction has a cursor over it. */
int tp_multi_close(tp_multi *multi);

/*
 * Stores a length limit, in bytes, in *size: with TP_SORTED the limit for key and value together, and with
 * TP_AS_THEY_CAME the limit for the key. A zero byte in a key counts twice.
 */
int tp_multi_pair_max(tp_multi *multi, size_t *size);

/*
 * Adds a value to a key: with TP_SORTED at its place in the order, and with TP_AS_THEY_CAME after the other values.
 * Returns TP_EXISTS if the values are sorted and the key has this value already. With TP_AS_THEY_CAME, another
 * transaction that adds a value to the same key waits until this transaction ends.
 */
int tp_multi_put(tp_multi *multi, tp_txn *txn, const void *key, size_t key_size, const void *value, size_t value_size);

/* Copies the first value of a key. Returns TP_NOTFOUND if there is no such key. */
int tp_multi_get(tp_multi *multi, tp_txn *txn, const void *key, size_t key_size, tp_buffer *value);

/* Stores the number of a key's values in *count: 0 if there is no such key. */
int tp_multi_count(tp_multi *multi, tp_txn *txn, const void *key, size_t key_size, uint64_t *count);

/*
 * Removes a key with all its values, and stores their number in *count, unless count is NULL. Returns TP_NOTFOUND if
 * there is no such key.
 */
int tp_multi_delete(tp_multi *multi, tp_txn *txn, const void *key, size_t key_size, uint64_t *count);

/* Removes the first of a key's values that is equal to value. Returns TP_NOTFOUND if the key has no such value. */
int tp_multi_delete_value(tp_multi *multi, tp_txn *txn, const void *key, size_t key_size, const void *value, size_t value_size);

/*
 * Stores in *count the number of pairs whose keys are in the range. In a transaction, no other transaction can change
 * this number until the transaction ends.
 */
int tp_multi_count_range(tp_multi *multi, tp_txn *txn, const tp_range *range, uint64_t *count);

/*
 * Removes all keys in the range with all their values, and stores the number of removed pairs in *count, unless count
 * is NULL. Otherwise it works like tp_delete_range.
 */
int tp_multi_delete_range(tp_multi *multi, tp_txn *txn, const tp_range *range, uint64_t *count);

/* -- visit keys with several values
 *
 * These calls work like the calls of tp_cursor. A cursor visits all pairs, or the pairs whose keys are in a range
 * (tp_range): the keys in order, and the values of each key in their order.
 *
 *     for (code = tp_multi_cursor_seek(cursor, "pear", 4, &key, &value); code == TP_OK;
 *          code = tp_multi_cursor_next_value(cursor, NULL, &value))
 *         printf("%s\n", (char *)value.data);
 */

int tp_multi_cursor_open(tp_multi *multi, tp_txn *txn, tp_multi_cursor **cursor);
int tp_multi_cursor_open_range(tp_multi *multi, tp_txn *txn, const tp_range *range, tp_multi_cursor **cursor);
int tp_multi_cursor_close(tp_multi_cursor *cursor);
int tp_multi_cursor_first(tp_multi_cursor *cursor, tp_buffer *key, tp_buffer *value);
int tp_multi_cursor_last(tp_multi_cursor *cursor, tp_buffer *key, tp_buffer *value);
int tp_multi_cursor_seek(tp_multi_cursor *cursor, const void *from, size_t from_size, tp_buffer *key, tp_buffer *value);
int tp_multi_cursor_next(tp_multi_cursor *cursor, tp_buffer *key, tp_buffer *value);
int tp_multi_cursor_prev(tp_multi_cursor *cursor, tp_buffer *key, tp_buffer *value);

/*
 * Moves to the next value of the same key and copies the pair. If the key has no further value, returns TP_NOTFOUND and
 * the cursor stays, even if the pair at the cursor was removed.
 */
int tp_multi_cursor_next_value(tp_multi_cursor *cursor, tp_buffer *key, tp_buffer *value);

/*
 * Moves to the first value of the next key and copies the pair. If there is no next key, returns TP_NOTFOUND and the
 * cursor stays.
 */
int tp_multi_cursor_next_key(tp_multi_cursor *cursor, tp_buffer *key, tp_buffer *value);

/*
 * Moves to the last value of the previous key and copies the pair. If there is no previous key, returns TP_NOTFOUND and
 * the cursor stays.
 */
int tp_multi_cursor_prev_key(tp_multi_cursor *cursor, tp_buffer *key, tp_buffer *value);

/*
 * Replaces the value at the cursor. With TP_AS_THEY_CAME the new value takes the place of the old value. With TP_SORTED
 * the new value goes to its own place in the order, and the cursor stays. Returns TP_NOTFOUND if the pair was removed,
 * or if the cursor has no position.
 */
int tp_multi_cursor_put(tp_multi_cursor *cursor, const void *value, size_t value_size);

/*
 * Removes the pair at the cursor. The cursor is then between the neighbours of that pair. Returns TP_NOTFOUND if
 * the pair was removed before, or if the cursor has no position.
 */
int tp_multi_cursor_delete(tp_multi_cursor *cursor);

/*
 * Stores the place of the pair at the cursor in place: bytes for tp_multi_cursor_go_to, valid in this database only.
 * Returns TP_NOTFOUND if the cursor has no position.
 */
int tp_multi_cursor_place(tp_multi_cursor *cursor, tp_buffer *place);

/*
 * Moves to the pair at the place, or to the first pair after the place if that pair was removed. Copies the pair at the
 * new position.
 */
int tp_multi_cursor_go_to(tp_multi_cursor *cursor, const void *place, size_t place_size, tp_buffer *key, tp_buffer *value);

/* -- lists: records of any length, numbered from 1 without gaps
 *
 * Inserting or removing a record changes the numbers of all records after it. Any number of transactions can read
 * records of a list, and replace records, at once. A transaction that inserts or removes a record locks the whole list
 * until the transaction ends.
 *
 *     tp_list *lines;
 *     tp_list_open(env, "lines", &lines);
 *     tp_list_append(lines, txn, "second", 6, NULL);
 *     tp_list_insert_before(lines, txn, 1, "first", 5);
 */

/* Opens a list, creates it if it is missing, and stores its handle in *list. */
int tp_list_open(tp_env *env, const char *name, tp_list **list);

/* Closes the list. Returns TP_IN_USE while a transaction has a cursor over it, or its text file (tp_text) is open. */
int tp_list_close(tp_list *list);

/* Stores the number of records in *count. */
int tp_list_count(tp_list *list, tp_txn *txn, uint64_t *count);

/* Copies the record with this number. Returns TP_NOTFOUND if the list is shorter. */
int tp_list_get(tp_list *list, tp_txn *txn, uint64_t number, tp_buffer *record);

/* Copies the record as tp_list_get does, but locks it for writing at once. */
int tp_list_get_for_update(tp_list *list, tp_txn *txn, uint64_t number, tp_buffer *record);

/*
 * Stores a record under this number, and replaces any earlier record. If the list ends before the number, empty records
 * fill the numbers in between, up to a million of them.
 */
int tp_list_put(tp_list *list, tp_txn *txn, uint64_t number, const void *record, size_t record_size);

/* Stores a record after the last record, and stores the new record's number in *number, unless number is NULL. */
int tp_list_append(tp_list *list, tp_txn *txn, const void *record, size_t record_size, uint64_t *number);

/*
 * Inserts a record with this number: the numbers of the record that had the number, and of all later records, rise by
 * one.
 */
int tp_list_insert_before(tp_list *list, tp_txn *txn, uint64_t number, const void *record, size_t record_size);

/* Inserts a record after the record with this number. With number 0, inserts it before all records. */
int tp_list_insert_after(tp_list *list, tp_txn *txn, uint64_t number, const void *record, size_t record_size);

/* Removes a record: the numbers of all later records fall by one. Returns TP_NOTFOUND if the list is shorter. */
int tp_list_delete(tp_list *list, tp_txn *txn, uint64_t number);

/* -- visit a list, and change it on the way
 *
 * These calls work like the calls of tp_recno_cursor. The position of a cursor is a number. An insertion or removal
 * through the cursor adjusts this number, so the cursor stays on its record. Any other insertion or removal before the
 * cursor does not adjust it, so the cursor is then at another record. tp_list_cursor_seek moves to the record with
 * exactly the given number. If the cursor is at no record, a call that needs a record returns TP_NOTFOUND. In a
 * snapshot nothing can be changed.
 *
 *     if (tp_list_cursor_last(cursor, &number, NULL) == TP_OK)
 *         tp_list_cursor_insert_before(cursor, "last but one", 12, NULL);
 */

int tp_list_cursor_open(tp_list *list, tp_txn *txn, tp_list_cursor **cursor);
int tp_list_cursor_close(tp_list_cursor *cursor);
int tp_list_cursor_first(tp_list_cursor *cursor, uint64_t *number, tp_buffer *record);
int tp_list_cursor_last(tp_list_cursor *cursor, uint64_t *number, tp_buffer *record);
int tp_list_cursor_seek(tp_list_cursor *cursor, uint64_t number, tp_buffer *record);
int tp_list_cursor_next(tp_list_cursor *cursor, uint64_t *number, tp_buffer *record);
int tp_list_cursor_prev(tp_list_cursor *cursor, uint64_t *number, tp_buffer *record);

/* Stores the number of the record at the cursor in *number. */
int tp_list_cursor_number(tp_list_cursor *cursor, uint64_t *number);

/* Replaces the record at the cursor. */
int tp_list_cursor_put(tp_list_cursor *cursor, const void *record, size_t record_size);

/* Stores a record under a number, as tp_list_put does, and moves to it. */
int tp_list_cursor_set(tp_list_cursor *cursor, uint64_t number, const void *record, size_t record_size);

/*
 * Inserts a record before the record at the cursor, and stores the new record's number in *number, unless number is
 * NULL. The cursor stays on its record, whose number is now one higher.
 */
int tp_list_cursor_insert_before(tp_list_cursor *cursor, const void *record, size_t record_size, uint64_t *number);

/*
 * Inserts a record after the record at the cursor, and stores the new record's number in *number, unless number is
 * NULL. The cursor stays.
 */
int tp_list_cursor_insert_after(tp_list_cursor *cursor, const void *record, size_t record_size, uint64_t *number);

/* Removes the record at the cursor. The cursor is then between the neighbours of that record. */
int tp_list_cursor_delete(tp_list_cursor *cursor);

/* -- text files whose records are in a list
 *
 *     tp_text *text;
 *     tp_text_open(lines, "/etc/motd", 0, '\n', &text);
 *     tp_list_append(lines, txn, "Be kind.", 8, NULL);
 *     tp_commit(txn);
 *     tp_text_close(text);
 */

/*
 * Reads a text file into a list, unless both have the same records already, and stores a handle in *text. A missing
 * file counts as a file without records. With record_size 0 each record ends with byte, usually '\n', which may be
 * missing after the last record. Otherwise each record has record_size bytes, and shorter records are padded with byte.
 * If the list has committed changes that were not written to the file, the list stays as it is, and the next
 * tp_text_sync writes it. Returns TP_DATABASE if both list and file were changed since they were equal: the library
 * cannot know which is right.
 */
int tp_text_open(tp_list *list, const char *path, size_t record_size, int byte, tp_text **text);

/*
 * Writes the file if the list was changed since the file was read or last written. The call writes a whole new file,
 * and replaces the old file when the new file is on disk. Stores 1 in *is_written if it wrote the file, and 0
 * otherwise; is_written may be NULL.
 */
int tp_text_sync(tp_text *text, int *is_written);

/*
 * Writes the file as tp_text_sync does, and ends the handle, whatever it returns except TP_MISUSE and TP_IN_USE. If the
 * file cannot be written, no change is lost: the changes are committed in the list. After the next tp_text_open,
 * tp_text_sync writes them.
 */
int tp_text_close(tp_text *text);

/* -- load many records at once
 *
 *     static int next(tp_pair *pair, void *argument)
 *     {
 *         char *line = argument;
 *         if (fgets(line, 80, stdin) == NULL)
 *             return TP_NOTFOUND;
 *         pair->key = line;
 *         pair->key_size = strcspn(line, "\n");
 *         return TP_OK;
 *     }
 *     tp_load(words, 0, 0, 0, next, NULL, line, NULL);
 */

/* The flag of tp_load and tp_multi_load. */
enum {
    TP_LOAD_SORTED = 1 /* the pairs come in key order; if a pair does not, nothing is loaded (TP_OUT_OF_ORDER) */
};

/*
 * A key and a value that a function of the program lends to the library: they stay until the function is called again,
 * or until the library call returns.
 */
typedef struct tp_pair {
    const void *key;
    size_t key_size;
    const void *value;
    size_t value_size;
} tp_pair;

/*
 * Supplies the next pair, for tp_load: fills in pair and returns TP_OK, or returns TP_NOTFOUND after the last pair. Any
 * other code ends the load: nothing is loaded, and tp_load returns that code. The function must not use the database
 * that is loaded.
 */
typedef int tp_next_pair(tp_pair *pair, void *argument);

/*
 * Receives reports on the progress of a call. what names the current step of the call (such as "sorting"), done is the
 * number of finished units of this step, and total is the number of all units of the step, or 0 if that number is
 * unknown.
 */
typedef void tp_watch(const char *what, uint64_t done, uint64_t total, void *argument);

/*
 * Loads the pairs that next supplies into an empty B-tree, and stores the resulting number of keys in *count. If
 * several pairs have the same key, the call keeps the last of them. The load is a separate transaction, which locks the
 * whole database. If it fails, nothing was loaded. It returns TP_NOT_EMPTY if the database has records already. flags
 * is TP_LOAD_SORTED if next supplies the pairs in key order, or 0. With 0 the call first sorts the pairs, with a file
 * in the environment's directory. The argument memory limits the memory for sorting: about this number of bytes (0: 64
 * MiB). The call fills pages to fill_percent, 10 to 100 (0: 100); leave room if keys will be inserted between the
 * loaded keys. It calls next and watch with argument; watch and count may be NULL.
 */
int tp_load(tp_db *db, unsigned int flags, unsigned int fill_percent, uint64_t memory, tp_next_pair *next, tp_watch *watch,
            void *argument, uint64_t *count);

/*
 * Loads pairs as tp_load does, and stores the resulting number of pairs in *count. With TP_LOAD_SORTED the pairs must
 * come in key order. If the database is TP_SORTED, the values of each key must then come in order, too.
 */
int tp_multi_load(tp_multi *multi, unsigned int flags, unsigned int fill_percent, uint64_t memory, tp_next_pair *next,
                  tp_watch *watch, void *argument, uint64_t *count);

/* -- merge pages that are nearly empty
 *
 *     uint64_t merged;
 *     if (tp_compact(db, 90, NULL, NULL, NULL, &merged) == TP_OK)
 *         printf("%lu pages won\n", (unsigned long)merged);
 */

/*
 * Merges neighbouring pages that are nearly empty, while other transactions read and write. A merged page is filled to
 * fill_percent at most, 10 to 100. Stores the number of visited leaves in *leaves, and the number of freed leaves in
 * *merged; either may be NULL. The file does not become shorter: the database reuses the freed pages. The call removes
 * the remains of deleted records, unless a snapshot needs them or a running transaction may restore them; a later call
 * may therefore free more pages. watch receives the number of visited leaves; it is called with argument, and may be
 * NULL. Returns TP_DATABASE for a hash file.
 */
int tp_compact(tp_db *db, unsigned int fill_percent, tp_watch *watch, void *argument, uint64_t *leaves, uint64_t *merged);

/* Merges pages as tp_compact does. */
int tp_multi_compact(tp_multi *multi, unsigned int fill_percent, tp_watch *watch, void *argument, uint64_t *leaves,
                     uint64_t *merged);

/* -- drop, rename and empty databases
 *
 * TP_NO_DATABASE means that there is no such database.
 */

/*
 * Drops a database with its indices when the transaction commits; the name is then free. No other transaction can use
 * the database or its name until this transaction ends. After the commit, calls with older handles return TP_DROPPED.
 * To replace database a by database b, drop a and rename b to a in one transaction. The commit returns when the drop is
 * on disk. While a backup is taken, the commit waits.
 */
int tp_drop(tp_txn *txn, const char *name);

/*
 * Renames a database when the transaction commits. tp_drop describes the locks and the commit. Older handles stay
 * valid. Returns TP_DATABASE if the new name is invalid, or if another database has the new name and this transaction
 * does not drop or rename that database. Databases cannot exchange their names.
 */
int tp_rename(tp_txn *txn, const char *name, const char *new_name);

/*
 * Removes all records of a database and the entries of its indices, and stores the number of removed records in *count,
 * unless count is NULL. All handles of the database stay valid. The call logs each removal, and does not free disk
 * space: to free it, drop the database and create it again. In a database of records by number, tp_recno_append
 * continues after the removed numbers. Returns TP_DATABASE for an index and for a file of pages.
 */
int tp_empty(tp_txn *txn, const char *name, uint64_t *count);

/*
 * Stores the kind of a database ("btree", "multi", "list", "index", "hash", "recno", "pages", or "missing" if its file
 * is not in its place) in *kind, and the length of its file in bytes in *bytes. Either may be NULL. Do not free the
 * text.
 */
int tp_env_database(tp_env *env, const char *name, const char **kind, uint64_t *bytes);

/*
 * Stores the number of a database's records in *count, as a snapshot taken now shows it. The call reads all records.
 * The number is 0 for a file of pages.
 */
int tp_env_count_records(tp_env *env, const char *name, uint64_t *count);

/* -- plain files, changed together with records
 *
 * These calls change ordinary files outside of the environment. The commit of the transaction makes all of its changes
 * of files and records, or none. Before the commit, other programs see no change. Each file is complete at every
 * moment. But a program that does not use this library and reads several files during a commit may see old contents of
 * some files and new contents of others.
 *
 * Whatever its durability is, the commit of a transaction with files returns when it is on disk and the files are in
 * their places. If it returns TP_FILES_WAITING, the transaction is committed, but some files could not be put in their
 * places: the next process that opens the environment, or changes one of these files, tries again. If another program
 * has changed a file since the transaction first used the file, the commit changes nothing and returns TP_FILE.
 *
 * A path must not contain a symbolic link or "..", and must not be in the environment's directory. If a file is
 * replaced, its access control list, extended attributes and further hard links are not kept. A transaction with files
 * cannot be passed on (tp_detach), and these calls refuse a snapshot.
 *
 *     tp_put(users, txn, "margo", 5, "1001", 4);
 *     tp_file_replace(txn, "/srv/etc/passwd", lines, strlen(lines));
 *     tp_file_replace(txn, "/srv/etc/group", groups, strlen(groups));
 *     tp_commit(txn);
 */

/*
 * Creates a plain file when the transaction commits. The call itself writes the size bytes of contents to a temporary
 * file in the same directory. Returns TP_FILE if the path exists, or if no file can have this path.
 */
int tp_file_create(tp_txn *txn, const char *path, const void *contents, size_t size);

/*
 * Replaces the contents of a file when the transaction commits. The call itself writes the new contents to a temporary
 * file in the same directory. The new file has the old file's mode, owner and group. Returns TP_FILE if there is no
 * such file.
 */
int tp_file_replace(tp_txn *txn, const char *path, const void *contents, size_t size);

/*
 * Renames a file when the transaction commits, and replaces a file that has the new name. Both paths must be on one
 * file system.
 */
int tp_file_rename(tp_txn *txn, const char *from, const char *to);

/* Removes a file when the transaction commits. */
int tp_file_remove(tp_txn *txn, const char *path);

/*
 * Copies the contents of a file to contents, which may be NULL. The copy includes this transaction's own changes. If
 * another transaction changes several files, the calls see all of these changes or none. Returns TP_NOTFOUND if there
 * is no such file. The path stays locked until the transaction ends.
 */
int tp_file_read(tp_txn *txn, const char *path, tp_buffer *contents);

/*
 * Lists the files that committed transactions have changed and that are not yet known to be in their places. Stores
 * their paths in paths, each followed by a zero byte. A file whose directory is missing (as on a disk that is not
 * mounted) stays on this list. A file that is just being put in its place is on the list for a moment.
 */
int tp_env_waiting_files(tp_env *env, tp_buffer *paths);

/*
 * Gives up the change of a file that tp_env_waiting_files lists. Call this if the file's directory was removed for
 * good. Stores 1 in *is_forgotten if a change was given up, and 0 otherwise; is_forgotten may be NULL.
 */
int tp_env_forget_file(tp_env *env, const char *path, int *is_forgotten);

/* -- recoverable memory in a transaction
 *
 * A segment is memory in a file. Every process of the environment may open it, and it outlives the processes. A
 * transaction that joins the segment stores to the memory directly, and its commit keeps the changes of records and
 * memory together. vista_map (vista.h) maps memory without an environment.
 *
 *     void *memory;
 *     if (tp_segment_join(segment, txn, &memory, NULL) == TP_OK &&
 *         tp_segment_set_range(segment, txn, memory, sizeof(long)) == TP_OK)
 *         *(long *)memory += 1;
 */

/*
 * Flags of tp_segment_open_at. Add them to give several. tp_segment_survives stores 0, TP_SURVIVES_SYSTEM or
 * TP_SURVIVES_POWER.
 */
enum {
    TP_GUARDED = 1,         /* a store to undeclared memory ends the process, as with vista_map_guarded */
    TP_ANYWHERE = 2,        /* the program keeps no pointers in the segment: it may be mapped at any address */
    TP_SURVIVES_SYSTEM = 4, /* the program states that the memory survives a crash of the operating system */
    TP_SURVIVES_POWER = 8   /* the program states that the memory also survives a loss of power */
};

/*
 * Opens the segment name in the environment's directory, creates it if it is missing, and stores its handle in
 * *segment. The flat part is the segment's memory without its heap (tp_segment_malloc). It has size bytes; size 0 opens
 * an existing segment, whatever the size of its flat part.
 */
int tp_segment_open(tp_env *env, const char *name, uint64_t size, tp_segment **segment);

/*
 * Opens a segment as tp_segment_open does, in the file at path. flags is a sum of TP_GUARDED, TP_ANYWHERE,
 * TP_SURVIVES_SYSTEM and TP_SURVIVES_POWER, or 0.
 */
int tp_segment_open_at(tp_env *env, const char *path, uint64_t size, unsigned int flags, tp_segment **segment);

/* Closes the segment, whose memory must no longer be used. Returns TP_IN_USE while a transaction has joined it. */
int tp_segment_close(tp_segment *segment);

/*
 * Stores in *what the failure that the memory survives besides the death of processes: 0 (no other failure),
 * TP_SURVIVES_SYSTEM or TP_SURVIVES_POWER. If the environment's commits survive a failure that the segment's memory
 * does not survive, and this failure happens while the segment is in use, then the records are kept, but the segment
 * can no longer be opened.
 */
int tp_segment_survives(tp_segment *segment, unsigned int *what);

/*
 * Joins a segment to a transaction, and locks the segment until the transaction ends. The commit keeps the
 * transaction's stores to the segment; an abort, or a rollback to a savepoint, undoes them. Stores the address of the
 * flat part in *memory, and its length in bytes in *size, unless size is NULL. The transaction can then not be passed
 * on (tp_detach). If the transaction joins the segment again, the call stores the same answers.
 */
int tp_segment_join(tp_segment *segment, tp_txn *txn, void **memory, size_t *size);

/*
 * Declares that the transaction, which has joined the segment, may change the size bytes at place. Call this before the
 * stores, and again after tp_savepoint and tp_savepoint_roll_back.
 */
int tp_segment_set_range(tp_segment *segment, tp_txn *txn, void *place, size_t size);

/*
 * Allocates size bytes, rounded up to a multiple of 16, from the segment's heap, and stores their address in *place. An
 * abort frees them. The bytes are not cleared. Declare them (tp_segment_set_range) before you store to them.
 */
int tp_segment_malloc(tp_segment *segment, tp_txn *txn, size_t size, void **place);

/* Frees an allocation when the transaction commits. The call works on a full disk, too. */
int tp_segment_free(tp_segment *segment, tp_txn *txn, void *place);

/* -- back up an environment while it is in use, and restore it
 *
 * watch, which may be NULL, receives the progress of each call, and is called with argument. TP_BACKUP means that no
 * backup can be made or continued in the directory, or that the backup does not have the state to restore. TP_CORRUPT
 * means that a page or a log record is damaged. TP_ENVIRONMENT means that the directory for the new environment is not
 * empty.
 *
 *     tp_backup(env, "copy", 0, NULL, NULL, NULL);
 *     tp_backup(env, "copy", TP_BACKUP_MORE, NULL, NULL, NULL);
 *     tp_restore("copy", "other", TP_UNTIL_END, 0, NULL, NULL, NULL);
 */

/* The flag of tp_backup. */
enum {
    TP_BACKUP_MORE = 1 /* add the log since the last backup to the backup that is there */
};

/* The state that tp_restore restores. */
enum {
    TP_UNTIL_END = 0, /* the latest state; value is ignored */
    TP_UNTIL_LSN = 1, /* with all transactions whose commit record has the LSN in value, or a lower LSN */
    TP_UNTIL_TIME = 2 /* with all commits that were reported as on disk by the time in value (microseconds since 1970) */
};

/* A backup, and the states that can be restored from it. */
typedef struct {
    uint64_t earliest;   /* the LSN of the earliest state, which includes everything that was logged before this LSN */
    uint64_t end;        /* the LSN of the latest state */
    uint64_t files;      /* number of database files */
    uint64_t file_bytes; /* length of the database files in bytes */
    uint64_t log_bytes;  /* length of the log in bytes */
} tp_backed_up;

/*
 * Copies the environment to a directory, while other threads and processes use the environment. The argument to is the
 * path of the directory. With flags 0 the directory must be missing or empty; with TP_BACKUP_MORE it must have a backup
 * already. The copy has all commits that were made before the call began, and some of the commits that were made during
 * the call. Segments of memory are not copied. Stores a description of the backup in *done, unless done is NULL.
 */
int tp_backup(tp_env *env, const char *to, unsigned int flags, tp_watch *watch, void *argument, tp_backed_up *done);

/*
 * Reads a whole backup, and checks every page and every log record. Stores a description of the backup in *found,
 * unless found is NULL.
 */
int tp_backup_check(const char *backup, tp_watch *watch, void *argument, tp_backed_up *found);

/*
 * Makes an environment from a backup. The argument to is the path of the environment's directory, which must be missing
 * or be empty except for a libtp.toml. until is TP_UNTIL_END, TP_UNTIL_LSN or TP_UNTIL_TIME, and value is the LSN or
 * the time. Stores the LSN at which the new log continues in *end, unless end is NULL. If the program has its own types
 * of log records, register them first (tp_log_type).
 */
int tp_restore(const char *backup, const char *to, int until, uint64_t value, tp_watch *watch, void *argument, uint64_t *end);

/* -- pages of the program's own under transactions
 *
 * Pages are numbered from 0, and added one after the other.
 *
 *     void *page;
 *     size_t size;
 *     tp_lock(fid, txn, 0, WRITE_LOCK);
 *     buf_get(fid, txn, 0, BF_PIN, &page, &size);
 *     strcpy(page, "hello");
 *     buf_unpin(fid, txn, 0);
 */

/*
 * Flags of buf_open. They have no effect: all processes always share the cache, and pages are always changed in
 * transactions.
 */
enum {
    DB_SHARED = 1,
    DB_TP = 2
};

/* The flag of buf_get: the transaction keeps its copy of the page until buf_unpin. */
enum {
    BF_PIN = 1
};

/*
 * Opens a file of pages, creates it if it is missing, and stores its handle in *fid. The program defines the contents
 * of the pages. flags is a sum of DB_SHARED and DB_TP, or 0.
 */
int buf_open(tp_env *env, const char *name, unsigned int flags, tp_pages **fid);

/* Closes the file. */
int buf_close(tp_pages *fid);

/* Stores the length of a page, in bytes, in *size. */
int buf_page_size(tp_pages *fid, size_t *size);

/*
 * Copies page pageno for the transaction, and stores the address of the copy in *page. The program reads and changes
 * the copy as it likes. The copy stays until buf_unpin, or until the transaction ends. Stores the page's length in
 * bytes in *size, or 0 if all its bytes are zero, as in a page that was never written; size may be NULL. The argument
 * how is BF_PIN. Lock the page first (tp_lock). A transaction with a changed copy that was not unpinned cannot commit
 * (TP_MISUSE). A rollback to a savepoint does not change copies: unpin them first.
 */
int buf_get(tp_pages *fid, tp_txn *txn, uint32_t pageno, int how, void **page, size_t *size);

/*
 * Ends the copy of a page that buf_get has made. If the program has changed the copy, the call logs the change and
 * makes it in the page, which must be locked with WRITE_LOCK. If the call fails (as with TP_DATABASE), the page is
 * unchanged, and the copy no longer exists. An abort of the transaction undoes the changes of its pages.
 */
int buf_unpin(tp_pages *fid, tp_txn *txn, uint32_t pageno);

/* -- lock pages of the program's own
 *
 *     if (tp_lock(fid, txn, 0, READ_LOCK) != TP_OK)
 *         return tp_abort(txn);
 */

/* Modes of locks. */
enum {
    READ_LOCK = 1, /* shared, for reading: other transactions may read, too */
    WRITE_LOCK = 2 /* exclusive, for writing */
};

/* Locks a page until the transaction ends. mode is READ_LOCK or WRITE_LOCK. */
int tp_lock(tp_pages *fid, tp_txn *txn, uint32_t pageno, int mode);

/*
 * Releases a READ_LOCK of a page before the transaction ends. Other transactions may then change the page. A WRITE_LOCK
 * stays, because changes of the page may have to be undone.
 */
int tp_unlock(tp_pages *fid, tp_txn *txn, uint32_t pageno);

/* -- log records of the program's own
 *
 *     tp_log_type(1, "counter add", redo_add, undo_add);
 *     tp_env_open("directory", NULL, 0, &env);
 *     buf_open(env, "counters", DB_SHARED | DB_TP, &fid);
 *     tp_log(fid, txn, 0, 1, &by, sizeof by);
 */

/*
 * Makes or undoes a change of a page, for tp_log_type. argument describes the change. The function works on a copy of
 * the page. It returns 0, or another number to refuse the change. The library may call it more than once for one
 * change, in any process that has registered it, so its result must depend only on its arguments. It must not call this
 * library.
 */
typedef int tp_page_change(void *page, size_t page_size, const void *argument, size_t argument_size);

/*
 * Registers a type of log record for the environments that this process opens from now on. code is at least 1, and must
 * never be used for another type. name has 1 to 64 bytes, and each record of the type contains it. redo makes a change
 * of this type, and undo reverses the change. When undo is called, the page may also have later changes. If undo is
 * NULL, the library undoes a change by restoring the previous bytes.
 *
 * If a process dies with uncommitted changes of the type, only processes that have registered the type can undo them.
 * If the log has records of the type and a process restarts the environment without having registered the type,
 * tp_env_open returns TP_LOG_TYPE; tp_error names the type and its code.
 */
int tp_log_type(uint16_t code, const char *name, tp_page_change *redo, tp_page_change *undo);

/*
 * Logs a change and makes it: the call passes argument to the redo function of the type that was registered with code.
 * If the type has an undo function, the transaction does not have to lock the page first: several transactions can make
 * such changes of a page at once, and a transaction that locks the page for reading waits for them.
 */
int tp_log(tp_pages *fid, tp_txn *txn, uint32_t pageno, uint16_t code, const void *argument, size_t argument_size);

/* -- read the log
 *
 * These calls pass records of the log to a function of the program and change nothing. A log sequence number (LSN)
 * names a record.
 *
 *     tp_last_lsn(txn, &last);
 *     tp_commit(txn);
 *     log_unroll(env, last, show, NULL);
 */

/* A record of the log. */
typedef struct {
    uint64_t lsn;             /* log sequence number of the record */
    uint64_t prev;            /* LSN of the transaction's previous record; 0 for its first record */
    uint64_t txn;             /* number of the transaction (tp_txn_id); 0 for none */
    uint16_t code;            /* code of the record's type */
    uint16_t is_compensation; /* 1 if the record describes the undo of another record's change */
    const char *kind;         /* name of the record's type */
    const char *text;         /* contents of the record, as a text for people */
    const void *body;         /* bytes of the record, in the format of its type */
    size_t body_size;
} tp_log_record;

/*
 * Visits a log record, which stays until the function returns. The function returns TP_OK to continue with the next
 * record. It may call this library.
 */
typedef int tp_log_visit(const tp_log_record *record, void *argument);

/*
 * Calls visit with the record at lsn. Returns TP_NOTFOUND if the log no longer has the record or does not have it yet,
 * and TP_CORRUPT if no record begins at this LSN.
 */
int log_read(tp_env *env, uint64_t lsn, tp_log_visit *visit, void *argument);

/*
 * Calls visit with all records from LSN `from` on (0: from the oldest record that is kept), up to the end of the log at
 * the time of the call. If visit returns a code other than TP_OK, the call ends and returns that code.
 */
int log_roll(tp_env *env, uint64_t from, tp_log_visit *visit, void *argument);

/*
 * Calls visit with the record at LSN last, with the previous record of the same transaction, and so on, back to the
 * transaction's first record or to the oldest record that is kept. If visit returns a code other than TP_OK, the call
 * ends and returns that code. The call undoes nothing.
 */
int log_unroll(tp_env *env, uint64_t last, tp_log_visit *visit, void *argument);

/*
 * Stores in *lsn the LSN of the last record that a running transaction has logged, or 0 if it has logged none. Pass the
 * LSN to log_unroll.
 */
int tp_last_lsn(tp_txn *txn, uint64_t *lsn);

/* -- lock objects that the program names
 *
 * The program defines the meaning of an object's name.
 *
 *     lock_get(txn, "printer", 7, WRITE_LOCK);
 */

/*
 * Locks an object until the transaction ends. mode is READ_LOCK or WRITE_LOCK (tp_lock). If the transaction has a lock
 * on the object already, it then has the stronger of the two locks.
 */
int lock_get(tp_txn *txn, const void *name, size_t name_size, int mode);

/* Replaces the transaction's lock on an object (lock_get) by a weaker lock: mode is READ_LOCK. */
int lock_downgrade(tp_txn *txn, const void *name, size_t name_size, int mode);

/*
 * Releases the transaction's lock on an object (lock_get) before the transaction ends. Other transactions can then see
 * changes of the object before this transaction commits.
 */
int lock_release(tp_txn *txn, const void *name, size_t name_size);

/* Releases all locks of lock_get. Locks on records and pages stay until the transaction ends. */
int lock_unlock_all(tp_txn *txn);

#ifdef __cplusplus
}
#endif
#endif
