//! Gives the shared library its soname: the number changes when a program has to be built anew.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libcolibri.so.0");
        println!("cargo:rustc-link-arg-examples=-Wl,-soname,libcolibri.so.0");
    }
}
