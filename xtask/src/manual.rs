//! The manual pages in section 3: a page for each section of `libtp.h` and `vista.h`, made from the header's comments.
//!
//! A header is the only source of its pages ([`header`] has its form). The pages of `db.h` are written by hand, in
//! `crates/capi/man`: their text about files, modes and methods belongs to no declaration.

mod header;
mod roff;

use header::{Block, Declaration, Header, Item, Section};
use roff::{block, code, Words};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;

/// The headers whose sections become pages. The page with the overview is made from the first header.
const HEADERS: [&str; 2] = ["libtp.h", "vista.h"];
/// The page with the overview.
const OVERVIEW: &str = "libtp";
/// The paragraph of a header's first comment that each page of the header repeats.
const RETURN_VALUES: &str = "Return values";

/// A manual page.
pub struct Page {
    /// The names that the page documents. The first is the name of the page itself.
    pub names: Vec<String>,
    title: String,
    /// The page's source, for `man`.
    pub text: String,
}

/// Returns all pages in section 3, with the version and the date in their footers. `home` is the directory of the crate
/// `libtp-capi`.
///
/// # Errors
/// When a header or a page cannot be read.
pub fn pages(home: &Path, version: &str, date: &str) -> io::Result<Vec<Page>> {
    let read = |name: &str| fs::read_to_string(home.join("include").join(name));
    let headers =
        HEADERS.into_iter().map(|name| Ok(Header::read(name, &read(name)?))).collect::<io::Result<Vec<_>>>()?;
    let mut by_hand: Vec<Page> = fs::read_dir(home.join("man"))?
        .map(|entry| Ok(by_hand(fs::read_to_string(entry?.path())?)))
        .collect::<io::Result<_>>()?;
    by_hand.sort_by(|one, other| one.names.cmp(&other.names));
    let foot = format!("{date} \"libtp {version}\"");
    let homes = Homes::of(&headers);
    let sections = headers.iter().flat_map(|header| header.sections.iter().map(move |section| (header, section)));
    let mut pages: Vec<Page> = sections.map(|(header, section)| made(header, section, &homes, &foot)).collect();
    pages.extend(by_hand);
    let overview = overview(&headers[0], &pages, &homes, &foot);
    pages.insert(0, overview);
    Ok(pages)
}

/// Returns a page that was written by hand.
fn by_hand(text: String) -> Page {
    let head = text.split(".Sh NAME\n").nth(1).unwrap_or("").split(".Sh").next().unwrap_or("");
    let names = head.lines().filter_map(|line| line.strip_prefix(".Nm "));
    let names = names.map(|name| name.trim_end_matches(" ,").to_owned()).collect();
    let title = head.lines().find_map(|line| line.strip_prefix(".Nd ")).unwrap_or("").to_owned();
    Page { names, title, text }
}

/// The page of each name that the headers declare, and of each function that makes a handle.
struct Homes {
    functions: BTreeMap<String, String>,
    types: BTreeMap<String, String>,
    constants: BTreeSet<String>,
    /// For each type of handle, the pages with functions that make such a handle.
    makers: BTreeMap<String, BTreeSet<String>>,
}

impl Homes {
    fn of(headers: &[Header]) -> Self {
        let (mut functions, mut types, mut constants) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        let mut makers: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let handles: BTreeSet<&str> = headers.iter().flat_map(Header::handle_names).collect();
        for section in headers.iter().flat_map(|header| &header.sections) {
            let page = section.name();
            for declaration in section.items.iter().flat_map(|item| &item.declarations) {
                match declaration {
                    Declaration::Function { name, text } => {
                        functions.insert(name.clone(), page.to_owned());
                        let made = text.split(['(', ',']).filter_map(|part| part.trim().split_once(" **"));
                        for (kind, _) in made.filter(|(kind, _)| handles.contains(kind)) {
                            makers.entry((*kind).to_owned()).or_default().insert(page.to_owned());
                        }
                    }
                    Declaration::Type { name, .. } => drop(types.insert(name.clone(), page.to_owned())),
                    Declaration::Constants(all) => constants.extend(all.iter().map(|(name, _)| name.clone())),
                    Declaration::Macro { name, .. } => drop(constants.insert(name.clone())),
                }
            }
        }
        Self { functions, types, constants, makers }
    }

    /// Returns the pages of the functions and types that a text names, and the pages of the functions that make the
    /// handles that it names.
    fn mentioned_in(&self, text: &str) -> BTreeSet<String> {
        let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
        let words = text.split(|letter| !is_word(letter)).filter(|word| !word.is_empty());
        words
            .flat_map(|word| {
                let one = self.functions.get(word).or_else(|| self.types.get(word));
                one.into_iter().chain(self.makers.get(word).into_iter().flatten())
            })
            .cloned()
            .collect()
    }
}

/// Makes the page of a section.
fn made(header: &Header, section: &Section, homes: &Homes, foot: &str) -> Page {
    let names: Vec<String> = section.functions().map(str::to_owned).collect();
    let words = Words { here: &names, functions: &homes.functions, types: &homes.types, constants: &homes.constants };
    let is_alone = header.sections.len() == 1;
    let synopsis = section.items.iter().flat_map(|item| &item.declarations);
    let synopsis = is_alone.then_some(&header.handles).into_iter().flatten().chain(synopsis);
    let mut text = head(&names, &section.title, &header.name, synopsis, foot);
    text += ".SH DESCRIPTION\n";
    let above = if is_alone { header.comment.as_slice() } else { &[] };
    for one in above.iter().filter(|block| block.title() != Some(RETURN_VALUES)) {
        text += &titled(one, &words);
    }
    let of_example = section.comment.iter().position(|block| matches!(block, Block::Code(_)));
    let (before, examples) = section.comment.split_at(of_example.unwrap_or(section.comment.len()));
    text.extend(before.iter().map(|one| block(one, &words, ".PP")));
    text.extend(section.items.iter().map(|item| described(item, &words)));
    if let Some(codes) = header.comment.iter().find(|block| block.title() == Some(RETURN_VALUES)) {
        text += ".SH RETURN VALUES\n";
        text += &block(&codes.without_title(), &words, ".PP");
    }
    if !examples.is_empty() {
        text += ".SH EXAMPLES\n";
        text.extend(examples.iter().map(|one| block(one, &words, ".PP")));
    }
    let mut others = homes.mentioned_in(&section.source);
    others.remove(&names[0]);
    others.insert(OVERVIEW.into());
    text += &see_also(&others);
    Page { names, title: section.title.clone(), text: without_idle_requests(&text) }
}

/// Makes the page that lists all other pages.
fn overview(header: &Header, pages: &[Page], homes: &Homes, foot: &str) -> Page {
    let names = vec![OVERVIEW.to_owned()];
    let words = Words { here: &names, functions: &homes.functions, types: &homes.types, constants: &homes.constants };
    let title = header.title.clone();
    let mut text = head(&names, &title, &header.name, header.handles.iter(), foot);
    text += ".SH DESCRIPTION\n";
    text.extend(header.comment.iter().map(|one| titled(one, &words)));
    text += ".SS Manual pages\n";
    for page in pages {
        text += &format!(".TP\n\\fB{}\\fP(3)\n{}\n", page.names[0], page.title);
    }
    text += &see_also(&pages.iter().take(2).map(|page| page.names[0].clone()).collect());
    Page { names, title, text: without_idle_requests(&text) }
}

/// Returns a page's beginning, with the declarations.
fn head<'d>(
    names: &[String],
    title: &str,
    header: &str,
    declarations: impl Iterator<Item = &'d Declaration>,
    foot: &str,
) -> String {
    let mut text = format!(".TH {} 3 {foot}\n.SH NAME\n", names[0].to_uppercase());
    text += &format!("{} \\- {title}\n", names.join(", "));
    text += ".SH LIBRARY\nlibtp (\\-ltp)\n.SH SYNOPSIS\n.nf\n";
    text += &format!("#include <{header}>\n.PP\n");
    let shown = declarations.filter_map(Declaration::text).map(code);
    text += &shown.collect::<String>();
    text + ".fi\n"
}

/// Returns a block with its title as a heading.
fn titled(one: &Block, words: &Words) -> String {
    match one.title() {
        Some(title) => format!(".SS {title}\n{}", block(&one.without_title(), words, ".PP")),
        None => block(one, words, ".PP"),
    }
}

/// Returns the description of an item: below the names of its functions and types, or with a list of its constants.
fn described(item: &Item, words: &Words) -> String {
    let mut text = String::new();
    if item.comment.is_empty() {
        return text;
    }
    let names: Vec<String> = item.declarations.iter().filter_map(|one| one.heading()).collect();
    let mut rest = item.comment.iter();
    if !names.is_empty() {
        text += &format!(".TP\n{}\n", names.join(", "));
        text.extend(rest.next().map(|first| block(first, words, "")));
        text.extend(rest.map(|one| block(one, words, ".IP")));
        return text;
    }
    text.extend(rest.map(|one| block(one, words, ".PP")));
    for declaration in &item.declarations {
        let Declaration::Constants(all) = declaration else { continue };
        for (name, meaning) in all {
            text += &format!(".TP\n\\fB{name}\\fP\n{}", block(&Block::Text(meaning.clone()), words, ""));
        }
    }
    text
}

/// Returns the source without `.PP` right after a heading: a section begins a paragraph anyway.
fn without_idle_requests(text: &str) -> String {
    let mut kept = String::new();
    let mut begins = false;
    for line in text.lines() {
        if !(begins && line == ".PP") {
            kept += line;
            kept.push('\n');
        }
        begins = line.starts_with(".SH ") || line.starts_with(".SS ");
    }
    kept
}

fn see_also(pages: &BTreeSet<String>) -> String {
    let pages: Vec<String> = pages.iter().map(|page| format!("\\fB{page}\\fP(3)")).collect();
    format!(".SH SEE ALSO\n{}\n", pages.join(",\n"))
}

#[cfg(test)]
mod tests;
