//! One of several processes is killed, again and again. The others keep the environment open and continue, and no
//! commit is lost.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use libtp::Env;
use libtp_sim::Random;
use libtp_tests::audit::nothing_lost;
use libtp_tests::sizes;
use libtp_tests::transfers::TransferId;

use crate::crew::Member;

/// Opens the environment and checks that nothing is lost.
pub fn judge(directory: &Path, acknowledged: &BTreeSet<TransferId>) {
    nothing_lost(&Env::open_or_create(directory).unwrap(), acknowledged, "after the kills");
}

#[test]
fn processes_continue_without_a_loss_while_others_are_killed() {
    let kills = sizes::number("LIBTP_TEST_KILLS", 20);
    let directory = tempfile::tempdir().unwrap();
    let mut random = Random::new(7);
    let mut acknowledged = BTreeSet::new();
    let start = |number: u64| Member::working(directory.path(), number);
    let mut crew: Vec<Member> = (1..=4).map(start).collect();
    for kill in 0..kills {
        std::thread::sleep(Duration::from_millis(50 + random.below(150)));
        let victim = usize::try_from(random.below(4)).unwrap();
        crew[victim].kill();
        let gone = std::mem::replace(&mut crew[victim], start(5 + kill));
        acknowledged.extend(gone.acknowledged());
    }
    for member in &mut crew {
        acknowledged.extend(member.acknowledged_until_it_stops());
    }
    crew.into_iter().for_each(Member::leave);
    judge(directory.path(), &acknowledged);
    println!("figures: {kills} processes killed among others: {} transfers, 0 lost", acknowledged.len());
}
