//! Checks the imports between the modules of one crate. In `libtp` a module must not import from a higher floor. In any
//! crate, test or example no modules import each other in a circle.

use super::source::{code, is_word, line_of, word_places, File};
use std::collections::{BTreeMap, BTreeSet};

/// The crate with floors.
const CRATE: &str = "crates/libtp/src";
/// The floors of the crate, the lowest first. A module imports from its own floor and from lower floors.
const FLOORS: [&str; 10] =
    ["ground", "open", "region", "txn", "db", "typed", "files", "admin", "environment", "testing"];
/// The largest number of modules that export the same name, one from another.
const EXPORTS_MAX: usize = 4;

/// A module's path below the crate's root.
type Module<'f> = Vec<&'f str>;

/// A place in a file that names another module.
struct Import<'f> {
    file: &'f File,
    line: usize,
    from: Module<'f>,
    to: Module<'f>,
}

/// Returns imports from a higher floor, and modules without a floor.
pub fn upwards(files: &[File]) -> Vec<String> {
    let floor = |name: &str| FLOORS.iter().position(|one| *one == name);
    let mut complaints = Vec::new();
    for (file, module) in modules(files, CRATE) {
        if floor(module[0]).is_none() {
            complaints.push(format!("{}: put the module on a floor ({})", file.path, FLOORS.join(", ")));
        }
    }
    for Import { file, line, from, to } in imports(files, CRATE) {
        if floor(to[0]) > floor(from[0]) {
            complaints.push(format!(
                "{}:{line}: the floor `{}` imports from the floor `{}` above it; move plain data down, or let the upper \
                 floor pass a trait in",
                file.path,
                from[0],
                to[0]
            ));
        }
    }
    complaints
}

/// Returns the imports through which a module imports itself: directly or through modules of the same parent. A module
/// deeper than these modules counts as a part of the module that encloses it. Imports between a parent and its children
/// do not count.
pub fn cycles(files: &[File]) -> Vec<String> {
    let mut complaints = BTreeSet::new();
    for root in roots(files) {
        let mut found = imports(files, root);
        found.retain_mut(|Import { from, to, .. }| {
            let shared = from.iter().zip(to.iter()).take_while(|(one, other)| one == other).count();
            let are_siblings = shared < from.len().min(to.len());
            from.truncate(shared + 1);
            to.truncate(shared + 1);
            are_siblings
        });
        let mut next: BTreeMap<&Module, BTreeSet<&Module>> = BTreeMap::new();
        for Import { from, to, .. } in &found {
            next.entry(from).or_default().insert(to);
        }
        let leads_to = |start: &Module, end: &Module| {
            let (mut seen, mut left) = (BTreeSet::new(), vec![start]);
            while let Some(at) = left.pop() {
                left.extend(next.get(at).into_iter().flatten().filter(|to| seen.insert(**to)));
            }
            seen.contains(end)
        };
        complaints.extend(found.iter().filter(|import| leads_to(&import.to, &import.from)).map(|import| {
            let Import { file, line, from, to } = import;
            let (from, to) = (from.join("::"), to.join("::"));
            format!("{}:{line}: `{from}` imports `{to}`, which imports `{from}`, too: move the shared part", file.path)
        }));
    }
    complaints.into_iter().collect()
}

/// Returns the folder of each crate's root file: of libraries, programs, and tests and examples that are folders.
fn roots(files: &[File]) -> BTreeSet<&str> {
    files.iter().filter_map(|file| file.path.strip_suffix("/lib.rs").or(file.path.strip_suffix("/main.rs"))).collect()
}

/// Returns the modules below a crate's root, except tests of the crate.
fn modules<'f>(files: &'f [File], root: &str) -> Vec<(&'f File, Module<'f>)> {
    let nested: Vec<&str> = roots(files).into_iter().filter(|one| is_below(one, root)).collect();
    let mut found = Vec::new();
    for file in files.iter().filter(|file| is_below(&file.path, root)) {
        let Some(path) = file.path[root.len() + 1..].strip_suffix(".rs") else { continue };
        let mut module: Module = path.split('/').collect();
        if module.last() == Some(&"mod") {
            module.pop();
        }
        let is_root = module.is_empty() || ["lib", "main", "bin"].contains(&module[0]);
        let is_elsewhere = nested.iter().any(|one| is_below(&file.path, one));
        if !is_root && !is_elsewhere && !module.iter().any(|part| part.ends_with("tests")) {
            found.push((file, module));
        }
    }
    found
}

/// Returns whether the path is below the folder.
fn is_below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

/// Returns every use of another module of the crate, outside of tests.
fn imports<'f>(files: &'f [File], root: &str) -> Vec<Import<'f>> {
    let modules = modules(files, root);
    let known: BTreeMap<String, &Module> = modules.iter().map(|(_, module)| (module.join("::"), module)).collect();
    let exported = exported(files, root, &modules);
    let mut found = Vec::new();
    for (file, from) in &modules {
        let code = code(&file.text);
        let code = code.split("#[cfg(test)]\nmod ").next().unwrap_or(&code);
        for (place, mut to) in paths(code, from) {
            for _ in 0..EXPORTS_MAX {
                let named = |length: &usize| exported.get(&to[..*length]);
                let Some(length) = (1..=to.len()).find(|length| named(length).is_some()) else { break };
                to = [&exported[&to[..length]], &to[length..]].concat();
            }
            // The path ends with names inside a module. The imported module is the longest beginning of the path that
            // names a module.
            while !to.is_empty() && !known.contains_key(&to.join("::")) {
                to.pop();
            }
            if let Some(&to) = known.get(&to.join("::")).filter(|to| **to != from) {
                found.push(Import { file, line: line_of(code, place), from: from.clone(), to: to.clone() });
            }
        }
    }
    found
}

/// Returns the full path of each name that the crate's root, or a module with children, imports. Other modules can import
/// the name from there.
fn exported(files: &[File], root: &str, modules: &[(&File, Module)]) -> BTreeMap<Vec<String>, Vec<String>> {
    let has_children =
        |parent: &Module| modules.iter().any(|(_, one)| one.len() > parent.len() && one.starts_with(parent));
    let parents = modules.iter().filter(|(_, module)| has_children(module)).cloned();
    let root = files.iter().find(|file| file.path == format!("{root}/lib.rs")).map(|file| (file, Module::new()));
    let mut found = BTreeMap::new();
    for (file, module) in parents.chain(root) {
        let module: Vec<String> = module.into_iter().map(str::to_owned).collect();
        let code = code(&file.text);
        for place in word_places(&code, "use") {
            let mut paths = Vec::new();
            tree(&code[place + "use".len()..], module.clone(), &mut paths);
            for mut path in paths {
                if path.get(module.len()).is_some_and(|first| first == "crate") {
                    path.drain(..=module.len());
                }
                let name = [&module[..], &path[path.len().saturating_sub(1)..]].concat();
                if name != path {
                    found.insert(name, path);
                }
            }
        }
    }
    found
}

/// Returns the paths that begin with `crate::` or `super::`, with their places. Each path is converted to a path from
/// the crate's root.
fn paths(code: &str, from: &[&str]) -> Vec<(usize, Vec<String>)> {
    let mut found = Vec::new();
    for (word, is_root) in [("crate", true), ("super", false)] {
        for place in word_places(code, word) {
            let before = code[..place].trim_end();
            // This is the second word of `super::super::`. The first word has the whole path.
            let Some(rest) = code[place + word.len()..].strip_prefix("::").filter(|_| !before.ends_with("::")) else {
                continue;
            };
            let above =
                if is_root { Vec::new() } else { from[..from.len() - 1].iter().map(|&one| one.to_owned()).collect() };
            let mut paths = Vec::new();
            tree(rest, above, &mut paths);
            found.extend(paths.into_iter().filter(|path| !path.is_empty()).map(|path| (place, path)));
        }
    }
    found
}

/// Adds the paths of a tree such as `a::{b, c::d as e}`, each appended to `above`; returns the text that follows the
/// tree.
fn tree<'c>(code: &'c str, mut above: Vec<String>, found: &mut Vec<Vec<String>>) -> &'c str {
    let mut rest = code.trim_start();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside.trim_start();
        while !rest.starts_with('}') && !rest.is_empty() {
            rest = tree(rest, above.clone(), found);
            // Skips `as name` and the comma.
            rest = rest.trim_start_matches(|one| one != ',' && one != '}').trim_start_matches(',').trim_start();
        }
        return rest.strip_prefix('}').unwrap_or(rest);
    }
    let length = rest.find(|one| !is_word(one)).unwrap_or(rest.len());
    match &rest[..length] {
        "super" => drop(above.pop()),
        "self" | "" => {}
        name => above.push(name.to_owned()),
    }
    rest = &rest[length..];
    match rest.strip_prefix("::").filter(|more| more.starts_with(|one| is_word(one) || one == '{')) {
        Some(more) => tree(more, above, found),
        None => {
            found.push(above);
            rest
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{cycles, paths, upwards, File, CRATE};

    fn file(path: &str, text: &str) -> File {
        File { path: path.into(), text: text.into() }
    }

    #[test]
    fn a_tree_of_names_gives_all_its_paths() {
        let code = "use crate::a::{self, b as c, d::{E, F}}; fn g() { super::super::h::i::<u8>() }";
        let found: Vec<String> = paths(code, &["x", "y", "z"]).into_iter().map(|(_, path)| path.join("::")).collect();
        assert_eq!(found, ["a", "a::b", "a::d::E", "a::d::F", "x::h::i"]);
    }

    #[test]
    fn imports_go_downwards_also_by_the_names_that_the_root_exports() {
        let in_src = |path: &str, text: &str| file(&format!("{CRATE}/{path}"), text);
        let files = [
            in_src("lib.rs", "mod db; mod txn;\npub use db::handle::Db;\npub use txn::run::Run;\n"),
            in_src("db/handle.rs", "use crate::{Run, Other};\n// crate::admin::backup\n"),
            in_src("txn.rs", "pub mod run;"),
            in_src("txn/run.rs", "use crate::region;\nuse crate::Db;\n#[cfg(test)]\nmod tests { use crate::db; }\n"),
            in_src("region.rs", "fn f() { super::txn::run::g(); }\n"),
            in_src("stray.rs", ""),
        ];
        let complaints = upwards(&files);
        assert_eq!(complaints.len(), 3, "{complaints:?}");
        assert!(complaints[0].contains("src/stray.rs: put the module on a floor"));
        assert!(complaints[1].contains("txn/run.rs:2: the floor `txn` imports from the floor `db`"));
        assert!(complaints[2].contains("src/region.rs:1: the floor `region` imports from the floor `txn`"));
    }

    #[test]
    fn a_cycle_is_found_at_every_depth_and_through_the_names_that_a_parent_exports() {
        let files = [
            file("tests/kills/main.rs", "mod a;"),
            file("tests/kills/a.rs", "mod b; mod c; mod d;\npub use c::{x as y, C};"),
            file("tests/kills/a/b.rs", "use super::C;"),
            file("tests/kills/a/c.rs", "use crate::a::d;"),
            file("tests/kills/a/d.rs", "use super::A;\nuse crate::a::b::deep::f;"),
            file("tests/kills/a/b/deep.rs", "use crate::a; use super::super::c;"),
            file("tests/kills/e.rs", "use crate::a;"),
            file("tests/kills/other/main.rs", "mod a;"),
            file("tests/kills/other/a.rs", "use crate::e;"),
        ];
        let complaints = cycles(&files);
        let found: Vec<&str> = complaints.iter().filter_map(|one| one.split(", which").next()).collect();
        assert_eq!(
            found,
            [
                "tests/kills/a/b.rs:1: `a::b` imports `a::c`",
                "tests/kills/a/b/deep.rs:1: `a::b` imports `a::c`",
                "tests/kills/a/c.rs:1: `a::c` imports `a::d`",
                "tests/kills/a/d.rs:2: `a::d` imports `a::b`",
            ]
        );
    }
}
