//! Gives the crate a digest of the sources that shape machine code, so that code which an older or a
//! changed cachelift compiled is never taken for this one's.
//!
//! The digest's own text is in `src/code/digest.rs`, where the crate's tests use it too.

#[path = "src/code/digest.rs"]
mod digest;

use std::env;
use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let root = env::var("CARGO_MANIFEST_DIR")?;
    let out = env::var("OUT_DIR")?;
    let sources = digest::of_sources(&Path::new(&root).join("src"), digest::LAYERS)?;
    println!("cargo:rustc-env=CACHELIFT_SOURCES={sources}");

    // The lock file of the build lies beside its target directory; a packaged crate may carry its own.
    let lock = digest::find_lock(Path::new(&out)).or_else(|| digest::find_lock(Path::new(&root)));
    let versions = match &lock {
        Some(path) => digest::code_generators(&std::fs::read_to_string(path)?),
        None => String::new(),
    };
    println!("cargo:rustc-env=CACHELIFT_CODE_GENERATORS={versions}");

    println!("cargo:rerun-if-changed=src");
    println!("cargo:rerun-if-changed=build.rs");
    if let Some(path) = &lock {
        println!("cargo:rerun-if-changed={}", path.display());
    }
    Ok(())
}
