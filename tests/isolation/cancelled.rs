//! Waits that the program cancels. The test runs in a process of its own, because `cancel_waits` cancels the waits of
//! all threads.

use std::sync::mpsc::channel;
use std::time::Duration;

use libtp::{cancel_waits, Env, Error};
use libtp_tests::process::alone;

#[test]
fn the_program_cancels_its_waits() {
    alone("cancelled::the_program_cancels_its_waits", || {
        let directory = tempfile::tempdir().unwrap();
        // The timeout is longer than a cancelled wait lasts.
        let env = Env::builder().lock_timeout(Duration::from_secs(10)).open(directory.path()).unwrap();
        let table = env.btree("table").unwrap();
        let holder = env.begin().unwrap();
        table.put(&holder, b"x", b"2").unwrap();
        std::thread::scope(|scope| {
            let (env, table) = (&env, &table);
            let waits = scope.spawn(move || env.run(|txn| table.put(txn, b"x", b"3")));
            while env.sessions().iter().all(|session| session.waits_since.is_none()) {
                std::thread::yield_now();
            }
            cancel_waits();
            let error = waits.join().unwrap().unwrap_err();
            assert!(matches!(error, Error::Cancelled(_)) && !error.is_retryable(), "{error}");
            assert!(error.to_string().contains("record \"x\""), "{error}");
            // If the cancellation comes after the transaction begins and before its wait, the wait is cancelled, too.
            let (tell, told) = channel();
            let (go, gone) = channel();
            let waits = scope.spawn(move || {
                let txn = env.begin().unwrap();
                tell.send(()).unwrap();
                gone.recv().unwrap();
                table.put(&txn, b"x", b"3")
            });
            told.recv().unwrap();
            cancel_waits();
            go.send(()).unwrap();
            assert!(matches!(waits.join().unwrap(), Err(Error::Cancelled(_))));
        });
        holder.commit().unwrap();
        // Transactions that begin later wait as usual, also on a session that was used before.
        env.run(|txn| table.put(txn, b"x", b"4")).unwrap();
    });
}
