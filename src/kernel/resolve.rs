//! Where `import` finds files, and a record of everything that was looked at on the way.
//!
//! ```text
//!   import a.b ─► for each folder of the search path:  a/__init__.py · a.py · a/     then b in a's folder
//!                 found: read once, kept as a Source          not found: the path is kept as absent
//! ```
//!
//! A file that later appears at an absent path changes what an import means, so both lists belong to a run's manifest.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::source::Source;

/// Reads files. A session puts its own between, to stamp what is read.
pub(crate) trait Files: Send + Sync {
    /// The bytes of a file; [`io::ErrorKind::NotFound`] where there is none.
    ///
    /// # Errors
    /// The system's.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// Whether a folder is there.
    fn is_folder(&self, path: &Path) -> bool;
}

/// The file system.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Disk;

impl Files for Disk {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        std::fs::read(path)
    }

    fn is_folder(&self, path: &Path) -> bool {
        path.is_dir()
    }
}

/// What a name resolved to.
#[derive(Clone, Debug)]
pub(crate) enum Found {
    /// A module's file.
    Module(Arc<Source>),
    /// A package: its `__init__.py` and folder.
    Package(Arc<Source>, PathBuf),
    /// Folders without `__init__.py`, one of each folder of the search path that has it.
    Namespace(Vec<PathBuf>),
}

/// The search path, and what was looked at.
pub(crate) struct Resolver {
    files: Box<dyn Files>,
    /// The folders to search: that of the program's entry, then `CACHELIFT_PATH`.
    path: Vec<PathBuf>,
    /// The files that were read, in order.
    read: Vec<Arc<Source>>,
    /// The paths at which nothing was found, in order, each once.
    absent: Vec<PathBuf>,
}

impl Resolver {
    /// A resolver for a program in `root`, with more folders to search after it.
    pub(crate) fn new(
        files: Box<dyn Files>,
        root: PathBuf,
        path: impl IntoIterator<Item = PathBuf>,
    ) -> Self {
        let path = std::iter::once(root).chain(path).collect();
        Resolver { files, path, read: Vec::new(), absent: Vec::new() }
    }

    /// The files that were read so far.
    pub(crate) fn read(&self) -> &[Arc<Source>] {
        &self.read
    }

    /// The paths at which nothing was found so far.
    pub(crate) fn absent(&self) -> &[PathBuf] {
        &self.absent
    }

    /// The folders that are searched.
    pub(crate) fn path(&self) -> &[PathBuf] {
        &self.path
    }

    /// Reads one file, which the program names itself.
    ///
    /// # Errors
    /// The system's, or that the text is not UTF-8.
    pub(crate) fn open(&mut self, path: &Path) -> io::Result<Arc<Source>> {
        if let Some(source) = self.read.iter().find(|source| source.path.as_deref() == Some(path)) {
            return Ok(source.clone());
        }
        let bytes = self.files.read(path)?;
        let text = String::from_utf8(bytes).map_err(|error| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                format!("{} is not UTF-8: {error}", path.display()),
            )
        })?;
        let text = text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text);
        let source = Arc::new(Source::new(self.name_of(path), Some(path.to_owned()), text));
        self.read.push(source.clone());
        Ok(source)
    }

    /// Reads a file that is no module, which the program names itself; if it is absent, that is kept.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn read_data(&mut self, path: &Path) -> io::Result<Vec<u8>> {
        let result = self.files.read(path);
        if result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            self.miss(path.to_owned());
        }
        result
    }

    /// What `name` (without dots) means in the folders `within`, or in the search path.
    ///
    /// # Errors
    /// A file that is there but cannot be read.
    pub(crate) fn find(
        &mut self,
        name: &str,
        within: Option<&[PathBuf]>,
    ) -> io::Result<Option<Found>> {
        let folders = within.unwrap_or(&self.path).to_vec();
        let mut portions = Vec::new();
        for folder in folders {
            let package = folder.join(name);
            if self.files.is_folder(&package) {
                if let Some(source) = self.look(&package.join("__init__.py"))? {
                    return Ok(Some(Found::Package(source, package)));
                }
                if let Some(source) = self.look(&folder.join(format!("{name}.py")))? {
                    return Ok(Some(Found::Module(source)));
                }
                portions.push(package);
            } else {
                // A package may appear here, and a file comes after it.
                self.miss(package.join("__init__.py"));
                if let Some(source) = self.look(&folder.join(format!("{name}.py")))? {
                    return Ok(Some(Found::Module(source)));
                }
            }
        }
        Ok((!portions.is_empty()).then_some(Found::Namespace(portions)))
    }

    fn look(&mut self, path: &Path) -> io::Result<Option<Arc<Source>>> {
        match self.open(path) {
            Ok(source) => Ok(Some(source)),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                self.miss(path.to_owned());
                Ok(None)
            }
            // Python passes over a folder called `name.py` as well.
            Err(error) if error.kind() == io::ErrorKind::IsADirectory => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn miss(&mut self, path: PathBuf) {
        if !self.absent.contains(&path) {
            self.absent.push(path);
        }
    }

    /// A file's name in messages and summaries: its path from the root, or from the folder of the search path.
    fn name_of(&self, path: &Path) -> String {
        let inside = self.path.iter().find_map(|folder| path.strip_prefix(folder).ok());
        let parts: Vec<_> = inside
            .unwrap_or(path)
            .components()
            .map(|part| part.as_os_str().to_string_lossy())
            .collect();
        parts.join("/")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    struct Tree(BTreeMap<&'static str, &'static str>);

    impl Files for Tree {
        fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
            let text = self.0.get(path.to_str().unwrap());
            text.map(|text| text.as_bytes().to_vec()).ok_or(io::ErrorKind::NotFound.into())
        }

        fn is_folder(&self, path: &Path) -> bool {
            self.0.keys().any(|file| Path::new(file) != path && Path::new(file).starts_with(path))
        }
    }

    fn resolver(files: &[&'static str]) -> Resolver {
        let tree = Tree(files.iter().map(|&file| (file, "")).collect());
        Resolver::new(Box::new(tree), "/p".into(), ["/v".into()])
    }

    #[test]
    fn a_package_comes_before_a_file_and_both_before_the_next_folder() {
        let mut r = resolver(&["/p/a.py", "/v/a/__init__.py"]);
        assert!(matches!(r.find("a", None), Ok(Some(Found::Module(s))) if &*s.name == "a.py"));
        assert_eq!(r.absent(), [PathBuf::from("/p/a/__init__.py")]);
        let mut r = resolver(&["/p/a.py", "/p/a/__init__.py"]);
        assert!(
            matches!(r.find("a", None), Ok(Some(Found::Package(s, _))) if &*s.name == "a/__init__.py")
        );
        assert!(r.absent().is_empty());
    }

    #[test]
    fn what_was_passed_over_is_recorded_as_absent() {
        let mut r = resolver(&["/v/a.py"]);
        assert!(matches!(r.find("a", None), Ok(Some(Found::Module(s))) if &*s.name == "a.py"));
        assert_eq!(
            r.absent(),
            ["/p/a/__init__.py", "/p/a.py", "/v/a/__init__.py"].map(PathBuf::from)
        );
        assert_eq!(r.read().len(), 1);
    }

    #[test]
    fn folders_without_init_are_namespaces_unless_a_module_follows() {
        let mut r = resolver(&["/p/a/x.py", "/v/a/y.py"]);
        assert!(matches!(r.find("a", None), Ok(Some(Found::Namespace(f))) if f.len() == 2));
        let mut r = resolver(&["/p/a/x.py", "/v/a.py"]);
        assert!(matches!(r.find("a", None), Ok(Some(Found::Module(_)))));
    }
}
