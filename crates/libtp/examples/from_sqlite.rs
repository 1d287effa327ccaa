//! A migration from SQLite: a table that the `sqlite3` shell wrote becomes a typed table with an index.
//!
//! ```sh
//! sqlite3 -ascii shop.db 'SELECT id, name, cents FROM products ORDER BY id' > products.txt
//! cargo run --release -p libtp --example from_sqlite -- products.txt shop
//! ```
//!
//! In the shell's mode `ascii`, a column ends with the byte 0x1f and a row with 0x1e, so text needs no quotes. A load
//! of sorted rows writes each page once.

use std::io::Write;
use std::path::Path;

use libtp::{Env, Load, Table};

/// The products. The key is the number of a product, and the value is its name and its price.
type Products = Table<i64, (String, i64)>;

/// Returns the rows of a text that the shell wrote in mode `ascii`.
fn rows(text: &str) -> impl Iterator<Item = Result<(i64, (String, i64)), String>> + '_ {
    text.split_terminator('\x1e').map(|row| {
        let columns: Vec<&str> = row.split('\x1f').collect();
        let [id, name, cents] = columns[..] else { return Err(format!("a row of {} columns", columns.len())) };
        let number = |column: &str| column.parse().map_err(|_| format!("`{column}` is no number"));
        Ok((number(id)?, (name.to_string(), number(cents)?)))
    })
}

/// Makes an environment of the rows in `text`, and prints a report.
pub fn migrate(text: &str, to: &Path, out: &mut impl Write) -> Result<(), Box<dyn std::error::Error>> {
    // All rows are parsed before the environment is made: a text with a wrong row leaves no environment.
    let rows = rows(text).collect::<Result<Vec<_>, String>>()?;
    let env = Env::create(to)?;
    let products: Products = env.table("products")?;
    writeln!(out, "{} products", products.load(&Load::sorted(), rows)?)?;
    // CREATE INDEX by_price ON products (cents). An index key is a price, encoded so that the order of the bytes is the
    // order of the prices.
    let by_price = products.db().index("products by price", |_id, product, keys| {
        if let Some((_, cents)) = <(String, i64) as libtp::Value>::decode_value(product) {
            let mut key = Vec::new();
            libtp::KeyLike::<i64>::encode_key(&cents, &mut key);
            keys.add(key);
        }
    })?;
    let snapshot = env.snapshot()?;
    // SELECT id, name FROM products ORDER BY cents DESC LIMIT 2
    for found in by_price.cursor(&snapshot).into_iter().rev().take(2) {
        let found = found?;
        let product = <(String, i64) as libtp::Value>::decode_value(&found.value);
        let (name, cents) = product.ok_or("a product of another form")?;
        writeln!(out, "{name}: {cents}")?;
    }
    Ok(())
}

#[cfg_attr(test, allow(dead_code))]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, from, to] = &arguments[..] else {
        return Err("usage: from_sqlite FILE DIRECTORY, with FILE from `sqlite3 -ascii DATABASE 'SELECT ...'`".into());
    };
    migrate(&std::fs::read_to_string(from)?, Path::new(to), &mut std::io::stdout())
}
