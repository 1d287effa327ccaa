//! Sets the name by which C programs find the shared library at run time. The number in the name changes when the
//! programs have to be compiled again.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libtp.so.0");
}
