//! "The entire Vista library is 720 lines of code": what the paper has stays within that here, too, and knows of nothing else.
//!
//! What it calls beside that is not counted is named here, with why, and with each function that is called.
//!
//! A line counts if there is more on it than a comment or the brackets that a formatter puts on lines of their own.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::path::Path;

/// The paper's, section 4.
const LINES_MAX: usize = 720;

/// What the paper has.
const FILES: [&str; 7] = [
    "vista/src/lib.rs",
    "vista/src/segment.rs",
    "vista/src/txn.rs",
    "vista/src/recover.rs",
    "vista/src/heap.rs",
    "vista/src/auto_range.rs",
    "rio/src/undo.rs",
];

/// A file that what the paper has calls, and that is not counted.
struct Beside {
    file: &'static str,
    /// Why the paper has nothing like it.
    because: &'static str,
    /// All that is called of it: nothing else may be put there and called from here.
    called: &'static [&'static str],
}

const BESIDE: [Beside; 12] = [
    Beside {
        file: "rio/src/undo/room.rs",
        because:
            "the paper's records are blocks of its heap; here they lie in one area, so it is asked for room, and grows",
        called: &[
            "capacity",
            "ensure",
            "has_quick_room",
            "has_room",
            "is_at_rest",
            "is_quick",
            "quick_room",
            "save_parts",
            "set_quick",
            "set_top",
            "take_top",
        ],
    },
    Beside {
        file: "rio/src/undo/quick.rs",
        because: "the paper's compiler knows its globals; here what a transaction looks up most is in registers",
        called: &["discard", "is_at_rest", "is_quick", "new", "range", "range_slowly", "with"],
    },
    Beside {
        file: "vista/src/owner.rs",
        because: "the paper's C has nobody to prove to that a segment is one's own",
        called: &["new"],
    },
    Beside {
        file: "rio/src/undo/checked.rs",
        because: "the paper's memory survives with the cache; checksums and writing back are for memory that does not",
        called: &["commit_checked", "is_whole", "save_checked"],
    },
    Beside {
        file: "rio/src/undo/audit.rs",
        because: "the paper believes what it finds; here a log that was damaged is refused",
        called: &["audit", "form", "try_open"],
    },
    Beside {
        file: "rio/src/undo/chain.rs",
        because: "the paper is for one thread; here others may have a log each",
        called: &["areas", "audit_all", "recover_all"],
    },
    Beside {
        file: "vista/src/fresh.rs",
        because: "a segment of the paper has one size; here the heap takes more of the file",
        called: &["add_fresh"],
    },
    Beside {
        file: "vista/src/guard.rs",
        because: "the guard is Rio's, section 3, and not of Vista's lines; here it is a setting",
        called: &["begin", "close_flat", "close_ranges", "end_slowly", "leave_flat", "open_range"],
    },
    Beside {
        file: "vista/src/apart.rs",
        because: "the paper says nothing of a log that cannot grow; here nothing of the transaction stands, and it is told so",
        called: &["go_on_apart", "refuse_if_apart"],
    },
    Beside {
        file: "vista/src/options.rs",
        because: "the paper's `vista_map` has no settings",
        // The last is a region's, which has the same name.
        called: &["keep", "new", "write_back"],
    },
    Beside {
        file: "vista/src/about.rs",
        because: "what a segment says of itself the paper's programs know",
        // `bytes` and `get` are also names of what is counted.
        called: &["address", "bytes", "get", "out_of_range", "own_undo", "path"],
    },
    Beside { file: "vista/src/error.rs", because: "the paper's errors are numbers; these are sentences", called: &[] },
];

/// All of it, with what is not counted.
const ALL_LINES_MAX: usize = 1400;

fn code(file: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
    let text = std::fs::read_to_string(path).unwrap();
    // Its tests are not.
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with("//"));
    lines.filter(|line| line.contains(char::is_alphanumeric)).map(str::to_owned).collect()
}

#[test]
fn what_the_paper_has_stays_within_its_720_lines() {
    let counts = FILES.map(|file| (file, code(file).len()));
    let total: usize = counts.iter().map(|(_, lines)| lines).sum();
    println!("figures: {total} lines of code: {counts:?}");
    assert!(total <= LINES_MAX, "{total} lines of code, the paper has {LINES_MAX}: {counts:?}");
    let beside = BESIDE.map(|beside| (beside.file, code(beside.file).len(), beside.because));
    let all = total + beside.iter().map(|(_, lines, _)| lines).sum::<usize>();
    println!("figures: {all} lines with what is not counted: {beside:?}");
    assert!(all <= ALL_LINES_MAX, "{all} lines with what is not counted, of {ALL_LINES_MAX}");
}

/// The functions that others than the file itself may call.
fn functions(file: &str) -> BTreeSet<String> {
    let of_line = |line: &String| {
        let (before, rest) = line.split_once("fn ")?;
        let end = rest.find(|it: char| !it.is_alphanumeric() && it != '_')?;
        before.starts_with("pub").then(|| rest[..end].to_owned())
    };
    code(file).iter().filter_map(of_line).collect()
}

#[test]
fn what_is_called_of_files_that_are_not_counted_is_named() {
    let counted: String = FILES.map(|file| code(file).join("\n")).join("\n");
    // By its name with what it is given, or handed to somebody who calls it.
    let ways = [(".", "("), ("::", "("), ("(Segment::", ")")];
    let is_called =
        |name: &String| ways.iter().any(|(before, behind)| counted.contains(&format!("{before}{name}{behind}")));
    for beside in BESIDE {
        let called: BTreeSet<String> = functions(beside.file).into_iter().filter(is_called).collect();
        let named: BTreeSet<String> = beside.called.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(called, named, "{}, which is not counted because {}", beside.file, beside.because);
    }
    // What lies beside the undo log is named, all of it.
    let undo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../rio/src/undo");
    for entry in std::fs::read_dir(undo).unwrap() {
        let file = format!("rio/src/undo/{}", entry.unwrap().file_name().into_string().unwrap());
        assert!(BESIDE.iter().any(|beside| beside.file == file), "{file} is neither counted nor named");
    }
}

#[test]
fn what_the_paper_has_calls_nothing_that_is_beyond_it() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let names = std::fs::read_dir(source).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let modules: Vec<String> = names.filter_map(|name| name.strip_suffix(".rs").map(str::to_owned)).collect();
    let is_beyond = |module: &&String| {
        let file = format!("vista/src/{module}.rs");
        *module != "tests" && !FILES.contains(&file.as_str()) && !BESIDE.iter().any(|beside| beside.file == file)
    };
    for beyond in modules.iter().filter(is_beyond) {
        for file in FILES.iter().filter(|file| !file.ends_with("lib.rs")) {
            let names_it = |line: &&String| line.contains(&format!("{beyond}::"));
            assert_eq!(code(file).iter().find(names_it), None, "{file} calls what lies in {beyond}.rs");
        }
    }
}
