//! Sets the name by which C programs find the shared library at run time. A change of the library after which programs
//! have to be compiled again changes the number in the name.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libtp.so.0");
}
