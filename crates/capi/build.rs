//! Sets the name by which C programs find the shared library at run time. The number in the name changes when their
//! binaries no longer fit.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libtp.so.0");
}
