//! The judge on canned lines: a run without faults, and a run for each fault.
#![allow(clippy::unwrap_used)] // The whole file is tests.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;

use super::judge::Judge;
use super::machine::TOLD;

/// The announcements of a machine, and the state found after its crash.
#[derive(Clone, Copy)]
struct Crash {
    /// The number of ended transactions at the start of the life, and the number announced at the crash.
    announced: (u64, u64),
    found: [&'static str; 3],
    /// Whether a second kernel reports the state.
    is_second: bool,
}

const WHOLE: Crash = Crash {
    announced: (0, 7),
    found: ["FOUND memory ended=7 rolled_back=1", "FOUND cache ended=2 rolled_back=0", "FOUND torn the sum is 3"],
    is_second: false,
};

/// The announcements and findings about records in each life. `records.rs` tests other announcements.
const RECORDS: &str = "R0000000000000000000000000000\nr0000000000010000000000000001\n\
                       L0000000000000000000000000000\nl0000000000010000000000000001\n";
const FOUND: [&str; 2] = [
    "FOUND records ended=1 digest=1 before=0 how=Survived lost=false survives=system",
    "FOUND lost ended=0 digest=0 before=0 lost=true refused at first",
];

/// Judges crashes whose kinds take turns. Returns the summary and whether the run is good.
fn judged(name: &str, crashes: &[Crash], wanted: u64) -> (String, bool) {
    let state: PathBuf = std::env::temp_dir().join(format!("libtp-xtask-{}-{name}", std::process::id()));
    fs::create_dir_all(&state).unwrap();
    let mut judge = Judge::new("", &state);
    let kinds = ["c", "b", "m", "n", "k", "p"];
    let lines = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<String>>();
    let _ = fs::remove_file(state.join(TOLD));
    let mut port = fs::File::create(state.join(TOLD)).unwrap();
    judge.boot("1 c", &lines(&["MEMORY mapped synchronously"]));
    for (crash, nth) in crashes.iter().zip(0..) {
        let (began, last) = crash.announced;
        let cut_off = "k00000";
        let told: String = (began + 1..=last).map(|number| format!("k{number:012x}\n")).collect();
        write!(port, "\nb{began:012x}\n{RECORDS}{told}{cut_off}").unwrap();
        if ["c", "n", "p"].contains(&kinds[nth % 6]) {
            judge.console("[    1.0] Kernel panic - not syncing: as planned");
        }
        let second: &[&str] = if crash.is_second { &["SECOND"] } else { &[] };
        let said = lines(&[&crash.found[..], &FOUND[..], second].concat());
        judge.boot(&format!("{} {}", nth + 2, kinds[(nth + 1) % 6]), &said);
    }
    fs::remove_dir_all(state).unwrap();
    let failed = judge.has_failed();
    let (summary, is_good) = judge.summary(wanted);
    assert!(!(failed && is_good), "a failed run is not good");
    (summary.join("\n"), is_good)
}

fn assert_fails(name: &str, crashes: &[Crash], wanted: u64, why: &str) {
    let (summary, is_good) = judged(name, crashes, wanted);
    assert!(!is_good && summary.contains("FAILED") && summary.contains(why), "{name}: {summary}");
}

#[test]
fn a_run_is_good_if_only_the_controls_lose_transactions() {
    let (summary, is_good) = judged("good", &[WHOLE; 5], 5);
    assert!(is_good && summary.contains("5 crashes") && summary.contains("0 lost or torn"), "{summary}");
    assert!(summary.contains("35 transactions announced") && summary.contains("2 panics"), "{summary}");
    assert!(summary.contains("mapped synchronously"), "{summary}");
    let last = summary.lines().last().unwrap();
    assert!(last.starts_with("5 crashes of a system"), "the last line is about the crashes: {summary}");
    // The transaction under way may have ended without an announcement.
    let one_more = Crash { found: ["FOUND memory ended=8", WHOLE.found[1], WHOLE.found[2]], ..WHOLE };
    assert!(judged("one-more", &[one_more; 5], 5).1);
    // One torn control is enough, because tearing depends on chance.
    let not_torn = Crash { found: [WHOLE.found[0], WHOLE.found[1], "FOUND torn whole"], ..WHOLE };
    assert!(judged("torn-once", &[not_torn, WHOLE, not_torn], 3).1);
}

#[test]
fn a_loss_fails() {
    for memory in
        ["FOUND memory ended=6", "FOUND memory ended=9", "FOUND memory the sum is 1", "FOUND memory", "nothing"]
    {
        let lost = Crash { found: [memory, WHOLE.found[1], WHOLE.found[2]], ..WHOLE };
        assert_fails("lost", &[WHOLE, lost, WHOLE], 3, "7 transactions were announced, and the memory has");
    }
}

#[test]
fn a_control_that_kept_everything_fails() {
    let kept = Crash { found: [WHOLE.found[0], "FOUND cache ended=7", WHOLE.found[2]], ..WHOLE };
    assert_fails("kept", &[WHOLE, kept, WHOLE], 3, "control on a disk lost nothing");
    let whole = Crash { found: [WHOLE.found[0], WHOLE.found[1], "FOUND torn whole"], ..WHOLE };
    assert_fails("whole", &[whole; 3], 3, "was never torn");
}

#[test]
fn a_run_with_too_few_crashes_or_announcements_fails() {
    assert_fails("none", &[], 5, "0 of 5 crashes were seen");
    assert!(!judged("none-wanted", &[], 0).1, "also if no crash was wanted");
    assert_fails("fewer", &[WHOLE; 3], 5, "3 of 5 crashes were seen");
    let idle = Crash { announced: (7, 7), ..WHOLE };
    assert_fails("idle", &[WHOLE, idle], 2, "before it had announced anything");
}

#[test]
fn a_machine_that_miscounts_its_starts_or_does_not_panic_fails() {
    let state = std::env::temp_dir().join(format!("libtp-xtask-{}-starts", std::process::id()));
    let mut judge = Judge::new("", &state);
    judge.boot("3 c", &[]);
    assert!(judge.has_failed(), "the first start has the number 1");
    let mut judge = Judge::new("", &state);
    judge.boot("1 c", &["FOUND memory ended=7".to_owned()]);
    assert!(judge.has_failed(), "the memory has contents before the first crash");
    let mut judge = Judge::new("", &state);
    judge.boot("1 c", &[]);
    judge.boot("2 b", &WHOLE.found.map(str::to_owned));
    let (summary, is_good) = judge.summary(1);
    let summary = summary.join("\n");
    assert!(!is_good && summary.contains("0 of 1 panics of the kernel were seen"), "{summary}");
}

#[test]
fn a_second_kernel_takes_over_only_if_it_was_loaded() {
    let second = Crash { is_second: true, ..WHOLE };
    let (summary, is_good) = judged("second", &[WHOLE, WHOLE, WHOLE, WHOLE, WHOLE, second], 6);
    assert!(is_good && summary.contains("p 1") && summary.contains("3 panics"), "{summary}");
    assert_fails("no-second", &[WHOLE; 6], 6, "came back by another way");
    assert_fails("second-unasked", &[second], 1, "came back by another way");
}
