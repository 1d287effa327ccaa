/*
 * What everything here that calls Berkeley DB shares: how an environment is opened, and what an answer is.
 *
 * Every function returns 0, BDB_ABORTED (a deadlock's victim: nothing happened), BDB_END (there is no such record, or no next one),
 * or an error of Berkeley DB or the system, which bdb_error() puts into words.
 */
#ifndef BDB_OPEN_H
#define BDB_OPEN_H

#include <db.h>
#include <stdint.h>

#define BDB_ABORTED (-1)
#define BDB_END (-2)

struct bdb_settings {
	uint64_t cache_bytes;
	/* As many may be held at once, on as many objects. */
	uint32_t lock_count;
	/* The log is synced at each commit, and not only written. */
	int sync;
	/* Makes the environment or recovers it; else joins others that have it open. */
	int recover;
};

/* With transactions, for any number of threads and processes, deadlocks looked for at every conflict. */
int bdb_open(const char *home, const struct bdb_settings *settings, DB_ENV **out);

int bdb_answer(int ret);

const char *bdb_error(int ret);

/* DB_THREAD demands that the caller owns the memory. */
void bdb_use(DBT *dbt, void *bytes, uint32_t size);

#endif
