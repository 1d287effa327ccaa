//! Deaths of processes that rebuild the shared memory (PROTOCOLS D13). Another process must complete the rebuild.

use std::time::{Duration, Instant};

use libtp_tests::failpoints::Failpoint;

use crate::crew::Member;
use crate::figures::Figures;
use crate::role::Role;
use crate::town::Scenario;

/// The largest number of rebuilds in which an armed process may reach the failpoint.
const TRIES: u32 = 5;
/// The time in which an armed process must die.
const PATIENCE: Duration = Duration::from_millis(1000);

/// Declares the memory broken. Two of three survivors die if they reach the failpoint, and another process completes
/// the rebuild. Returns whether a survivor died.
pub fn dies_rebuilding(town: &mut Scenario, point: &Failpoint, figures: &mut Figures) -> bool {
    (0..TRIES).any(|_| dies_once(town, point, figures))
}

fn dies_once(town: &mut Scenario, point: &Failpoint, figures: &mut Figures) -> bool {
    for one in &mut town.crew[..2] {
        one.arm(&format!("{}@1", point.name));
    }
    town.expect_rebuild();
    town.observe().managers().processes.declare_broken();
    let start = Instant::now();
    while start.elapsed() < PATIENCE && !town.crew[..2].iter_mut().any(Member::has_ended) {
        std::thread::sleep(Duration::from_millis(1));
    }
    for one in &mut town.crew[..2] {
        if !one.has_ended() {
            one.arm("none");
        }
    }
    let (mut ended, mut left) = (Vec::new(), Vec::new());
    for mut one in std::mem::take(&mut town.crew) {
        let list = if one.has_ended() { &mut ended } else { &mut left };
        list.push(one);
    }
    town.crew = left;
    let what = format!("after a death at {:?}, while the memory was rebuilt", point.name);
    ended.extend(town.go_on_but_for_late_deaths(&what));
    let idler = town.crew.pop();
    while town.crew.len() < 2 {
        let member = town.launch(&Role::Survivor, "");
        town.crew.push(member);
    }
    town.crew.extend(idler);
    // The dead sessions need no repair: the memory in which they died was given up.
    let mut deaths = 0;
    for dead in &mut ended {
        deaths += u64::from(dead.death().is_some());
        town.record_death(dead, point.name);
    }
    figures.deaths += deaths;
    let what = format!("with new processes, {what}");
    town.go_on(&what);
    town.audit(&what);
    deaths > 0
}
