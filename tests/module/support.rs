//! What the tests of this folder share: CLIF as text in, functions of a module out.

use std::path::Path;

use cachelift::code::CachingModule;
use cachelift::config::Config;
use cachelift::store::Store;
use cranelift_codegen::Context;
use cranelift_codegen::ir::{
    ExternalName, Function, GlobalValueData, Signature, UserExternalName, UserFuncName,
};
use cranelift_jit::JITBuilder;
use cranelift_module::{
    FuncId, FuncOrDataId, Linkage, Module, ModuleResult, default_libcall_names,
};

/// A store of this process alone.
pub(crate) fn store() -> Store {
    Store::open(Config::default())
}

/// A new store over a directory: what is found there was on disk.
pub(crate) fn store_in(dir: &Path) -> Store {
    Store::open(Config::default().dir(dir.join("cache")))
}

pub(crate) fn builder() -> JITBuilder {
    let flags = [("opt_level", "speed"), ("preserve_frame_pointers", "true")];
    JITBuilder::with_flags(&flags, default_libcall_names()).unwrap()
}

/// Both kinds of module, over one store.
pub(crate) fn both(store: &Store) -> [CachingModule; 2] {
    [
        CachingModule::new(builder(), store.clone()),
        CachingModule::code_only(builder(), store.clone()),
    ]
}

pub(crate) fn parse(text: &str) -> Vec<Function> {
    cranelift_reader::parse_functions(text).unwrap()
}

/// The signature of the first function of a text.
pub(crate) fn signature(text: &str) -> Signature {
    parse(text)[0].signature.clone()
}

pub(crate) fn name(function: &Function) -> String {
    match &function.name {
        UserFuncName::Testcase(name) => name.to_string().trim_start_matches('%').into(),
        UserFuncName::User(name) => name.to_string(),
    }
}

/// Replaces the names in a function by the ids that the module has under them, and declares as imports those that it
/// does not have.
pub(crate) fn link(module: &mut impl Module, function: &mut Function) {
    let user = |id| match id {
        FuncOrDataId::Func(id) => UserExternalName::new(0, id.as_u32()),
        FuncOrDataId::Data(id) => UserExternalName::new(1, id.as_u32()),
    };
    let calls: Vec<_> = function.dfg.ext_funcs.iter().map(|(at, f)| (at, f.clone())).collect();
    for (at, callee) in calls {
        let name = match &callee.name {
            ExternalName::TestCase(name) => name.to_string().trim_start_matches('%').to_owned(),
            ExternalName::User(user) => function.params.user_named_funcs()[*user].to_string(),
            _ => continue,
        };
        if name.is_empty() {
            continue;
        }
        let signature = function.dfg.signatures[callee.signature].clone();
        let id = module.get_name(&name).unwrap_or_else(|| {
            let id = module.declare_function(&name, Linkage::Import, &signature).unwrap();
            FuncOrDataId::Func(id)
        });
        let reference = function.params.ensure_user_func_name(user(id));
        function.dfg.ext_funcs[at].name = ExternalName::User(reference);
    }
    for at in function.global_values.keys().collect::<Vec<_>>() {
        if let GlobalValueData::Symbol { name: ExternalName::TestCase(name), .. } =
            &function.global_values[at]
        {
            let name = name.to_string().trim_start_matches('%').to_owned();
            let id = module.get_name(&name).expect("declared before");
            let reference = function.params.ensure_user_func_name(user(id));
            if let GlobalValueData::Symbol { name, .. } = &mut function.global_values[at] {
                *name = ExternalName::User(reference);
            }
        }
    }
}

/// Declares and defines the functions of a text, in their order or last to first; a context for each is handed to
/// `after`.
pub(crate) fn define_with(
    module: &mut impl Module,
    text: &str,
    reversed: bool,
    mut after: impl FnMut(&Context),
) -> ModuleResult<Vec<FuncId>> {
    let mut functions = parse(text);
    if reversed {
        functions.reverse();
    }
    let mut ids = Vec::new();
    for function in &functions {
        ids.push(module.declare_function(&name(function), Linkage::Export, &function.signature)?);
    }
    let mut context = module.make_context();
    for (mut function, id) in functions.into_iter().zip(&ids) {
        link(module, &mut function);
        context.func = function;
        // On purpose not all is cleared: nothing of one function may be seen in the next.
        context.cfg.clear();
        context.domtree.clear();
        module.define_function(*id, &mut context)?;
        after(&context);
    }
    Ok(ids)
}

pub(crate) fn define(module: &mut impl Module, text: &str) -> Vec<FuncId> {
    define_with(module, text, false, |_| {}).unwrap()
}

/// The address of a finalized function by its name.
pub(crate) fn address(module: &CachingModule, name: &str) -> *const u8 {
    let Some(FuncOrDataId::Func(id)) = module.get_name(name) else { panic!("no function {name}") };
    module.get_finalized_function(id)
}

/// Calls a function of the module that takes and returns one 64-bit integer.
pub(crate) fn call(module: &CachingModule, name: &str, x: i64) -> i64 {
    // SAFETY: the tests' functions have this signature, and touch no memory but what they are handed.
    let function: extern "C" fn(i64) -> i64 = unsafe { std::mem::transmute(address(module, name)) };
    function(x)
}

/// Runs the test of this name in another process, over this directory; whether this is that process.
pub(crate) fn in_another_process(test: &str, dir: &Path, arguments: &str) -> String {
    in_process(&[], test, dir, arguments)
}

/// As [`in_another_process`], which this program starts.
pub(crate) fn in_process(with: &[&str], test: &str, dir: &Path, arguments: &str) -> String {
    let exe = std::env::current_exe().unwrap();
    let mut command = match with {
        [] => std::process::Command::new(exe),
        [program, rest @ ..] => {
            let mut command = std::process::Command::new(program);
            command.args(rest).arg(exe);
            command
        }
    };
    let output = command
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(DIR, dir)
        .env(ARGUMENTS, arguments)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let said = text.lines().filter_map(|line| line.split_once("SAID ").map(|(_, said)| said));
    said.collect::<Vec<_>>().join("\n")
}

const DIR: &str = "CACHELIFT_TEST_CHILD_DIR";
const ARGUMENTS: &str = "CACHELIFT_TEST_CHILD_ARGUMENTS";

/// In such a process: the directory and the arguments.
pub(crate) fn child() -> Option<(std::path::PathBuf, String)> {
    Some((std::env::var_os(DIR)?.into(), std::env::var(ARGUMENTS).unwrap()))
}
