/*
 * The bank on RocksDB, as plain functions that Rust can call. A transfer is one call of a function here, which makes
 * many calls of <rocksdb/c.h>.
 *
 * The functions have the return values and the settings of "rocksdb_open.h". Any threads may call any functions on one
 * bank at the same time. A session and a walk belong to one thread.
 *
 * The further settings are the best for RocksDB: pessimistic transactions (TransactionDB), a write-ahead log, a block
 * cache in which the bank fits, and one transaction object for all transactions of a session.
 */
#include "rocksdb_open.h"

#include <stdlib.h>
#include <string.h>

#define RECORD_BYTES 100
#define HISTORY_BYTES 50
#define BALANCE_AT 8
#define HISTORY 3
#define KEY_BYTES 9

struct rocks_bank {
	rocksdb_transactiondb_t *db;
	rocksdb_options_t *options;
	rocksdb_writeoptions_t *write;
	rocksdb_readoptions_t *read;
	rocksdb_transaction_options_t *txn_options;
};

struct rocks_session {
	struct rocks_bank *bank;
	rocksdb_transaction_t *txn;
	rocksdb_readoptions_t *at_snapshot;
};

struct rocks_walk {
	rocksdb_iterator_t *at;
	uint8_t table;
};

/* A key is the table's number and the id in eight bytes, big-endian, so that the order of bytes is the order of ids. */
static void put_key(char *key, int table, uint64_t id)
{
	key[0] = (char)table;
	for (int i = 0; i < 8; i++)
		key[1 + i] = (char)(id >> (56 - 8 * i));
}

static uint64_t get_key(const char *key)
{
	uint64_t id = 0;
	for (int i = 1; i < KEY_BYTES; i++)
		id = id << 8 | (uint8_t)key[i];
	return id;
}

int rocks_open(const char *path, int sync, uint64_t cache_bytes, int threads, struct rocks_bank **out, char **why)
{
	struct rocks_bank *bank = calloc(1, sizeof *bank);
	if (bank == NULL)
		return ROCKS_FAILED;
	rocksdb_transactiondb_options_t *db_options = rocksdb_transactiondb_options_create();
	bank->options = rocks_options(cache_bytes, threads);
	bank->write = rocksdb_writeoptions_create();
	rocksdb_writeoptions_set_sync(bank->write, sync != 0);
	bank->read = rocksdb_readoptions_create();
	bank->txn_options = rocksdb_transaction_options_create();
	bank->db = rocksdb_transactiondb_open(bank->options, db_options, path, why);
	rocksdb_transactiondb_options_destroy(db_options);
	*out = bank;
	return rocks_answer(why);
}

/* Closes a bank, also if rocks_open() failed. */
void rocks_close(struct rocks_bank *bank)
{
	if (bank->db != NULL)
		rocksdb_transactiondb_close(bank->db);
	rocksdb_transaction_options_destroy(bank->txn_options);
	rocksdb_readoptions_destroy(bank->read);
	rocksdb_writeoptions_destroy(bank->write);
	rocksdb_options_destroy(bank->options);
	free(bank);
}

/* Puts `count` records of a table in one batch. Their ids are `first`, `first` + 1, and so on. */
int rocks_load(struct rocks_bank *bank, int table, uint32_t first, uint32_t count, const char *records, char **why)
{
	rocksdb_writebatch_t *batch = rocksdb_writebatch_create();
	for (uint32_t i = 0; i < count; i++) {
		char key[KEY_BYTES];
		put_key(key, table, (uint64_t)first + i);
		rocksdb_writebatch_put(batch, key, KEY_BYTES, records + (size_t)i * RECORD_BYTES, RECORD_BYTES);
	}
	rocksdb_transactiondb_write(bank->db, bank->write, batch, why);
	rocksdb_writebatch_destroy(batch);
	return rocks_answer(why);
}

/* Writes all changes in memory to sorted files. */
int rocks_flush(struct rocks_bank *bank, char **why)
{
	rocksdb_flushoptions_t *options = rocks_waiting();
	rocksdb_transactiondb_flush(bank->db, options, why);
	rocksdb_flushoptions_destroy(options);
	return rocks_answer(why);
}

struct rocks_session *rocks_session_open(struct rocks_bank *bank)
{
	struct rocks_session *session = calloc(1, sizeof *session);
	if (session == NULL)
		return NULL;
	session->bank = bank;
	session->at_snapshot = rocksdb_readoptions_create();
	return session;
}

void rocks_session_close(struct rocks_session *session)
{
	if (session->txn != NULL)
		rocksdb_transaction_destroy(session->txn);
	rocksdb_readoptions_destroy(session->at_snapshot);
	free(session);
}

/* Reads a record under a write lock, adds `amount` to its balance, and writes the record. */
static int change(struct rocks_session *session, int table, uint32_t id, int64_t amount, int64_t *balance, char **why)
{
	char key[KEY_BYTES], record[RECORD_BYTES];
	size_t size;
	put_key(key, table, id);
	rocksdb_pinnableslice_t *found = rocksdb_transaction_get_pinned_for_update(session->txn, session->bank->read, key,
										     KEY_BYTES, 1, why);
	if (*why != NULL)
		return rocks_answer(why);
	if (found == NULL)
		return ROCKS_MISSING;
	const char *bytes = rocksdb_pinnableslice_value(found, &size);
	if (size != RECORD_BYTES) {
		rocksdb_pinnableslice_destroy(found);
		return ROCKS_MISSING;
	}
	memcpy(record, bytes, RECORD_BYTES);
	rocksdb_pinnableslice_destroy(found);
	memcpy(balance, record + BALANCE_AT, sizeof *balance);
	*balance += amount;
	memcpy(record + BALANCE_AT, balance, sizeof *balance);
	rocksdb_transaction_put(session->txn, key, KEY_BYTES, record, RECORD_BYTES, why);
	return rocks_answer(why);
}

/* Carries out a transfer. `ids` are an account, a teller and a branch. Stores the account's new balance in `balance`. */
int rocks_transfer(struct rocks_session *session, const uint32_t *ids, int64_t amount, uint64_t id, const char *history,
		   int64_t *balance, char **why)
{
	struct rocks_bank *bank = session->bank;
	int64_t other;
	session->txn = rocksdb_transaction_begin(bank->db, bank->write, bank->txn_options, session->txn);
	int ret = change(session, 0, ids[0], amount, balance, why);
	for (int table = 1; ret == 0 && table < HISTORY; table++)
		ret = change(session, table, ids[table], amount, &other, why);
	if (ret == 0) {
		char key[KEY_BYTES];
		put_key(key, HISTORY, id);
		rocksdb_transaction_put(session->txn, key, KEY_BYTES, history, HISTORY_BYTES, why);
		ret = rocks_answer(why);
	}
	if (ret == 0) {
		rocksdb_transaction_commit(session->txn, why);
		return rocks_answer(why);
	}
	char *again = NULL;
	rocksdb_transaction_rollback(session->txn, &again);
	rocksdb_free(again);
	return ret;
}

/* Reads three balances in a snapshot. Stores their sum in `sum`. */
int rocks_read(struct rocks_session *session, const uint32_t *ids, int64_t *sum, char **why)
{
	struct rocks_bank *bank = session->bank;
	const rocksdb_snapshot_t *snapshot = rocksdb_transactiondb_create_snapshot(bank->db);
	rocksdb_readoptions_set_snapshot(session->at_snapshot, snapshot);
	int ret = 0;
	*sum = 0;
	for (int table = 0; ret == 0 && table < HISTORY; table++) {
		char key[KEY_BYTES];
		int64_t balance;
		size_t size;
		put_key(key, table, ids[table]);
		rocksdb_pinnableslice_t *found =
			rocksdb_transactiondb_get_pinned(bank->db, session->at_snapshot, key, KEY_BYTES, why);
		ret = rocks_answer(why);
		if (ret != 0)
			break;
		if (found == NULL) {
			ret = ROCKS_MISSING;
			break;
		}
		const char *bytes = rocksdb_pinnableslice_value(found, &size);
		if (size == RECORD_BYTES) {
			memcpy(&balance, bytes + BALANCE_AT, sizeof balance);
			*sum += balance;
		} else {
			ret = ROCKS_MISSING;
		}
		rocksdb_pinnableslice_destroy(found);
	}
	rocksdb_readoptions_set_snapshot(session->at_snapshot, NULL);
	rocksdb_transactiondb_release_snapshot(bank->db, snapshot);
	return ret;
}

struct rocks_walk *rocks_walk_open(struct rocks_bank *bank, int table)
{
	char key[KEY_BYTES];
	struct rocks_walk *walk = calloc(1, sizeof *walk);
	if (walk == NULL)
		return NULL;
	walk->table = (uint8_t)table;
	walk->at = rocksdb_transactiondb_create_iterator(bank->db, bank->read);
	put_key(key, table, 0);
	rocksdb_iter_seek(walk->at, key, KEY_BYTES);
	return walk;
}

/* Reads the next record. Stores its id, at most its first RECORD_BYTES bytes, and its whole length. */
int rocks_walk_next(struct rocks_walk *walk, uint64_t *id, char *record, size_t *size, char **why)
{
	size_t key_bytes;
	if (!rocksdb_iter_valid(walk->at)) {
		rocksdb_iter_get_error(walk->at, why);
		return *why == NULL ? ROCKS_END : rocks_answer(why);
	}
	const char *key = rocksdb_iter_key(walk->at, &key_bytes);
	if (key_bytes != KEY_BYTES || (uint8_t)key[0] != walk->table)
		return ROCKS_END;
	*id = get_key(key);
	const char *bytes = rocksdb_iter_value(walk->at, size);
	memcpy(record, bytes, *size < RECORD_BYTES ? *size : RECORD_BYTES);
	rocksdb_iter_next(walk->at);
	return 0;
}

void rocks_walk_close(struct rocks_walk *walk)
{
	rocksdb_iter_destroy(walk->at);
	free(walk);
}
