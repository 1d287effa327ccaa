/*
 * A bank: accounts in a B-tree, and a history of all transfers in records by number.
 *
 *   bank DIRECTORY open N           opens N accounts, each with 100
 *   bank DIRECTORY transfer N       makes N transfers between random accounts
 *   bank DIRECTORY die N            like transfer, but the process ends in the middle of the last transfer
 *   bank DIRECTORY audit            prints the number of accounts, their sum, and whether there were transfers, from one snapshot
 *   bank DIRECTORY show             prints each account, and then the line of audit
 *
 * Any number of these processes may run at once, and any of them may be killed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libtp.h"

struct bank {
    tp_env *env;
    tp_db *accounts;
    tp_recno *history;
    long count;
};

struct transfer {
    uint32_t from;
    uint32_t to;
    int64_t amount;
};

struct work {
    struct bank *bank;
    struct transfer transfer;
    int dies;
};

static int failed(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, tp_error());
    return 1;
}

/* Makes an account's key: its number, most significant byte first, so that keys are in the order of the numbers. */
static void key_of(uint32_t account, unsigned char key[4])
{
    for (int nth = 0; nth < 4; nth++)
        key[nth] = (unsigned char)(account >> (24 - 8 * nth));
}

static int change(struct bank *bank, tp_txn *txn, uint32_t account, int64_t amount)
{
    unsigned char key[4];
    key_of(account, key);
    return tp_add(bank->accounts, txn, key, sizeof key, 0, amount, NULL);
}

/* Makes one transfer. tp_run commits the transaction, and retries if it was the victim of a deadlock. */
static int transfer(tp_txn *txn, void *argument)
{
    struct work *work = argument;
    const struct transfer *one = &work->transfer;
    int code = change(work->bank, txn, one->from, -one->amount);
    if (code == TP_OK && work->dies)
        _exit(9);
    if (code == TP_OK)
        code = change(work->bank, txn, one->to, one->amount);
    if (code == TP_OK)
        code = tp_recno_append(work->bank->history, txn, one, sizeof *one, NULL);
    return code;
}

static int run_transfers(struct bank *bank, long count, int dies)
{
    srand((unsigned)getpid());
    for (long nth = 0; nth < count; nth++) {
        struct work work;
        work.bank = bank;
        work.transfer.from = (uint32_t)(rand() % bank->count);
        work.transfer.to = (uint32_t)(rand() % bank->count);
        work.transfer.amount = rand() % 10;
        work.dies = dies && nth == count - 1;
        if (tp_run(bank->env, TP_DEFAULT, transfer, &work) != TP_OK)
            return failed("transfer");
    }
    return 0;
}

static int open_accounts(tp_txn *txn, void *argument)
{
    struct bank *bank = argument;
    const int64_t balance = 100;
    for (uint32_t account = 0; account < bank->count; account++) {
        unsigned char key[4];
        key_of(account, key);
        int code = tp_put_new(bank->accounts, txn, key, sizeof key, &balance, sizeof balance);
        if (code != TP_OK)
            return code;
    }
    return TP_OK;
}

/* Visits all accounts in a transaction or a snapshot. */
static int walk(struct bank *bank, tp_txn *reader, int shows, int64_t *sum)
{
    tp_cursor *cursor;
    tp_buffer value = TP_BUFFER;
    int code = tp_cursor_open(bank->accounts, reader, &cursor);
    *sum = 0;
    bank->count = 0;
    while (code == TP_OK && (code = tp_cursor_next(cursor, NULL, &value)) == TP_OK) {
        int64_t balance;
        memcpy(&balance, value.data, sizeof balance);
        if (shows)
            printf("%ld: %lld\n", bank->count, (long long)balance);
        *sum += balance;
        bank->count += 1;
    }
    tp_cursor_close(cursor);
    tp_buffer_free(&value);
    return code == TP_NOTFOUND ? TP_OK : code;
}

static int audit(struct bank *bank, int shows)
{
    tp_txn *snapshot;
    tp_recno_cursor *cursor = NULL;
    int64_t sum = 0;
    uint64_t last = 0;
    int code = tp_snapshot(bank->env, &snapshot);
    if (code != TP_OK)
        return failed("snapshot");
    code = walk(bank, snapshot, shows, &sum);
    if (code == TP_OK)
        code = tp_recno_cursor_open(bank->history, snapshot, &cursor);
    if (code == TP_OK)
        code = tp_recno_cursor_last(cursor, &last, NULL);
    tp_recno_cursor_close(cursor);
    if (code != TP_OK && code != TP_NOTFOUND) {
        failed("audit");
        tp_abort(snapshot);
        return 1;
    }
    tp_abort(snapshot);
    printf("%ld accounts, sum %lld, %s\n", bank->count, (long long)sum, last > 0 ? "with a history" : "no transfers");
    return sum == 100 * bank->count ? 0 : 3;
}

static int run_command(struct bank *bank, const char *what, long count)
{
    int64_t sum;
    tp_txn *snapshot;
    if (strcmp(what, "open") == 0) {
        bank->count = count;
        if (tp_run(bank->env, TP_SYNC, open_accounts, bank) != TP_OK)
            return failed("open");
        return 0;
    }
    if (strcmp(what, "audit") == 0 || strcmp(what, "show") == 0)
        return audit(bank, what[0] == 's');
    if (tp_snapshot(bank->env, &snapshot) != TP_OK || walk(bank, snapshot, 0, &sum) != TP_OK)
        return failed("count");
    tp_abort(snapshot);
    if (bank->count == 0)
        return 2;
    return run_transfers(bank, count, strcmp(what, "die") == 0);
}

int main(int argc, char **argv)
{
    struct bank bank = {NULL, NULL, NULL, 0};
    if (argc < 3)
        return 2;
    if (tp_env_open(argv[1], "durability = \"relaxed\"", 0, &bank.env) != TP_OK)
        return failed("environment");
    if (tp_btree_open(bank.env, "accounts", &bank.accounts) != TP_OK ||
        tp_recno_open(bank.env, "history", sizeof(struct transfer), &bank.history) != TP_OK)
        return failed("database");
    int status = run_command(&bank, argv[2], argc > 3 ? atol(argv[3]) : 10);
    if (tp_db_close(bank.accounts) != TP_OK || tp_recno_close(bank.history) != TP_OK || tp_env_close(bank.env) != TP_OK)
        return failed("close");
    return status;
}
