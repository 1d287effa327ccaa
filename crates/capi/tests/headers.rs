//! Tests that each header compiles without other headers, and that headers, library, examples and manual pages agree.
#![allow(clippy::unwrap_used)]

mod c;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

use c::{built, compiler, home, is_installed, WARNINGS};

const HEADERS: [&str; 3] = ["libtp.h", "vista.h", "db.h"];

/// A program that uses each struct of `libtp.h`, and passes a function of each type to the library.
const LIBTP: &str = r#"
static void change(void *value, size_t size, void *argument) { (void)value; (void)size; (void)argument; }
static int work(tp_txn *txn, void *argument) { (void)argument; return tp_abort(txn); }
static size_t recode(const void *bytes, size_t size, void *made, size_t room, void *argument)
{
    (void)bytes; (void)made; (void)argument;
    return size < room ? size : room;
}
static int keys_of(const void *key, size_t key_size, const void *value, size_t value_size, tp_index_keys *keys, void *argument)
{
    (void)value; (void)value_size; (void)argument;
    return tp_index_add(keys, key, key_size);
}
static int visit(const void *key, size_t key_size, const void *value, size_t value_size, void *argument)
{
    (void)key; (void)key_size; (void)value; (void)value_size; (void)argument;
    return TP_OK;
}
static int show(const tp_log_record *record, void *argument) { (void)argument; return record->lsn == 0; }
static int next(tp_pair *pair, void *argument) { pair->key = argument; pair->key_size = 1; return TP_NOTFOUND; }
static void watch(const char *what, uint64_t done, uint64_t total, void *argument) { (void)what; (void)done; (void)total; (void)argument; }
int alone(void);
int alone(void)
{
    tp_buffer buffer = TP_BUFFER;
    tp_range range = {"a", 1, NULL, 0, TP_FROM | TP_BELOW};
    tp_link link;
    tp_index *index;
    uint64_t count;
    tp_buffer_free(&buffer);
    return tp_count(NULL, NULL, &range, &count) + tp_link_of(NULL, NULL, "", 0, &link) + tp_order("order", recode, recode, NULL) +
           tp_index_open(NULL, "index", keys_of, NULL, &index) + tp_load(NULL, TP_LOAD_SORTED, 90, 0, next, watch, NULL, &count) +
           tp_run(NULL, TP_DEFAULT, work, NULL) + tp_cursor_each(NULL, visit, NULL) + tp_update(NULL, NULL, "", 0, change, NULL) +
           log_roll(NULL, 0, show, NULL);
}
"#;

/// Returns whether a name is the name of a function of this library.
fn is_ours(name: &str) -> bool {
    name == "dbopen"
        || ["tp_", "vista_", "txn_", "db_", "buf_", "lock_", "log_"].iter().any(|beginning| name.starts_with(beginning))
}

/// Returns a header without its comments.
fn declarations(header: &str) -> String {
    let text = fs::read_to_string(home().join("include").join(header)).unwrap();
    let mut parts = text.split("/*");
    let first = parts.next().unwrap().to_owned();
    parts.fold(first, |code, part| code + part.split_once("*/").unwrap().1)
}

/// Returns the functions that a header declares.
fn functions(header: &str) -> BTreeSet<String> {
    let is_letter = |letter: char| letter.is_ascii_lowercase() || letter == '_' || letter.is_ascii_digit();
    let mut found = BTreeSet::new();
    for declaration in declarations(header).split(';').filter(|declaration| !declaration.contains("typedef")) {
        let Some((before, _)) = declaration.split_once('(') else { continue };
        let name = before.rsplit(|letter| !is_letter(letter)).next().unwrap();
        if is_ours(name) {
            found.insert(name.to_owned());
        }
    }
    found
}

fn all_functions() -> BTreeSet<String> {
    let all: BTreeSet<String> = HEADERS.iter().flat_map(|header| functions(header)).collect();
    assert!(all.contains("tp_put") && all.contains("vista_map") && all.contains("dbopen") && all.len() > 60, "{all:?}");
    all
}

#[test]
fn each_header_compiles_without_other_headers_in_c_and_in_cplusplus() {
    let directory = tempfile::tempdir().unwrap();
    let languages = [("CC", "cc", "c", "-std=c99"), ("CC", "cc", "c", "-std=c11"), ("CXX", "g++", "cpp", "-std=c++11")];
    for (variable, usual, ending, standard) in languages {
        if variable == "CXX" && !is_installed("g++", "g++") {
            continue;
        }
        for header in HEADERS {
            let source = directory.path().join(format!("alone.{ending}"));
            let text = match header {
                "libtp.h" => LIBTP,
                "vista.h" => "int alone(void);\nint alone(void) { return vista_init(); }\n",
                _ => "#include <db_185.h>\nint alone(void);\nint alone(void) { BTREEINFO info; info.flags = R_DUP; return dbopen(NULL, O_RDWR, 0, DB_BTREE, &info) == NULL; }\n",
            };
            fs::write(&source, format!("#include \"{header}\"\n#include \"{header}\"\n{text}")).unwrap();
            let mut command = compiler(variable, usual);
            command.arg(standard).args(WARNINGS).args(["-Wconversion", "-fsyntax-only", "-I"]);
            let status = command.arg(home().join("include")).arg(&source).status();
            assert!(status.expect("a compiler is installed").success(), "{header} with {usual} {standard}");
        }
    }
}

#[test]
fn the_library_exports_exactly_the_functions_of_its_headers() {
    let output = Command::new("nm").args(["-D", "--defined-only"]).arg(built("libtp.so")).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let exported: BTreeSet<String> =
        text.lines().filter_map(|line| line.split(' ').nth(2)).map(str::to_owned).collect();
    assert_eq!(exported, all_functions());
    let dynamic = Command::new("readelf").arg("-d").arg(built("libtp.so")).output().unwrap();
    assert!(String::from_utf8(dynamic.stdout).unwrap().contains("[libtp.so.0]"), "its name");
}

#[test]
fn every_function_is_called_by_an_example() {
    let examples = fs::read_dir(home().join("examples")).unwrap();
    let texts: Vec<String> = examples.map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap()).collect();
    let is_called = |name: &&String| texts.iter().any(|text| text.contains(&format!("{name}(")));
    let missing: Vec<String> = all_functions().iter().filter(|name| !is_called(name)).cloned().collect();
    assert_eq!(missing, [""; 0], "no example calls these functions");
}

/// Returns the manual pages of `db.h`: for each file name the documented names, and the text. (xtask/src/manual.rs
/// makes the pages of the other headers from the headers.)
fn pages() -> BTreeMap<String, (Vec<String>, String)> {
    let mut pages = BTreeMap::new();
    for entry in fs::read_dir(home().join("man")).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let names = text.split(".Sh NAME\n").nth(1).unwrap().split(".Nd ").next().unwrap();
        let names = names.lines().filter_map(|line| line.strip_prefix(".Nm "));
        let names = names.map(|name| name.trim_end_matches(" ,").to_owned()).collect();
        pages.insert(path.file_name().unwrap().to_str().unwrap().to_owned(), (names, text));
    }
    pages
}

#[test]
fn every_function_of_db_h_has_a_page_which_shows_its_declaration() {
    let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ").replace("* ", "*");
    let header = squeezed(&declarations("db.h"));
    let mut shown = BTreeSet::new();
    for (page, (names, text)) in pages() {
        assert_eq!(
            page.strip_suffix(".3"),
            names.first().map(String::as_str),
            "the file name of a page is its first name"
        );
        for name in names.iter().filter(|name| is_ours(name)) {
            assert!(text.contains(&format!(".Fo {name}\n")), "{page} does not declare {name}");
        }
        for part in text.split(".Ft ").skip(1) {
            let (kind, rest) = part.split_once('\n').unwrap();
            let (name, rest) = rest.strip_prefix(".Fo ").unwrap().split_once('\n').unwrap();
            let arguments: Vec<&str> = rest
                .lines()
                .take_while(|line| *line != ".Fc")
                .map(|line| line.strip_prefix(".Fa \"").and_then(|line| line.strip_suffix('"')).unwrap())
                .collect();
            let declared = squeezed(&format!("{kind} {name}({});", arguments.join(", ")));
            assert!(header.contains(&declared), "{page}: {declared} is not in db.h");
            shown.insert(name.to_owned());
        }
    }
    // `tp_error` is declared in libtp.h, too.
    shown.insert("tp_error".into());
    assert_eq!(shown, functions("db.h"));
}

#[test]
fn a_program_is_built_with_the_flags_of_pkg_config() {
    if !is_installed("pkg-config", "pkg-config") {
        return;
    }
    let workshop = c::workshop();
    let prefix = workshop.path();
    let template = fs::read_to_string(home().join("libtp.pc.in")).unwrap();
    let file = template.replace("@PREFIX@", prefix.to_str().unwrap()).replace("@VERSION@", env!("CARGO_PKG_VERSION"));
    fs::write(prefix.join("libtp.pc"), file).unwrap();
    std::os::unix::fs::symlink(".", prefix.join("lib")).unwrap();
    std::os::unix::fs::symlink(home().join("include"), prefix.join("include")).unwrap();
    let answer = Command::new("pkg-config")
        .args(["--cflags", "--libs", "libtp"])
        .env("PKG_CONFIG_PATH", prefix)
        .output()
        .unwrap();
    assert!(answer.status.success(), "{}", c::told(&answer));
    let program = prefix.join("look");
    let flags = String::from_utf8(answer.stdout).unwrap();
    let mut command = compiler("CC", "cc");
    command.arg("-std=c99").arg(home().join("examples/look.c")).args(flags.split_whitespace());
    assert!(command.arg("-o").arg(&program).status().unwrap().success(), "{flags}");
    let mut run = Command::new(&program);
    let output = run.arg(prefix.join("environment")).env("LD_LIBRARY_PATH", prefix).output().unwrap();
    assert!(output.status.success(), "{}", c::told(&output));
}
