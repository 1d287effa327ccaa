//! The pages of the present headers, and the page of a small header.

use super::*;
use std::process::Command;

fn home() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/capi"))
}

fn all() -> Vec<Page> {
    pages(home(), "0.1.0", "2026-01-01").unwrap()
}

/// Returns the functions that a header declares: each word before the first parenthesis of a declaration.
fn declared(header: &str) -> BTreeSet<String> {
    let text = fs::read_to_string(home().join("include").join(header)).unwrap();
    let mut parts = text.split("/*");
    let first = parts.next().unwrap().to_owned();
    let code = parts.fold(first, |code, part| code + part.split_once("*/").unwrap().1);
    let is_ours = |name: &str| {
        name == "dbopen"
            || ["tp_", "vista_", "txn_", "db_", "buf_", "lock_", "log_"].iter().any(|begin| name.starts_with(begin))
    };
    let named = code.split(';').filter(|one| !one.contains("typedef")).filter_map(|one| one.split_once('('));
    let named = named.map(|(before, _)| before.rsplit([' ', '*', '\n']).next().unwrap().to_owned());
    named.filter(|name| is_ours(name)).collect()
}

#[test]
fn each_function_of_the_headers_has_one_page() {
    let functions: BTreeSet<String> = ["libtp.h", "vista.h", "db.h"].into_iter().flat_map(declared).collect();
    assert!(functions.len() > 150 && functions.contains("tp_put"), "{functions:?}");
    let pages = all();
    let mut names: Vec<&str> = pages.iter().flat_map(|page| &page.names).map(String::as_str).collect();
    names.sort_unstable();
    names.retain(|name| !["libtp", "btree", "hash", "recno"].contains(name));
    assert_eq!(names, functions.iter().map(String::as_str).collect::<Vec<_>>());
}

/// Each function has a comment, or its section has a text that is more than examples.
#[test]
fn each_declaration_is_in_its_page_and_described() {
    for name in HEADERS {
        let text = fs::read_to_string(home().join("include").join(name)).unwrap();
        let header = Header::read(name, &text);
        for section in &header.sections {
            assert!(!section.title.is_empty() && !section.name().is_empty(), "{name}: {}", section.title);
            let is_described = section.comment.iter().any(|block| matches!(block, Block::Text(_)));
            for item in &section.items {
                let names = item.declarations.iter().filter_map(Declaration::heading).collect::<Vec<_>>();
                let is_plain = matches!(item.declarations[..], [Declaration::Macro { .. }]);
                assert!(is_described || is_plain || !item.comment.is_empty(), "{name}: {names:?}");
            }
        }
        // No line of the header is lost: each declaration, constant and comment is in some page.
        let (kept, count) =
            header.sections.iter().flat_map(|section| &section.items).flat_map(|item| &item.declarations).fold(
                (0, 0),
                |(kept, count), declaration| match declaration {
                    Declaration::Constants(all) => (kept + all.len(), count),
                    _ => (kept, count + 1),
                },
            );
        let constants = text.lines().filter(|line| line.starts_with("    ") && line.contains(" = ")).count();
        assert_eq!(kept, constants, "{name}");
        let functions = declared(name).len();
        assert!(count >= functions, "{name}: {count} and {functions}");
    }
    let get = all().into_iter().find(|page| page.names[0] == "tp_get").unwrap().text;
    for part in [
        ".TH TP_GET 3 2026-01-01 \"libtp 0.1.0\"\n.SH NAME\ntp_get, tp_get_for_update, tp_get_many, tp_prefetch, tp_put, ",
        "#include <libtp.h>\n.PP\ntypedef void tp_change(void *value, size_t size, void *argument);\nint tp_get(",
        ".TP\n\\fBtp_get_for_update\\fP()\nCopies the value as \\fBtp_get\\fP() does, ",
        "Returns \\fBTP_NOTFOUND\\fP if",
        ".SH EXAMPLES\n.nf\ntp_buffer value = TP_BUFFER;\n",
        "printf(\"%s\\en\", (char *)value.data);\n",
        "\\fBtp_buffer_free\\fP(3)",
    ] {
        assert!(get.contains(part), "{part}\n{get}");
    }
}

#[test]
fn the_pages_are_well_formed() {
    let scratch = std::env::temp_dir().join(format!("xtask-manual-{}", std::process::id()));
    fs::create_dir_all(&scratch).unwrap();
    let mut command = Command::new("mandoc");
    command.args(["-T", "lint", "-W", "warning"]);
    for page in all() {
        let path = scratch.join(format!("{}.3", page.names[0]));
        fs::write(&path, page.text).unwrap();
        command.arg(path);
    }
    let said = command.output();
    fs::remove_dir_all(&scratch).unwrap();
    match said {
        Ok(said) => assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stdout)),
        Err(error) => {
            assert!(std::env::var("CI").as_deref() != Ok("true"), "mandoc is not installed (Debian: mandoc): {error}");
            eprintln!("\n!!! SKIPPED: mandoc is not installed (Debian: mandoc) !!!\n");
        }
    }
}

const SMALL: &str = r#"/*
 * small.h: a header.
 *
 * Return values. Zero, or -1.
 */
typedef struct pot pot; /* a pot (of tea) */

/* -- boil water
 *
 * See pot_boil and `this word`.
 *
 *     pot_boil("a\n");
 *
 * Behind it:
 *
 *     more
 */

/* Says how. */
enum {
    HOT = 1, /* above 90 degrees */
    COLD = 2
};

/* .Boils, with HOT and *name. */
int pot_boil(const char *name,
             pot **made);
int pot_stop(void);

int pot_bare(void);
#define POT {0}
"#;

#[test]
fn comments_become_sections_and_lists() {
    let header = Header::read("small.h", SMALL);
    assert_eq!((header.title.as_str(), header.handles.len(), header.sections.len()), ("a header", 1, 1));
    let homes = Homes::of(std::slice::from_ref(&header));
    let page = made(&header, &header.sections[0], &homes, "today");
    assert_eq!(page.names, ["pot_boil", "pot_stop", "pot_bare"]);
    let expected = r#".TH POT_BOIL 3 today
.SH NAME
pot_boil, pot_stop, pot_bare \- boil water
.SH LIBRARY
libtp (\-ltp)
.SH SYNOPSIS
.nf
#include <small.h>
.PP
typedef struct pot pot; /* a pot (of tea) */
int pot_boil(const char *name,
             pot **made);
int pot_stop(void);
int pot_bare(void);
#define POT {0}
.fi
.SH DESCRIPTION
See \fBpot_boil\fP() and \fIthis word\fP.
.PP
Says how.
.TP
\fBHOT\fP
above 90 degrees
.TP
\fBCOLD\fP
.TP
\fBpot_boil\fP(), \fBpot_stop\fP()
\&.Boils, with \fBHOT\fP and \fI*name\fP.
.SH RETURN VALUES
Zero, or \-1.
.SH EXAMPLES
.nf
pot_boil("a\en");
.fi
.PP
Behind it:
.PP
.nf
more
.fi
.SH SEE ALSO
\fBlibtp\fP(3)
"#;
    assert_eq!(page.text, expected);
}
