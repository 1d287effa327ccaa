//! A header for C as a manual: its comments and declarations.
//!
//! The first comment describes the library: `name: title`, then paragraphs. A paragraph may begin with a title of a few
//! words and a full stop. A comment that begins with `--` and a title begins a section. The text under the title
//! describes the whole section; from its first indented line on, this text has examples. A comment directly above
//! declarations describes these declarations, and a comment after a constant describes the constant. Indented lines are
//! code.

/// A header.
pub struct Header {
    /// The header's file name.
    pub name: String,
    /// The text after the name in the header's first comment.
    pub title: String,
    /// The other paragraphs of the first comment.
    pub comment: Vec<Block>,
    /// The declarations before the first section: types of handles.
    pub handles: Vec<Declaration>,
    /// The header's sections.
    pub sections: Vec<Section>,
}

/// A section of a header.
pub struct Section {
    /// The section's title.
    pub title: String,
    /// The text under the title.
    pub comment: Vec<Block>,
    /// The section's declarations.
    pub items: Vec<Item>,
    /// The section's lines in the header.
    pub source: String,
}

/// Declarations without an empty line between them, and the comment above.
#[derive(Default)]
pub struct Item {
    /// The comment.
    pub comment: Vec<Block>,
    /// The declarations.
    pub declarations: Vec<Declaration>,
}

/// A declaration.
#[derive(Debug)]
pub enum Declaration {
    /// A function.
    Function { name: String, text: String },
    /// A struct or a type of function.
    Type { name: String, text: String },
    /// The constants of an `enum`, with their meanings.
    Constants(Vec<(String, String)>),
    /// A macro with a value.
    Macro { name: String, text: String },
}

/// A part of a comment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Block {
    /// A paragraph, on one line.
    Text(String),
    /// Indented lines, without the indentation.
    Code(Vec<String>),
}

impl Header {
    /// Reads the text of a header.
    pub fn read(name: &str, text: &str) -> Self {
        let mut header =
            Self { name: name.into(), title: String::new(), comment: vec![], handles: vec![], sections: vec![] };
        let (mut item, mut declared) = (Item::default(), String::new());
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            if let Some(section) = header.sections.last_mut() {
                section.source += line;
                section.source.push('\n');
            }
            if declared.is_empty() && line.starts_with("/*") {
                let (comment, source) = comment(line, &mut lines);
                header.put(std::mem::take(&mut item));
                item.comment = header.placed(comment, &source);
            } else if declared.is_empty() && line.is_empty() {
                header.put(std::mem::take(&mut item));
            } else if let Some(defined) = line.strip_prefix("#define ") {
                if let Some((name, _)) = defined.split_once(' ') {
                    item.declarations.push(Declaration::Macro { name: name.into(), text: line.into() });
                }
            } else if !line.starts_with('#') && !line.starts_with("extern \"C\"") && line != "}" {
                declared += line;
                declared.push('\n');
                let open = declared.matches('{').count() > declared.matches('}').count();
                if !open && without_comment(line).ends_with(';') {
                    item.declarations.push(Declaration::of(std::mem::take(&mut declared)));
                }
            }
        }
        header.put(item);
        header
    }

    /// Returns the names of the types of handles.
    pub fn handle_names(&self) -> impl Iterator<Item = &str> {
        self.handles.iter().filter_map(|declaration| match declaration {
            Declaration::Type { name, .. } => Some(name.as_str()),
            _ => None,
        })
    }

    /// Stores a comment of the header or of a section. Returns any other comment: it belongs to the next item.
    fn placed(&mut self, comment: Vec<Block>, source: &str) -> Vec<Block> {
        match comment.split_first() {
            Some((Block::Text(first), rest)) if first.starts_with("-- ") => {
                let title = first.trim_start_matches("-- ").to_owned();
                let section = Section { title, comment: rest.to_vec(), items: vec![], source: source.into() };
                self.sections.push(section);
                Vec::new()
            }
            Some((Block::Text(first), rest)) if self.title.is_empty() => {
                self.title = first.split_once(": ").map_or("", |(_, title)| title).trim_end_matches('.').to_owned();
                self.comment = rest.to_vec();
                Vec::new()
            }
            _ => {
                if let Some(section) = self.sections.last_mut() {
                    section.source += source;
                }
                comment
            }
        }
    }

    fn put(&mut self, item: Item) {
        match self.sections.last_mut() {
            _ if item.declarations.is_empty() => (),
            Some(section) => section.items.push(item),
            None => self.handles.extend(item.declarations),
        }
    }
}

impl Section {
    /// Returns the name of the section's first function.
    pub fn name(&self) -> &str {
        self.functions().next().unwrap_or("")
    }

    /// Returns the names of the section's functions.
    pub fn functions(&self) -> impl Iterator<Item = &str> {
        self.items.iter().flat_map(|item| &item.declarations).filter_map(|declaration| match declaration {
            Declaration::Function { name, .. } => Some(name.as_str()),
            _ => None,
        })
    }
}

impl Declaration {
    fn of(text: String) -> Self {
        if text.starts_with("enum") {
            return Self::Constants(text.lines().filter_map(constant).collect());
        }
        let is_type = text.starts_with("typedef");
        let bare = text.lines().map(without_comment).collect::<Vec<_>>().join(" ");
        let before = bare.split_once('(').map_or(bare.as_str(), |(before, _)| before).trim_end_matches(';');
        let name = before.rsplit(|letter: char| !letter.is_alphanumeric() && letter != '_').next().unwrap_or("").into();
        if is_type {
            Self::Type { name, text }
        } else {
            Self::Function { name, text }
        }
    }

    /// Returns the text that a synopsis shows.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Function { text, .. } | Self::Type { text, .. } | Self::Macro { text, .. } => Some(text),
            Self::Constants(_) => None,
        }
    }

    /// Returns the heading of a description, for `man`.
    pub fn heading(&self) -> Option<String> {
        match self {
            Self::Function { name, .. } => Some(format!("\\fB{name}\\fP()")),
            Self::Type { name, .. } => Some(format!("\\fI{name}\\fP")),
            Self::Macro { name, .. } => Some(format!("\\fB{name}\\fP")),
            Self::Constants(_) => None,
        }
    }
}

impl Block {
    /// Returns the title with which a paragraph begins: up to three words.
    pub fn title(&self) -> Option<&str> {
        let Self::Text(text) = self else { return None };
        let (title, _) = text.split_once(". ")?;
        (title.split(' ').count() <= 4 && !title.contains([',', '(', '_'])).then_some(title)
    }

    /// Returns the block without its title.
    pub fn without_title(&self) -> Self {
        match (self, self.title()) {
            (Self::Text(text), Some(title)) => Self::Text(text[title.len() + 2..].into()),
            _ => self.clone(),
        }
    }
}

/// Returns a constant with its meaning, from its line in an `enum`.
fn constant(line: &str) -> Option<(String, String)> {
    let (name, rest) = line.trim().split_once(" = ")?;
    let meaning = rest.split_once("/* ").and_then(|(_, meaning)| meaning.strip_suffix(" */"));
    Some((name.into(), meaning.unwrap_or("").into()))
}

fn without_comment(line: &str) -> &str {
    line.split_once("/*").map_or(line, |(before, _)| before).trim_end()
}

/// Reads a comment that begins on `first`, and returns its blocks and its lines.
fn comment<'t>(first: &'t str, lines: &mut impl Iterator<Item = &'t str>) -> (Vec<Block>, String) {
    let mut source = vec![first];
    while !source[source.len() - 1].ends_with("*/") {
        let Some(line) = lines.next() else { break };
        source.push(line);
    }
    let mut blocks = vec![Block::Text(String::new())];
    for line in &source {
        let line = line.strip_prefix("/*").or_else(|| line.strip_prefix(" *")).unwrap_or(line);
        let line = if line == "/" { "" } else { line.strip_suffix("*/").unwrap_or(line) };
        let line = line.strip_prefix(' ').unwrap_or(line).trim_end();
        match (line.strip_prefix("    "), blocks.last_mut()) {
            (Some(code), Some(Block::Code(lines))) => lines.push(code.into()),
            (Some(code), _) => blocks.push(Block::Code(vec![code.into()])),
            (None, _) if line.is_empty() => blocks.push(Block::Text(String::new())),
            (None, Some(Block::Text(text))) => {
                text.push_str(if text.is_empty() { "" } else { " " });
                text.push_str(line);
            }
            (None, _) => blocks.push(Block::Text(line.into())),
        }
    }
    blocks.retain(|block| *block != Block::Text(String::new()));
    (blocks, source.join("\n") + "\n")
}
