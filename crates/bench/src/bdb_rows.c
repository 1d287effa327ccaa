/*
 * Plain records on Berkeley DB 5.3, as flat functions. Answers are those of "bdb_open.h". One thread at a time.
 *
 * Its best documented way for each step: pairs are put by the buffer (DB_MULTIPLE_KEY), sorted ones in a transaction that logs
 * no contents of new pages and writes the pages when it commits (DB_TXN_BULK); all records are read by the buffer, too.
 */
#include "bdb_open.h"
#include "rows_pairs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_BYTES 4096
/* A multiple of four, as buffers of many pairs have to be, and of 1024, as those that are read into. */
#define BUFFER_BYTES (1u << 20)

struct bdb_rows {
	DB_ENV *env;
	DB *db;
	void *buffer;
};

int bdb_rows_close(struct bdb_rows *rows)
{
	int ret, first = 0;

	if (rows->db != NULL)
		first = rows->db->close(rows->db, 0);
	if (rows->env != NULL) {
		ret = rows->env->close(rows->env, 0);
		first = first == 0 ? ret : first;
	}
	free(rows->buffer);
	free(rows);
	return first;
}

int bdb_rows_open(const char *home, uint64_t cache_bytes, struct bdb_rows **out)
{
	/* One transaction may read, or fill, every page that the cache holds. */
	struct bdb_settings settings = { cache_bytes, (uint32_t)(cache_bytes / PAGE_BYTES), 0, 1 };
	struct bdb_rows *rows;
	int ret;

	if ((rows = calloc(1, sizeof *rows)) == NULL)
		return ENOMEM;
	ret = ENOMEM;
	if ((rows->buffer = malloc(BUFFER_BYTES)) == NULL)
		goto failed;
	if ((ret = bdb_open(home, &settings, &rows->env)) != 0)
		goto failed;
	if ((ret = db_create(&rows->db, rows->env, 0)) != 0)
		goto failed;
	if ((ret = rows->db->set_pagesize(rows->db, PAGE_BYTES)) != 0)
		goto failed;
	if ((ret = rows->db->open(rows->db, NULL, "records", NULL, DB_BTREE,
	    DB_CREATE | DB_THREAD | DB_AUTO_COMMIT, 0644)) != 0)
		goto failed;
	*out = rows;
	return 0;
failed:
	bdb_rows_close(rows);
	return ret;
}

static int put_all(struct bdb_rows *rows, DB_TXN *txn, const struct pairs *pairs)
{
	uint32_t key_bytes = (uint32_t)pairs->key_bytes, value_bytes = (uint32_t)pairs->value_bytes;
	DBT buffer, unused;
	void *at;
	size_t i = 0;
	int ret;

	memset(&unused, 0, sizeof unused);
	while (i < pairs->count) {
		bdb_use(&buffer, rows->buffer, BUFFER_BYTES);
		DB_MULTIPLE_WRITE_INIT(at, &buffer);
		for (; i < pairs->count; i++) {
			DB_MULTIPLE_KEY_WRITE_NEXT(at, &buffer, key_of(pairs, i), key_bytes,
			    value_of(pairs, i), value_bytes);
			if (at == NULL)
				break;
		}
		if ((ret = rows->db->put(rows->db, txn, &buffer, &unused, DB_MULTIPLE_KEY)) != 0)
			return ret;
	}
	return 0;
}

/* Puts pairs in one transaction; a new database is filled in bulk. */
int bdb_rows_put(struct bdb_rows *rows, const struct pairs *pairs, int bulk)
{
	DB_TXN *txn;
	int ret;

	if ((ret = rows->env->txn_begin(rows->env, NULL, &txn, bulk ? DB_TXN_BULK : 0)) != 0)
		return bdb_answer(ret);
	if ((ret = put_all(rows, txn, pairs)) != 0) {
		txn->abort(txn);
		return bdb_answer(ret);
	}
	return bdb_answer(txn->commit(txn, 0));
}

/* Everything in memory goes into the file, which is synced. */
int bdb_rows_checkpoint(struct bdb_rows *rows)
{
	return rows->env->txn_checkpoint(rows->env, 0, 0, DB_FORCE);
}

int bdb_rows_begin(struct bdb_rows *rows, DB_TXN **txn)
{
	return bdb_answer(rows->env->txn_begin(rows->env, NULL, txn, 0));
}

int bdb_rows_end(DB_TXN *txn)
{
	return bdb_answer(txn->commit(txn, 0));
}

/* The size of a value, read into the buffer; 0 if there is none. */
int bdb_rows_get(struct bdb_rows *rows, DB_TXN *txn, const char *key_bytes, size_t key_size, size_t *size)
{
	DBT key, value;
	int ret;

	/* Berkeley DB reads it only, but its type for keys is the one for answers. */
	bdb_use(&key, (void *)key_bytes, (uint32_t)key_size);
	bdb_use(&value, rows->buffer, BUFFER_BYTES);
	ret = rows->db->get(rows->db, txn, &key, &value, 0);
	*size = ret == 0 ? value.size : 0;
	return ret == DB_NOTFOUND ? 0 : bdb_answer(ret);
}

/* Adds up the bytes of all records, in order. */
int bdb_rows_scan(struct bdb_rows *rows, DB_TXN *txn, uint64_t *bytes)
{
	DBC *cursor;
	DBT key, pairs;
	uint32_t key_bytes, value_bytes;
	void *at, *key_at, *value_at;
	int ret, closed;

	*bytes = 0;
	if ((ret = rows->db->cursor(rows->db, txn, &cursor, 0)) != 0)
		return bdb_answer(ret);
	/* Nothing of it is used: keys come in the buffer. */
	memset(&key, 0, sizeof key);
	bdb_use(&pairs, rows->buffer, BUFFER_BYTES);
	while ((ret = cursor->get(cursor, &key, &pairs, DB_NEXT | DB_MULTIPLE_KEY)) == 0) {
		DB_MULTIPLE_INIT(at, &pairs);
		for (;;) {
			DB_MULTIPLE_KEY_NEXT(at, &pairs, key_at, key_bytes, value_at, value_bytes);
			if (at == NULL)
				break;
			/* The sizes are all that is wanted of them. */
			(void)key_at, (void)value_at;
			*bytes += (uint64_t)key_bytes + value_bytes;
		}
	}
	closed = cursor->close(cursor);
	return bdb_answer(ret == DB_NOTFOUND ? closed : ret);
}
