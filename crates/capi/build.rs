//! The name by which programs in C find the shared library when they run: it has the number that changes when their binaries do
//! not fit any more.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libtp.so.0");
}
