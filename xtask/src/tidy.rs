//! Rules about the text of the tree that no compiler checks.
//!
//! Each rule is a function from the tree to complaints, so a test of a rule needs only a tree of three lines. A
//! complaint names the place, the fault and the remedy. A rule counts as one check.

pub mod failpoints;
pub mod formats;
pub mod source;

mod dependencies;
mod english;
mod imports;
mod names;
mod shared_types;
mod sizes;
mod unsafety;
mod words;

use crate::outcome::{Counts, Outcome};
use crate::workspace::{Package, Workspace};
use source::File;
use std::time::Instant;

/// The input of a rule.
pub struct Tree<'a> {
    /// Every text file of the tree.
    pub files: &'a [File],
    /// Every package.
    pub packages: &'a [Package],
}

type Rule = fn(&Tree) -> Vec<String>;

const RULES: &[(&str, Rule)] = &[
    ("every Rust file begins with a comment about itself", |tree| names::missing_module_docs(tree.files)),
    ("every file name has a meaning", |tree| names::empty_names(tree.files)),
    ("functions are short", |tree| sizes::long_functions(tree.files)),
    ("files are short", |tree| sizes::long_files(tree.files)),
    ("design pages are short", |tree| sizes::long_designs(tree.files)),
    ("unsafe stays in its files", |tree| unsafety::strayed(tree.files)),
    ("crates without unsafe forbid it", |tree| unsafety::not_forbidden(tree.files, tree.packages)),
    ("nothing is left for later", |tree| words::leftovers(tree.files)),
    ("libraries do not print", |tree| words::printing(tree.files)),
    ("no path of one machine", |tree| words::machine_paths(tree.files)),
    ("documents that are named exist", |tree| words::dead_references(tree.files)),
    ("paths that documents name exist", |tree| words::dead_paths(tree.files)),
    ("every dependency is explained", |tree| dependencies::unexplained(tree.files, tree.packages)),
    ("every dependency is used", |tree| dependencies::unused(tree.files, tree.packages)),
    ("crates depend only as ARCHITECTURE.md's figure allows", |tree| dependencies::wrong_arrows(tree.packages)),
    ("imports go downwards", |tree| imports::upwards(tree.files)),
    ("no modules import each other in a circle", |tree| imports::cycles(tree.files)),
    ("a process that changes shared memory can be killed", |tree| failpoints::missing(tree.files)),
    ("shared types are part of the layout's hash", |tree| shared_types::uncounted(tree.files)),
    ("sentences that are read twice only become fewer", |tree| english::riddles(tree.files)),
    ("formats match their tables", |tree| formats::check(tree.files)),
];

/// Applies every rule.
pub fn suite(workspace: &Workspace) -> Outcome {
    let start = Instant::now();
    let mut counts = Counts::default();
    match source::tree(&workspace.root) {
        Ok(files) => {
            let tree = Tree { files: &files, packages: &workspace.packages };
            RULES.iter().for_each(|(name, rule)| counts += apply(name, *rule, &tree));
        }
        Err(reason) => {
            println!("  {reason}");
            counts += Counts::ONE_FAILED;
        }
    }
    Outcome { name: "tidy".into(), elapsed: start.elapsed(), counts, figures: Vec::new() }
}

fn apply(name: &str, rule: Rule, tree: &Tree) -> Counts {
    let complaints = rule(tree);
    if complaints.is_empty() {
        return Counts::ONE_PASSED;
    }
    println!("  broken rule: {name}:");
    complaints.iter().for_each(|complaint| println!("    {complaint}"));
    Counts::ONE_FAILED
}
