//! A JIT for arithmetic on one variable, whose code is compiled once on this machine.
//!
//! ```text
//! cargo run --release --example expression_jit -- 'x * x + 3 * (x - 1)' 7
//! cargo run --release --example expression_jit -- 'x * x + 3 * (x - 1)' 8     loaded from the cache
//! ```
//!
//! All that makes it a cached JIT is the line marked with `<--`; before, it was `JITModule::new(builder)`.

use std::iter::Peekable;
use std::str::Chars;

use cachelift::code::CachingModule;
use cachelift::config::Config;
use cachelift::store::Store;
use cranelift_codegen::ir::{AbiParam, InstBuilder, Value, types::F64};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::JITBuilder;
use cranelift_module::{FuncId, Linkage, Module, default_libcall_names};

type Error = Box<dyn std::error::Error>;

fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let source = arguments.next().unwrap_or_else(|| "x * x + 3 * pow(x - 1, 2)".into());
    let x: f64 = arguments.next().as_deref().unwrap_or("7").parse()?;
    let mut builder = JITBuilder::with_flags(&[("opt_level", "speed")], default_libcall_names())?;
    // By name, not by address: the address is another one in every process.
    builder.symbol("pow", pow as *const u8);
    let store = Store::open(Config::from_env()?);
    let mut module = CachingModule::new(builder, store.clone()); // <--
    let id = compile(&mut module, &source)?;
    module.finalize_definitions()?;

    // SAFETY: `compile` makes functions of this signature, and the module lives.
    let function: extern "C" fn(f64) -> f64 =
        unsafe { std::mem::transmute(module.get_finalized_function(id)) };
    println!("{source} = {} for x = {x}", function(x));
    let stats = store.stats();
    eprintln!("{} compiled, {} loaded", stats.made, stats.disk + stats.waited);
    Ok(())
}

extern "C" fn pow(x: f64, y: f64) -> f64 {
    x.powf(y)
}

/// A function of one number that computes the expression.
fn compile(module: &mut CachingModule, source: &str) -> Result<FuncId, Error> {
    let mut ctx = module.make_context();
    ctx.func.signature.params.push(AbiParam::new(F64));
    ctx.func.signature.returns.push(AbiParam::new(F64));
    let id = module.declare_function("expression", Linkage::Export, &ctx.func.signature)?;
    let mut frontend = FunctionBuilderContext::new();
    let mut b = FunctionBuilder::new(&mut ctx.func, &mut frontend);
    let block = b.create_block();
    b.append_block_params_for_function_params(block);
    b.switch_to_block(block);
    b.seal_block(block);
    let x = b.block_params(block)[0];
    let mut parser = Parser { text: source.chars().peekable(), module, b: &mut b, x };
    let result = parser.sum()?;
    if let Some(c) = parser.peek() {
        return Err(format!("unexpected {c:?}").into());
    }
    b.ins().return_(&[result]);
    b.finalize(module.target_config());
    module.define_function(id, &mut ctx)?;
    Ok(id)
}

/// Reads an expression, and emits it as it goes.
struct Parser<'a, 'f> {
    text: Peekable<Chars<'a>>,
    module: &'a mut CachingModule,
    b: &'a mut FunctionBuilder<'f>,
    x: Value,
}

impl Parser<'_, '_> {
    fn peek(&mut self) -> Option<char> {
        while self.text.next_if(|c| c.is_whitespace()).is_some() {}
        self.text.peek().copied()
    }

    fn eat(&mut self, wanted: char) -> Result<(), Error> {
        if self.peek() != Some(wanted) {
            return Err(format!("expected {wanted:?}, not {:?}", self.peek()).into());
        }
        self.text.next();
        Ok(())
    }

    fn sum(&mut self) -> Result<Value, Error> {
        let mut left = self.product()?;
        while let Some(operator) = self.peek().filter(|c| "+-".contains(*c)) {
            self.text.next();
            let right = self.product()?;
            left = match operator {
                '+' => self.b.ins().fadd(left, right),
                _ => self.b.ins().fsub(left, right),
            };
        }
        Ok(left)
    }

    fn product(&mut self) -> Result<Value, Error> {
        let mut left = self.atom()?;
        while let Some(operator) = self.peek().filter(|c| "*/".contains(*c)) {
            self.text.next();
            let right = self.atom()?;
            left = match operator {
                '*' => self.b.ins().fmul(left, right),
                _ => self.b.ins().fdiv(left, right),
            };
        }
        Ok(left)
    }

    fn atom(&mut self) -> Result<Value, Error> {
        match self.peek() {
            Some('(') => {
                self.eat('(')?;
                let inner = self.sum()?;
                self.eat(')').map(|()| inner)
            }
            Some('x') => self.eat('x').map(|()| self.x),
            Some('p') => {
                "pow(".chars().try_for_each(|c| self.eat(c))?;
                let base = self.sum()?;
                self.eat(',')?;
                let exponent = self.sum()?;
                self.eat(')')?;
                let mut signature = self.module.make_signature();
                signature.params.extend([AbiParam::new(F64); 2]);
                signature.returns.push(AbiParam::new(F64));
                let pow = self.module.declare_function("pow", Linkage::Import, &signature)?;
                let pow = self.module.declare_func_in_func(pow, self.b.func);
                let call = self.b.ins().call(pow, &[base, exponent]);
                Ok(self.b.inst_results(call)[0])
            }
            Some(c) if c.is_ascii_digit() => {
                let digit = |c: &char| c.is_ascii_digit() || *c == '.';
                let digits: String = std::iter::from_fn(|| self.text.next_if(digit)).collect();
                Ok(self.b.ins().f64const(digits.parse::<f64>()?))
            }
            other => Err(format!("expected a number, x, pow or (, not {other:?}").into()),
        }
    }
}
