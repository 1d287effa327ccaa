//! LIBTP 4.4's six steps: a small access method that reads and writes its file itself, and the same code under
//! transactions.
//!
//! ```text
//! cargo run -p libtp --example protected
//! ```
//!
//! The file is a stack of words: page 0 has their number, and each later page has as many words as fit. `unprotected`
//! is a program that keeps its stack in a plain file. If this program is killed between its two writes, it leaves a
//! word that is not counted. If two processes run the program at once, they overwrite each other's words. `protected`
//! is the same code with the six steps, each marked in its place.

use std::fs;
use std::io::Write;
use std::path::Path;

use libtp::{Env, LogType, PageLock};

/// The result of a step.
pub type Answer<T> = Result<T, Box<dyn std::error::Error>>;

/// Bytes of a word.
const WORD: usize = 32;

fn word(text: &str) -> [u8; WORD] {
    let mut word = [0; WORD];
    word[..text.len()].copy_from_slice(text.as_bytes());
    word
}

fn text(word: &[u8]) -> String {
    String::from_utf8_lossy(word).trim_end_matches('\0').to_owned()
}

fn count_of(page: &[u8]) -> Answer<usize> {
    Ok(usize::from_le_bytes(*page.first_chunk().ok_or("the page is too short")?))
}

/// The original code.
mod unprotected {
    use std::fs::{File, OpenOptions};
    use std::os::unix::fs::FileExt;
    use std::path::Path;

    use super::{count_of, text, word, Answer, WORD};

    const PAGE: usize = 4096;

    pub struct Stack {
        file: File,
    }

    impl Stack {
        pub fn open(path: &Path) -> Answer<Stack> {
            let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
            Ok(Stack { file })
        }

        fn read(&self, number: usize) -> Answer<Vec<u8>> {
            let mut page = vec![0; PAGE];
            self.file.read_at(&mut page, (number * PAGE) as u64)?;
            Ok(page)
        }

        fn write(&self, number: usize, page: &[u8]) -> Answer<()> {
            Ok(self.file.write_all_at(page, (number * PAGE) as u64)?)
        }

        pub fn push(&self, new: &str) -> Answer<()> {
            let mut meta = self.read(0)?;
            let count = count_of(&meta)?;
            let (number, at) = (1 + count / (PAGE / WORD), count % (PAGE / WORD) * WORD);
            let mut page = self.read(number)?;
            page[at..at + WORD].copy_from_slice(&word(new));
            self.write(number, &page)?;
            // If the process is killed here, the word is there and not counted.
            meta[..8].copy_from_slice(&(count + 1).to_le_bytes());
            self.write(0, &meta)
        }

        pub fn words(&self) -> Answer<Vec<String>> {
            let count = count_of(&self.read(0)?)?;
            let mut words = Vec::new();
            for index in 0..count {
                let page = self.read(1 + index / (PAGE / WORD))?;
                words.push(text(&page[index % (PAGE / WORD) * WORD..][..WORD]));
            }
            Ok(words)
        }
    }
}

/// The same code under transactions.
mod protected {
    use libtp::{Env, PageFile, PageLock, Txn};

    use super::{count_of, text, word, Answer, WORD};

    /// The type code of the stack's log records.
    pub const PUSHED: u16 = 1;

    pub struct Stack {
        file: PageFile,
    }

    impl Stack {
        pub fn open(env: &Env) -> Answer<Stack> {
            // Step 1: replace the open of the file with buf_open.
            Ok(Stack { file: env.pages("stack")? })
        }

        fn place(&self, index: usize) -> Answer<(u32, usize)> {
            let words = self.file.page_bytes() / WORD;
            Ok((u32::try_from(1 + index / words)?, index % words * WORD))
        }

        pub fn push(&self, txn: &Txn<'_>, new: &str) -> Answer<()> {
            // Step 3: precede the read with a lock call. Step 2: replace the read with buf_get.
            self.file.lock(txn, 0, PageLock::Write)?;
            let mut meta = self.file.get(txn, 0)?;
            let count = count_of(&meta.bytes)?;
            let (number, at) = self.place(count)?;
            meta.bytes[..8].copy_from_slice(&(count + 1).to_le_bytes());
            // Steps 2, 4 and 5, for the write: the change is logged, then the page is changed and released.
            self.file.put(txn, &meta)?;
            // The program has its own type of log record for this change. The functions of that type (step 6) make the
            // change and undo it.
            let argument = [&u64::try_from(at)?.to_le_bytes()[..], &word(new)].concat();
            self.file.apply(txn, number, PUSHED, &argument)?;
            Ok(())
        }

        pub fn words(&self, txn: &Txn<'_>) -> Answer<Vec<String>> {
            self.file.lock(txn, 0, PageLock::Read)?;
            let count = count_of(&self.file.get(txn, 0)?.bytes)?;
            let mut words = Vec::new();
            for index in 0..count {
                let (number, at) = self.place(index)?;
                self.file.lock(txn, number, PageLock::Read)?;
                words.push(text(&self.file.get(txn, number)?.bytes[at..at + WORD]));
            }
            Ok(words)
        }
    }

    /// Step 6: redo and undo for each type of log record.
    pub fn redo(page: &mut [u8], argument: &[u8]) -> Result<(), String> {
        let (at, word) = argument.split_first_chunk::<8>().ok_or("the argument is too short")?;
        let at = usize::try_from(u64::from_le_bytes(*at)).map_err(|error| error.to_string())?;
        page.get_mut(at..at + word.len()).ok_or("no such place")?.copy_from_slice(word);
        Ok(())
    }

    pub fn undo(page: &mut [u8], argument: &[u8]) -> Result<(), String> {
        let (at, word) = argument.split_first_chunk::<8>().ok_or("the argument is too short")?;
        redo(page, &[&at[..], &vec![0; word.len()]].concat())
    }
}

fn main() -> Answer<()> {
    let home = std::env::temp_dir().join(format!("protected-{}", std::process::id()));
    fs::create_dir_all(&home)?;
    let shown = show(&home, &mut std::io::stdout());
    fs::remove_dir_all(&home)?;
    shown
}

/// Runs the example and prints each step.
pub fn show(home: &Path, out: &mut dyn Write) -> Answer<()> {
    let plain = unprotected::Stack::open(&home.join("stack"))?;
    for new in ["one", "two", "three"] {
        plain.push(new)?;
    }
    writeln!(out, "unprotected: {}", plain.words()?.join(" "))?;

    let pushed = LogType::new(protected::PUSHED, "stack push", protected::redo).undo(protected::undo);
    let open = || Env::builder().log_type(pushed.clone()).open(home.join("environment"));
    let env = open()?;
    let stack = protected::Stack::open(&env)?;
    let txn = env.begin()?;
    for new in ["one", "two", "three"] {
        stack.push(&txn, new)?;
    }
    txn.commit()?;
    writeln!(out, "protected: {}", stack.words(&env.begin()?)?.join(" "))?;

    // An abort undoes all changes of the transaction.
    let txn = env.begin()?;
    stack.push(&txn, "four")?;
    writeln!(out, "in the transaction: {}", stack.words(&txn)?.join(" "))?;
    txn.abort()?;
    writeln!(out, "after the abort: {}", stack.words(&env.begin()?)?.join(" "))?;

    // A later process finds the committed words.
    drop((stack, env));
    let env = open()?;
    let txn = env.begin()?;
    writeln!(out, "opened again: {}", protected::Stack::open(&env)?.words(&txn)?.join(" "))?;
    let pages = env.pages("stack")?;
    pages.lock(&txn, 1, PageLock::Read)?;
    writeln!(out, "page 1 begins with {}", text(&pages.get(&txn, 1)?.bytes[..WORD]))?;
    Ok(txn.commit()?)
}
