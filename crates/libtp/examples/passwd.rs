//! The first two examples of the LIBTP paper, the password file and source control: plain files that change together
//! with records.
//!
//! ```text
//! cargo run -p libtp --example passwd
//! ```
//!
//! Every program of the machine reads the files `passwd` and `group`, and none of these programs knows transactions. A
//! user is added to both files and to a database at once, or to none. A check-in puts the new texts of several sources
//! in their places. It stores the old texts and the author in a database.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use libtp::{Db, Env, Txn};

/// The result of a step.
pub type Answer<T> = Result<T, Box<dyn std::error::Error>>;

/// The users of a machine: two files and a database.
pub struct Users {
    passwd: PathBuf,
    group: PathBuf,
    by_name: Db,
}

impl Users {
    /// Adds a user to both files and to the database.
    pub fn add(&self, txn: &Txn<'_>, name: &str, number: u32) -> libtp::Result<()> {
        self.by_name.put_new(txn, name.as_bytes(), &number.to_be_bytes())?;
        for (path, line) in
            [(&self.passwd, format!("{name}:x:{number}:{number}\n")), (&self.group, format!("{name}:x:{number}:\n"))]
        {
            // If another program changes a file that was read here before the commit, the commit fails.
            let mut text = txn.read_file(path)?.unwrap_or_default();
            text.extend(line.as_bytes());
            txn.replace_file(path, &text)?;
        }
        Ok(())
    }
}

/// Puts new texts of some sources in their places, and keeps the old texts under the next revision.
pub fn check_in(env: &Env, history: &Db, who: &str, sources: &[(&Path, &str)]) -> libtp::Result<u32> {
    env.run(|txn| {
        let last = history
            .get_for_update(txn, b"last")?
            .map_or(0, |last| u32::from_be_bytes(last.try_into().unwrap_or_default()));
        let revision = last + 1;
        history.put(txn, b"last", &revision.to_be_bytes())?;
        history.put(txn, format!("{revision} by").as_bytes(), who.as_bytes())?;
        for (path, text) in sources {
            match txn.read_file(path)? {
                Some(old) => {
                    history.put(txn, format!("{revision} was {}", path.display()).as_bytes(), &old)?;
                    txn.replace_file(path, text.as_bytes())?;
                }
                None => txn.create_file(path, text.as_bytes())?,
            }
        }
        Ok(revision)
    })
}

fn main() -> Answer<()> {
    let home = std::env::temp_dir().join(format!("passwd-{}", std::process::id()));
    fs::create_dir_all(&home)?;
    // Files are named by paths without symbolic links.
    let shown = show(&home.canonicalize()?, &mut std::io::stdout());
    fs::remove_dir_all(&home)?;
    shown
}

/// Runs the example and prints each step.
pub fn show(home: &Path, out: &mut dyn Write) -> Answer<()> {
    let env = Env::open_or_create(home.join("environment"))?;
    let users = Users { passwd: home.join("passwd"), group: home.join("group"), by_name: env.btree("users")? };
    fs::write(&users.passwd, "root:x:0:0\n")?;
    fs::write(&users.group, "root:x:0:\n")?;

    env.run(|txn| users.add(txn, "margo", 1001))?;
    write!(out, "passwd: {}", fs::read_to_string(&users.passwd)?.replace('\n', " "))?;
    writeln!(out, "group: {}", fs::read_to_string(&users.group)?.trim_end().replace('\n', " "))?;

    // The second user exists already: the whole transaction is undone.
    let twice = env.run(|txn| {
        users.add(txn, "mao", 1002)?;
        users.add(txn, "margo", 1003)
    });
    writeln!(out, "twice: {}", twice.err().map_or("added".into(), |error| error.to_string()))?;
    writeln!(out, "passwd has {} lines", fs::read_to_string(&users.passwd)?.lines().count())?;

    // An editor that knows no transactions changes the file in between.
    let txn = env.begin()?;
    users.add(&txn, "mao", 1002)?;
    fs::write(&users.group, "root:x:0:\nmargo:x:1001:\nwheel:x:10:\n")?;
    let refused = txn.commit().err().map_or(String::new(), |error| error.to_string());
    let why = refused.split_once("another program").map_or(refused.as_str(), |(_, why)| why);
    writeln!(out, "group:{}", why.split(';').next().unwrap_or_default())?;
    env.run(|txn| users.add(txn, "mao", 1002))?;
    writeln!(out, "group has {} lines", fs::read_to_string(&users.group)?.lines().count())?;

    let history = env.btree("history")?;
    let (main, lib) = (home.join("main.c"), home.join("lib.c"));
    for (who, text) in [("margo", "1"), ("mao", "2")] {
        let revision =
            check_in(&env, &history, who, &[(&main, &format!("main {text}")), (&lib, &format!("lib {text}"))])?;
        let (main, lib) = (fs::read_to_string(&main)?, fs::read_to_string(&lib)?);
        writeln!(out, "revision {revision} by {who}: {main}, {lib}")?;
    }
    let was = env.run(|txn| history.get(txn, format!("2 was {}", lib.display()).as_bytes()))?.unwrap_or_default();
    writeln!(out, "before: {}", String::from_utf8_lossy(&was))?;
    Ok(())
}
