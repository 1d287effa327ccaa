//! The role of a child process.

/// The role of a child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// Works without hurry. It repairs dead sessions at once.
    Survivor,
    /// Works without hurry and without background threads. It repairs only dead sessions for which it waits.
    Idler,
    /// Does work that reaches a failpoint.
    Victim(String),
}

impl Role {
    /// Returns the role as text, for the environment variable.
    pub fn text(&self) -> String {
        match self {
            Role::Survivor => "survivor".into(),
            Role::Idler => "idler".into(),
            Role::Victim(point) => format!("victim {point}"),
        }
    }

    /// Reads a role from the environment variable.
    pub fn of(text: &str) -> Role {
        match text.split_once(' ') {
            Some((_, point)) => Role::Victim(point.into()),
            None if text == "idler" => Role::Idler,
            None => Role::Survivor,
        }
    }
}
