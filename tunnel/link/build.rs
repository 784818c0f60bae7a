//! Where the linker finds liboqs.a, for the feature `static-oqs`: `lib` in the folder that `OQS_STATIC_PATH` names.

fn main() {
    println!("cargo:rerun-if-env-changed=OQS_STATIC_PATH");
    if std::env::var_os("CARGO_FEATURE_STATIC_OQS").is_none() {
        return;
    }
    let root = std::env::var("OQS_STATIC_PATH").unwrap_or_default();
    let library = std::path::Path::new(&root).join("lib/liboqs.a");
    assert!(
        library.is_file(),
        "static-oqs: no {}; build liboqs 0.13 as images/pqlink/Dockerfile does, and name its folder in OQS_STATIC_PATH",
        library.display()
    );
    println!("cargo:rerun-if-changed={}", library.display());
    println!("cargo:rustc-link-search=native={root}/lib");
    println!("cargo:rustc-link-lib=static=oqs");
}
