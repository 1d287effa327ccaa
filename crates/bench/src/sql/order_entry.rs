//! Order entry after TPC-C, with one warehouse. Of 100 steps, 45 are new orders, 43 are payments, and 12 read an order.
//!
//! The database is smaller than TPC-C's: 1,000 items, 300 customers in each of ten districts, five lines in each order.
//! There are no deliveries.

use rusqlite::{params, Connection, OptionalExtension, Result, Transaction};

use super::{begin, one_of, FILLER};
use crate::random::Random;

const DISTRICTS: u32 = 10;
const CUSTOMERS: u32 = 300;
const ITEMS: u32 = 1_000;
const LINES: u32 = 5;

pub(super) fn make(transaction: &Transaction<'_>) -> Result<()> {
    transaction.execute_batch(
        "CREATE TABLE warehouse (id INTEGER PRIMARY KEY, total INTEGER NOT NULL);
         INSERT INTO warehouse VALUES (1, 0);
         CREATE TABLE district (id INTEGER PRIMARY KEY, next_order INTEGER NOT NULL, total INTEGER NOT NULL);
         CREATE TABLE customer (district INTEGER, id INTEGER, balance INTEGER NOT NULL, filler TEXT NOT NULL,
             PRIMARY KEY (district, id)) WITHOUT ROWID;
         CREATE TABLE item (id INTEGER PRIMARY KEY, price INTEGER NOT NULL, quantity INTEGER NOT NULL, filler TEXT NOT NULL);
         CREATE TABLE orders (district INTEGER, id INTEGER, customer INTEGER NOT NULL, lines INTEGER NOT NULL,
             PRIMARY KEY (district, id)) WITHOUT ROWID;
         CREATE INDEX orders_customer ON orders (district, customer, id);
         CREATE TABLE line (district INTEGER, number INTEGER, line INTEGER, item INTEGER NOT NULL, amount INTEGER NOT NULL,
             PRIMARY KEY (district, number, line)) WITHOUT ROWID;
         CREATE TABLE payment (id INTEGER PRIMARY KEY, district INTEGER, customer INTEGER, amount INTEGER NOT NULL);",
    )?;
    let mut district = transaction.prepare("INSERT INTO district VALUES (?1, 1, 0)")?;
    let mut customer = transaction.prepare("INSERT INTO customer VALUES (?1, ?2, 0, ?3)")?;
    for at in 1..=DISTRICTS {
        district.execute([at])?;
        (1..=CUSTOMERS).try_for_each(|id| customer.execute(params![at, id, FILLER]).map(drop))?;
    }
    let mut item = transaction.prepare("INSERT INTO item VALUES (?1, ?2, 0, ?3)")?;
    (1..=ITEMS).try_for_each(|id| item.execute(params![id, id % 100 + 1, FILLER]).map(drop))
}

pub(super) fn step(connection: &mut Connection, random: &mut Random) -> Result<()> {
    match random.below(100) {
        0..45 => new_order(connection, random),
        45..88 => payment(connection, random),
        _ => look(connection, random),
    }
}

fn new_order(connection: &mut Connection, random: &mut Random) -> Result<()> {
    let (district, customer) = (one_of(random, DISTRICTS), one_of(random, CUSTOMERS));
    let mut items: Vec<i64> = (0..LINES).map(|_| one_of(random, ITEMS)).collect();
    // The items are sorted, so that all processes lock them in the same order and cannot deadlock.
    items.sort_unstable();
    let transaction = begin(connection)?;
    let number: i64 = transaction
        .prepare_cached("UPDATE district SET next_order = next_order + 1 WHERE id = ?1 RETURNING next_order - 1")?
        .query_row([district], |row| row.get(0))?;
    transaction
        .prepare_cached("INSERT INTO orders VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![district, number, customer, LINES])?;
    for (line, item) in (1_i64..).zip(items) {
        let price: i64 = transaction
            .prepare_cached("UPDATE item SET quantity = quantity + 1 WHERE id = ?1 RETURNING price")?
            .query_row([item], |row| row.get(0))?;
        transaction
            .prepare_cached("INSERT INTO line VALUES (?1, ?2, ?3, ?4, ?5)")?
            .execute([district, number, line, item, price])?;
    }
    transaction.commit()
}

fn payment(connection: &mut Connection, random: &mut Random) -> Result<()> {
    let (district, customer, amount) = (one_of(random, DISTRICTS), one_of(random, CUSTOMERS), one_of(random, 5_000));
    let transaction = begin(connection)?;
    let balance = "UPDATE customer SET balance = balance - ?3 WHERE district = ?1 AND id = ?2";
    transaction.prepare_cached(balance)?.execute([district, customer, amount])?;
    transaction
        .prepare_cached("INSERT INTO payment (district, customer, amount) VALUES (?1, ?2, ?3)")?
        .execute([district, customer, amount])?;
    // As in TPC-B, the rows that all payments change come last, so that the transaction locks them for a short time.
    let total = "UPDATE district SET total = total + ?2 WHERE id = ?1";
    transaction.prepare_cached(total)?.execute([district, amount])?;
    transaction.prepare_cached("UPDATE warehouse SET total = total + ?1 WHERE id = 1")?.execute([amount])?;
    transaction.commit()
}

/// Reads a customer's last order by one statement, and the order's lines by another.
fn look(connection: &Connection, random: &mut Random) -> Result<()> {
    let (district, customer) = (one_of(random, DISTRICTS), one_of(random, CUSTOMERS));
    let last = "SELECT id FROM orders WHERE district = ?1 AND customer = ?2 ORDER BY id DESC LIMIT 1";
    let last: Option<i64> =
        connection.prepare_cached(last)?.query_row([district, customer], |row| row.get(0)).optional()?;
    if let Some(number) = last {
        let lines = "SELECT count(*), sum(amount) FROM line WHERE district = ?1 AND number = ?2";
        let lines: i64 = connection.prepare_cached(lines)?.query_row([district, number], |row| row.get(0))?;
        assert_eq!(lines, i64::from(LINES), "an order does not have all its lines");
    }
    Ok(())
}

pub(super) fn audit(connection: &Connection) -> Result<Vec<(&'static str, i64, i64)>> {
    let number = |query: &str| connection.query_row(query, [], |row| row.get::<_, i64>(0));
    let orders = number("SELECT count(*) FROM orders")?;
    let paid = number("SELECT coalesce(sum(amount), 0) FROM payment")?;
    Ok(vec![
        (
            "number of orders, by the districts' order numbers",
            number("SELECT sum(next_order - 1) FROM district")?,
            orders,
        ),
        ("number of lines", number("SELECT count(*) FROM line")?, orders * i64::from(LINES)),
        ("number of sold items", number("SELECT sum(quantity) FROM item")?, orders * i64::from(LINES)),
        ("total of the warehouse", number("SELECT total FROM warehouse")?, paid),
        ("sum of the districts' totals", number("SELECT sum(total) FROM district")?, paid),
        ("sum of the customers' balances, negated", -number("SELECT sum(balance) FROM customer")?, paid),
    ])
}
