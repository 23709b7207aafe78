//! Keys: two lists never encode alike, one list always does, and a difference is always explained.

use std::collections::HashMap;
use std::path::Path;
use std::process::{Command, Stdio};

use proptest::prelude::*;

use super::encode::Tag;
use super::reason::{PartChange, diff};
use super::{Key, KeyBuilder};

/// A part, as the tests see it. Floats are compared by their bits, as the encoding has them.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Value {
    Str(String),
    Bytes(Vec<u8>),
    U64(u64),
    I64(i64),
    F64(u64),
    Bool(bool),
    Key([u8; 32]),
    Group(Vec<Part>),
}

type Part = (String, Value);

fn add(builder: &mut KeyBuilder, parts: &[Part]) {
    for (name, value) in parts {
        match value {
            Value::Str(value) => builder.str(name, value),
            Value::Bytes(value) => builder.bytes(name, value),
            Value::U64(value) => builder.u64(name, *value),
            Value::I64(value) => builder.i64(name, *value),
            Value::F64(bits) => builder.f64(name, f64::from_bits(*bits)),
            Value::Bool(value) => builder.bool(name, *value),
            Value::Key(bytes) => builder.key(name, &Key::from_bytes(*bytes)),
            Value::Group(parts) => builder.group(name, |group| add(group, parts)),
        };
    }
}

fn build((domain, parts): &List) -> KeyBuilder {
    let mut builder = KeyBuilder::new(domain);
    add(&mut builder, parts);
    builder
}

fn explain((domain, parts): &List) -> KeyBuilder {
    let mut builder = KeyBuilder::explained(domain);
    add(&mut builder, parts);
    builder
}

/// A domain and its parts.
type List = (String, Vec<Part>);

// ---- reading back

/// The list that an encoding is of; `None` if it is of none.
fn decode(bytes: &[u8]) -> Option<List> {
    let (tag, name, domain, rest) = decode_part(bytes)?;
    let domain = String::from_utf8(domain.to_vec()).ok()?;
    (tag == Tag::Domain as u8 && name.is_empty()).then_some(())?;
    Some((domain, decode_parts(rest)?))
}

fn decode_parts(mut bytes: &[u8]) -> Option<Vec<Part>> {
    let mut parts = vec![];
    while !bytes.is_empty() {
        let (tag, name, value, rest) = decode_part(bytes)?;
        let value = match tag {
            2 => Value::Str(String::from_utf8(value.to_vec()).ok()?),
            3 => Value::Bytes(value.to_vec()),
            4 => Value::U64(u64::from_le_bytes(value.try_into().ok()?)),
            5 => Value::I64(i64::from_le_bytes(value.try_into().ok()?)),
            6 => Value::F64(u64::from_le_bytes(value.try_into().ok()?)),
            7 => Value::Bool(match value {
                [0] => false,
                [1] => true,
                _ => return None,
            }),
            8 => Value::Key(value.try_into().ok()?),
            9 => Value::Group(decode_parts(value)?),
            _ => return None,
        };
        parts.push((name, value));
        bytes = rest;
    }
    Some(parts)
}

/// Tag, name and value of the first part, and what follows it.
fn decode_part(bytes: &[u8]) -> Option<(u8, String, &[u8], &[u8])> {
    let (tag, bytes) = bytes.split_first()?;
    let (length, bytes) = bytes.split_first_chunk()?;
    let (name, bytes) = bytes.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    let (length, bytes) = bytes.split_first_chunk()?;
    let (value, rest) = bytes.split_at_checked(u64::from_le_bytes(*length) as usize)?;
    Some((*tag, String::from_utf8(name.to_vec()).ok()?, value, rest))
}

// ---- lists, and lists that are nearly the same

fn names() -> impl Strategy<Value = String> {
    // Short ones, of which some are alike, and some that look like the encoding's own bytes.
    prop_oneof![
        "[ab.]{0,3}",
        "[\\x00-\\x09]{0,6}",
        "\\PC{0,8}",
        Just("\u{1}\0\0\0a\u{1}\0\0\0\0\0\0\0b".to_string()),
    ]
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        names().prop_map(Value::Str),
        ".{0,40}".prop_map(Value::Str),
        proptest::collection::vec(any::<u8>(), 0..20).prop_map(Value::Bytes),
        proptest::collection::vec(0..10_u8, 0..20).prop_map(Value::Bytes),
        prop_oneof![0..4_u64, any::<u64>()].prop_map(Value::U64),
        prop_oneof![-2..2_i64, any::<i64>()].prop_map(Value::I64),
        prop_oneof![Just(0.0), Just(-0.0), Just(f64::NAN), any::<f64>()]
            .prop_map(|value| Value::F64(value.to_bits())),
        any::<bool>().prop_map(Value::Bool),
        any::<[u8; 32]>().prop_map(Value::Key),
    ];
    leaf.prop_recursive(3, 24, 4, |value| {
        proptest::collection::vec((names(), value), 0..4).prop_map(Value::Group)
    })
}

fn lists() -> impl Strategy<Value = List> {
    ("[ab]{0,2}", proptest::collection::vec((names(), values()), 0..6))
}

/// Parts as they stand in an encoding, by whatever the builder does.
fn encoding_of(parts: &[Part]) -> Vec<u8> {
    let empty = build(&(String::new(), vec![])).encoding().len();
    build(&(String::new(), parts.to_vec())).encoding()[empty..].to_vec()
}

/// The bytes of a value and nothing else.
fn bytes_of(value: &Value) -> Vec<u8> {
    match value {
        Value::Str(value) => value.clone().into_bytes(),
        Value::Bytes(value) => value.clone(),
        Value::U64(value) | Value::F64(value) => value.to_le_bytes().to_vec(),
        Value::I64(value) => value.to_le_bytes().to_vec(),
        Value::Bool(value) => vec![u8::from(*value)],
        Value::Key(value) => value.to_vec(),
        Value::Group(parts) => encoding_of(parts),
    }
}

/// Every value that has these bytes.
fn readings_of(bytes: &[u8]) -> Vec<Value> {
    let mut readings = vec![Value::Bytes(bytes.to_vec())];
    readings.extend(String::from_utf8(bytes.to_vec()).ok().map(Value::Str));
    if let Ok(word) = bytes.try_into().map(u64::from_le_bytes) {
        readings.extend([Value::U64(word), Value::I64(word as i64), Value::F64(word)]);
    }
    readings.extend(bytes.try_into().ok().map(Value::Key));
    if let [bit @ 0..=1] = bytes {
        readings.push(Value::Bool(*bit == 1));
    }
    readings.extend(decode_parts(bytes).map(Value::Group));
    readings
}

/// Lists that a careless encoding would not tell from this one: the same bytes, cut in another way.
fn near(list: &List) -> Vec<List> {
    let (domain, parts) = list;
    let mut near: Vec<Vec<Part>> = vec![];
    for at in 0..parts.len() {
        let (before, here, after) = (&parts[..at], &parts[at], &parts[at + 1..]);
        let (name, value) = here;
        let mut push = |middle: Vec<Part>, after: &[Part]| {
            near.push([before, &middle, after].concat());
        };
        // The type.
        let bytes = bytes_of(value);
        for reading in readings_of(&bytes) {
            push(vec![(name.clone(), reading)], after);
        }
        // Between name and value, either way.
        if let Value::Str(text) = value {
            for (cut, _) in name.char_indices() {
                let (left, right) = name.split_at(cut);
                push(vec![(left.into(), Value::Str(format!("{right}{text}")))], after);
            }
            for (cut, c) in text.char_indices() {
                let (left, right) = text.split_at(cut + c.len_utf8());
                push(vec![(format!("{name}{left}"), Value::Str(right.into()))], after);
                push(
                    vec![
                        (name.clone(), Value::Str(left.into())),
                        ("".into(), Value::Str(right.into())),
                    ],
                    after,
                );
            }
            // Between this value and the next part's name.
            if let Some(((next, value), after)) = after.split_first() {
                for (cut, _) in next.char_indices() {
                    let (left, right) = next.split_at(cut);
                    let moved = Value::Str(format!("{text}{left}"));
                    push(vec![(name.clone(), moved), (right.into(), value.clone())], after);
                }
            }
        }
        // A value that swallows the parts after it, as many as there are.
        for end in 0..=after.len() {
            let swallowed = [bytes.clone(), encoding_of(&after[..end])].concat();
            for reading in readings_of(&swallowed) {
                push(vec![(name.clone(), reading)], &after[end..]);
            }
        }
        // A group with another end, or none.
        if let Value::Group(inner) = value {
            let group = |parts: &[Part]| (name.clone(), Value::Group(parts.to_vec()));
            push([&[group(&[])], &inner[..]].concat(), after);
            push(inner.clone(), after);
            for end in 0..inner.len() {
                push([&[group(&inner[..end])], &inner[end..]].concat(), after);
            }
            for end in 1..=after.len() {
                push(vec![group(&[inner, &after[..end]].concat())], &after[end..]);
            }
        }
        push(vec![(name.clone(), Value::Group(vec![here.clone()]))], after);
        push(vec![here.clone(), here.clone()], after);
        push(vec![], after);
        if let Some((next, after)) = after.split_first() {
            push(vec![next.clone(), here.clone()], after);
        }
    }
    let mut near: Vec<_> = near.into_iter().map(|parts| (domain.clone(), parts)).collect();
    // The domain as a part, and a part as the domain.
    near.push((
        String::new(),
        [&[(String::new(), Value::Str(domain.clone()))], &parts[..]].concat(),
    ));
    if let Some(((_, Value::Str(text)), rest)) = parts.split_first() {
        near.push((text.clone(), rest.to_vec()));
        near.push((format!("{domain}{text}"), rest.to_vec()));
    }
    near
}

/// Two lists that would be one if names had no length: the name of the one ends where the length of the
/// other's value begins.
fn smuggled(name: &str, extension: &str, text: &str, rest: &[Part]) -> [List; 2] {
    let length = |n: usize| String::from_utf8((n as u64).to_le_bytes().to_vec()).unwrap();
    let inner = format!("{extension}{}{text}", length(text.len()));
    let long = format!("{name}{}{extension}", length(inner.len()));
    let list = |name: &str, text: &str| {
        let first = (name.to_string(), Value::Str(text.to_string()));
        ("domain".to_string(), [&[first], rest].concat())
    };
    [list(name, &inner), list(&long, text)]
}

// Each of these was seen killed by `nearly_equal_lists_encode_differently` and by
// `an_encoding_reads_back_in_one_way`: no length of the name, no tag, no length of the value, no end of a
// group (its parts written after it, its length 0).
proptest! {
    #[test]
    fn an_encoding_reads_back_in_one_way(list in lists()) {
        let encoding = build(&list).encoding().to_vec();
        prop_assert_eq!(decode(&encoding), Some(list));
    }

    #[test]
    fn nearly_equal_lists_encode_differently(
        list in lists(),
        name in "[a-c]{0,2}",
        extension in "[a-c]{0,2}",
        text in "[a-c]{0,4}",
    ) {
        let mut lists = near(&list);
        lists.push(list.clone());
        lists.extend(smuggled(&name, &extension, &text, &list.1));
        let mut seen: HashMap<Vec<u8>, &List> = HashMap::new();
        for list in &lists {
            let first = *seen.entry(build(list).encoding().to_vec()).or_insert(list);
            prop_assert_eq!(first, list, "two lists, one encoding");
        }
    }

    #[test]
    fn any_two_lists_encode_alike_only_if_they_are_equal(one in lists(), other in lists()) {
        let (ones, others) = (build(&one), build(&other));
        prop_assert_eq!(ones.encoding() == others.encoding(), one == other);
        prop_assert_eq!(ones.finish() == others.finish(), one == other);
    }

    #[test]
    fn explaining_changes_no_key(list in lists()) {
        let (plain, explained) = (build(&list), explain(&list));
        prop_assert_eq!(plain.encoding(), explained.encoding());
        prop_assert!(plain.digests().is_empty());
    }

    // Mutants: groups have no digest of their own; the domain has none; `diff` does not compare the order;
    // `diff` does not compare kinds.
    #[test]
    fn a_difference_is_always_explained(list in lists()) {
        let old = explain(&list);
        prop_assert_eq!(diff(old.digests(), old.digests()), []);
        let mut others = near(&list);
        others.push((format!("{}2", list.0), list.1.clone()));
        for other in others {
            let new = explain(&other);
            let same = old.finish() == new.finish();
            prop_assert_eq!(old.digests() == new.digests(), same);
            prop_assert_eq!(diff(old.digests(), new.digests()).is_empty(), same, "{:?}", other);
        }
    }

    #[test]
    fn keys_are_their_text(bytes: [u8; 32]) {
        let key = Key::from_bytes(bytes);
        let text = key.to_string();
        prop_assert_eq!(text.len(), 64);
        prop_assert_eq!(text.parse(), Ok(key));
        prop_assert_eq!(text.to_uppercase().parse(), Ok(key));
        let words: Vec<u8> = (0..4).flat_map(|n| key.word(n).to_le_bytes()).collect();
        prop_assert_eq!(words, bytes);
    }

    #[test]
    fn other_text_is_no_key(text in "[0-9a-g+ ]{62,66}|\\PC{64}") {
        let valid = text.len() == 64 && text.bytes().all(|c| c.is_ascii_hexdigit());
        prop_assert_eq!(text.parse::<Key>().is_ok(), valid);
    }
}

#[test]
fn a_group_that_panics_leaves_no_list_behind() {
    let mut builder = KeyBuilder::new("test");
    let fill = |group: &mut KeyBuilder| {
        group.u64("a", 1);
        std::panic::resume_unwind(Box::new(()));
    };
    let filled = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        builder.group("group", fill);
    }));
    assert!(filled.is_err());
    assert_eq!(decode(builder.u64("b", 2).encoding()), None);
}

// ---- what people read

#[test]
fn changes_are_named() {
    let parts = |opt: u64, cpu: &str, extra: bool| {
        let mut parts = KeyBuilder::explained("test v1");
        parts.str("name", "add").u64("opt", opt).group("target", |target| {
            target.str("cpu", cpu).bool("pic", true);
            if extra {
                target.i64("extra", -1);
            }
        });
        parts.digests().to_vec()
    };
    let (name, old, new) = ("target.cpu".into(), "zen4".into(), "skylake".into());
    let changed = PartChange::Changed { name, old, new };
    assert_eq!(diff(&parts(2, "zen4", false), &parts(2, "skylake", false)), [changed]);
    let (name, new) = ("target.extra".to_string(), "-1".to_string());
    let added = PartChange::Added { name: name.clone(), new: new.clone() };
    let removed = PartChange::Removed { name, old: new };
    let opt = |old: &str, new: &str| {
        let (name, old, new) = ("opt".into(), old.into(), new.into());
        PartChange::Changed { name, old, new }
    };
    assert_eq!(diff(&parts(2, "a", false), &parts(3, "a", true)), [opt("2", "3"), added]);
    assert_eq!(diff(&parts(2, "a", true), &parts(3, "a", false)), [opt("2", "3"), removed]);
    let mut turned = parts(2, "a", false);
    turned.reverse();
    assert_eq!(diff(&parts(2, "a", false), &turned), [PartChange::Reordered]);
}

#[test]
fn parts_of_one_name_are_matched_in_their_order() {
    let parts = |values: &[u64]| {
        let mut parts = KeyBuilder::explained("test v1");
        values.iter().for_each(|&value| _ = parts.u64("n", value));
        parts.digests().to_vec()
    };
    let name = || "n".to_string();
    let changed = PartChange::Changed { name: name(), old: "2".into(), new: "5".into() };
    assert_eq!(diff(&parts(&[1, 2, 3]), &parts(&[1, 5, 3])), [changed]);
    let removed = PartChange::Removed { name: name(), old: "3".into() };
    assert_eq!(diff(&parts(&[1, 2, 3]), &parts(&[1, 2])), [removed]);
}

#[test]
fn previews_are_short_and_on_one_line() {
    let mut parts = KeyBuilder::explained("test v1");
    let long = "a\u{1b}[31m\nb".to_string() + &"ü".repeat(200);
    parts.str("str", &long).bytes("bytes", &[1, 171]).bytes("more", &[0; 33]).f64("f64", 1.5);
    parts.group("group", |group| _ = group.bool("bool", true).key("key", &Key([7; 32])));
    let previews: Vec<_> =
        parts.digests().iter().map(|part| (&*part.name, &*part.kind, &*part.preview)).collect();
    let str = format!("a [31m b{}", "ü".repeat(72));
    assert_eq!(
        previews,
        [
            ("", "domain", "test v1"),
            ("str", "str", &*str),
            ("bytes", "bytes", "2 bytes 01ab"),
            ("more", "bytes", "33 bytes"),
            ("f64", "f64", "1.5 0x3ff8000000000000"),
            ("group", "group", "2 parts"),
            ("group.bool", "bool", "true"),
            ("group.key", "key", &*"07".repeat(32)),
        ]
    );
    assert!(previews.iter().all(|(.., preview)| preview.chars().count() <= 80));
}

// ---- the same everywhere

/// A list with a part of every kind, some of it from a map whose order differs between processes.
fn sample() -> Key {
    let flags: HashMap<_, _> = (0..50_u64).map(|n| (format!("flag-{n}"), n)).collect();
    let mut flags: Vec<_> = flags.iter().collect();
    flags.sort();
    let mut parts = KeyBuilder::new("cachelift test v1");
    parts.str("str", "text").bytes("bytes", b"\0\xff").u64("u64", 1).i64("i64", -1);
    parts.f64("f64", -0.0).bool("bool", true).key("key", &Key([9; 32]));
    parts.group("flags", |group| flags.iter().for_each(|(name, n)| _ = group.u64(name, **n)));
    parts.finish()
}

/// Keys are part of the format on disk: an entry of an older version must be found, or its domain be changed.
#[test]
fn keys_are_what_they_were() {
    let mut parts = KeyBuilder::new("d");
    parts.group("g", |group| _ = group.bool("b", true));
    let length = |n: u64| n.to_le_bytes();
    let domain = [&b"\x01\0\0\0\0"[..], &length(1), b"d"].concat();
    let group = [&b"\x09\x01\0\0\0g"[..], &length(15)].concat();
    let bool = [&b"\x07\x01\0\0\0b"[..], &length(1), b"\x01"].concat();
    assert_eq!(parts.encoding(), [domain, group, bool].concat());
    let empty = KeyBuilder::new("").finish().to_string();
    assert_eq!(empty, "6a2db3668acae77e715495a1bf2f7082bf7d4446ba7ce9fd96536b25d42a45dd");
    assert_eq!(
        sample().to_string(),
        "c7e5d06edff4f4d20889202b140e7b388346dfda3b759b796aeec0ee1edba413"
    );
}

const OUTPUT: &str = "CACHELIFT_TEST_KEY";

// Mutant: `begin` adds the working directory, the process id, or what `RandomState` hashes.
#[test]
fn keys_are_the_same_in_other_processes_folders_and_homes() {
    if let Some(output) = std::env::var_os(OUTPUT) {
        return std::fs::write(output, sample().to_string()).unwrap();
    }
    let test = std::thread::current().name().unwrap().to_string();
    let temporary = tempfile::tempdir().unwrap();
    for (at, folder) in ["/", "/tmp", "/usr"].map(Path::new).into_iter().enumerate() {
        let output = temporary.path().join(at.to_string());
        let status = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &test])
            .env_clear()
            .env(OUTPUT, &output)
            .env("HOME", folder)
            .env("USER", format!("user-{at}"))
            .env("LC_ALL", "tr_TR.UTF-8")
            .current_dir(folder)
            .stdout(Stdio::null())
            .status()
            .unwrap();
        assert!(status.success());
        assert_eq!(std::fs::read_to_string(&output).unwrap(), sample().to_string());
    }
}
