//! One frame of `tp top`: sections of lines, drawn on a terminal or printed as text.

use std::collections::VecDeque;
use std::path::Path;

use libtp::ProcessState;
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Block, Paragraph, Sparkline, Widget};

use crate::command_sessions::Session;
use crate::command_snapshots::Snapshot;
use crate::spelling::grouped;
use crate::top_sample::{Activity, Sample};

/// Height of the curve of commits, with its border.
const CURVE_LINES: u16 = 6;

/// Height of a terminal that has room for the curve.
const LINES_WITH_CURVE: u16 = 30;

/// Lines of a section's border.
const BORDER_LINES: u16 = 2;

/// A frame.
pub struct Frame {
    summary: Section,
    sessions: Section,
    waits: Section,
    snapshots: Section,
    /// Commits per second, the newest last.
    commits: Vec<u64>,
}

struct Section {
    title: String,
    lines: Vec<Line<'static>>,
}

impl Frame {
    /// Makes the frame from two samples. `commits` has the earlier rates of commits.
    pub fn of(directory: &Path, commits: &VecDeque<u64>, earlier: &Sample, later: &Sample) -> Frame {
        let activity = later.since(earlier);
        Frame {
            summary: summary(directory, &activity, later),
            sessions: sessions(&later.sessions),
            waits: waits(later),
            snapshots: snapshots(&later.snapshots),
            commits: commits.iter().copied().collect(),
        }
    }

    fn sections(&self) -> [&Section; 4] {
        [&self.summary, &self.sessions, &self.waits, &self.snapshots]
    }

    /// Returns the frame as text, with all lines.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for section in self.sections() {
            text.push_str(&format!("{}\n", section.title));
            section.lines.iter().for_each(|line| text.push_str(&format!("  {line}\n")));
        }
        text
    }
}

impl Widget for &Frame {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let curve_lines = if area.height >= LINES_WITH_CURVE { CURVE_LINES } else { 0 };
        let [summary, curve, sessions, waits, snapshots, foot] = Layout::vertical([
            Constraint::Length(self.summary.height()),
            Constraint::Length(curve_lines),
            Constraint::Fill(1),
            Constraint::Length(self.waits.height().min(area.height / 3)),
            Constraint::Length(self.snapshots.height().min(area.height / 4)),
            Constraint::Length(1),
        ])
        .areas(area);
        self.summary.draw(summary, buffer);
        if curve_lines > 0 {
            let block = Block::bordered().title("Commits per second");
            let shown = self.commits.len().saturating_sub(usize::from(curve.width.saturating_sub(BORDER_LINES)));
            Sparkline::default().block(block).data(&self.commits[shown..]).render(curve, buffer);
        }
        self.sessions.draw(sessions, buffer);
        self.waits.draw(waits, buffer);
        self.snapshots.draw(snapshots, buffer);
        Line::from("q: end").dim().render(foot, buffer);
    }
}

impl Section {
    fn height(&self) -> u16 {
        u16::try_from(self.lines.len()).unwrap_or(u16::MAX).saturating_add(BORDER_LINES)
    }

    /// Draws the section with a border. If lines have no room, the last line shows their number.
    fn draw(&self, area: Rect, buffer: &mut Buffer) {
        let room = usize::from(area.height.saturating_sub(BORDER_LINES));
        let mut lines = self.lines.clone();
        if lines.len() > room && room > 0 {
            lines.truncate(room - 1);
            lines.push(Line::from(format!("and {} more", self.lines.len() - lines.len())).dim());
        }
        let block = Block::bordered().title(self.title.clone().bold());
        Paragraph::new(lines).block(block).render(area, buffer);
    }
}

fn summary(directory: &Path, activity: &Activity<'_>, sample: &Sample) -> Section {
    let title = format!("Environment {}", directory.display());
    let Some(stats) = &sample.stats else {
        return Section { title, lines: vec!["no process has the environment open".into()] };
    };
    let (alive, stopped, dead) = (ProcessState::Alive, ProcessState::Stopped, ProcessState::Dead);
    let mut lines = vec![
        Line::from(format!(
            "per second {} commits, {} aborts, {} bytes of log, {} syncs of the log",
            grouped(activity.commits_per_second),
            grouped(activity.aborts_per_second),
            grouped(activity.log_bytes_per_second),
            grouped(activity.log_syncs_per_second)
        ))
        .bold(),
        Line::from(format!(
            "cache      {} pages missed, {} read, {} written, {} evicted per second; {} dirty",
            grouped(activity.pages_missed_per_second),
            grouped(activity.pages_read_per_second),
            grouped(activity.pages_written_per_second),
            grouped(activity.pages_evicted_per_second),
            grouped(activity.pages_dirty as u64)
        )),
        Line::from(format!(
            "at work    {} sessions ({} alive, {} stopped, {} dead), {} transactions, {} snapshots",
            sample.sessions.len(),
            sample.count(alive),
            sample.count(stopped),
            sample.count(dead),
            stats.transactions,
            sample.snapshots.len()
        )),
        Line::from(format!(
            "log        end {}, on disk up to {}, kept from {}; {} checkpoints",
            stats.log_tail, stats.log_durable, stats.log_oldest, stats.checkpoints
        )),
    ];
    if stats.failed {
        lines.push(Line::from("the log has failed: the environment takes no more changes").red());
    }
    if !sample.stopped_at_work.is_empty() {
        let pids: Vec<String> = sample.stopped_at_work.iter().map(u32::to_string).collect();
        lines.push(
            Line::from(format!(
                "stopped in the middle of a change (others may wait for it): process {}",
                pids.join(", ")
            ))
            .yellow(),
        );
    }
    Section { title, lines }
}

fn sessions(sessions: &[Session]) -> Section {
    let head = ["SESSION", "PROCESS", "STATE", "TRANSACTION", "WAITS FOR"].map(str::to_owned);
    let row = |session: &Session| {
        let txn = match (session.txn, &session.txn_state) {
            (Some(txn), Some(state)) => format!("{txn} {state}"),
            _ => "-".into(),
        };
        let waited = session.waits_ms.map_or(String::new(), |millis| format!(", {millis} ms"));
        let wait = session.wait().map_or_else(|| "-".into(), |what| what + &waited);
        [session.session.to_string(), session.pid.to_string(), session.state().into(), txn, wait]
    };
    let style = |session: &Session| match session.process_state {
        ProcessState::Dead => Style::new().red(),
        ProcessState::Stopped => Style::new().yellow(),
        ProcessState::Alive if session.waits_for.is_some() => Style::new().cyan(),
        ProcessState::Alive => Style::new(),
    };
    let rows: Vec<_> = sessions.iter().map(|session| (row(session), style(session))).collect();
    let lines = if rows.is_empty() { vec!["no session is at work".into()] } else { table(head, rows) };
    Section { title: "Sessions".into(), lines }
}

fn waits(sample: &Sample) -> Section {
    let title = "Transactions that wait for others".into();
    let lines = match &sample.waits {
        None => {
            vec![Line::from("the lock table cannot be read at this moment: another process is changing it").yellow()]
        }
        Some(waits) if waits.is_empty() => vec!["no transaction waits for another".into()],
        Some(waits) => waits.iter().map(|wait| Line::from(wait.to_string())).collect(),
    };
    Section { title, lines }
}

fn snapshots(snapshots: &[Snapshot]) -> Section {
    let head = ["SESSION", "PROCESS", "AGE", "LOG BYTES", "LOG IS KEPT"].map(str::to_owned);
    let row = |snapshot: &Snapshot| {
        let kept = if snapshot.kept { "yes" } else { "no" };
        let age = format!("{} s", snapshot.held_ms / 1000);
        [snapshot.session.to_string(), snapshot.pid.to_string(), age, grouped(snapshot.log_bytes), kept.into()]
    };
    let style = |snapshot: &Snapshot| if snapshot.kept { Style::new() } else { Style::new().yellow() };
    let rows: Vec<_> = snapshots.iter().map(|snapshot| (row(snapshot), style(snapshot))).collect();
    let lines = if rows.is_empty() { vec!["no snapshot is held".into()] } else { table(head, rows) };
    Section { title: "Snapshots".into(), lines }
}

/// Returns the lines of a table whose columns are as wide as their widest cell.
fn table<const COLUMNS: usize>(head: [String; COLUMNS], rows: Vec<([String; COLUMNS], Style)>) -> Vec<Line<'static>> {
    let mut all = vec![(head, Style::new().bold())];
    all.extend(rows);
    let widths: [usize; COLUMNS] =
        std::array::from_fn(|column| all.iter().map(|(row, _)| row[column].chars().count()).max().unwrap_or(0));
    let line = |row: &[String; COLUMNS]| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    all.iter().map(|(row, style)| Line::styled(line(row), *style)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top_sample::Watcher;
    use libtp::Env;
    use ratatui::backend::TestBackend;
    use ratatui::Terminal;

    /// Draws a frame on a terminal of this size, and returns the terminal's lines.
    fn drawn(frame: &Frame, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|screen| screen.render_widget(frame, screen.area())).unwrap();
        let buffer = terminal.backend().buffer();
        let cells: Vec<&str> = buffer.content().iter().map(|cell| cell.symbol()).collect();
        cells.chunks(usize::from(width)).map(|line| line.concat()).collect()
    }

    /// Returns two samples of an environment in which a transaction waits for another transaction.
    fn look_at_a_wait(directory: &Path) -> (Sample, [u64; 2]) {
        let env = Env::open_or_create(directory).unwrap();
        let stock = env.btree("stock").unwrap();
        let holder = env.begin().unwrap();
        stock.put(&holder, b"item", b"1").unwrap();
        let _snapshot = env.snapshot().unwrap();
        let mut watcher = Watcher::new(directory.to_path_buf());
        std::thread::scope(|scope| {
            let (tell, told) = std::sync::mpsc::channel();
            let (env, stock) = (&env, &stock);
            scope.spawn(move || {
                let waiter = env.begin().unwrap();
                tell.send(waiter.id()).unwrap();
                stock.put(&waiter, b"item", b"2").unwrap();
                waiter.abort().unwrap();
            });
            let ids = [told.recv().unwrap(), holder.id()];
            let is_seen = |sample: &Sample| {
                let waits = sample.waits.as_ref().is_some_and(|waits| !waits.is_empty());
                waits && sample.sessions.iter().any(|session| session.waits_ms.is_some())
            };
            let sample = std::iter::repeat_with(|| watcher.look().unwrap()).find(is_seen).unwrap();
            holder.abort().unwrap();
            (sample, ids)
        })
    }

    #[test]
    fn a_frame_shows_the_wait_the_sessions_and_the_snapshot() {
        let directory = tempfile::tempdir().unwrap();
        let (sample, [waiter, holder]) = look_at_a_wait(directory.path());
        let frame = Frame::of(Path::new("bank"), &VecDeque::from([1, 5, 3]), &sample, &sample);
        let pid = std::process::id();
        let wait = format!("txn {waiter} (process {pid}) waits for txn {holder} (process {pid}): X on record ");
        let screen = drawn(&frame, 120, 40);
        let is_on_screen = |text: &str| screen.iter().any(|line| line.contains(text));
        let texts =
            ["Environment bank", "Commits per second", "Sessions", "Snapshots", &wait, "q: end", "0 aborts", "yes"];
        for text in texts {
            assert!(is_on_screen(text), "{text:?} in {screen:#?}");
        }
        let row = |id: u64| format!("{id} running");
        assert!(is_on_screen(&row(waiter)) && is_on_screen(&row(holder)), "{screen:#?}");
        let sessions = screen.iter().position(|line| line.contains("SESSION")).unwrap();
        assert!(screen[sessions + 1].contains("X on record "), "the session that waits comes first: {screen:#?}");
        assert!(frame.text().contains(&wait) && frame.text().contains("\nSnapshots\n"), "{}", frame.text());
    }

    #[test]
    fn a_section_without_room_tells_how_many_lines_are_missing() {
        let lines = |count: usize| (0..count).map(|line| Line::from(format!("line {line}"))).collect();
        let section = |count| Section { title: "title".into(), lines: lines(count) };
        let frame = Frame {
            summary: section(1),
            sessions: section(90),
            waits: section(1),
            snapshots: section(1),
            commits: Vec::new(),
        };
        let screen = drawn(&frame, 40, 24).join("\n");
        assert!(screen.contains("line 0") && screen.contains(" more"), "{screen}");
        assert!(!screen.contains("Commits per second"), "{screen}");
        for (width, height) in [(1, 1), (3, 4), (40, 2), (200, 80)] {
            drawn(&frame, width, height);
        }
    }
}
