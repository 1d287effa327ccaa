//! A terminal that shows frames until the user ends the command.
//!
//! At the end, after an error, and when the program panics, the terminal's usual state is restored.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use ratatui::backend::Backend;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::{DefaultTerminal, Terminal};

use crate::top_frame::Frame;

/// Whether a panic has restored the terminal's usual state since the last frame. The library catches panics that come
/// from damaged memory, and the command then continues.
static HAD_PANIC: AtomicBool = AtomicBool::new(false);

/// A terminal in the state for frames.
pub struct LiveTerminal {
    terminal: DefaultTerminal,
}

impl LiveTerminal {
    /// Puts the terminal into the state for frames.
    ///
    /// # Errors
    /// The terminal cannot be put into that state.
    pub fn open() -> io::Result<LiveTerminal> {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            HAD_PANIC.store(true, Ordering::Relaxed);
            usual(panic);
        }));
        // This call sets a panic hook, which restores the terminal's usual state before the panic's message is printed.
        match ratatui::try_init() {
            Ok(terminal) => Ok(LiveTerminal { terminal }),
            Err(error) => {
                ratatui::restore();
                Err(error)
            }
        }
    }

    /// Shows a frame until `end`. Returns whether the user ends the command.
    ///
    /// # Errors
    /// The terminal cannot be read or written.
    pub fn show(&mut self, frame: &Frame, end: Instant) -> io::Result<bool> {
        if HAD_PANIC.swap(false, Ordering::Relaxed) {
            self.terminal = ratatui::try_init()?;
            self.terminal.clear()?;
        }
        draw(&mut self.terminal, frame)?;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if !event::poll(left)? {
                return Ok(false);
            }
            match event::read()? {
                Event::Key(key) if ends(key) => return Ok(true),
                Event::Resize(..) => draw(&mut self.terminal, frame)?,
                _ => {}
            }
        }
    }
}

impl Drop for LiveTerminal {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// Draws a frame on the whole terminal.
fn draw<B: Backend>(terminal: &mut Terminal<B>, frame: &Frame) -> io::Result<()> {
    terminal.draw(|screen| screen.render_widget(frame, screen.area())).map(|_| ())
}

/// Returns whether a key ends the command: `q`, Escape or Ctrl-C.
fn ends(key: KeyEvent) -> bool {
    let is_control_c = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    key.kind == KeyEventKind::Press && (is_control_c || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc))
}
