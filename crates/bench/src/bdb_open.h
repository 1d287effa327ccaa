/*
 * Opening an environment of Berkeley DB, and the answers of all functions that call Berkeley DB.
 *
 * Every function returns 0, BDB_ABORTED (the transaction was a deadlock's victim: nothing happened), BDB_END (the record does not
 * exist, or no record follows), or an error of Berkeley DB or the system, which bdb_error() puts into words.
 */
#ifndef BDB_OPEN_H
#define BDB_OPEN_H

#include <db.h>
#include <stdint.h>

#define BDB_ABORTED (-1)
#define BDB_END (-2)

struct bdb_settings {
	uint64_t cache_bytes;
	/* The number of locks that may be held at once, and of objects with locks. */
	uint32_t lock_count;
	/* Syncs the log at each commit; else each commit only writes the log. */
	int sync;
	/* Makes or recovers the environment; else joins the processes that have it open. */
	int recover;
};

/* Opens an environment with transactions, for any number of threads and processes. Every conflict starts a search for deadlocks. */
int bdb_open(const char *home, const struct bdb_settings *settings, DB_ENV **out);

int bdb_answer(int ret);

const char *bdb_error(int ret);

/* DB_THREAD demands that the caller owns the memory. */
void bdb_use(DBT *dbt, void *bytes, uint32_t size);

#endif
