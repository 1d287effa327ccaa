//! Tests of clients as processes: the parent with shell scripts as its clients, and a client whose parent is the test,
//! over a pair of sockets.

use std::os::unix::net::UnixStream;

use super::*;
use crate::engine_in_memory::{InMemory, MapKind};
use crate::tpcb::Scale;

fn quick(clients: u32) -> RunSettings {
    RunSettings {
        scale: Scale::SMALL,
        clients,
        warmup: Duration::from_millis(10),
        measured: Duration::from_millis(50),
        ..RunSettings::default()
    }
}

fn loaded() -> InMemory {
    let engine = InMemory::new(MapKind::Tree);
    engine.load(&Scale::SMALL, &mut |_| {}).unwrap();
    engine
}

/// Returns the commands of client processes that run a shell script. In the script, `{}` becomes the client's number.
fn script(text: &str) -> impl FnMut(u32) -> Command + '_ {
    move |client| {
        let mut command = Command::new("sh");
        command.arg("-c").arg(text.replace("{}", &client.to_string()));
        command
    }
}

const REPORT: &str = r#"{"report":{"client":{},"committed_outside":0,"committed":0,"aborts":4,"elapsed_ns":1000000000,"latency":{"max":5,"buckets":[[5,2]]}}}"#;

#[test]
fn a_parent_starts_all_clients_together_and_adds_their_reports() {
    let engine = loaded();
    let text =
        format!("read begin; echo '{{\"ready\":true}}'; read go; echo '{{\"committed\":9}}'; echo '{REPORT}'; cat");
    let mut reported = 0;
    let report = run_processes(&engine, &quick(3), &mut script(&text), &mut |now| reported = now.committed).unwrap();
    assert_eq!((report.aborts, report.audit.as_str()), (12, "ok"));
    assert_eq!(report.clients_as, ClientsAs::Processes);
    assert!(reported >= 9, "the reported progress is {reported}");
}

#[test]
fn a_run_ends_with_an_error_if_a_client_dies_or_fails_or_sends_nonsense() {
    let engine = loaded();
    for (text, word) in [
        ("read begin; exit 0", "closed"),
        ("echo nonsense; cat", "nonsense"),
        ("echo '{\"error\":\"the disk is full\"}'; cat", "the disk is full"),
        ("read begin; echo '{\"ready\":true}'; exit 3", "client"),
    ] {
        let error = run_processes(&engine, &quick(2), &mut script(text), &mut |_| {}).unwrap_err().to_string();
        assert!(error.starts_with("client ") && error.contains(word), "{text}: {error}");
    }
    let mut missing = |_| Command::new("/nowhere/to/be/found");
    let error = run_processes(&engine, &quick(1), &mut missing, &mut |_| {}).unwrap_err().to_string();
    assert!(error.contains("could not be started"), "{error}");
}

/// Runs a client on a thread, with `parent` as its parent.
fn converse(engine: &InMemory, settings: RunSettings, parent: impl FnOnce(&mut UnixStream, &mut dyn BufRead)) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut orders = BufReader::new(theirs.try_clone().unwrap());
            // The client also sends its error to the parent, and the parent checks the error.
            serve_client(engine, &mut orders, &mut theirs.try_clone().unwrap()).ok();
            theirs.shutdown(std::net::Shutdown::Both).ok();
        });
        let mut to = ours.try_clone().unwrap();
        say(&mut to, 0, &Order::Begin { settings, client: 5 }).unwrap();
        parent(&mut to, &mut BufReader::new(&ours));
        ours.shutdown(std::net::Shutdown::Both).ok();
    });
}

/// Lets a child send transfers for the given time.
fn go(to: &mut UnixStream, time: Duration) {
    say(to, 5, &Order::Go { window: Window::after(Duration::from_millis(10), time) }).unwrap();
}

#[test]
fn all_children_get_the_same_window() {
    let (engine, reported) = (loaded(), tempfile::tempdir().unwrap());
    let text = format!(
        "read begin; echo '{{\"ready\":true}}'; head -n 1 > {}/{{}}; echo '{REPORT}'; cat",
        reported.path().display()
    );
    run_processes(&engine, &quick(3), &mut script(&text), &mut |_| {}).unwrap();
    let of = |client: u32| std::fs::read_to_string(reported.path().join(client.to_string())).unwrap();
    assert!(of(0).starts_with("{\"window\":{\"from_ns\":"), "{}", of(0));
    assert_eq!((of(0), of(1)), (of(1), of(2)));
}

#[test]
fn a_child_waits_for_the_window_and_its_report_agrees_with_the_bank() {
    let engine = loaded();
    let before = Before::look(&engine).unwrap();
    let mut reports = Vec::new();
    converse(&engine, quick(1), |to, from| {
        assert!(matches!(hear(from).unwrap(), Answer::Ready(true)));
        assert_eq!(
            Before::look(&engine).unwrap().history.count,
            0,
            "the child sent transfers before it got the window"
        );
        go(to, Duration::from_millis(50));
        let Answer::Report(report) = hear(from).unwrap() else { panic!("no report") };
        reports.push(report);
    });
    assert_eq!(reports[0].client, 5);
    assert!(reports[0].committed > 0);
    let report = before.report(&engine, &quick(1), ClientsAs::Processes, &reports).unwrap();
    assert_eq!(report.audit, "ok");
}

#[test]
fn a_child_stops_during_the_run_when_its_parent_closes_the_pipe() {
    let engine = loaded();
    let long = RunSettings { measured: Duration::from_secs(600), ..quick(1) };
    let begin = Instant::now();
    converse(&engine, long, |to, from| {
        assert!(matches!(hear(from).unwrap(), Answer::Ready(true)));
        go(to, Duration::from_secs(600));
        assert!(matches!(hear(from).unwrap(), Answer::Committed(count) if count > 0));
    });
    assert!(begin.elapsed() < Duration::from_secs(60));
}

#[test]
fn a_child_that_fails_reports_the_reason() {
    let engine = InMemory::new(MapKind::Tree); // not loaded
    converse(&engine, quick(1), |to, from| {
        assert!(matches!(hear(from).unwrap(), Answer::Ready(true)));
        go(to, Duration::from_millis(50));
        let Answer::Error(why) = hear(from).unwrap() else { panic!("no error") };
        assert!(why.contains("load the bank first"), "{why}");
    });
}
