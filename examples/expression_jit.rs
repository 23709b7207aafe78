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
use cranelift_module::{FuncId, Linkage, Module, ModuleError, default_libcall_names};

type Error = Box<dyn std::error::Error>;

fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let source = arguments.next().unwrap_or_else(|| "x * x + 3 * pow(x - 1, 2)".into());
    let x: f64 = arguments.next().as_deref().unwrap_or("7").parse()?;
    let tree = Parser::new(&source).all()?;

    let mut builder = JITBuilder::with_flags(&[("opt_level", "speed")], default_libcall_names())?;
    // By name, not by address: the address is another one in every process.
    builder.symbol("pow", pow as *const u8);
    let store = Store::open(Config::from_env()?);
    let mut module = CachingModule::new(builder, store.clone()); // <--
    let id = compile(&mut module, &tree)?;
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

enum Tree {
    X,
    Number(f64),
    Binary(char, Box<[Tree; 2]>),
    Pow(Box<[Tree; 2]>),
}

/// A function of one number that computes the tree.
fn compile(module: &mut CachingModule, tree: &Tree) -> Result<FuncId, ModuleError> {
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
    let result = emit(module, &mut b, tree, x)?;
    b.ins().return_(&[result]);
    b.finalize(module.target_config());
    module.define_function(id, &mut ctx)?;
    Ok(id)
}

fn emit(
    module: &mut CachingModule,
    b: &mut FunctionBuilder<'_>,
    tree: &Tree,
    x: Value,
) -> Result<Value, ModuleError> {
    Ok(match tree {
        Tree::X => x,
        Tree::Number(number) => b.ins().f64const(*number),
        Tree::Binary(operator, operands) => {
            let left = emit(module, b, &operands[0], x)?;
            let right = emit(module, b, &operands[1], x)?;
            match operator {
                '+' => b.ins().fadd(left, right),
                '-' => b.ins().fsub(left, right),
                '*' => b.ins().fmul(left, right),
                _ => b.ins().fdiv(left, right),
            }
        }
        Tree::Pow(operands) => {
            let base = emit(module, b, &operands[0], x)?;
            let exponent = emit(module, b, &operands[1], x)?;
            let mut signature = module.make_signature();
            signature.params.extend([AbiParam::new(F64); 2]);
            signature.returns.push(AbiParam::new(F64));
            let pow = module.declare_function("pow", Linkage::Import, &signature)?;
            let pow = module.declare_func_in_func(pow, b.func);
            let call = b.ins().call(pow, &[base, exponent]);
            b.inst_results(call)[0]
        }
    })
}

struct Parser<'a>(Peekable<Chars<'a>>);

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Self {
        Parser(text.chars().peekable())
    }

    fn all(mut self) -> Result<Tree, String> {
        let tree = self.sum()?;
        self.peek().map_or(Ok(tree), |c| Err(format!("unexpected {c:?}")))
    }

    fn peek(&mut self) -> Option<char> {
        while self.0.next_if(|c| c.is_whitespace()).is_some() {}
        self.0.peek().copied()
    }

    fn eat(&mut self, wanted: char) -> Result<(), String> {
        match self.peek() {
            Some(c) if c == wanted => {
                self.0.next();
                Ok(())
            }
            other => Err(format!("expected {wanted:?}, not {other:?}")),
        }
    }

    fn sum(&mut self) -> Result<Tree, String> {
        self.chain("+-", Self::product)
    }

    fn product(&mut self) -> Result<Tree, String> {
        self.chain("*/", Self::atom)
    }

    fn chain(
        &mut self,
        operators: &str,
        operand: fn(&mut Self) -> Result<Tree, String>,
    ) -> Result<Tree, String> {
        let mut tree = operand(self)?;
        while let Some(operator) = self.peek().filter(|c| operators.contains(*c)) {
            self.0.next();
            tree = Tree::Binary(operator, Box::new([tree, operand(self)?]));
        }
        Ok(tree)
    }

    fn atom(&mut self) -> Result<Tree, String> {
        match self.peek() {
            Some('(') => {
                self.0.next();
                let tree = self.sum()?;
                self.eat(')').map(|()| tree)
            }
            Some('x') => {
                self.0.next();
                Ok(Tree::X)
            }
            Some('p') => {
                "pow(".chars().try_for_each(|c| self.eat(c))?;
                let base = self.sum()?;
                self.eat(',')?;
                let exponent = self.sum()?;
                self.eat(')').map(|()| Tree::Pow(Box::new([base, exponent])))
            }
            Some(c) if c.is_ascii_digit() => {
                let digits: String =
                    std::iter::from_fn(|| self.0.next_if(|c| c.is_ascii_digit() || *c == '.'))
                        .collect();
                digits.parse().map(Tree::Number).map_err(|_| format!("{digits} is no number"))
            }
            other => Err(format!("expected a number, x, pow or (, not {other:?}")),
        }
    }
}
