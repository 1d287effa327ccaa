//! Adds a second B-tree layer to the amalgamation.
//!
//! The shim defines functions of `btree.h`. If it defines `sqlite3BtreeX`, SQLite's own function of this name is
//! renamed to `stockBtreeX`. The shim's function calls libtp if the handle belongs to an environment, and otherwise
//! `stockBtreeX`. All other source code calls `sqlite3BtreeX` as before.

use std::fmt::Write as _;
use std::path::PathBuf;

use crate::patches::PATCHES;
use crate::stock::STOCK as STOCK_FUNCTIONS;
use crate::text::Text;

const HEADER: [&str; 2] = ["/************** Begin file btree.h ", "/************** End of btree.h "];
const STOCK: [&str; 2] = ["/************** Begin file btmutex.c ", "/************** End of backup.c "];
const MARK: &str = "SQLITE_PRIVATE ";
const PREFIX: &str = "sqlite3Btree";

/// Returns the varied source. `shim` has the texts of the shim's files, and `paths` their paths.
pub fn vary(amalgamation: String, shim: &[String], paths: &[PathBuf]) -> Result<String, String> {
    let mut text = Text::new(amalgamation);
    let header = without_comments(text.between(HEADER[0], HEADER[1])?);
    let names: Vec<&str> = shim.iter().flat_map(|part| defined(part)).collect();
    let (mut renamed, mut back) = (String::new(), String::new());
    for name in &names {
        let prototype =
            prototype(&header, name).ok_or_else(|| format!("btree.h has no {name}, which the shim defines"))?;
        let stock = name.replacen(PREFIX, "stockBtree", 1);
        let _ = writeln!(renamed, "#define {name} {stock}\n{prototype}");
        let _ = writeln!(back, "#undef {name}");
    }
    refuse_unknown(&header, &names)?;
    for path in paths {
        let _ = writeln!(back, "#include \"{}\"", path.display());
    }
    text.put_after_line(HEADER[1], "#include \"shim.h\"\n")?;
    text.put_before(STOCK[0], &renamed)?;
    text.put_after_line(STOCK[1], &back)?;
    for patch in PATCHES {
        text.patch(patch)?;
    }
    Ok(text.into_string())
}

/// Returns the names of the functions of `btree.h` that a file of the shim defines.
fn defined(part: &str) -> impl Iterator<Item = &str> {
    let heads = part.lines().filter(|line| line.starts_with(MARK) && line.contains(") {"));
    heads.filter_map(|head| head.find(PREFIX).and_then(|at| head[at..].split('(').next()))
}

/// Fails if `btree.h` has a function that is neither in the shim nor in the list of stock functions.
fn refuse_unknown(header: &str, shim: &[&str]) -> Result<(), String> {
    for (at, _) in header.match_indices(PREFIX) {
        let name = header[at..].split(|letter: char| !letter.is_ascii_alphanumeric()).next().unwrap_or("");
        let is_function = header[at + name.len()..].starts_with('(');
        if is_function && !shim.contains(&name) && !STOCK_FUNCTIONS.contains(&&name[PREFIX.len()..]) {
            return Err(format!(
                "btree.h has {name}, which is new: add it to the shim in c/, or to the list in build/stock.rs"
            ));
        }
    }
    Ok(())
}

/// Returns the declaration of a function in `btree.h`.
fn prototype<'t>(header: &'t str, name: &str) -> Option<&'t str> {
    let called = format!("{name}(");
    let is_name = |at: &usize| header[..*at].ends_with([' ', '*']);
    let at = header.match_indices(&called).map(|(at, _)| at).find(is_name)?;
    let begin = header[..at].rfind(MARK)?;
    let end = at + header[at..].find(';')? + 1;
    (!header[begin..at].contains(';')).then_some(&header[begin..end])
}

fn without_comments(text: &str) -> String {
    let mut parts = text.split("/*");
    let mut kept = parts.next().unwrap_or("").to_owned();
    for part in parts {
        kept.push(' ');
        kept.push_str(part.split_once("*/").map_or("", |(_, rest)| rest));
    }
    kept
}
