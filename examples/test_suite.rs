//! A test suite whose tests need the same few kernels. Each kernel is compiled once, however the tests are run: by
//! threads of one process, or by `cargo nextest`, which starts a process per test.
//!
//! ```text
//! cargo test --release --example test_suite
//! CACHELIFT_STATS=stats.jsonl cargo nextest run --release --example test_suite    a line of counters per test
//! ```
//!
//! The cache lies in the target directory, so that `cargo clean` removes it and checkouts do not share it.

fn main() {
    println!("this example is a test suite: cargo test --example test_suite");
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::OnceLock;

    use cachelift::code::CachingModule;
    use cachelift::config::Config;
    use cachelift::store::Store;
    use cranelift_codegen::ir::{AbiParam, InstBuilder, types::I64};
    use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
    use cranelift_jit::JITBuilder;
    use cranelift_module::{Linkage, Module, default_libcall_names};

    /// One store for the tests of this process; one directory for all processes.
    fn store() -> Store {
        static STORE: OnceLock<Store> = OnceLock::new();
        let open = || {
            let exe = std::env::current_exe().expect("a test is a program");
            let dir = exe.parent().unwrap_or(Path::new(".")).join("cachelift-test-suite");
            Store::open(Config::from_env().expect("a clean environment").dir(dir))
        };
        STORE.get_or_init(open).clone()
    }

    /// Raises to the power `n` by multiplying.
    fn power(n: usize) -> (CachingModule, extern "C" fn(i64) -> i64) {
        let builder = JITBuilder::new(default_libcall_names()).unwrap();
        let mut module = CachingModule::new(builder, store());
        let mut ctx = module.make_context();
        ctx.func.signature.params.push(AbiParam::new(I64));
        ctx.func.signature.returns.push(AbiParam::new(I64));
        let id = module.declare_function("power", Linkage::Export, &ctx.func.signature).unwrap();
        let mut frontend = FunctionBuilderContext::new();
        let mut b = FunctionBuilder::new(&mut ctx.func, &mut frontend);
        let block = b.create_block();
        b.append_block_params_for_function_params(block);
        b.switch_to_block(block);
        b.seal_block(block);
        let x = b.block_params(block)[0];
        let product = (1..n).fold(x, |product, _| b.ins().imul(product, x));
        b.ins().return_(&[product]);
        b.finalize(module.target_config());
        module.define_function(id, &mut ctx).unwrap();
        module.finalize_definitions().unwrap();
        // SAFETY: the function was built with this signature; it is returned with its module, and a module that is
        // dropped keeps its memory.
        let function = unsafe {
            std::mem::transmute::<*const u8, extern "C" fn(i64) -> i64>(
                module.get_finalized_function(id),
            )
        };
        (module, function)
    }

    #[test]
    fn squares() {
        let (_module, square) = power(2);
        assert!((0..100).all(|x| square(x) == x * x));
    }

    #[test]
    fn squares_of_negative_numbers() {
        let (_module, square) = power(2);
        assert!((-100..0).all(|x| square(x) == x * x));
    }

    #[test]
    fn cubes_are_squares_times_their_root() {
        let (_squares, square) = power(2);
        let (_cubes, cube) = power(3);
        assert!((-100..100).all(|x| cube(x) == square(x) * x));
    }

    #[test]
    fn powers_wrap() {
        let (_module, power) = power(64);
        assert_eq!(power(2), 0);
        assert_eq!(power(-1), 1);
    }
}
