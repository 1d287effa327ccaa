/*
 * The settings of a database of RocksDB, and the answers of all functions that call RocksDB.
 *
 * Every function that takes `why` returns 0, ROCKS_ABORTED (a lock was not granted in time: nothing happened),
 * ROCKS_MISSING (the record does not exist), ROCKS_END (no record follows), or ROCKS_FAILED with RocksDB's message in
 * `why`, which rocks_free() frees.
 */
#ifndef ROCKSDB_OPEN_H
#define ROCKSDB_OPEN_H

#include <rocksdb/c.h>
#include <stdint.h>

#define ROCKS_ABORTED (-1)
#define ROCKS_END (-2)
#define ROCKS_MISSING (-3)
#define ROCKS_FAILED (-4)

/* Returns the settings: `threads` background threads, full Bloom filters of 10 bits, memtables of 64 MiB, no compression. */
rocksdb_options_t *rocks_options(uint64_t cache_bytes, int threads);

/* Returns options with which rocksdb_flush_cf() and rocksdb_transactiondb_flush() return when the sorted files are written. */
rocksdb_flushoptions_t *rocks_waiting(void);

int rocks_answer(char **why);

void rocks_free(char *why);

#endif
