//! `cargo xtask install`: puts all files that programs in C need where they look for them.
//!
//! `lib/libtp.so.0` is the name stored in programs (crates/capi/build.rs sets it); the linker looks for `lib/libtp.so`.

use crate::workspace::{cargo, Workspace};
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::ExitCode;

/// Builds the library and installs everything under `prefix`.
///
/// # Errors
/// When the library does not build, or a file cannot be written.
pub fn install(workspace: &Workspace, prefix: &Path) -> Result<ExitCode, String> {
    // The linker strips it: the shared library keeps only the names that the headers declare.
    let built =
        cargo().args(["rustc", "--release", "--package", "libtp-capi", "--lib", "--", "-C", "strip=symbols"]).status();
    if !built.map_err(|error| format!("cargo cannot be started: {error}"))?.success() {
        return Err("the library does not build; nothing was installed".into());
    }
    let prefix = std::path::absolute(prefix).map_err(|error| error.to_string())?;
    let version = version(&workspace.root)?;
    let count = lay_out(&workspace.root.join("crates/capi"), &workspace.target.join("release"), &prefix, &version)
        .map_err(|error| format!("not all of it could be put under {}: {error}", prefix.display()))?;
    println!("{count} files and links under {}", prefix.display());
    println!("run `ldconfig` where that is a directory of the system's linker");
    Ok(ExitCode::SUCCESS)
}

/// Returns the version of the workspace.
fn version(root: &Path) -> Result<String, String> {
    let manifest = fs::read_to_string(root.join("Cargo.toml")).map_err(|error| error.to_string())?;
    let version = manifest.lines().find_map(|line| line.strip_prefix("version = \"")?.strip_suffix('"'));
    version.map(str::to_owned).ok_or_else(|| "Cargo.toml has no version".into())
}

/// Copies the files and makes the links. Returns their number.
fn lay_out(home: &Path, built: &Path, prefix: &Path, version: &str) -> io::Result<usize> {
    let mut count = 0;
    let mut put = |from: &Path, to: &Path| -> io::Result<()> {
        count += 1;
        replaced(to, |to| fs::copy(from, to).map(|_| ()))
    };
    let lib = prefix.join("lib");
    let (shared, full) = (built.join("libtp.so"), format!("libtp.so.{version}"));
    put(&shared, &lib.join(&full))?;
    put(&built.join("libtp.a"), &lib.join("libtp.a"))?;
    for header in ["libtp.h", "vista.h", "db.h", "db_185.h"] {
        put(&home.join("include").join(header), &prefix.join("include").join(header))?;
    }
    let pages = prefix.join("share/man/man3");
    let mut links = vec![(lib.join("libtp.so.0"), full), (lib.join("libtp.so"), "libtp.so.0".to_owned())];
    for entry in fs::read_dir(home.join("man"))? {
        let path = entry?.path();
        let page = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        put(&path, &pages.join(&page))?;
        let text = fs::read_to_string(&path)?;
        let others = names(&text).map(|name| format!("{name}.3")).filter(|other| *other != page);
        links.extend(others.map(|other| (pages.join(other), page.clone())));
    }
    let template = fs::read_to_string(home.join("libtp.pc.in"))?;
    let text = template.replace("@PREFIX@", &prefix.to_string_lossy()).replace("@VERSION@", version);
    replaced(&lib.join("pkgconfig/libtp.pc"), |to| fs::write(to, &text))?;
    for (link, to) in &links {
        replaced(link, |link| symlink(to, link))?;
    }
    Ok(count + 1 + links.len())
}

/// Replaces a file by a new one. A running program that has mapped the old file keeps it.
fn replaced(to: &Path, make: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
    fs::create_dir_all(to.parent().unwrap_or(Path::new("/")))?;
    match fs::remove_file(to) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => make(to),
    }
}

/// Returns all names that a manual page documents.
fn names(page: &str) -> impl Iterator<Item = &str> {
    let section = page.split(".Sh NAME\n").nth(1).unwrap_or("").split(".Nd ").next().unwrap_or("");
    section.lines().filter_map(|line| line.strip_prefix(".Nm ")).map(|name| name.trim_end_matches(" ,"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_a_program_in_c_looks_for_is_where_it_looks() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is in the workspace");
        let scratch = std::env::temp_dir().join(format!("xtask-install-{}", std::process::id()));
        let (built, prefix) = (scratch.join("built"), scratch.join("prefix"));
        fs::create_dir_all(&built).expect("the temporary directory is writable");
        for library in ["libtp.so", "libtp.a"] {
            fs::write(built.join(library), library).expect("it is still writable");
        }
        let version = version(root).expect("the workspace has a version");
        for _ in 0..2 {
            lay_out(&root.join("crates/capi"), &built, &prefix, &version)
                .expect("it can be laid out, also over another");
        }
        for file in ["lib/libtp.so", "lib/libtp.so.0", "lib/libtp.a", "include/libtp.h", "share/man/man3/tp_abort.3"] {
            assert!(fs::metadata(prefix.join(file)).is_ok_and(|found| found.len() > 0), "{file}");
        }
        let text = fs::read_to_string(prefix.join("lib/pkgconfig/libtp.pc")).expect("it was written");
        assert!(text.starts_with(&format!("prefix={}\n", prefix.display())) && !text.contains('@'), "{text}");
        fs::remove_dir_all(&scratch).expect("we made it");
    }
}
