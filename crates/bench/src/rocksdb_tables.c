/*
 * The column families of a RocksDB database for the benchmarks of plain records and OO1. The functions have the return
 * values and the settings of "rocksdb_open.h". Only one thread at a time may use a database.
 *
 * Each step uses the fastest way that RocksDB has. A load of sorted records writes a table file, which the database
 * then ingests. Other puts are write batches, which RocksDB writes to the log and the memtables. A reader reads from
 * one snapshot, with one iterator for each table.
 */
#include "rocksdb_open.h"
#include "pairs.h"

#include <stdlib.h>
#include <string.h>

/* Bytes that RocksDB preallocates for the manifest. The default is 4 MiB. The benchmark would count these bytes, although nearly all of
 * them would stay unwritten. */
#define MANIFEST_BYTES ((size_t)64 << 10)

struct rocks_tables {
	rocksdb_t *db;
	rocksdb_options_t *options;
	rocksdb_writeoptions_t *write;
	rocksdb_column_family_handle_t *table[TABLES_MAX];
	int count;
};

/* A snapshot, taken when the reader began, with an iterator for each table that was read in order. */
struct rocks_reader {
	struct rocks_tables *tables;
	rocksdb_readoptions_t *at_snapshot;
	const rocksdb_snapshot_t *snapshot;
	rocksdb_iterator_t *at[TABLES_MAX];
};

/* The names of the families. Every database of RocksDB has the family "default". */
static const char *const family_name[TABLES_MAX] = { "default", "records-1", "records-2" };

/* Opens or makes a database of `count` tables. With `sync`, a put returns when it is on the disk. */
int rocks_tables_open(const char *path, int count, int sync, uint64_t cache_bytes, int threads, struct rocks_tables **out,
		      char **why)
{
	struct rocks_tables *tables = calloc(1, sizeof *tables);
	if (tables == NULL)
		return ROCKS_FAILED;
	tables->count = count;
	tables->options = rocks_options(cache_bytes, threads);
	rocksdb_options_set_manifest_preallocation_size(tables->options, MANIFEST_BYTES);
	rocksdb_options_set_create_missing_column_families(tables->options, 1);
	tables->write = rocksdb_writeoptions_create();
	rocksdb_writeoptions_set_sync(tables->write, sync != 0);
	const rocksdb_options_t *options[TABLES_MAX] = { tables->options, tables->options, tables->options };
	tables->db = rocksdb_open_column_families(tables->options, path, count, family_name, options, tables->table, why);
	*out = tables;
	return rocks_answer(why);
}

/* Closes a database, also if rocks_tables_open() failed. */
void rocks_tables_close(struct rocks_tables *tables)
{
	if (tables->db != NULL) {
		for (int i = 0; i < tables->count; i++)
			rocksdb_column_family_handle_destroy(tables->table[i]);
		rocksdb_close(tables->db);
	}
	rocksdb_writeoptions_destroy(tables->write);
	rocksdb_options_destroy(tables->options);
	free(tables);
}

static void write_file(rocksdb_sstfilewriter_t *writer, const char *file, const struct pairs *pairs, char **why)
{
	rocksdb_sstfilewriter_open(writer, file, why);
	for (size_t i = 0; *why == NULL && i < pairs->count; i++)
		rocksdb_sstfilewriter_put(writer, key_of(pairs, i), pairs->key_bytes, value_of(pairs, i),
					  pairs->value_bytes, why);
	if (*why == NULL)
		rocksdb_sstfilewriter_finish(writer, why);
}

/* Writes sorted pairs to `file`, which must be on the database's file system. Then the database ingests the file by moving it. */
int rocks_tables_load(struct rocks_tables *tables, const char *file, const struct pairs *pairs, char **why)
{
	rocksdb_envoptions_t *env = rocksdb_envoptions_create();
	rocksdb_sstfilewriter_t *writer = rocksdb_sstfilewriter_create(env, tables->options);
	write_file(writer, file, pairs, why);
	rocksdb_sstfilewriter_destroy(writer);
	rocksdb_envoptions_destroy(env);
	if (*why == NULL) {
		rocksdb_ingestexternalfileoptions_t *taking = rocksdb_ingestexternalfileoptions_create();
		rocksdb_ingestexternalfileoptions_set_move_files(taking, 1);
		rocksdb_ingest_external_file_cf(tables->db, tables->table[pairs->table], &file, 1, taking, why);
		rocksdb_ingestexternalfileoptions_destroy(taking);
	}
	return rocks_answer(why);
}

/* Puts the pairs of `count` tables atomically. */
int rocks_tables_put(struct rocks_tables *tables, const struct pairs *all, size_t count, char **why)
{
	rocksdb_writebatch_t *batch = rocksdb_writebatch_create();
	for (const struct pairs *pairs = all; pairs < all + count; pairs++)
		for (size_t i = 0; i < pairs->count; i++)
			rocksdb_writebatch_put_cf(batch, tables->table[pairs->table], key_of(pairs, i), pairs->key_bytes,
						  value_of(pairs, i), pairs->value_bytes);
	rocksdb_write(tables->db, tables->write, batch, why);
	rocksdb_writebatch_destroy(batch);
	return rocks_answer(why);
}

/* Writes all changes in memory to sorted files, and syncs the files. */
int rocks_tables_flush(struct rocks_tables *tables, char **why)
{
	rocksdb_flushoptions_t *options = rocks_waiting();
	for (int i = 0; *why == NULL && i < tables->count; i++)
		rocksdb_flush_cf(tables->db, options, tables->table[i], why);
	rocksdb_flushoptions_destroy(options);
	return rocks_answer(why);
}

struct rocks_reader *rocks_reader_begin(struct rocks_tables *tables)
{
	struct rocks_reader *reader = calloc(1, sizeof *reader);
	if (reader == NULL)
		return NULL;
	reader->tables = tables;
	reader->snapshot = rocksdb_create_snapshot(tables->db);
	reader->at_snapshot = rocksdb_readoptions_create();
	rocksdb_readoptions_set_snapshot(reader->at_snapshot, reader->snapshot);
	return reader;
}

void rocks_reader_end(struct rocks_reader *reader)
{
	for (int i = 0; i < TABLES_MAX; i++)
		if (reader->at[i] != NULL)
			rocksdb_iter_destroy(reader->at[i]);
	rocksdb_readoptions_destroy(reader->at_snapshot);
	rocksdb_release_snapshot(reader->tables->db, reader->snapshot);
	free(reader);
}

/* Reads at most `room` bytes of a value. Returns ROCKS_MISSING if the key does not exist. */
int rocks_reader_get(struct rocks_reader *reader, int table, const void *key, size_t key_bytes, void *value, size_t room,
		     size_t *size, char **why)
{
	struct rocks_tables *tables = reader->tables;
	rocksdb_pinnableslice_t *found = rocksdb_get_pinned_cf(tables->db, reader->at_snapshot, tables->table[table], key,
							       key_bytes, why);
	if (found == NULL)
		return *why == NULL ? ROCKS_MISSING : rocks_answer(why);
	const char *bytes = rocksdb_pinnableslice_value(found, size);
	memcpy(value, bytes, *size < room ? *size : room);
	rocksdb_pinnableslice_destroy(found);
	return 0;
}

static int pair_at(rocksdb_iterator_t *at, struct pair *pair, char **why)
{
	if (!rocksdb_iter_valid(at)) {
		rocksdb_iter_get_error(at, why);
		return *why == NULL ? ROCKS_END : rocks_answer(why);
	}
	pair->key = rocksdb_iter_key(at, &pair->key_bytes);
	pair->value = rocksdb_iter_value(at, &pair->value_bytes);
	return 0;
}

/* Finds the first pair of a table whose key is `key` or a later key. Returns ROCKS_END if the table has no such pair. */
int rocks_reader_first(struct rocks_reader *reader, int table, const void *key, size_t key_bytes, struct pair *pair, char **why)
{
	struct rocks_tables *tables = reader->tables;
	if (reader->at[table] == NULL)
		reader->at[table] = rocksdb_create_iterator_cf(tables->db, reader->at_snapshot, tables->table[table]);
	rocksdb_iter_seek(reader->at[table], key, key_bytes);
	return pair_at(reader->at[table], pair, why);
}

/* Finds the next pair of a table after rocks_reader_first(). Returns ROCKS_END if the table has no more pairs. */
int rocks_reader_next(struct rocks_reader *reader, int table, struct pair *pair, char **why)
{
	rocksdb_iter_next(reader->at[table]);
	return pair_at(reader->at[table], pair, why);
}

/* Adds up the bytes of all pairs of a table, in order. */
int rocks_reader_scan(struct rocks_reader *reader, int table, uint64_t *bytes, char **why)
{
	struct pair pair;
	int ret;
	*bytes = 0;
	for (ret = rocks_reader_first(reader, table, "", 0, &pair, why); ret == 0;
	     ret = rocks_reader_next(reader, table, &pair, why))
		*bytes += pair.key_bytes + pair.value_bytes;
	return ret == ROCKS_END ? 0 : ret;
}
