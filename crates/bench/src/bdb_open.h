/*
 * The opening of an environment of Berkeley DB, and the return values of all functions that call Berkeley DB.
 *
 * Every function returns 0, BDB_ABORTED (the transaction was the victim of a deadlock: nothing was changed), BDB_END
 * (the record does not exist, or there is no next record), or an error code of Berkeley DB or the system, for which
 * bdb_error() returns a text.
 */
#ifndef BDB_OPEN_H
#define BDB_OPEN_H

#include <db.h>
#include <stdint.h>

#define BDB_ABORTED (-1)
#define BDB_END (-2)

struct bdb_settings {
	uint64_t cache_bytes;
	/* The largest number of locks at a time, and of locked objects. */
	uint32_t lock_count;
	/* Whether each commit syncs the log. Otherwise a commit only writes the log. */
	int sync;
	/* Whether to make or recover the environment. Otherwise another process has it open already. */
	int recover;
};

/* Opens an environment with transactions, for any number of threads and processes. Every lock conflict starts a search for deadlocks. */
int bdb_open(const char *home, const struct bdb_settings *settings, DB_ENV **out);

/* Converts a return value of Berkeley DB to a return value of these functions. */
int bdb_answer(int ret);

/* Returns the text of an error code. */
const char *bdb_error(int ret);

/* Makes `dbt` refer to `size` bytes of the caller's memory (DB_DBT_USERMEM), as handles with DB_THREAD demand. */
void bdb_dbt_usermem(DBT *dbt, void *bytes, uint32_t size);

#endif
