//! For whom code is compiled, and everything about that which enters every key: the *environment*.
//!
//! ```text
//!   format, sources digest, code generators, Cranelift's version,     ┐
//!   triple, pointer width, every shared flag, every CPU feature       ├─► named parts ──► one Key
//!                                                                     ┘      └─► explain: which part differs
//! ```
//!
//! The environment is hashed once per [`Target`]; a function's key then costs one part more. An artifact
//! carries the environment's key too, and is refused under another: a second line of defence, should a
//! key ever be wrong.
#![doc = include_str!("INPUTS.md")]

use std::fmt;

use cranelift_codegen::isa::{OwnedTargetIsa, TargetIsa};
use cranelift_codegen::settings::{self, Configurable};

use super::error::CodeError;
use crate::key::{Key, KeyBuilder};
use target_lexicon::Architecture;

/// The version of what this layer writes: how functions are hashed and what artifacts look like.
pub const FORMAT: u64 = 1;

/// The digest of the sources that shape code, by the build script.
const SOURCES: &str = env!("CACHELIFT_SOURCES");
/// The crates that generate code, with the versions that this build was locked to, by the build script.
const CODE_GENERATORS: &str = env!("CACHELIFT_CODE_GENERATORS");

/// Flags that do not enter the environment, each with the reason why it cannot change an artifact.
///
/// `enable_verifier` and `regalloc_checker` are not among them: with them on a compile can fail, and a hit
/// on what was compiled without them would hide that.
pub const MASKED: &[(&str, &str)] = &[
    ("regalloc_verbose_logs", "writes a log, and nothing else"),
    ("enable_incremental_compilation_cache_checks", "is read by Cranelift's own cache only"),
    ("machine_code_cfg_info", "adds a list of basic blocks, which artifacts do not keep"),
];

/// One named part of an [environment](Target::parts).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// What it is: `cranelift`, `flag opt_level`, `cpu has_avx2`.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// A target that this machine can run: an ISA with all its settings, and its environment.
#[derive(Clone)]
pub struct Target {
    isa: OwnedTargetIsa,
    parts: Vec<Part>,
    environment: Key,
}

impl Target {
    /// This machine with every CPU feature it has, and code optimised for speed.
    pub fn host() -> Result<Self, CodeError> {
        Self::host_with(&[])
    }

    /// As [`host`](Self::host), with these shared flags set besides: `("opt_level", "none")`.
    pub fn host_with(flags: &[(&str, &str)]) -> Result<Self, CodeError> {
        let fail = |reason: String| CodeError::Target { target: "host".into(), reason };
        let mut shared = settings::builder();
        for (name, value) in [("opt_level", "speed")].iter().chain(flags) {
            shared.set(name, value).map_err(|error| fail(format!("{name}={value}: {error}")))?;
        }
        let isa = cranelift_native::builder()
            .map_err(|reason| fail(reason.into()))?
            .finish(settings::Flags::new(shared))
            .map_err(|error| fail(error.to_string()))?;
        Self::new(isa)
    }

    /// The target of this ISA. Fails if this machine is of another architecture or lacks a CPU feature
    /// that the ISA's settings count on.
    pub fn new(isa: OwnedTargetIsa) -> Result<Self, CodeError> {
        runs_here(&*isa)
            .map_err(|reason| CodeError::Target { target: isa.triple().to_string(), reason })?;
        let parts = parts(&*isa);
        let environment = key(&parts);
        Ok(Target { isa, parts, environment })
    }

    /// The same target, whose code is independent of where it lies.
    pub(crate) fn position_independent(&self) -> Result<Self, CodeError> {
        let isa = position_independent(self.isa()).ok_or_else(|| CodeError::Target {
            target: self.isa.triple().to_string(),
            reason: "images are made for x86-64 alone".into(),
        })?;
        Self::new(isa)
    }

    /// The ISA.
    pub fn isa(&self) -> &dyn TargetIsa {
        &*self.isa
    }

    /// The key of the environment: a part of the key of every function compiled for this target.
    pub fn environment(&self) -> &Key {
        &self.environment
    }

    /// The parts of the environment.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Target({}, {:?})", self.isa.triple(), self.environment)
    }
}

fn parts(isa: &dyn TargetIsa) -> Vec<Part> {
    let part = |name: &str, value: String| Part { name: name.into(), value };
    let mut parts = vec![
        part("format", FORMAT.to_string()),
        part("sources", SOURCES.into()),
        part("code generators", CODE_GENERATORS.into()),
        part("cranelift", cranelift_codegen::VERSION.into()),
        part("isa", isa.name().into()),
        part("triple", isa.triple().to_string()),
        part("pointer width", isa.pointer_bits().to_string()),
    ];
    for flag in isa.flags().iter().filter(|flag| MASKED.iter().all(|(name, _)| *name != flag.name))
    {
        parts.push(part(&format!("flag {}", flag.name), flag.value_string()));
    }
    for flag in isa.isa_flags() {
        parts.push(part(&format!("cpu {}", flag.name), flag.value_string()));
    }
    parts
}

/// The key of the environment that this ISA makes.
pub(crate) fn environment(isa: &dyn TargetIsa) -> Key {
    key(&parts(isa))
}

fn key(parts: &[Part]) -> Key {
    let mut key = KeyBuilder::new("cachelift environment v1");
    for part in parts {
        key.str(&part.name, &part.value);
    }
    key.finish()
}

/// The same ISA with the same settings, but that its code reaches everything else by way of a table of addresses; none if
/// that is not supported for it.
pub(crate) fn position_independent(isa: &dyn TargetIsa) -> Option<OwnedTargetIsa> {
    if isa.triple().architecture != Architecture::X86_64 {
        return None;
    }
    let mut shared = settings::builder();
    for flag in isa.flags().iter() {
        shared.set(flag.name, &flag.value_string()).ok()?;
    }
    shared.set("is_pic", "true").ok()?;
    shared.set("use_colocated_libcalls", "false").ok()?;
    let mut builder = cranelift_codegen::isa::lookup(isa.triple().clone()).ok()?;
    for flag in isa.isa_flags() {
        builder.set(flag.name, &flag.value_string()).ok()?;
    }
    builder.finish(settings::Flags::new(shared)).ok()
}

/// Whether code for `isa` can run on this machine; if not, why.
fn runs_here(isa: &dyn TargetIsa) -> Result<(), String> {
    let host = cranelift_native::builder()?
        .finish(settings::Flags::new(settings::builder()))
        .map_err(|error| error.to_string())?;
    if isa.triple().architecture != host.triple().architecture {
        return Err(format!("this machine is {}", host.triple().architecture));
    }
    let here = host.isa_flags();
    for flag in isa.isa_flags() {
        let wanted = flag.name.starts_with("has_") && flag.as_bool() == Some(true);
        let had = here.iter().any(|had| had.name == flag.name && had.as_bool() == Some(true));
        if wanted && !had {
            return Err(format!("this CPU lacks {}", flag.name.trim_start_matches("has_")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use cranelift_codegen::settings::SettingKind;

    fn isa_with(shared: &[(&str, &str)], cpu: &[(&str, &str)]) -> OwnedTargetIsa {
        let mut flags = settings::builder();
        for (name, value) in shared {
            flags.set(name, value).unwrap();
        }
        let mut builder = cranelift_native::builder_with_options(false).unwrap();
        for (name, value) in cpu {
            builder.set(name, value).unwrap();
        }
        builder.finish(settings::Flags::new(flags)).unwrap()
    }

    /// A value that a setting does not have by default.
    fn other(setting: &settings::Setting, now: &str) -> Option<String> {
        match setting.kind {
            SettingKind::Bool => Some((now != "true").to_string()),
            SettingKind::Num => Some(if now == "3" { "4" } else { "3" }.to_owned()),
            SettingKind::Enum => {
                setting.values?.iter().find(|v| **v != now).map(|v| (*v).to_owned())
            }
            SettingKind::Preset => None,
        }
    }

    /// Every shared flag of this Cranelift changes the environment or is masked for a reason.
    /// Mutants: the flags left out of the parts; any one flag added to the mask without this test's
    /// list being changed with it.
    #[test]
    fn every_shared_flag_counts_or_is_masked() {
        let plain = isa_with(&[], &[]);
        let masked = [
            "regalloc_verbose_logs",
            "enable_incremental_compilation_cache_checks",
            "machine_code_cfg_info",
        ];
        assert_eq!(MASKED.iter().map(|(name, _)| *name).collect::<Vec<_>>(), masked);
        let mut seen = 0;
        for setting in settings::builder().iter() {
            let now = plain.flags().iter().find(|flag| flag.name == setting.name).unwrap();
            let Some(value) = other(&setting, &now.value_string()) else { continue };
            let changed = isa_with(&[(setting.name, &value)], &[]);
            let same = environment(&*plain) == environment(&*changed);
            assert_eq!(same, masked.contains(&setting.name), "{}={value}", setting.name);
            seen += 1;
        }
        assert!(seen >= 25, "{seen} flags tried");
    }

    /// Mutant: the ISA's flags left out of the parts.
    #[test]
    fn every_cpu_feature_counts() {
        let plain = isa_with(&[], &[]);
        let builder = cranelift_native::builder_with_options(false).unwrap();
        let mut seen = 0;
        for setting in builder.iter() {
            let Some(now) = plain.isa_flags().into_iter().find(|flag| flag.name == setting.name)
            else {
                continue;
            };
            let Some(value) = other(&setting, &now.value_string()) else { continue };
            let changed = isa_with(&[], &[(setting.name, &value)]);
            assert_ne!(environment(&*plain), environment(&*changed), "{}", setting.name);
            seen += 1;
        }
        assert!(seen >= 15, "{seen} features tried");
    }

    /// Each of the parts that is no flag counts too. Mutant: any of them left out of `key`.
    #[test]
    fn every_part_counts() {
        let isa = isa_with(&[], &[]);
        let parts = parts(&*isa);
        for name in ["format", "sources", "code generators", "cranelift", "triple", "pointer width"]
        {
            let mut changed = parts.clone();
            let part = changed.iter_mut().find(|part| part.name == name).expect(name);
            assert!(!part.value.is_empty(), "{name}");
            part.value.push('x');
            assert_ne!(key(&parts), key(&changed), "{name}");
        }
        assert_eq!(SOURCES.len(), 64);
        assert!(CODE_GENERATORS.contains("regalloc2 "), "{CODE_GENERATORS}");
    }

    /// Mutant: `runs_here` left out.
    #[test]
    fn a_feature_that_this_cpu_lacks_is_refused() {
        let host = cranelift_native::builder()
            .unwrap()
            .finish(settings::Flags::new(settings::builder()))
            .unwrap();
        let lacking = host
            .isa_flags()
            .into_iter()
            .find(|flag| flag.name.starts_with("has_") && flag.as_bool() == Some(false));
        // A CPU that has everything Cranelift knows cannot show this.
        if let Some(flag) = lacking {
            let error = Target::new(isa_with(&[], &[(flag.name, "true")])).unwrap_err();
            assert!(error.to_string().contains(&flag.name["has_".len()..]), "{error}");
        }
        Target::new(host).unwrap();
    }

    #[test]
    fn settings_that_do_not_exist_are_named() {
        let error = Target::host_with(&[("opt_level", "best")]).unwrap_err();
        assert!(error.to_string().contains("opt_level=best"), "{error}");
    }
}
