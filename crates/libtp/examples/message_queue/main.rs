//! A message queue between processes, some of which are killed: each order is shipped exactly once.
//!
//! `cargo run --release -p libtp --example message_queue`
//!
//! A shop writes down an order and puts a message into the queue, in one transaction. A warehouse takes a message and
//! writes down the shipment, in one transaction. So the queue has a message for each order that was not shipped, and
//! for no other order. If a warehouse dies with a message, the message goes to the next warehouse.
#![allow(clippy::cast_possible_truncation, reason = "an example: its queue has 64 slots")]

mod queue;

use std::process::{Child, Command};
use std::time::Duration;

use libtp::{Env, Result};
use queue::Queue;

const ORDERS: u64 = 2000;

fn shop(env: &Env) -> Result<()> {
    let (queue, orders) = (Queue::open(env, "to-ship")?, env.btree("orders")?);
    loop {
        let done = env.run(|txn| {
            let last = orders.cursor(txn).last()?.map_or(0, |(key, _)| number(&key));
            if last < ORDERS && queue.put(txn, &(last + 1).to_be_bytes())? {
                orders.put(txn, &(last + 1).to_be_bytes(), b"ordered")?;
            }
            Ok(last == ORDERS)
        })?;
        if done {
            return Ok(());
        }
    }
}

fn warehouse(env: &Env) -> Result<()> {
    let (queue, shipped) = (Queue::open(env, "to-ship")?, env.btree("shipped")?);
    loop {
        let order = env.run(|txn| {
            let Some(order) = queue.take(txn)? else { return Ok(None) };
            // The put is refused if the order was shipped before.
            shipped.put_new(txn, &order, b"shipped")?;
            Ok(Some(number(&order)))
        })?;
        match order {
            Some(ORDERS) => return Ok(()),
            Some(_) => {}
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes.try_into().expect("orders have numbers of eight bytes"))
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, role, path] = &arguments[..] {
        let env = Env::open_or_create(path)?;
        let done = if role == "shop" { shop(&env) } else { warehouse(&env) };
        return Ok(done?);
    }
    let directory = tempfile::tempdir()?;
    let start = |role: &str| -> std::io::Result<Child> {
        Command::new(std::env::current_exe()?).arg(role).arg(directory.path()).spawn()
    };
    let (mut shop, mut warehouse, mut kills) = (start("shop")?, start("warehouse")?, 0);
    while warehouse.try_wait()?.is_none() {
        std::thread::sleep(Duration::from_millis(40));
        for (role, process) in [("shop", &mut shop), ("warehouse", &mut warehouse)] {
            if process.try_wait()?.is_none() {
                process.kill()?;
                process.wait()?;
                *process = start(role)?;
                kills += 1;
                std::thread::sleep(Duration::from_millis(60));
            }
        }
    }
    shop.wait()?;
    let env = Env::open_or_create(directory.path())?;
    let shipped = env.btree("shipped")?;
    let count = env.run(|txn| {
        (1..=ORDERS).try_fold(0, |sum, order| Ok(sum + u64::from(shipped.get(txn, &order.to_be_bytes())?.is_some())))
    })?;
    println!("{kills} processes were killed; {ORDERS} orders, {count} shipped, none twice");
    assert_eq!(count, ORDERS);
    Ok(())
}
