//! Compares the machine's announcements before the crash with the state found after the restart.

use std::collections::BTreeMap;
use std::path::Path;

use super::announcements::Announcements;
use super::machine::{SECOND, TOLD};
use super::records::Records;

/// The observations of one machine.
pub struct Judge {
    /// The machine's name in messages.
    name: String,
    told: Announcements,
    /// The crash that the machine is about to have: its number and kind.
    awaited: Option<(u64, String)>,
    kinds: BTreeMap<String, u64>,
    failures: Vec<String>,
    panics: u64,
    announced: u64,
    rolled_back: u64,
    control_lost: u64,
    torn: u64,
    cycles: u64,
    state: u64,
    memory: String,
    records: Records,
}

impl Judge {
    pub fn new(name: &str, state: &Path) -> Judge {
        Judge {
            name: name.to_owned(),
            told: Announcements::new(&state.join(TOLD)),
            awaited: None,
            kinds: BTreeMap::new(),
            failures: Vec::new(),
            panics: 0,
            announced: 0,
            rolled_back: 0,
            control_lost: 0,
            torn: 0,
            cycles: 0,
            state: 1,
            memory: String::new(),
            records: Records::default(),
        }
    }

    /// Returns the number of judged crashes.
    pub fn cycles(&self) -> u64 {
        self.cycles
    }

    pub fn has_failed(&self) -> bool {
        !self.failures.is_empty()
    }

    pub fn fail(&mut self, what: &str) {
        println!("  FAILED{}: {what}", self.name);
        self.failures.push(what.to_owned());
    }

    /// Takes a line of the kernel's console, and counts it if it reports a panic.
    pub fn console(&mut self, line: &str) {
        self.panics += u64::from(line.contains("Kernel panic"));
    }

    /// Returns a random number below `end`.
    pub fn draw(&mut self, end: u64) -> u64 {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 33) % end
    }

    /// Takes the report of a start of the machine, and judges the crash before the start, if there was a crash.
    pub fn boot(&mut self, boot: &str, lines: &[String]) {
        let (number, kind) = boot.split_once(' ').unwrap_or((boot, ""));
        if let Some(memory) = lines.iter().find_map(|line| line.strip_prefix("MEMORY ")) {
            memory.clone_into(&mut self.memory);
        }
        if let Some((_, crashed_by)) = self.awaited.take() {
            self.crashed(&crashed_by, lines);
        } else if lines.iter().any(|line| line.starts_with("FOUND")) {
            self.fail("the memory has contents before the first crash");
        }
        match number.parse::<u64>() {
            Ok(number) if number == self.cycles + 1 => self.awaited = Some((number, kind.trim().to_owned())),
            _ => self.fail(&format!("the machine counts {number} starts after {} crashes", self.cycles)),
        }
    }

    fn crashed(&mut self, kind: &str, lines: &[String]) {
        self.cycles += 1;
        *self.kinds.entry(kind.to_owned()).or_default() += 1;
        let life = self.told.life();
        let (began, announced) = life.segment;
        let found = |name: &str| {
            let prefix = format!("FOUND {name} ");
            lines.iter().find_map(|line| line.strip_prefix(prefix.as_str())).unwrap_or("nothing was said")
        };
        let number = |text: &str, name: &str| {
            let value = text.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
            value.and_then(|value| value.parse::<u64>().ok())
        };
        let (memory, cache, torn) = (found("memory"), found("cache"), found("torn"));
        let ended = number(memory, "ended");
        // The transaction under way may have ended without an announcement.
        let is_whole = ended.is_some_and(|ended| ended == announced || ended == announced + 1);
        let steps = announced - began;
        // The control begins again after each crash. It counts as lost unless all its transactions are found.
        let has_lost = number(cache, "ended").is_none_or(|ended| ended < steps);
        let is_torn = torn.contains("sum is");
        let verdict = if is_whole { "whole" } else { "LOST OR TORN" };
        println!(
            "  crash {}{} by {kind}: {steps} announced, {verdict} ({memory}); control {cache}; without undo {torn}",
            self.cycles, self.name
        );
        let (records, control) = (found("records"), found("lost"));
        println!("    of {} records {records}; of {} control {control}", life.records.last, life.lost.last);
        if !is_whole {
            self.fail(&format!("{announced} transactions were announced, and the memory has: {memory}"));
        }
        if (kind == SECOND) != lines.iter().any(|line| line == "SECOND") {
            self.fail(&format!("after a crash by {kind}, the machine came back by another way than expected"));
        }
        if steps == 0 {
            self.fail("the machine crashed before it had announced anything: nothing was proved");
        }
        if !has_lost {
            self.fail("the control on a disk lost nothing: nothing was proved");
        }
        let judged = [self.records.judge(&life.records, records), self.records.judge_control(&life.lost, control)];
        judged.into_iter().filter_map(Result::err).for_each(|what| self.fail(&what));
        self.announced += steps;
        self.rolled_back += u64::from(number(memory, "rolled_back").unwrap_or(0) != 0);
        self.control_lost += u64::from(has_lost);
        self.torn += u64::from(is_torn);
    }

    /// Adds the observations of another machine.
    pub fn add(&mut self, other: Judge) {
        other.kinds.into_iter().for_each(|(kind, count)| *self.kinds.entry(kind).or_default() += count);
        self.failures.extend(other.failures);
        self.panics += other.panics;
        self.announced += other.announced;
        self.rolled_back += other.rolled_back;
        self.control_lost += other.control_lost;
        self.torn += other.torn;
        self.cycles += other.cycles;
        self.records.add(&other.records);
    }

    /// Returns summary lines, and whether the run proves its claim.
    pub fn summary(mut self, wanted: u64) -> (Vec<String>, bool) {
        let panics = ["c", "n", SECOND].iter().filter_map(|kind| self.kinds.get(*kind)).sum::<u64>();
        if self.cycles < wanted {
            self.fail(&format!("{} of {wanted} crashes were seen", self.cycles));
        }
        if self.panics < panics {
            self.fail(&format!("{} of {panics} panics of the kernel were seen", self.panics));
        }
        if self.torn == 0 {
            self.fail("the control without before-images was never torn: nothing was proved about before-images");
        }
        let is_good = self.failures.is_empty() && self.cycles > 0;
        let kinds: Vec<String> = self.kinds.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
        let summary = format!(
            "{} crashes of a system ({}; {} panics); segments, memory {}: {} transactions announced, {}, {} found under way and \
             rolled back; controls: page cache lost {} times of {}, without before-images torn {} times",
            self.cycles,
            kinds.join(", "),
            self.panics,
            self.memory,
            self.announced,
            if is_good { "0 lost or torn".to_owned() } else { format!("FAILED: {}", self.failures.join("; ")) },
            self.rolled_back,
            self.control_lost,
            self.cycles,
            self.torn
        );
        (vec![self.records.summary(self.cycles, is_good), summary], is_good)
    }
}
