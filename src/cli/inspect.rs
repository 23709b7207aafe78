//! `cachelift inspect`: what is kept under a key.

use std::fmt::{self, Write as _};

use clap::Args;

use super::exit::Exit;
use super::output::{HEAD, Output, micros, styled};
use crate::code::inspect::anatomy;
use crate::config::Config;
use crate::key::Key;
use crate::store::{Inspection, Kind, Store};

/// Show what is kept under a key
///
/// Shows what is remembered of the entry, the parts of its key if they were kept, its sizes, the machine
/// code, and the CLIF if it was kept. Both are with `cachelift run --keep-ir`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cachelift run --keep-ir --summary human add.clif    prints the keys
  cachelift inspect 37298c20")]
pub(super) struct Arguments {
    /// The key, or the first digits of it: as many as it takes to mean one entry alone
    #[arg(value_name = "KEY", value_parser = prefix)]
    key: String,
}

/// Checks that a text is the beginning of a key.
fn prefix(text: &str) -> Result<String, String> {
    let digits = text.bytes().all(|byte| byte.is_ascii_hexdigit());
    match text.len() {
        1..=64 if digits => Ok(text.to_ascii_lowercase()),
        _ => Err("expected 64 hexadecimal digits, or the first of them".into()),
    }
}

/// Runs the command. It changes nothing in the cache.
pub(super) fn run(arguments: &Arguments, config: Config, mut output: Output) -> Exit {
    let place = super::dir_of(&config);
    let store = super::look(config);
    let Some(key) = store.as_ref().and_then(|store| find(&arguments.key, store)) else {
        output.error(format_args!("nothing under {} in {place}", arguments.key));
        return Exit::NoMatch;
    };
    let key = match key {
        Ok(key) => key,
        Err(several) => {
            output.error(format_args!("{} may be {}", arguments.key, several.join(" or ")));
            return Exit::Usage;
        }
    };
    match store.and_then(|store| store.inspect(&key)) {
        Some(inspection) => {
            output.data(format_args!("{}", show(&key, &inspection).trim_end()));
            output.finish(Exit::Ok)
        }
        None => {
            output.error(format_args!("nothing whole under {key} in {place}"));
            Exit::NoMatch
        }
    }
}

/// The key that begins with `prefix`; or some of them, if there are more than one.
fn find(prefix: &str, store: &Store) -> Option<Result<Key, Vec<String>>> {
    const SHOWN: usize = 4;
    if let Ok(key) = prefix.parse() {
        return Some(Ok(key));
    }
    let artifacts = store.entries().into_iter().filter(|entry| entry.kind == Kind::Artifact);
    let mut keys: Vec<_> = artifacts.map(|entry| (entry.key.to_string(), entry.key)).collect();
    keys.retain(|(text, _)| text.starts_with(prefix));
    keys.sort_unstable();
    match &keys[..] {
        [] => None,
        [(_, key)] => Some(Ok(*key)),
        _ => Some(Err(keys.into_iter().map(|(text, _)| text).take(SHOWN).collect())),
    }
}

fn show(key: &Key, inspection: &Inspection) -> String {
    let mut text = String::new();
    let record = &inspection.record;
    let meta = record.meta();
    let mut row = |name: &str, value: &dyn fmt::Display| {
        let _ = writeln!(text, "{}  {value}", styled(HEAD, format_args!("{name:<9}")));
    };
    row("key", key);
    row("what", &meta.label);
    row("made by", &meta.producer);
    row("made", &format_args!("{}, in {}", date(meta.created_s), micros(meta.cost_us)));
    let (payload, whole) = (record.payload().len(), inspection.record_bytes);
    row("payload", &format_args!("{payload} bytes of a record of {whole}"));
    let anatomy = anatomy(record.payload());
    match &anatomy {
        Err(error) => row("artifact", error),
        Ok(anatomy) => anatomy.rows.iter().for_each(|(name, what)| row(name, what)),
    }
    for part in &meta.parts {
        row("part", &format_args!("{} ({}) = {}", part.name, part.kind, part.preview));
    }
    if let Ok(anatomy) = &anatomy {
        let _ = write!(text, "\n{}\n{}", styled(HEAD, "machine code"), anatomy.listing);
    }
    if let Some(source) = &meta.source {
        let _ = write!(text, "\n{}\n{source}", styled(HEAD, "CLIF"));
    }
    text
}

/// A time in seconds since 1970, as people write it.
fn date(seconds: u64) -> String {
    // The civil calendar from days, years beginning in March: a leap day then ends its year.
    let days = seconds / 86_400 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, after) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = year + era * 400 + after;
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::{CachingModule, Engine, Options, Program, Target};

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(date(951_782_399), "2000-02-28 23:59:59 UTC");
        assert_eq!(date(951_782_400), "2000-02-29 00:00:00 UTC");
        assert_eq!(date(1_709_251_200), "2024-03-01 00:00:00 UTC");
        assert_eq!(date(4_107_542_399), "2100-02-28 23:59:59 UTC");
        assert_eq!(date(4_107_542_400), "2100-03-01 00:00:00 UTC");
    }

    /// Mutant seen: remarks looked up at the instruction's first byte alone.
    #[test]
    fn everything_kept_is_shown() {
        let text = "function %f(i32, i32) -> i32 {\n fn0 = %g(i32) -> i32\nblock0(v0: i32, v1: i32):\n \
                    v2 = sdiv v0, v1\n v3 = call fn0(v2)\n return v3\n}";
        let clif = cranelift_reader::parse_functions(text).unwrap().remove(0);
        let store = Store::open(Config::default());
        let options = Options { keep_source: true, keep_parts: true };
        let engine = Engine::with_options(store.clone(), Target::host().unwrap(), options);
        let mut program = Program::new();
        program.define("f", clif).unwrap().symbol("g", std::ptr::null()).unwrap();
        let loaded = engine.load(program).unwrap();
        let key = loaded.units().next().unwrap().key;
        let shown = show(&key, &store.inspect(&key).unwrap());
        let shown = anstream::adapter::strip_str(&shown).to_string();
        let has = |what: &str| assert!(shown.contains(what), "{what}\n{shown}");
        has(&format!("key        {key}\n"));
        has("what       f(i32, i32) -> i32 fast\n");
        has("relocs     1\n");
        has("Abs8 function 0");
        has("trap int_divz");
        has("idiv");
        has("part       environment.cranelift (str) = 0.135");
        has("v2 = sdiv v0, v1");
    }

    /// What modules keep, each thing in its own way. Mutant seen: what Cranelift says of a function not looked for.
    #[test]
    fn what_modules_keep_is_shown() {
        use cranelift_module::{Linkage, Module, default_libcall_names};
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(Config::default().dir(dir.path().join("cache")));
        let build = |module: &mut CachingModule| {
            let text =
                "function %f(i64) -> i64 system_v { block0(v0: i64): v1 = imul v0, v0 return v1 }";
            let mut context = module.make_context();
            context.func = cranelift_reader::parse_functions(text).unwrap().remove(0);
            let id = module.declare_function("f", Linkage::Export, &context.func.signature)?;
            module.define_function(id, &mut context)
        };
        let key = store.key("test").finish();
        for way in 0..2 {
            let builder = cranelift_jit::JITBuilder::new(default_libcall_names()).unwrap();
            let mut module = CachingModule::new(builder, store.clone());
            match way {
                0 => module.with_key(&key, build).unwrap(),
                _ => module.with_image(&key, build).unwrap(),
            };
        }
        let mut kinds = Vec::new();
        for entry in store.entries() {
            let shown = show(&entry.key, &store.inspect(&entry.key).unwrap());
            let shown = anstream::adapter::strip_str(&shown).to_string();
            let kept = shown.lines().find_map(|line| line.strip_prefix("kept"));
            kinds.push(kept.unwrap_or("nothing").trim().to_owned());
            assert!(shown.contains("imul"), "{shown}");
        }
        kinds.sort();
        let compiled = "all that Cranelift says of it";
        assert_eq!(kinds, ["a keyed group", compiled, compiled, "an image, to be mapped"]);
    }
}
