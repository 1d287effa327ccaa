//! Order-entry: TPC-C's new-order, payment and delivery (Rio Vista, section 5.1), by one client.
//!
//! The size is a number of districts, each with a tenth of a warehouse's stock. Ten districts are one warehouse.
//!
//! Of 92 transactions, 45 are new orders, 43 payments and 4 deliveries: TPC-C's mix without the transactions that
//! change nothing. A transaction declares nineteen ranges on average. Names and addresses never change, so the records
//! leave them out; the records are still as long as if they had them. Amounts are integers.

use std::ops::Range;

use super::change::{add, Change, Memory};
use super::synthetic::drawn;
use super::{size, Work};
use crate::error::Result;

/// Districts of a warehouse. A delivery delivers an order of each district of one warehouse.
const OF_WAREHOUSE: u64 = 10;
const CUSTOMERS_OF_DISTRICT: u64 = 3000;
/// Number of orders that each district keeps. A new order overwrites the oldest order.
const ORDERS: u64 = 4096;
const LINES: u64 = 15;
const HISTORY: u64 = 1 << 15;

/// Offsets of the fields that all warehouses share: the year's payments, and the number of the next history record.
const WAREHOUSE: u64 = 0;
const HISTORY_NEXT: u64 = 8;
/// Offset of the first district. A district has the year's payments, the number of its next order, and the number of
/// its first undelivered order.
const DISTRICT: u64 = 64;
const DISTRICT_BYTES: u64 = 96;
/// Bytes of a customer: balance, sum of the year's payments, number of payments, number of deliveries.
const CUSTOMER_BYTES: u64 = 640;
/// Bytes of an item: its price, which never changes.
const ITEM_BYTES: u64 = 80;
/// Bytes of a stock entry: quantity, quantity sold in the year, number of order lines.
const STOCK_BYTES: u64 = 304;
/// Bytes of an order: customer, date, carrier, number of lines.
const ORDER_BYTES: u64 = 32;
/// Bytes of an order's line: item, quantity, amount, date of the delivery.
const LINE_BYTES: u64 = 32;
/// Bytes of a payment: customer, district, date, amount.
const PAYMENT_BYTES: u64 = 32;

/// A database of `DISTRICTS` districts: their customers, orders and stock, about 8 MB for each district.
pub(super) struct OrderEntry<const DISTRICTS: u64>;

fn words(values: [u64; 4]) -> [u8; 32] {
    let mut bytes = [0; 32];
    for (field, value) in bytes.chunks_exact_mut(8).zip(values) {
        field.copy_from_slice(&value.to_ne_bytes());
    }
    bytes
}

fn word(bytes: &[u8]) -> u64 {
    u64::from_ne_bytes(*bytes.first_chunk().expect("a record is longer than a word"))
}

#[inline(always)]
fn amount(value: u64) -> i64 {
    i64::try_from(value & 0xffff_ffff).unwrap_or(0)
}

fn amount_at<C: Change>(txn: &mut C, at: u64) -> Result<u64> {
    txn.look::<8>(at).map(u64::from_ne_bytes)
}

impl<const DISTRICTS: u64> OrderEntry<DISTRICTS> {
    const CUSTOMERS: u64 = CUSTOMERS_OF_DISTRICT * DISTRICTS;
    const ITEMS: u64 = 10_000 * DISTRICTS;
    const CUSTOMER: u64 = DISTRICT + DISTRICTS * DISTRICT_BYTES;
    const ITEM: u64 = Self::CUSTOMER + Self::CUSTOMERS * CUSTOMER_BYTES;
    const STOCK: u64 = Self::ITEM + Self::ITEMS * ITEM_BYTES;
    const ORDER: u64 = Self::STOCK + Self::ITEMS * STOCK_BYTES;
    const LINE: u64 = Self::ORDER + DISTRICTS * ORDERS * ORDER_BYTES;
    const PAYMENT: u64 = Self::LINE + DISTRICTS * ORDERS * LINES * LINE_BYTES;

    fn order_of(district: u64, nth: u64) -> u64 {
        Self::ORDER + (district * ORDERS + nth % ORDERS) * ORDER_BYTES
    }

    fn line_of(district: u64, nth: u64, line: u64) -> u64 {
        Self::LINE + ((district * ORDERS + nth % ORDERS) * LINES + line) * LINE_BYTES
    }

    fn new_order<C: Change>(txn: &mut C, lot: u64, date: u64) -> Result<()> {
        let district = lot % DISTRICTS;
        let (customer, lines) =
            (district * CUSTOMERS_OF_DISTRICT + (lot >> 8) % CUSTOMERS_OF_DISTRICT, 5 + (lot >> 24) % 11);
        let place = DISTRICT + district * DISTRICT_BYTES;
        let nth = amount_at(txn, place + 8)?;
        add(txn, place + 8, 1)?;
        *txn.range(Self::order_of(district, nth))? = words([customer, date, 0, lines]);
        for line in 0..lines {
            let draw = drawn(lot.wrapping_add(line << 40 | line));
            let (item, quantity) = (draw % Self::ITEMS, 1 + (draw >> 20) % 10);
            let price = amount_at(txn, Self::ITEM + item * ITEM_BYTES)?;
            let stock = txn.range::<24>(Self::STOCK + item * STOCK_BYTES)?;
            let (left, sold, orders) = (word(&stock[..8]), word(&stock[8..16]), word(&stock[16..]));
            let left = if left >= quantity + 10 { left - quantity } else { left + 91 - quantity };
            for (field, value) in stock.chunks_exact_mut(8).zip([left, sold + quantity, orders + 1]) {
                field.copy_from_slice(&value.to_ne_bytes());
            }
            *txn.range(Self::line_of(district, nth, line))? = words([item, quantity, price * quantity, 0]);
        }
        Ok(())
    }

    fn payment<C: Change>(txn: &mut C, lot: u64, date: u64) -> Result<()> {
        let (district, paid) = (lot % DISTRICTS, 1 + (lot >> 30) % 5000);
        let customer = district * CUSTOMERS_OF_DISTRICT + (lot >> 8) % CUSTOMERS_OF_DISTRICT;
        add(txn, WAREHOUSE, amount(paid))?;
        add(txn, DISTRICT + district * DISTRICT_BYTES, amount(paid))?;
        let record = txn.range::<24>(Self::CUSTOMER + customer * CUSTOMER_BYTES)?;
        let fields = [word(&record[..8]).wrapping_sub(paid), word(&record[8..16]) + paid, word(&record[16..]) + 1];
        for (field, value) in record.chunks_exact_mut(8).zip(fields) {
            field.copy_from_slice(&value.to_ne_bytes());
        }
        let next = txn.range::<8>(HISTORY_NEXT)?;
        let place = u64::from_ne_bytes(*next);
        *next = (place + 1).to_ne_bytes();
        *txn.range(Self::PAYMENT + place % HISTORY * PAYMENT_BYTES)? = words([customer, district, date, paid]);
        Ok(())
    }

    fn delivery<C: Change>(txn: &mut C, lot: u64, date: u64) -> Result<()> {
        // The highest bits of `lot` choose the warehouse, because lower bits chose the kind of transaction.
        let first = (lot >> 40) % DISTRICTS.div_ceil(OF_WAREHOUSE) * OF_WAREHOUSE;
        for district in first..DISTRICTS.min(first + OF_WAREHOUSE) {
            let place = DISTRICT + district * DISTRICT_BYTES;
            let (next, oldest) = (amount_at(txn, place + 8)?, amount_at(txn, place + 16)?);
            // Older orders were overwritten.
            let nth = oldest.max(next.saturating_sub(ORDERS));
            if nth == next {
                continue;
            }
            *txn.range(place + 16)? = (nth + 1).to_ne_bytes();
            let order = Self::order_of(district, nth);
            let (customer, lines) = (amount_at(txn, order)?, amount_at(txn, order + 24)?);
            *txn.range(order + 16)? = (1 + lot % 10).to_ne_bytes();
            let mut total = 0;
            for line in 0..lines.min(LINES) {
                let at = Self::line_of(district, nth, line);
                total += amount_at(txn, at + 16)?;
                *txn.range(at + 24)? = date.to_ne_bytes();
            }
            let customer = Self::CUSTOMER + customer % Self::CUSTOMERS * CUSTOMER_BYTES;
            add(txn, customer, amount(total))?;
            add(txn, customer + 24, 1)?;
        }
        Ok(())
    }
}

impl<const DISTRICTS: u64> Work for OrderEntry<DISTRICTS> {
    const BYTES: u64 = Self::PAYMENT + HISTORY * PAYMENT_BYTES;

    fn load(&self, memory: &mut [u8]) {
        memory.fill(0);
        for (nth, record) in (0..).zip(memory[size(Self::ITEM)..size(Self::STOCK)].chunks_exact_mut(size(ITEM_BYTES))) {
            record[..8].copy_from_slice(&(1 + drawn(nth) % 100).to_ne_bytes());
        }
        for record in memory[size(Self::STOCK)..size(Self::ORDER)].chunks_exact_mut(size(STOCK_BYTES)) {
            record[..8].copy_from_slice(&50_u64.to_ne_bytes());
        }
    }

    fn run<M: Memory>(&self, memory: &mut M, numbers: Range<u64>) -> Result<()> {
        for nth in numbers {
            let lot = drawn(nth);
            let mut txn = memory.begin()?;
            match (lot >> 16) % 92 {
                0..45 => Self::new_order(&mut txn, lot, nth)?,
                45..88 => Self::payment(&mut txn, lot, nth)?,
                _ => Self::delivery(&mut txn, lot, nth)?,
            }
            txn.end()?;
        }
        Ok(())
    }

    fn audit(&self, memory: &[u8]) -> std::result::Result<(), String> {
        let at = |at: u64| word(&memory[size(at)..]);
        let sum = |first: u64, count: u64, bytes: u64| (0..count).map(|nth| at(first + nth * bytes)).sum::<u64>();
        let paid = [
            at(WAREHOUSE),
            sum(DISTRICT, DISTRICTS, DISTRICT_BYTES),
            sum(Self::CUSTOMER + 8, Self::CUSTOMERS, CUSTOMER_BYTES),
        ];
        let payments = [at(HISTORY_NEXT), sum(Self::CUSTOMER + 16, Self::CUSTOMERS, CUSTOMER_BYTES)];
        // An order has between five and fifteen lines.
        let (orders, lines) =
            (sum(DISTRICT + 8, DISTRICTS, DISTRICT_BYTES), sum(Self::STOCK + 16, Self::ITEMS, STOCK_BYTES));
        let is_right = paid.iter().all(|sum| *sum == paid[0])
            && payments[0] == payments[1]
            && (5 * orders..=LINES * orders).contains(&lines);
        match is_right {
            true => Ok(()),
            false => Err(format!(
                "the sums of payments are {paid:?}, the numbers of payments {payments:?}; there are {orders} orders of {lines} lines"
            )),
        }
    }
}
