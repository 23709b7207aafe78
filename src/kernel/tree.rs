//! Syntax trees, kept: a text is parsed by the first process that reads it.
//!
//! ```text
//!   text ──► its digest, the environment's ──► note ──► Module     its functions' bodies are decoded when they are looked at
//!              │ none                                              (what runs kernels of a known state never does)
//!              └──parse──► Module, kept for the next process
//! ```
//!
//! A tree is nothing but what the text says to this parser, so nothing else is in its key: copies of a file share one. A
//! text that is refused leaves nothing behind.

use std::cell::RefCell;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use serde::de::DeserializeOwned;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::canon::Canonical;
use super::diagnostic::Diagnostic;
use super::parse;
use super::runtime::stack::deep;
use super::source::Source;
use super::syntax::{Module, Stmt, StmtKind};
use crate::key::Key;
use crate::store::Store;

/// A text of fewer bytes is parsed in the time in which a note is looked up.
const LEAST: usize = 1 << 10;

/// A tree that nests deeper is not kept: it is decoded by recursion.
const MAX_DEPTH: usize = 64;

/// The tree of a text: known to the store, or parsed.
///
/// # Errors
/// As for [`parse::parse_module`].
pub(super) fn parse(
    store: &Store,
    environment: &Key,
    source: &Arc<Source>,
) -> Result<Module, Box<Diagnostic>> {
    if source.text.len() < LEAST || store.config().audit {
        return parse::parse_module(source);
    }
    let mut key = store.key("cachelift kernel tree v1");
    let key = key.key("environment", environment).key("text", &source.digest()).finish();
    if let Some(module) = store.note(&key).and_then(|bytes| decode(&bytes, source)) {
        return Ok(module);
    }
    let module = parse::parse_module(source)?;
    if module.depth <= MAX_DEPTH
        && let Some(bytes) = encode(&module)
    {
        // What is not kept, as one that is too large, is parsed again.
        let _ = store.set_note(&key, &bytes);
    }
    Ok(module)
}

fn encode(module: &Module) -> Option<Vec<u8>> {
    for stmt in &module.body {
        // Kept with the tree, so that what asks for it need not look at the body.
        if let StmtKind::Def(function) = &stmt.kind {
            function.canonical();
        }
    }
    deep(|| postcard::to_stdvec(module)).ok()
}

fn decode<T: DeserializeOwned>(bytes: &[u8], source: &Arc<Source>) -> Option<T> {
    let before = SOURCE.replace(Some(Arc::clone(source)));
    let decoded = deep(|| postcard::from_bytes(bytes));
    SOURCE.set(before);
    decoded.ok()
}

thread_local! {
    /// The text of the tree that this thread decodes: every function of it holds it.
    static SOURCE: RefCell<Option<Arc<Source>>> = const { RefCell::new(None) };
}

/// The text that is being decoded; for the nodes that hold it.
pub(super) fn source() -> Arc<Source> {
    let source = SOURCE.with_borrow(Clone::clone);
    source.unwrap_or_else(|| Arc::new(Source::new("", None, "")))
}

/// The statements of a function: parsed, or encoded until they are looked at.
pub struct Body {
    statements: OnceLock<Vec<Stmt>>,
    encoded: Option<(Box<[u8]>, Arc<Source>)>,
}

impl From<Vec<Stmt>> for Body {
    fn from(statements: Vec<Stmt>) -> Self {
        Body { statements: statements.into(), encoded: None }
    }
}

impl Deref for Body {
    type Target = [Stmt];

    fn deref(&self) -> &[Stmt] {
        self.statements.get_or_init(|| {
            let (bytes, source) = self.encoded.as_ref().expect("there is the one or the other");
            decode(bytes, source).expect("a note is verified as a whole when it is read")
        })
    }
}

impl<'a> IntoIterator for &'a Body {
    type Item = &'a Stmt;
    type IntoIter = std::slice::Iter<'a, Stmt>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self).finish()
    }
}

impl Serialize for Body {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let bytes = deep(|| postcard::to_stdvec(&**self)).map_err(S::Error::custom)?;
        serializer.serialize_bytes(&bytes)
    }
}

impl<'de> Deserialize<'de> for Body {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let bytes = <&[u8]>::deserialize(deserializer)?;
        Ok(Body { statements: OnceLock::new(), encoded: Some((bytes.into(), source())) })
    }
}

/// The canonical form of a function, if somebody asked for it.
#[derive(Debug, Default)]
pub(super) struct Form(OnceLock<Box<Canonical>>);

impl Form {
    pub(super) fn get_or_init(&self, make: impl FnOnce() -> Canonical) -> &Canonical {
        self.0.get_or_init(|| Box::new(make()))
    }
}

impl Serialize for Form {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.get().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Form {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let form = Option::<Box<Canonical>>::deserialize(deserializer)?;
        Ok(Form(form.map_or_else(OnceLock::new, OnceLock::from)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    const ENVIRONMENT: Key = Key::from_bytes([7; 32]);

    fn source(text: &str) -> Arc<Source> {
        let source = Source::new("a.py", None, text);
        // What is told of a source says whether it was asked for.
        source.digest();
        Arc::new(source)
    }

    /// A text that is long enough to be kept, with every kind of node that holds others.
    fn long(number: u32) -> String {
        let text = format!(
            "from numba import njit\nimport a.b as c\n\n@njit(cache=True)\ndef f(x, /, y: int = {number}, *z, k=2.5, **w):\n\
             \x20   def inner(u):\n        nonlocal x\n        x = u + y\n        return lambda v: (u, v, -x)\n\
             \x20   total = [i * 2 for i in range(x) if i % 2 if i]\n    for i, j in zip(total, z):\n\
             \x20       if i is not None and j in (1, 2j, 1e300):\n            continue\n        elif not i:\n            break\n\
             \x20   else:\n        pass\n    while (n := len(total)) > 3:\n        total[n:1:-1] = w['a']\n        del total[0]\n\
             \x20   assert total, f'{{total!r:>{{y}}}} of {{n}}'\n    return inner(*z, **w) if k else {{1: 2, **w}}\n\n\
             class C(Base):\n    SIZE: int = 4\n    def method(self):\n        global G\n        G = {{1, 2}}\n        yield self.x @ G\n\n\
             try:\n    print(f(1), b'\\x00', ...)\nexcept (ValueError, KeyError) as error:\n    raise RuntimeError('x') from error\n\
             finally:\n    x = y = True\n    x <<= 1\n"
        );
        let filler = "# ".to_owned() + &"x".repeat(LEAST) + "\n";
        text + &filler
    }

    fn open() -> (tempfile::TempDir, Store) {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(Config::default().dir(dir.path().join("cache")));
        (dir, store)
    }

    fn key(store: &Store, text: &str) -> Key {
        let mut key = store.key("cachelift kernel tree v1");
        key.key("environment", &ENVIRONMENT).key("text", &source(text).digest()).finish()
    }

    fn told(module: &Module) -> String {
        format!("{module:#?}")
    }

    /// What is kept decodes to what was parsed: every node, every place, names, scopes and the file.
    ///
    /// Kills: functions that hold another text.
    #[test]
    fn a_kept_tree_is_the_parsed_one() {
        let (_dir, store) = open();
        let text = long(1);
        let first = parse(&store, &ENVIRONMENT, &source(&text)).unwrap();
        let note = store.note(&key(&store, &text)).expect("the tree was kept");
        let kept = decode::<Module>(&note, &source(&text)).unwrap();
        let parsed = parse::parse_module(&source(&text)).map(canonical).unwrap();
        let again = parse(&store, &ENVIRONMENT, &source(&text)).unwrap();
        for other in [parsed, kept, again] {
            assert!(told(&first) == told(&other));
        }
    }

    fn canonical(module: Module) -> Module {
        encode(&module).unwrap();
        module
    }

    /// The tree that lies there is the one that is used; an audit, another environment and another text do not see it, and
    /// one that is damaged is made again.
    ///
    /// Kills: a tree that is parsed each time; a key without the environment or the text; an audit that believes trees.
    #[test]
    fn a_tree_is_found_under_its_text_and_environment() {
        let (dir, store) = open();
        let (text, other) = (long(1), long(2));
        let planted = canonical(parse::parse_module(&source(&other)).unwrap());
        store.set_note(&key(&store, &text), &encode(&planted).unwrap()).unwrap();
        let value = |store: &Store, environment: &Key, text: &str| {
            let module = canonical(parse(store, environment, &source(text)).unwrap());
            encode(&module).unwrap()
        };
        let (one, two) = (
            encode(&canonical(parse::parse_module(&source(&text)).unwrap())).unwrap(),
            encode(&planted).unwrap(),
        );
        assert_ne!(one, two);
        assert_eq!(value(&store, &ENVIRONMENT, &text), two, "what was planted is used");
        assert_eq!(value(&store, &Key::from_bytes([8; 32]), &text), one);
        assert_eq!(value(&store, &ENVIRONMENT, &other), two);

        let audit = Config::default().dir(dir.path().join("cache")).audit(true);
        assert_eq!(value(&Store::open(audit), &ENVIRONMENT, &text), one);

        store.set_note(&key(&store, &text), &two[..two.len() / 2]).unwrap();
        assert_eq!(value(&store, &ENVIRONMENT, &text), one);
        assert_eq!(store.note(&key(&store, &text)).unwrap(), one, "it was made again");
    }

    /// Small texts, refused ones and those that nest deeply leave nothing behind.
    ///
    /// Kills: no limit on the depth; a note for every text.
    #[test]
    fn what_is_not_worth_it_is_not_kept() {
        let (_dir, store) = open();
        let filler = "#".repeat(LEAST);
        let deep = format!("x = {}1{}\n{filler}\n", "(-".repeat(MAX_DEPTH), ")".repeat(MAX_DEPTH));
        for text in ["x = 1\n".to_owned(), format!("x = = 1\n{filler}\n"), deep] {
            let _ = parse(&store, &ENVIRONMENT, &source(&text));
            assert_eq!(store.note(&key(&store, &text)), None, "{text}");
        }
    }
}
