//! The scenes in which a process reaches a failpoint and dies, and the checks after each.

use std::time::{Duration, Instant};

use libtp_sim::Random;
use libtp_tests::failpoints::{Failpoint, Scene};

use crate::child::tell_warnings;
use crate::crew::Member;
use crate::figures::Figures;
use crate::rebuild;
use crate::role::Role;
use crate::town::{region_of, Scenario};
use crate::watchdog;

/// The time in which a victim may pass its failpoint until the drawn number of passes is reached. After this time, the
/// victim dies when it next reaches the failpoint.
pub const PATIENCE: Duration = Duration::from_millis(250);
/// The time after [`PATIENCE`] in which the victim must reach the failpoint once.
pub const ANY_TIME: Duration = Duration::from_millis(1500);
/// The time in which a repairer must reach a failpoint of the repair.
const REPAIR: Duration = Duration::from_millis(400);
/// The time in which the other processes may rebuild the memory while a victim is stopped.
const STILL: Duration = Duration::from_millis(500);
/// The number of deaths in one environment. After them the journal is long, so the test makes a new environment.
const DEATHS_OF_ONE: usize = 60;
/// The number of further tries, each in a new environment, of a failpoint that no process reached.
const TRIES: u32 = 10;
/// In a scene in which a repairer dies, another process must die first. If the scene names no failpoint for this first
/// death, the process dies at one of these. After a death there, most steps of a repair have work to do.
const BEFORE: [&str; 3] =
    ["change: pages changed, section open", "change: logged, no page changed", "change: append cleared, pages latched"];

/// Plays each failpoint's scene; returns the failpoints that no process reached.
pub fn play_all(seed: u64, points: &[&Failpoint], figures: &mut Figures) -> Vec<&'static str> {
    tell_warnings();
    let mut random = Random::new(seed);
    let mut order: Vec<&Failpoint> = points.to_vec();
    random.shuffle(&mut order);
    let (mut again, mut town) = (Vec::new(), None);
    for point in order {
        let start = Instant::now();
        println!("plays {:?}", point.name);
        let is_hit = match point.scene {
            Scene::Alone => alone(seed, point, figures),
            Scene::Young => dies_young(seed, point, &mut random, figures),
            // Other suites play the scenes from `Memory` on.
            Scene::Work
            | Scene::Repair(_)
            | Scene::Rebuild
            | Scene::Memory { .. }
            | Scene::Warm
            | Scene::Backup
            | Scene::Files
            | Scene::Load
            | Scene::Databases => {
                let here = town.get_or_insert_with(|| settled(seed));
                let is_hit = play(here, point, &mut random, figures);
                if here.deaths.len() >= DEATHS_OF_ONE {
                    figures.count(here);
                    town.take().expect("the town is open").close(&format!("seed {seed}, about {:?}", point.name));
                }
                is_hit
            }
        };
        if !is_hit || start.elapsed() > PATIENCE + ANY_TIME {
            println!(
                "{}: {} after {} ms",
                point.name,
                if is_hit { "hit" } else { "missed" },
                start.elapsed().as_millis()
            );
        }
        if !is_hit {
            again.push(point);
        }
    }
    if let Some(mut town) = town {
        figures.count(&mut town);
        town.close(&format!("seed {seed}"));
    }
    again.retain(|point| !(0..TRIES).any(|_| try_again(seed, point, &mut random, figures)));
    again.iter().map(|point| point.name).collect()
}

pub fn settled(seed: u64) -> Scenario {
    let mut town = Scenario::new(seed);
    town.settle();
    town
}

fn play(town: &mut Scenario, point: &Failpoint, random: &mut Random, figures: &mut Figures) -> bool {
    match point.scene {
        Scene::Repair(before) => dies_repairing(town, point, before, random, figures),
        Scene::Rebuild => rebuild::dies_rebuilding(town, point, figures),
        _ => dies_at_work(town, point, random, figures),
    }
}

/// Stops a victim at the failpoint, declares the memory broken, and lets the other processes rebuild it. Then the
/// victim continues in memory that was given up (PROTOCOLS D13). Returns whether it stopped at the failpoint.
pub fn stands_still(town: &mut Scenario, point: &str, random: &mut Random) -> bool {
    let stop = |hit: u64| format!("{point}@{hit}!stop");
    let mut victim = town.launch(&Role::Victim(point.into()), &stop(any_hit(random)));
    if !victim.stops_within(PATIENCE) {
        victim.order(&format!("arm {}", stop(1)));
    }
    let is_hit = victim.stops_within(ANY_TIME);
    town.expect_rebuild();
    town.observe().managers().processes.declare_broken();
    // If the victim is writing to a file, the others must wait for it; otherwise they continue.
    let others = town.crew.iter_mut().map(|member| {
        member.listen();
        member.acknowledges_more_than(member.told.len() + 3, STILL)
    });
    let went_on = others.filter(|went_on| *went_on).count();
    // If the victim stopped just before the second order, the order has armed the failpoint again. So the victim may
    // stop several times, and is continued each time.
    let _awake = victim.stays_awake();
    let what =
        format!("after a stop at {point:?} while the memory was rebuilt ({went_on} processes continued meanwhile)");
    town.go_on(&what);
    victim.order("stop");
    victim.leaves(&what);
    assert!(victim.death().is_none(), "process {} died {what}", victim.number);
    town.record_death(&mut victim, point);
    town.go_on(&what);
    town.audit(&what);
    is_hit
}

/// Plays the scene again in a new environment, whose tables still grow.
fn try_again(seed: u64, point: &Failpoint, random: &mut Random, figures: &mut Figures) -> bool {
    match point.scene {
        Scene::Alone => alone(seed, point, figures),
        Scene::Repair(_) | Scene::Rebuild => {
            let mut town = settled(seed);
            let is_hit = (0..3).any(|_| play(&mut town, point, random, figures));
            town.close(&format!("seed {seed}, {:?}", point.name));
            is_hit
        }
        Scene::Work
        | Scene::Young
        | Scene::Memory { .. }
        | Scene::Warm
        | Scene::Backup
        | Scene::Files
        | Scene::Load
        | Scene::Databases => dies_young(seed, point, random, figures),
    }
}

/// Draws at which pass of the failpoint the victim dies, from the first pass to the 512th.
pub fn any_hit(random: &mut Random) -> u64 {
    let most = 1 << random.below(10);
    1 + random.below(most)
}

/// Lets a victim work concurrently with three survivors until it dies.
pub fn dies_at_work(town: &mut Scenario, point: &Failpoint, random: &mut Random, figures: &mut Figures) -> bool {
    let victim = launch_victim(town, point.name, any_hit(random));
    let is_hit = dies_and_is_repaired(town, victim, point.name, figures);
    let what = format!("after a death at {:?}", point.name);
    town.go_on(&what);
    town.audit(&what);
    is_hit
}

fn launch_victim(town: &mut Scenario, point: &str, hit: u64) -> Member {
    town.launch(&Role::Victim(point.into()), &format!("{point}@{hit}"))
}

/// Waits until the victim dies and is repaired; returns whether it died.
fn dies_and_is_repaired(town: &mut Scenario, mut victim: Member, point: &str, figures: &mut Figures) -> bool {
    if !victim.ends_within(PATIENCE) {
        victim.arm(&format!("{point}@1"));
        if !victim.ends_within(ANY_TIME) {
            victim.order("stop");
            victim.leaves(&format!("({point:?})"));
        }
    }
    record_and_check(town, &mut victim, figures)
}

/// Records a process that has ended, and checks its repair; returns whether it died at a failpoint.
fn record_and_check(town: &mut Scenario, dead: &mut Member, figures: &mut Figures) -> bool {
    let death = dead.death();
    let burial = death.as_ref().map(|death| town.watch_repair(death));
    town.record_death(dead, death.as_ref().map_or("", |death| &death.point));
    if let (Some(death), Some(burial)) = (&death, burial) {
        figures.deaths += 1;
        // The survivors are checked first, because they must continue also before the repair has ended.
        town.go_on(&format!("after a death at {:?}", death.point));
        figures.repairs.extend(town.bury(death, burial));
    }
    death.is_some()
}

/// Lets a victim die, and two of three survivors die if they reach the failpoint in its repair. The third survivor
/// must then continue without them.
pub fn dies_repairing(
    town: &mut Scenario,
    point: &Failpoint,
    before: Option<&'static str>,
    random: &mut Random,
    figures: &mut Figures,
) -> bool {
    let before = before.unwrap_or(BEFORE[random.index(BEFORE.len())]);
    for repairer in &mut town.crew[..2] {
        repairer.arm(&format!("{}@1", point.name));
    }
    let mut first = launch_victim(town, before, any_hit(random).min(40));
    if !first.ends_within(PATIENCE) {
        first.arm(&format!("{before}@1"));
        if !first.ends_within(ANY_TIME) {
            first.kill();
        }
    }
    town.record_death(&mut first, before);
    let start = Instant::now();
    while start.elapsed() < REPAIR && !town.crew[..2].iter_mut().any(Member::has_ended) {
        std::thread::sleep(Duration::from_millis(1));
    }
    // When one repairer has died, the other must not die later. But the other may already be at the failpoint.
    for repairer in &mut town.crew[..2] {
        if !repairer.has_ended() {
            repairer.arm("none");
        }
        // The repairer may have reached the failpoint before the order.
        if repairer.says_that_it_dies() {
            assert!(repairer.ends_within(watchdog()), "process {} does not end", repairer.number);
        }
    }
    let (mut ended, mut left) = (Vec::new(), Vec::new());
    for mut member in std::mem::take(&mut town.crew) {
        let list = if member.has_ended() { &mut ended } else { &mut left };
        list.push(member);
    }
    town.crew = left;
    town.go_on(&format!("after a death at {:?}, in the repair of a death at {before:?}", point.name));
    // The survivor has perhaps no thread that looks for dead sessions, so new processes are started.
    let idler = town.crew.pop();
    while town.crew.len() < 2 {
        let member = town.launch(&Role::Survivor, "");
        town.crew.push(member);
    }
    town.crew.extend(idler);
    let mut is_hit = false;
    for mut dead in ended {
        is_hit |= record_and_check(town, &mut dead, figures);
    }
    let what = format!("with new processes, after deaths at {before:?} and {:?}", point.name);
    town.go_on(&what);
    town.audit(&what);
    is_hit
}

/// Makes a new environment and starts three processes in it. Two of them die if they reach the failpoint.
pub fn dies_young(seed: u64, point: &Failpoint, random: &mut Random, figures: &mut Figures) -> bool {
    let mut town = Scenario::new(seed);
    let mut armed: Vec<Member> = (0..2).map(|_| launch_victim(&mut town, point.name, 1 + random.below(2))).collect();
    let plain = town.launch(&Role::Survivor, "");
    town.crew.push(plain);
    let start = Instant::now();
    while start.elapsed() < 2 * ANY_TIME && !armed.iter_mut().any(Member::has_ended) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let what = format!("seed {seed}, young, after a death at {:?}", point.name);
    town.settle();
    let mut is_hit = false;
    for mut member in armed {
        if !member.has_ended() {
            member.order("stop");
            member.leaves(&what);
        }
        is_hit |= record_and_check(&mut town, &mut member, figures);
    }
    town.go_on(&what);
    town.audit(&what);
    town.close(&what);
    is_hit
}

/// Lets a victim die while no other process is attached. The victim makes the environment, or is the last process to
/// leave it, or opens it after all other processes have died, with or without their shared memory.
fn alone(seed: u64, point: &Failpoint, figures: &mut Figures) -> bool {
    let mut town = Scenario::new(seed);
    let mut is_hit = opens_and_leaves(&mut town, point, figures);
    for is_memory_lost in [false, true] {
        if is_hit {
            break;
        }
        two_processes_die(&mut town, is_memory_lost);
        is_hit = opens_and_leaves(&mut town, point, figures);
    }
    let what = format!("seed {seed}, after a death at {:?}", point.name);
    town.settle();
    town.go_on(&what);
    town.close(&what);
    is_hit
}

/// Lets the victim open the environment, make a few transfers, and leave; returns whether it died.
fn opens_and_leaves(town: &mut Scenario, point: &Failpoint, figures: &mut Figures) -> bool {
    let mut victim = launch_victim(town, point.name, 1);
    victim.acknowledges_more_than(3, watchdog());
    victim.order("stop");
    victim.leaves(&format!("({:?})", point.name));
    let death = victim.death();
    town.record_death(&mut victim, point.name);
    figures.deaths += u64::from(death.is_some());
    death.is_some()
}

/// Lets two processes die in the middle of changes, and removes their shared memory if `is_memory_lost`.
fn two_processes_die(town: &mut Scenario, is_memory_lost: bool) {
    let mut two: Vec<Member> = (0..2).map(|_| launch_victim(town, "change: logged, no page changed", 40)).collect();
    let region = two.iter_mut().find_map(|member| {
        member.acknowledges_more_than(0, watchdog());
        region_of(member.pid())
    });
    for member in &mut two {
        if !member.ends_within(PATIENCE) {
            member.kill();
        }
        town.record_death(member, "anywhere");
    }
    if let Some(region) = region.filter(|_| is_memory_lost) {
        std::fs::remove_file(region).unwrap();
    }
}
