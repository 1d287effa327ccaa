//! The example of a message queue under kills: a message leaves the queue if and only if its transaction commits, and
//! a message whose consumer died is delivered.

#[allow(clippy::cast_possible_truncation)]
#[path = "../../crates/libtp/examples/message_queue/queue.rs"]
mod example;

use std::path::Path;
use std::time::Duration;

use libtp::{Db, Env, Result, Txn};
use libtp_sim::Random;
use libtp_tests::process::{say, Process};
use libtp_tests::sizes;

use example::Queue;

const DIRECTORY: &str = "LIBTP_TEST_QUEUE_DIRECTORY";
const ROLE: &str = "LIBTP_TEST_QUEUE_ROLE";

/// The entry of a child. In an ordinary test run this test does nothing.
#[test]
fn entry() {
    let (Some(directory), Ok(role)) = (std::env::var_os(DIRECTORY), std::env::var(ROLE)) else { return };
    if let Err(error) = serve(Path::new(&directory), &role) {
        say(&format!("failed: {error}"));
    }
}

fn serve(directory: &Path, role: &str) -> Result<()> {
    let env = Env::open_or_create(directory)?;
    let (queue, sent, received) = (Queue::open(&env, "queue")?, env.btree("sent")?, env.btree("received")?);
    let mut random = Random::new(std::process::id().into());
    say("open");
    loop {
        let gives_up = random.below(4) == 0;
        let transact = || {
            let txn = env.begin()?;
            let done = match role {
                "sender" => send(&txn, &queue, &sent)?,
                _ => receive(&txn, &queue, &sent, &received)?,
            };
            match gives_up {
                true => txn.abort()?,
                false => txn.commit()?,
            }
            Ok(done)
        };
        match transact() {
            Ok(true) => {}
            Ok(false) => std::thread::sleep(Duration::from_micros(200)),
            Err(error) if libtp::Error::is_retryable(&error) => {}
            Err(error) => return Err(error),
        }
    }
}

fn send(txn: &Txn<'_>, queue: &Queue, sent: &Db) -> Result<bool> {
    let next = sent.cursor(txn).last()?.map_or(0, |(key, _)| number(&key)) + 1;
    let is_put = queue.put(txn, &next.to_be_bytes())?;
    if is_put {
        sent.put(txn, &next.to_be_bytes(), b"")?;
    }
    Ok(is_put)
}

fn receive(txn: &Txn<'_>, queue: &Queue, sent: &Db, received: &Db) -> Result<bool> {
    let Some(message) = queue.take(txn)? else { return Ok(false) };
    assert!(sent.get(txn, &message)?.is_some(), "message {message:?} was received, but not sent");
    // The put is refused if the message was received before.
    received.put_new(txn, &message, b"")?;
    Ok(true)
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes.try_into().unwrap())
}

#[test]
fn each_message_is_delivered_once_under_kills() {
    let kills = sizes::number("LIBTP_TEST_KILLS", 30);
    let directory = tempfile::tempdir().unwrap();
    let start = |role: &str| {
        let variables = [(DIRECTORY, directory.path().display().to_string()), (ROLE, role.to_owned())];
        let process = Process::start("queue::entry", &variables);
        process.says("open");
        process
    };
    let roles = ["sender", "sender", "receiver", "receiver"];
    let mut crew: Vec<_> = roles.iter().map(|role| start(role)).collect();
    let mut random = Random::new(sizes::first_seed());
    for _ in 0..kills {
        std::thread::sleep(Duration::from_micros(random.below(30_000)));
        let chosen = usize::try_from(random.below(4)).unwrap();
        // Sometimes all processes are killed at once, so that no survivor repairs their sessions.
        let all = random.below(5) == 0;
        for nth in (0..4).filter(|&nth| all || nth == chosen) {
            crew[nth].kill();
        }
        for nth in (0..4).filter(|&nth| all || nth == chosen) {
            crew[nth].wait();
            let failed: Vec<String> = crew[nth].lines_so_far().collect();
            assert_eq!(failed, Vec::<String>::new(), "a {} failed", roles[nth]);
        }
        for nth in (0..4).filter(|&nth| all || nth == chosen) {
            crew[nth] = start(roles[nth]);
        }
    }
    drop(crew);
    let env = Env::open_or_create(directory.path()).unwrap();
    let (queue, sent, received) =
        (Queue::open(&env, "queue").unwrap(), env.btree("sent").unwrap(), env.btree("received").unwrap());
    let (count, left) = env
        .run(|txn| {
            let count = sent.cursor(txn).last()?.map_or(0, |(key, _)| number(&key));
            let mut left = 0;
            while let Some(message) = queue.take(txn)? {
                received.put_new(txn, &message, b"")?;
                left += 1;
            }
            for message in 1..=count {
                assert!(received.get(txn, &message.to_be_bytes())?.is_some(), "message {message} of {count} was lost");
            }
            assert!(received.get(txn, &(count + 1).to_be_bytes())?.is_none(), "more messages were received than sent");
            Ok((count, left))
        })
        .unwrap();
    println!("figures: {kills} kills, {count} messages, {left} of them still in the queue, each delivered once");
    assert!(count > kills, "too few messages were sent");
}
