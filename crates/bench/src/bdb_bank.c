/*
 * The bank on Berkeley DB 5.3, as plain functions that Rust can call. Berkeley DB's interface
 * consists of structures of function pointers, whose layout only <db.h> has.
 *
 * The functions have the return values of "bdb_open.h". They open handles with DB_THREAD, so
 * any threads may call any functions on one bank at the same time.
 *
 * The settings are the best for Berkeley DB. The alternatives in parentheses were measured in
 * alternate runs, with one and two clients:
 * - B-trees of 4 KiB pages for all three tables of balances (pages of 512 B for tellers and
 *   branches: 3 % fewer transactions; a hash table for accounts: up to a third fewer);
 * - a record is read under a write lock (DB_RMW) and written through the same cursor (a get and
 *   a put without a cursor: 5 % fewer transactions);
 * - a queue for the history (DB_RECNO: 12 % fewer transactions).
 */
#include "bdb_open.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define RECORD_BYTES 100
#define HISTORY_BYTES 50
#define BALANCE_AT 8
#define TABLES 4
#define HISTORY 3
#define KEY_BYTES 4
#define LOCKS 20000

struct bank {
	DB_ENV *env;
	DB *table[TABLES];
};

/* The files, in the order of the numbers that Rust passes: account, teller, branch, history. */
static const char *const file_name[TABLES] = { "account", "teller", "branch", "history" };

/* Returns, for example, "Berkeley DB 5.3.28: (September  9, 2013)". */
const char *bank_version(void)
{
	return db_version(NULL, NULL, NULL);
}

/* Stores an id as a key. The bytes are big-endian, so that the order of keys is the order of ids. */
static void put_key(uint8_t *key, uint32_t id)
{
	key[0] = (uint8_t)(id >> 24);
	key[1] = (uint8_t)(id >> 16);
	key[2] = (uint8_t)(id >> 8);
	key[3] = (uint8_t)id;
}

static uint32_t get_key(const uint8_t *key)
{
	return (uint32_t)key[0] << 24 | (uint32_t)key[1] << 16 | (uint32_t)key[2] << 8 | key[3];
}

static int64_t balance_of(const uint8_t *record)
{
	int64_t balance;

	memcpy(&balance, record + BALANCE_AT, sizeof balance);
	return balance;
}

static int open_table(struct bank *bank, int which)
{
	DB *db;
	int ret;

	if ((ret = db_create(&db, bank->env, 0)) != 0)
		return ret;
	bank->table[which] = db;
	if (which == HISTORY) {
		if ((ret = db->set_re_len(db, HISTORY_BYTES)) != 0)
			return ret;
	} else if ((ret = db->set_pagesize(db, 4096)) != 0) {
		return ret;
	}
	return db->open(db, NULL, file_name[which], NULL, which == HISTORY ? DB_QUEUE : DB_BTREE,
	    DB_CREATE | DB_THREAD | DB_AUTO_COMMIT, 0644);
}

int bank_close(struct bank *bank)
{
	int i, ret, first = 0;

	for (i = 0; i < TABLES; i++) {
		if (bank->table[i] == NULL)
			continue;
		ret = bank->table[i]->close(bank->table[i], 0);
		first = first == 0 ? ret : first;
	}
	if (bank->env != NULL) {
		ret = bank->env->close(bank->env, 0);
		first = first == 0 ? ret : first;
	}
	free(bank);
	return first;
}

/* Opens the bank in `home`. With `recover`, makes or recovers its environment. Without, another process must have it open. */
int bank_open(const char *home, int recover, int sync, uint64_t cache_bytes, struct bank **out)
{
	struct bdb_settings settings = { cache_bytes, LOCKS, sync, recover };
	struct bank *bank;
	int i, ret;

	if ((bank = calloc(1, sizeof *bank)) == NULL)
		return ENOMEM;
	if ((ret = bdb_open(home, &settings, &bank->env)) != 0)
		goto failed;
	for (i = 0; i < TABLES; i++)
		if ((ret = open_table(bank, i)) != 0)
			goto failed;
	*out = bank;
	return 0;
failed:
	bank_close(bank);
	return ret;
}

/* Puts `count` records in one transaction. Their ids are `first`, `first` + 1, and so on. */
int bank_load(struct bank *bank, int which, uint32_t first, uint32_t count, uint8_t *records)
{
	DB *db = bank->table[which];
	DBT key, data;
	DB_TXN *txn;
	uint32_t i;
	uint8_t id[KEY_BYTES];
	int ret;

	if ((ret = bank->env->txn_begin(bank->env, NULL, &txn, 0)) != 0)
		return ret;
	for (i = 0; i < count; i++) {
		put_key(id, first + i);
		bdb_dbt_usermem(&key, id, KEY_BYTES);
		bdb_dbt_usermem(&data, records + (size_t)i * RECORD_BYTES, RECORD_BYTES);
		if ((ret = db->put(db, txn, &key, &data, DB_NOOVERWRITE)) != 0) {
			txn->abort(txn);
			return bdb_answer(ret);
		}
	}
	return txn->commit(txn, 0);
}

static int change(DB *db, DB_TXN *txn, uint32_t id, int64_t amount, int64_t *balance)
{
	DBC *cursor;
	DBT key, data;
	uint8_t id_bytes[KEY_BYTES], record[RECORD_BYTES];
	int ret, closed;

	if ((ret = db->cursor(db, txn, &cursor, 0)) != 0)
		return ret;
	put_key(id_bytes, id);
	bdb_dbt_usermem(&key, id_bytes, KEY_BYTES);
	bdb_dbt_usermem(&data, record, RECORD_BYTES);
	if ((ret = cursor->get(cursor, &key, &data, DB_SET | DB_RMW)) == 0) {
		*balance = balance_of(record) + amount;
		memcpy(record + BALANCE_AT, balance, sizeof *balance);
		bdb_dbt_usermem(&data, record, RECORD_BYTES);
		ret = cursor->put(cursor, &key, &data, DB_CURRENT);
	}
	closed = cursor->close(cursor);
	return ret == 0 ? closed : ret;
}

/* Carries out a transfer. Stores the account's new balance in `balance`. */
int bank_transfer(struct bank *bank, const uint32_t *ids, int64_t amount, uint8_t *history,
    int64_t *balance)
{
	DB *db = bank->table[HISTORY];
	DBT key, data;
	DB_TXN *txn;
	db_recno_t number = 0;
	int64_t other;
	int ret;

	if ((ret = bank->env->txn_begin(bank->env, NULL, &txn, 0)) != 0)
		return bdb_answer(ret);
	if ((ret = change(bank->table[0], txn, ids[0], amount, balance)) != 0)
		goto failed;
	if ((ret = change(bank->table[1], txn, ids[1], amount, &other)) != 0)
		goto failed;
	if ((ret = change(bank->table[2], txn, ids[2], amount, &other)) != 0)
		goto failed;
	bdb_dbt_usermem(&key, &number, sizeof number);
	bdb_dbt_usermem(&data, history, HISTORY_BYTES);
	if ((ret = db->put(db, txn, &key, &data, DB_APPEND)) != 0)
		goto failed;
	return bdb_answer(txn->commit(txn, 0));
failed:
	txn->abort(txn);
	return bdb_answer(ret);
}

/* Reads three records in one transaction. Stores the sum of their balances in `sum`. */
int bank_read(struct bank *bank, const uint32_t *ids, int64_t *sum)
{
	DBT key, data;
	DB_TXN *txn;
	uint8_t id[KEY_BYTES], record[RECORD_BYTES];
	int i, ret;

	*sum = 0;
	if ((ret = bank->env->txn_begin(bank->env, NULL, &txn, 0)) != 0)
		return bdb_answer(ret);
	for (i = 0; i < HISTORY; i++) {
		put_key(id, ids[i]);
		bdb_dbt_usermem(&key, id, KEY_BYTES);
		bdb_dbt_usermem(&data, record, RECORD_BYTES);
		if ((ret = bank->table[i]->get(bank->table[i], txn, &key, &data, 0)) != 0) {
			txn->abort(txn);
			return bdb_answer(ret);
		}
		*sum += balance_of(record);
	}
	return bdb_answer(txn->commit(txn, 0));
}

/* Opens a cursor over all records of a table. */
int bank_walk_open(struct bank *bank, int which, DBC **cursor)
{
	return bank->table[which]->cursor(bank->table[which], NULL, cursor, 0);
}

/* Reads the next record, which may have RECORD_BYTES bytes at most. Returns BDB_END after the last record. */
int bank_walk_next(DBC *cursor, int which, uint64_t *id, uint8_t *record, uint32_t *size)
{
	DBT key, data;
	db_recno_t number = 0;
	uint8_t id_bytes[KEY_BYTES];
	int ret;

	if (which == HISTORY)
		bdb_dbt_usermem(&key, &number, sizeof number);
	else
		bdb_dbt_usermem(&key, id_bytes, KEY_BYTES);
	bdb_dbt_usermem(&data, record, RECORD_BYTES);
	ret = cursor->get(cursor, &key, &data, DB_NEXT);
	if (ret != 0)
		return bdb_answer(ret);
	*id = which == HISTORY ? number : get_key(id_bytes);
	*size = data.size;
	return 0;
}

int bank_walk_close(DBC *cursor)
{
	return cursor->close(cursor);
}

int bank_checkpoint(struct bank *bank)
{
	return bank->env->txn_checkpoint(bank->env, 0, 0, 0);
}

/* Stores in `bytes` the number of bytes that were written to the log since the environment was made. */
int bank_log_bytes(struct bank *bank, uint64_t *bytes)
{
	DB_LOG_STAT *stat;
	int ret;

	if ((ret = bank->env->log_stat(bank->env, &stat, 0)) != 0)
		return ret;
	*bytes = ((uint64_t)stat->st_w_mbytes << 20) + stat->st_w_bytes;
	free(stat);
	return 0;
}
