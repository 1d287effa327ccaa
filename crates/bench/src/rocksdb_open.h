/*
 * The settings of a database of RocksDB, and the return values of all functions that call RocksDB.
 *
 * Every function that takes `why` returns 0, ROCKS_ABORTED (a lock was not granted in time: nothing was changed),
 * ROCKS_MISSING (the record does not exist), ROCKS_END (there is no next record), or ROCKS_FAILED. With ROCKS_FAILED,
 * `why` has RocksDB's message, which the caller frees by rocks_free().
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

/* Returns options with which rocksdb_flush_cf() and rocksdb_transactiondb_flush() wait until the sorted files are written. */
rocksdb_flushoptions_t *rocks_waiting(void);

/* Returns 0 if RocksDB left no message in `why`, else ROCKS_ABORTED or ROCKS_FAILED. Frees the message of ROCKS_ABORTED. */
int rocks_answer(char **why);

/* Frees a message of RocksDB. */
void rocks_free(char *why);

#endif
