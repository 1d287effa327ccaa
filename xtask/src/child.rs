//! Runs one command of a suite: enters it on the board, keeps its output, and kills it when it hangs.
//!
//! The output goes to a file in the build directory (`target/xtask/SUITE.log`) and is shown only when the command
//! fails. A suite that passes prints one line.

use crate::board;
use crate::outcome::clock;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

/// Longest time that a command may take before it counts as hung.
pub const LIMIT: Duration = Duration::from_secs(30 * 60);
/// Longest time for which output is still read after the command has ended: a process that the command started may keep
/// the pipe open.
const DRAIN: Duration = Duration::from_secs(5);
/// The beginning of the lines about a command that hung.
pub const HUNG: &str = "hung: ";
/// Lines shown of a failed command's output; the file has all of it.
const SHOWN_LINES: usize = 60;

/// The end of a command, and its output.
pub struct Ended {
    /// Whether the command exited with 0 in time.
    pub success: bool,
    /// Standard output and standard error, line by line as they came.
    pub output: String,
}

/// Runs `command` for the suite `name` with the usual limit.
///
/// # Errors
/// When the command cannot be started, or its log cannot be written.
pub fn run(name: &str, command: &mut Command, logs: &Path) -> io::Result<Ended> {
    run_within(name, command, logs, LIMIT)
}

/// Runs `command` for the suite `name`, for at most `limit`.
///
/// # Errors
/// When the command cannot be started, or its log cannot be written.
pub fn run_within(name: &str, command: &mut Command, logs: &Path, limit: Duration) -> io::Result<Ended> {
    let start = Instant::now();
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (lines, received) = mpsc::channel();
    read_lines(child.stdout.take(), lines.clone());
    read_lines(child.stderr.take(), lines);

    let entry = board::enter(name);
    let mut output = String::new();
    let mut ended_at = None;
    let mut hung = false;
    loop {
        match received.recv_timeout(Duration::from_millis(200)) {
            Ok(line) => {
                if !is_for_programs(&line) {
                    entry.line(&line);
                }
                output.push_str(&line);
                output.push('\n');
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if ended_at.is_none() && child.try_wait()?.is_some() {
            ended_at = Some(Instant::now());
        }
        if ended_at.is_some_and(|at| at.elapsed() > DRAIN) {
            break;
        }
        if !hung && start.elapsed() > limit {
            hung = true;
            let program = Path::new(command.get_program()).display();
            output += &format!("{HUNG}{program} still runs after {} and is ended\n", clock(limit));
            let tree = tree_of(child.id());
            output.extend(tree.iter().map(|process| threads_of(*process)));
            end(&tree, &mut child);
        }
    }
    let success = child.wait()?.success() && !hung;
    drop(entry);
    keep(name, &output, logs)?;
    if !success {
        show(name, &output, logs);
    }
    Ok(Ended { success, output })
}

fn read_lines(pipe: Option<impl Read + Send + 'static>, lines: Sender<String>) {
    let Some(pipe) = pipe else { return };
    std::thread::spawn(move || {
        let mut reader = BufReader::new(pipe);
        let mut bytes = Vec::new();
        while reader.read_until(b'\n', &mut bytes).is_ok_and(|count| count > 0) {
            let line = String::from_utf8_lossy(&bytes).trim_end_matches(['\n', '\r']).to_owned();
            bytes.clear();
            if lines.send(line).is_err() {
                return;
            }
        }
    });
}

/// Returns the process and all processes that it started.
fn tree_of(process: u32) -> Vec<u32> {
    let mut tree = vec![process];
    let mut next = 0;
    while next < tree.len() {
        tree.extend(children_of(tree[next]));
        next += 1;
    }
    tree
}

/// Returns one line for each thread of a process: the thread's name, and where in the kernel it waits. A test's thread
/// has the test's name.
fn threads_of(process: u32) -> String {
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let one = |thread: fs::DirEntry| {
        let read = |name: &str| fs::read_to_string(thread.path().join(name)).unwrap_or_default().trim().to_owned();
        format!("{HUNG}process {process}, thread {}, {}, {}\n", read("comm"), read("wchan"), read("syscall"))
    };
    threads.map(one).collect()
}

/// Kills the command and every process that it started. If only cargo were killed, a hung test would continue to run.
fn end(tree: &[u32], child: &mut Child) {
    for process in tree.iter().skip(1) {
        // The process may have ended already.
        let _ = Command::new("kill").args(["-9", &process.to_string()]).stderr(Stdio::null()).status();
    }
    let _ = child.kill();
}

fn children_of(parent: u32) -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let processes = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    processes.filter(|process| parent_of(*process) == Some(parent)).collect()
}

fn parent_of(process: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // "pid (name) state ppid ..."; the name may have any characters, so the fields are counted from its last
    // parenthesis.
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

fn keep(name: &str, output: &str, logs: &Path) -> io::Result<()> {
    fs::create_dir_all(logs)?;
    let mut file = fs::OpenOptions::new().create(true).append(true).open(log_path(name, logs))?;
    file.write_all(output.as_bytes())
}

/// Returns the path of a suite's output.
pub fn log_path(name: &str, logs: &Path) -> std::path::PathBuf {
    logs.join(format!("{}.log", name.replace(' ', "-")))
}

/// Returns whether the line is a JSON message that cargo writes for other programs.
fn is_for_programs(line: &str) -> bool {
    line.starts_with("{\"reason\":")
}

fn show(name: &str, output: &str, logs: &Path) {
    let mut text = format!("  {name} failed:\n");
    let lines: Vec<&str> = output.lines().filter(|line| !is_for_programs(line)).collect();
    let count = lines.len();
    if count > SHOWN_LINES {
        let path = log_path(name, logs);
        text += &format!("  ... the last {SHOWN_LINES} of {count} lines; all are in {}\n", path.display());
    }
    for line in &lines[count.saturating_sub(SHOWN_LINES)..] {
        text += &format!("  {line}\n");
    }
    // All lines are printed in one call, because other commands print at the same time.
    print!("{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    fn logs(name: &str) -> std::path::PathBuf {
        std::env::temp_dir().join(format!("xtask-child-{name}-{}", std::process::id()))
    }

    #[test]
    fn both_outputs_are_kept_and_a_failure_is_seen() {
        let logs = logs("both");
        let ended = run("both", &mut shell("echo out; echo err >&2; exit 3"), &logs).expect("sh runs");
        assert!(!ended.success);
        assert!(ended.output.contains("out\n") && ended.output.contains("err\n"));
        let kept = fs::read_to_string(log_path("both", &logs)).expect("the log was written");
        assert_eq!(kept, ended.output);
        let _ = fs::remove_dir_all(logs);
    }

    #[test]
    fn a_hung_command_and_its_child_processes_are_killed() {
        let logs = logs("hung");
        let start = Instant::now();
        let mut command = shell("sh -c 'sleep 61 & sleep 62'; echo after");
        let ended = run_within("hung", &mut command, &logs, Duration::from_millis(300)).expect("sh runs");
        assert!(!ended.success && ended.output.contains("hung: sh still runs"), "{}", ended.output);
        assert!(ended.output.contains("thread sleep"), "{}", ended.output);
        assert!(start.elapsed() < Duration::from_secs(20), "the sleeping grandchildren held the pipe");
        let _ = fs::remove_dir_all(logs);
    }
}
