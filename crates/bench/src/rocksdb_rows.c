/*
 * Plain records on RocksDB, as flat functions. Answers and settings are those of "rocksdb_open.h".
 *
 * Its best way for each step: sorted records are written as a table file, which becomes one of the database's; others go in by
 * write batches, in the log, which is not synced, and in the memtable. What is read is read at a snapshot. One thread at a time.
 */
#include "rocksdb_open.h"
#include "rows_pairs.h"

#include <stdlib.h>

/* Of 4 MiB, the default, nearly all would be set aside and counted, and never written. */
#define MANIFEST_BYTES ((size_t)64 << 10)

struct rocks_rows {
	rocksdb_t *db;
	rocksdb_options_t *options;
	rocksdb_writeoptions_t *write;
};

/* Sees records as they were when it began. */
struct rocks_reader {
	rocksdb_t *db;
	rocksdb_readoptions_t *at_snapshot;
	const rocksdb_snapshot_t *snapshot;
};

int rocks_rows_open(const char *path, uint64_t cache_bytes, int threads, struct rocks_rows **out, char **why)
{
	struct rocks_rows *rows = calloc(1, sizeof *rows);
	if (rows == NULL)
		return ROCKS_FAILED;
	rows->options = rocks_options(cache_bytes, threads);
	rocksdb_options_set_manifest_preallocation_size(rows->options, MANIFEST_BYTES);
	rows->write = rocksdb_writeoptions_create();
	rows->db = rocksdb_open(rows->options, path, why);
	*out = rows;
	return rocks_answer(why);
}

void rocks_rows_close(struct rocks_rows *rows)
{
	if (rows->db != NULL)
		rocksdb_close(rows->db);
	rocksdb_writeoptions_destroy(rows->write);
	rocksdb_options_destroy(rows->options);
	free(rows);
}

static void write_table(rocksdb_sstfilewriter_t *writer, const char *table, const struct pairs *pairs, char **why)
{
	rocksdb_sstfilewriter_open(writer, table, why);
	for (size_t i = 0; *why == NULL && i < pairs->count; i++)
		rocksdb_sstfilewriter_put(writer, key_of(pairs, i), pairs->key_bytes, value_of(pairs, i),
					  pairs->value_bytes, why);
	if (*why == NULL)
		rocksdb_sstfilewriter_finish(writer, why);
}

/* Writes sorted pairs as the file `table`, on the database's file system, which the database takes over. */
int rocks_rows_load(struct rocks_rows *rows, const char *table, const struct pairs *pairs, char **why)
{
	rocksdb_envoptions_t *env = rocksdb_envoptions_create();
	rocksdb_sstfilewriter_t *writer = rocksdb_sstfilewriter_create(env, rows->options);
	write_table(writer, table, pairs, why);
	rocksdb_sstfilewriter_destroy(writer);
	rocksdb_envoptions_destroy(env);
	if (*why == NULL) {
		rocksdb_ingestexternalfileoptions_t *taking = rocksdb_ingestexternalfileoptions_create();
		rocksdb_ingestexternalfileoptions_set_move_files(taking, 1);
		rocksdb_ingest_external_file(rows->db, &table, 1, taking, why);
		rocksdb_ingestexternalfileoptions_destroy(taking);
	}
	return rocks_answer(why);
}

/* Puts pairs at once: all of them or none. */
int rocks_rows_insert(struct rocks_rows *rows, const struct pairs *pairs, char **why)
{
	rocksdb_writebatch_t *batch = rocksdb_writebatch_create();
	for (size_t i = 0; i < pairs->count; i++)
		rocksdb_writebatch_put(batch, key_of(pairs, i), pairs->key_bytes, value_of(pairs, i),
				       pairs->value_bytes);
	rocksdb_write(rows->db, rows->write, batch, why);
	rocksdb_writebatch_destroy(batch);
	return rocks_answer(why);
}

/* Everything in memory goes into sorted files, which are synced. */
int rocks_rows_flush(struct rocks_rows *rows, char **why)
{
	rocksdb_flushoptions_t *options = rocks_waiting();
	rocksdb_flush(rows->db, options, why);
	rocksdb_flushoptions_destroy(options);
	return rocks_answer(why);
}

struct rocks_reader *rocks_reader_begin(struct rocks_rows *rows)
{
	struct rocks_reader *reader = calloc(1, sizeof *reader);
	if (reader == NULL)
		return NULL;
	reader->db = rows->db;
	reader->snapshot = rocksdb_create_snapshot(rows->db);
	reader->at_snapshot = rocksdb_readoptions_create();
	rocksdb_readoptions_set_snapshot(reader->at_snapshot, reader->snapshot);
	return reader;
}

void rocks_reader_end(struct rocks_reader *reader)
{
	rocksdb_readoptions_destroy(reader->at_snapshot);
	rocksdb_release_snapshot(reader->db, reader->snapshot);
	free(reader);
}

/* The size of a value, read where it lies; 0 if there is none. */
int rocks_reader_get(struct rocks_reader *reader, const char *key, size_t key_bytes, size_t *size, char **why)
{
	rocksdb_pinnableslice_t *found = rocksdb_get_pinned(reader->db, reader->at_snapshot, key, key_bytes, why);
	*size = 0;
	if (found != NULL) {
		rocksdb_pinnableslice_value(found, size);
		rocksdb_pinnableslice_destroy(found);
	}
	return rocks_answer(why);
}

/* Adds up the bytes of all records, in order. */
int rocks_reader_scan(struct rocks_reader *reader, uint64_t *bytes, char **why)
{
	rocksdb_iterator_t *at = rocksdb_create_iterator(reader->db, reader->at_snapshot);
	size_t key_bytes, value_bytes;
	*bytes = 0;
	for (rocksdb_iter_seek_to_first(at); rocksdb_iter_valid(at); rocksdb_iter_next(at)) {
		rocksdb_iter_key(at, &key_bytes);
		rocksdb_iter_value(at, &value_bytes);
		*bytes += key_bytes + value_bytes;
	}
	rocksdb_iter_get_error(at, why);
	rocksdb_iter_destroy(at);
	return rocks_answer(why);
}
