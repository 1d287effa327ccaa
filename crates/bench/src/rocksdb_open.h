/*
 * What everything here that calls RocksDB shares: how a database is set, and what an answer is.
 *
 * Every function that takes `why` returns 0, ROCKS_ABORTED (a lock was not to be had in time: nothing happened),
 * ROCKS_MISSING (a record is not there), ROCKS_END (there is no next one), or ROCKS_FAILED with RocksDB's own words in
 * `why`, which rocks_free() takes.
 */
#ifndef ROCKSDB_OPEN_H
#define ROCKSDB_OPEN_H

#include <rocksdb/c.h>
#include <stdint.h>

#define ROCKS_ABORTED (-1)
#define ROCKS_END (-2)
#define ROCKS_MISSING (-3)
#define ROCKS_FAILED (-4)

/* As many background threads as there are processors, full Bloom filters of 10 bits, memtables of 64 MiB, no compression. */
rocksdb_options_t *rocks_options(uint64_t cache_bytes, int threads);

/* Everything in memory goes into sorted files; for rocksdb_flush() and rocksdb_transactiondb_flush(). */
rocksdb_flushoptions_t *rocks_waiting(void);

int rocks_answer(char **why);

void rocks_free(char *why);

#endif
