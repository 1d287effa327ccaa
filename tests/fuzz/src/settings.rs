//! The text of `libtp.toml`.
//!
//! If the text cannot be read, the error must name a line. Otherwise the settings are written as text again, and must
//! be read as the same settings. Merging them with the defaults, in either order, must not change them. No environment
//! is opened with them: opening checks the sizes, which the suite `bad_input` tests.

use std::fmt::Write;

use libtp::{Bytes, DatabaseSettings, Durability, Granularity, Replacement, Settings, Survives, Victim};

/// Tests one input.
pub fn settings(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Ok(Bytes(bytes)) = text.parse::<Bytes>() {
        assert_eq!(bytes.to_string().parse(), Ok(Bytes(bytes)));
    }
    let settings = match Settings::parse(text) {
        Ok(settings) => settings,
        Err(error) => {
            let message = error.to_string();
            assert!(message.contains("line "), "the error names no line: {message}");
            return;
        }
    };
    let again = written(&settings);
    let read = Settings::parse(&again);
    assert!(
        read.as_ref().is_ok_and(|read| *read == settings),
        "{settings:?} was written as {again:?} and read as {read:?}"
    );
    assert_eq!(settings.clone().over(Settings::default()), settings);
    assert_eq!(Settings::default().over(settings.clone()), settings);
    assert_eq!(settings.clone().over(settings.clone()), settings);
    let _ = (settings.memory_bytes(), settings.lock_timeout());
}

/// Returns a text with the same settings.
fn written(settings: &Settings) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            writeln!(text, "{name} = {value}").expect("a string takes all text");
        }
    };
    let path = |path: &Option<std::path::PathBuf>| path.as_ref().map(|path| quoted(&path.to_string_lossy()));
    let bytes = |bytes: Option<Bytes>| bytes.map(|Bytes(bytes)| quoted(&format!("{bytes} B")));
    line("log_directory", path(&settings.log_directory));
    line("memory", bytes(settings.memory));
    line("durability", settings.durability.map(|it| quoted(durability(it))));
    line("replacement", settings.replacement.map(|it| quoted(if it == Replacement::Lru { "lru" } else { "clock" })));
    line("relaxed_millis", settings.relaxed_millis.map(|it| it.to_string()));
    line("group_threshold", settings.group_threshold.map(|it| it.to_string()));
    line("wait_threshold_percent", settings.wait_threshold_percent.map(|it| it.to_string()));
    line("log_delay", bytes(settings.log_delay));
    line("log_segment_first", bytes(settings.log_segment_first));
    line("log_segment_max", bytes(settings.log_segment_max));
    line("checkpoint_log", bytes(settings.checkpoint_log));
    line("snapshot_log", bytes(settings.snapshot_log));
    line("snapshot_age_millis", settings.snapshot_age_millis.map(|it| it.to_string()));
    line("keep_log", bytes(settings.keep_log));
    line("recovery_threads", settings.recovery_threads.map(|it| it.to_string()));
    line("lock_timeout_millis", settings.lock_timeout_millis.map(|it| it.to_string()));
    line("deadlock_period_millis", settings.deadlock_period_millis.map(|it| it.to_string()));
    line("detached_timeout_millis", settings.detached_timeout_millis.map(|it| it.to_string()));
    line("victim", settings.victim.map(|it| quoted(victim(it))));
    line("lanes", settings.lanes.map(|it| it.to_string()));
    line("region_directory", path(&settings.region_directory));
    line("region_survives", settings.region_survives.map(|it| quoted(survives(it))));
    line("no_background", settings.no_background.then(|| "true".into()));
    for (name, database) in &settings.database {
        let DatabaseSettings { page_bytes, granularity, dense, own_pool } = database;
        writeln!(text, "[database.{}]", quoted(name)).expect("a string takes all text");
        let granularity = granularity.map(|it| if it == Granularity::Page { "page" } else { "record" });
        for (name, value) in [
            ("page_bytes", bytes(*page_bytes)),
            ("granularity", granularity.map(quoted)),
            ("dense", dense.map(|it| it.to_string())),
            ("own_pool", bytes(*own_pool)),
        ] {
            if let Some(value) = value {
                writeln!(text, "{name} = {value}").expect("a string takes all text");
            }
        }
    }
    text
}

fn durability(durability: Durability) -> &'static str {
    match durability {
        Durability::Relaxed => "relaxed",
        Durability::Rio => "rio",
        _ => "sync",
    }
}

fn victim(victim: Victim) -> &'static str {
    match victim {
        Victim::Youngest => "youngest",
        Victim::FewestLocks => "fewest-locks",
        Victim::FewestLogBytes => "fewest-log-bytes",
    }
}

fn survives(survives: Survives) -> &'static str {
    match survives {
        Survives::Process => "process",
        Survives::System => "system",
        Survives::Power => "power",
    }
}

/// Returns a string in TOML's syntax.
fn quoted(text: &str) -> String {
    let escaped = text.chars().map(|letter| match letter {
        '"' | '\\' => format!("\\{letter}"),
        letter if letter.is_control() => format!("\\U{:08X}", u32::from(letter)),
        letter => letter.to_string(),
    });
    format!("\"{}\"", escaped.collect::<String>())
}
