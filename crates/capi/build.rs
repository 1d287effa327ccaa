//! Sets the name by which C programs find the shared library at run time. If programs have to be compiled again after a
//! change of the library, the number in the name is raised.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libtp.so.0");
}
