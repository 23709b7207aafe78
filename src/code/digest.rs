//! The digest of the sources that shape machine code. Run by the build script; its result is the part
//! `sources` of every environment ([`target`](super::target)).
//!
//! ```text
//!   src/code.rs, src/code/**, src/kernel…, src/graph…
//!        │ sorted by path below src, "/" between folders
//!        ▼
//!   (length, path, length, contents)*  ──blake3──►  64 hexadecimal digits
//! ```
//!
//! A fix in lowering must never serve the code from before it, and nobody remembers to raise a number by
//! hand. So any change counts, even to a comment; the price is a cold cache after an upgrade. No absolute
//! path and no time enters: one source tree has one digest, wherever it is built.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The layers whose sources shape machine code: `src/{layer}.rs` and everything below `src/{layer}`.
pub(crate) const LAYERS: &[&str] = &["code", "graph", "kernel"];

/// The digest of the sources of `layers` below the folder `src`; a layer without sources adds nothing.
pub(crate) fn of_sources(src: &Path, layers: &[&str]) -> io::Result<String> {
    let mut files = Vec::new();
    for layer in layers {
        let file = src.join(layer).with_extension("rs");
        if file.is_file() {
            files.push(PathBuf::from(layer).with_extension("rs"));
        }
        if src.join(layer).is_dir() {
            collect(src, Path::new(layer), &mut files)?;
        }
    }
    let mut named: Vec<(String, PathBuf)> =
        files.into_iter().map(|path| (portable(&path), src.join(path))).collect();
    named.sort();

    let mut hasher = blake3::Hasher::new();
    for (name, path) in named {
        let contents = fs::read(path)?;
        for bytes in [name.as_bytes(), &contents] {
            hasher.update(&(bytes.len() as u64).to_le_bytes());
            hasher.update(bytes);
        }
    }
    Ok(hasher.finalize().to_hex().to_string())
}

/// The `Cargo.lock` of the nearest folder around `start` that has one.
pub(crate) fn find_lock(start: &Path) -> Option<PathBuf> {
    start.ancestors().map(|folder| folder.join("Cargo.lock")).find(|path| path.is_file())
}

/// The crates of a lock file that generate code, with their versions: `cranelift-codegen 0.1.0, …`.
///
/// `cranelift_codegen::VERSION` says nothing of the register allocator, which has versions of its own.
pub(crate) fn code_generators(lock: &str) -> String {
    let value = |line: &str, name: &str| {
        let rest = line.strip_prefix(name)?.strip_prefix(" = \"")?;
        Some(rest.strip_suffix('"')?.to_owned())
    };
    let mut found = Vec::new();
    let mut current = None;
    for line in lock.lines() {
        if let Some(name) = value(line, "name") {
            current = Some(name);
        } else if let Some(version) = value(line, "version")
            && let Some(name) = current.take()
            && (name == "regalloc2" || name.starts_with("cranelift-"))
        {
            found.push(format!("{name} {version}"));
        }
    }
    found.sort();
    found.join(", ")
}

fn collect(src: &Path, folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(src.join(folder))? {
        let entry = entry?;
        let path = folder.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            collect(src, &path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

fn portable(path: &Path) -> String {
    let parts: Vec<_> = path.iter().map(|part| part.to_string_lossy()).collect();
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy(from: &Path, to: &Path) {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            let target = to.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                copy(&entry.path(), &target);
            } else {
                fs::copy(entry.path(), target).unwrap();
            }
        }
    }

    fn this_crate() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
    }

    /// The digest that was built in is that of the sources at hand, and a copy elsewhere has it too.
    /// Mutant: the absolute path in place of the one below `src`.
    #[test]
    fn is_the_same_wherever_the_tree_lies() {
        let folder = tempfile::tempdir().unwrap();
        let src = folder.path().join("elsewhere/src");
        copy(&this_crate(), &src);
        let here = of_sources(&this_crate(), LAYERS).unwrap();
        assert_eq!(here, of_sources(&src, LAYERS).unwrap());
        assert_eq!(here, env!("CACHELIFT_SOURCES"));
    }

    /// Mutants: contents left out; names left out; only the top folder walked.
    #[test]
    fn changes_with_every_file_of_the_layers_and_with_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let src = folder.path().join("src");
        copy(&this_crate(), &src);
        let digest = || of_sources(&src, LAYERS).unwrap();
        let mut seen = vec![digest()];
        let mut differs = |what: &str| {
            let now = digest();
            assert!(!seen.contains(&now), "{what}");
            seen.push(now);
        };

        let target = src.join("code/target.rs");
        let text = fs::read_to_string(&target).unwrap();
        fs::write(&target, format!("{text}// A comment.\n")).unwrap();
        differs("a comment more");
        fs::rename(&target, src.join("code/target2.rs")).unwrap();
        differs("another name");
        fs::create_dir_all(src.join("kernel/lower")).unwrap();
        fs::write(src.join("kernel/lower/add.rs"), "").unwrap();
        differs("a new file, deep in a new layer");
        fs::write(src.join("graph.rs"), "").unwrap();
        differs("a new layer's first file");

        let before = digest();
        fs::write(src.join("store.rs"), "").unwrap();
        fs::write(src.join("main.rs"), "").unwrap();
        assert_eq!(before, digest(), "other layers do not shape code");
    }

    /// A boundary that moves from a name to the contents must show. Mutant: no lengths.
    #[test]
    fn keeps_names_and_contents_apart() {
        let folder = tempfile::tempdir().unwrap();
        let digest = |name: &str, contents: &str| {
            let src = folder.path().join(name).join(contents.len().to_string());
            fs::create_dir_all(src.join("code")).unwrap();
            fs::write(src.join("code").join(name), contents).unwrap();
            of_sources(&src, LAYERS).unwrap()
        };
        assert_ne!(digest("a", "bc"), digest("ab", "c"));
    }

    #[test]
    fn finds_the_nearest_lock_file() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("target/debug/build");
        fs::create_dir_all(&inner).unwrap();
        let lock = folder.path().join("Cargo.lock");
        fs::write(&lock, "").unwrap();
        assert_eq!(find_lock(&inner), Some(lock));
        fs::write(folder.path().join("target/Cargo.lock"), "").unwrap();
        assert_eq!(find_lock(&inner), Some(folder.path().join("target/Cargo.lock")));
    }

    #[test]
    fn reads_the_versions_of_code_generators() {
        let lock = "[[package]]\nname = \"regalloc2\"\nversion = \"0.15.2\"\n\n[[package]]\n\
                    name = \"serde\"\nversion = \"1.0.0\"\n\n[[package]]\n\
                    name = \"cranelift-codegen\"\nversion = \"0.135.8\"\n";
        assert_eq!(code_generators(lock), "cranelift-codegen 0.135.8, regalloc2 0.15.2");
        assert_eq!(code_generators(""), "");
    }
}
