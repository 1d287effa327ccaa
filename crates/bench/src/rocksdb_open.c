#include "rocksdb_open.h"

#include <string.h>

#define BLOOM_BITS 10
#define MEMTABLE_BYTES ((size_t)64 << 20)

rocksdb_options_t *rocks_options(uint64_t cache_bytes, int threads)
{
	rocksdb_options_t *options = rocksdb_options_create();
	rocksdb_block_based_table_options_t *table = rocksdb_block_based_options_create();
	rocksdb_cache_t *cache = rocksdb_cache_create_lru(cache_bytes);
	rocksdb_block_based_options_set_block_cache(table, cache);
	rocksdb_block_based_options_set_filter_policy(table, rocksdb_filterpolicy_create_bloom_full(BLOOM_BITS));
	rocksdb_options_set_create_if_missing(options, 1);
	rocksdb_options_increase_parallelism(options, threads);
	rocksdb_options_set_write_buffer_size(options, MEMTABLE_BYTES);
	/* A reused log file does not grow, so a sync need not write the file's length. */
	rocksdb_options_set_recycle_log_file_num(options, 4);
	rocksdb_options_set_compression(options, rocksdb_no_compression);
	rocksdb_options_set_block_based_table_factory(options, table);
	rocksdb_cache_destroy(cache);
	rocksdb_block_based_options_destroy(table);
	return options;
}

rocksdb_flushoptions_t *rocks_waiting(void)
{
	rocksdb_flushoptions_t *options = rocksdb_flushoptions_create();
	rocksdb_flushoptions_set_wait(options, 1);
	return options;
}

/* If a lock was not granted, RocksDB's message begins with the text of Status::TimedOut, Busy or TryAgain. */
int rocks_answer(char **why)
{
	if (*why == NULL)
		return 0;
	if (strncmp(*why, "Operation timed out", 19) == 0 || strncmp(*why, "Resource busy", 13) == 0 ||
	    strncmp(*why, "Operation failed. Try again", 27) == 0) {
		rocksdb_free(*why);
		*why = NULL;
		return ROCKS_ABORTED;
	}
	return ROCKS_FAILED;
}

void rocks_free(char *why)
{
	rocksdb_free(why);
}
