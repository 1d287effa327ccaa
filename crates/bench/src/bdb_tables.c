/*
 * The B-trees of a Berkeley DB environment for the benchmarks of plain records and OO1. The functions have the return
 * values of "bdb_open.h". Only one thread at a time may use an environment.
 *
 * Each step uses the fastest way that Berkeley DB's manual has. A put takes a buffer of pairs (DB_MULTIPLE_KEY). A load
 * of sorted pairs is a transaction that does not log the contents of new pages, and writes these pages when it commits
 * (DB_TXN_BULK). A read in order gets a buffer of pairs at a time.
 */
#include "bdb_open.h"
#include "pairs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_BYTES 4096
/* Length of the longest key that a reader searches for or returns. */
#define KEY_MAX 64
/* Berkeley DB demands that the length of the buffer is a multiple of four bytes for a put of many pairs, and of 1024 bytes for a read. */
#define BUFFER_BYTES (1u << 20)
/* Length of the buffer for a few pairs. Berkeley DB copies a whole page into it, and the offsets of as many pairs as fit. */
#define FEW_BYTES (PAGE_BYTES + 1024)

struct bdb_tables {
	DB_ENV *env;
	DB *table[TABLES_MAX];
	void *buffer;
};

/* A read-only transaction, with a cursor over each table that it has read in order. */
struct bdb_reader {
	struct bdb_tables *tables;
	DB_TXN *txn;
	DBC *cursor[TABLES_MAX];
	/* The position of the next pair in `few_bytes`, as Berkeley DB's macros use it. */
	void *at;
	DBT few;
	uint32_t few_bytes[FEW_BYTES / sizeof(uint32_t)];
};

static const char *const file_name[TABLES_MAX] = { "records", "records-1", "records-2" };

int bdb_tables_close(struct bdb_tables *tables)
{
	int i, ret, first = 0;

	for (i = 0; i < TABLES_MAX; i++) {
		if (tables->table[i] == NULL)
			continue;
		ret = tables->table[i]->close(tables->table[i], 0);
		first = first == 0 ? ret : first;
	}
	if (tables->env != NULL) {
		ret = tables->env->close(tables->env, 0);
		first = first == 0 ? ret : first;
	}
	free(tables->buffer);
	free(tables);
	return first;
}

static int open_table(struct bdb_tables *tables, int which)
{
	DB *db;
	int ret;

	if ((ret = db_create(&db, tables->env, 0)) != 0)
		return ret;
	tables->table[which] = db;
	if ((ret = db->set_pagesize(db, PAGE_BYTES)) != 0)
		return ret;
	return db->open(db, NULL, file_name[which], NULL, DB_BTREE, DB_CREATE | DB_THREAD | DB_AUTO_COMMIT, 0644);
}

/* Makes or recovers an environment of `count` tables. With `sync`, a commit returns when it is on the disk. */
int bdb_tables_open(const char *home, int count, int sync, uint64_t cache_bytes, struct bdb_tables **out)
{
	/* The number of locks: one transaction may lock every page that fits into the cache. */
	struct bdb_settings settings = { cache_bytes, (uint32_t)(cache_bytes / PAGE_BYTES), sync, 1 };
	struct bdb_tables *tables;
	int i, ret;

	if ((tables = calloc(1, sizeof *tables)) == NULL)
		return ENOMEM;
	ret = ENOMEM;
	if ((tables->buffer = malloc(BUFFER_BYTES)) == NULL)
		goto failed;
	if ((ret = bdb_open(home, &settings, &tables->env)) != 0)
		goto failed;
	for (i = 0; i < count; i++)
		if ((ret = open_table(tables, i)) != 0)
			goto failed;
	*out = tables;
	return 0;
failed:
	bdb_tables_close(tables);
	return ret;
}

static int put_all(struct bdb_tables *tables, DB_TXN *txn, const struct pairs *pairs)
{
	uint32_t key_bytes = (uint32_t)pairs->key_bytes, value_bytes = (uint32_t)pairs->value_bytes;
	DB *db = tables->table[pairs->table];
	DBT buffer, unused;
	void *at;
	size_t i = 0;
	int ret;

	memset(&unused, 0, sizeof unused);
	while (i < pairs->count) {
		bdb_dbt_usermem(&buffer, tables->buffer, BUFFER_BYTES);
		DB_MULTIPLE_WRITE_INIT(at, &buffer);
		for (; i < pairs->count; i++) {
			DB_MULTIPLE_KEY_WRITE_NEXT(at, &buffer, key_of(pairs, i), key_bytes,
			    value_of(pairs, i), value_bytes);
			if (at == NULL)
				break;
		}
		if ((ret = db->put(db, txn, &buffer, &unused, DB_MULTIPLE_KEY)) != 0)
			return ret;
	}
	return 0;
}

/* Puts the pairs of `count` tables in one transaction. `bulk` is only for empty tables. */
int bdb_tables_put(struct bdb_tables *tables, const struct pairs *pairs, size_t count, int bulk)
{
	DB_TXN *txn;
	size_t i;
	int ret;

	if ((ret = tables->env->txn_begin(tables->env, NULL, &txn, bulk ? DB_TXN_BULK : 0)) != 0)
		return bdb_answer(ret);
	for (i = 0; i < count; i++) {
		if ((ret = put_all(tables, txn, &pairs[i])) != 0) {
			txn->abort(txn);
			return bdb_answer(ret);
		}
	}
	return bdb_answer(txn->commit(txn, 0));
}

/* Writes all changes in memory to the files, and syncs the files. */
int bdb_tables_checkpoint(struct bdb_tables *tables)
{
	return tables->env->txn_checkpoint(tables->env, 0, 0, DB_FORCE);
}

int bdb_reader_begin(struct bdb_tables *tables, struct bdb_reader **out)
{
	struct bdb_reader *reader = calloc(1, sizeof *reader);
	int ret;

	if (reader == NULL)
		return ENOMEM;
	reader->tables = tables;
	if ((ret = tables->env->txn_begin(tables->env, NULL, &reader->txn, 0)) != 0) {
		free(reader);
		return bdb_answer(ret);
	}
	*out = reader;
	return 0;
}

int bdb_reader_end(struct bdb_reader *reader)
{
	int i, ret;

	for (i = 0; i < TABLES_MAX; i++)
		if (reader->cursor[i] != NULL)
			reader->cursor[i]->close(reader->cursor[i]);
	ret = reader->txn->commit(reader->txn, 0);
	free(reader);
	return bdb_answer(ret);
}

/* Reads a value into the `room` bytes at `value_at`. Returns BDB_END if the key does not exist. */
int bdb_reader_get(struct bdb_reader *reader, int table, const void *key_at, size_t key_bytes, void *value_at,
    size_t room, size_t *size)
{
	DB *db = reader->tables->table[table];
	DBT key, value;
	int ret;

	/* Berkeley DB does not write to the key. The cast is needed because a DBT is for results, too, and has no `const`. */
	bdb_dbt_usermem(&key, (void *)key_at, (uint32_t)key_bytes);
	bdb_dbt_usermem(&value, value_at, (uint32_t)room);
	ret = db->get(db, reader->txn, &key, &value, 0);
	*size = value.size;
	return bdb_answer(ret);
}

static int cursor_of(struct bdb_reader *reader, int table)
{
	DB *db = reader->tables->table[table];

	return reader->cursor[table] == NULL ? db->cursor(db, reader->txn, &reader->cursor[table], 0) : 0;
}

static int few_more(struct bdb_reader *reader, int table, DBT *key, uint32_t which)
{
	DBC *cursor = reader->cursor[table];
	int ret;

	bdb_dbt_usermem(&reader->few, reader->few_bytes, FEW_BYTES);
	if ((ret = cursor->get(cursor, key, &reader->few, which | DB_MULTIPLE_KEY)) != 0)
		return bdb_answer(ret);
	DB_MULTIPLE_INIT(reader->at, &reader->few);
	return 0;
}

/* Finds the next pair of the table of the last bdb_reader_first(). Returns BDB_END if the table has no more pairs. */
int bdb_reader_next(struct bdb_reader *reader, int table, struct pair *pair)
{
	uint32_t key_bytes, value_bytes;
	void *key_at, *value_at;
	uint8_t room[KEY_MAX];
	DBT key;
	int ret;

	for (;;) {
		DB_MULTIPLE_KEY_NEXT(reader->at, &reader->few, key_at, key_bytes, value_at, value_bytes);
		if (reader->at != NULL)
			break;
		bdb_dbt_usermem(&key, room, sizeof room);
		if ((ret = few_more(reader, table, &key, DB_NEXT)) != 0)
			return ret;
	}
	*pair = (struct pair){ key_at, value_at, key_bytes, value_bytes };
	return 0;
}

/* Finds the first pair of a table whose key is this key or a later key. Returns BDB_END if the table has no such pair. */
int bdb_reader_first(struct bdb_reader *reader, int table, const void *key_at, size_t key_bytes, struct pair *pair)
{
	uint8_t room[KEY_MAX];
	DBT key;
	int ret;

	if (key_bytes > sizeof room)
		return EINVAL;
	if ((ret = cursor_of(reader, table)) != 0)
		return bdb_answer(ret);
	memcpy(room, key_at, key_bytes);
	bdb_dbt_usermem(&key, room, sizeof room);
	key.size = (uint32_t)key_bytes;
	if ((ret = few_more(reader, table, &key, DB_SET_RANGE)) != 0)
		return ret;
	return bdb_reader_next(reader, table, pair);
}

/* Adds up the bytes of all pairs of a table, in order. */
int bdb_reader_scan(struct bdb_reader *reader, int table, uint64_t *bytes)
{
	DB *db = reader->tables->table[table];
	DBC *cursor;
	DBT key, pairs;
	uint32_t key_bytes, value_bytes;
	void *at, *key_at, *value_at;
	int ret, closed;

	*bytes = 0;
	if ((ret = db->cursor(db, reader->txn, &cursor, 0)) != 0)
		return bdb_answer(ret);
	/* Berkeley DB demands this key but does not use it: the buffer has the keys. */
	memset(&key, 0, sizeof key);
	bdb_dbt_usermem(&pairs, reader->tables->buffer, BUFFER_BYTES);
	while ((ret = cursor->get(cursor, &key, &pairs, DB_NEXT | DB_MULTIPLE_KEY)) == 0) {
		DB_MULTIPLE_INIT(at, &pairs);
		for (;;) {
			DB_MULTIPLE_KEY_NEXT(at, &pairs, key_at, key_bytes, value_at, value_bytes);
			if (at == NULL)
				break;
			/* Only the lengths are needed. */
			(void)key_at, (void)value_at;
			*bytes += (uint64_t)key_bytes + value_bytes;
		}
	}
	closed = cursor->close(cursor);
	return ret == DB_NOTFOUND ? bdb_answer(closed) : bdb_answer(ret);
}
