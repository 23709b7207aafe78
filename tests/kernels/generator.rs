//! Random programs of several files, and random edits of them.
//!
//! ```text
//!   Program ─ modules ─ kernels: an expression over parameters, globals and kernels defined before
//!      │ edit(seed): one small change
//!      └ files(): the text of each module, and of a `main.py` that calls and prints everything
//! ```

use std::fmt::Write as _;

/// A small generator of numbers (xorshift64*).
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(super) fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % n
    }
}

/// A program of modules `m0`, `m1`, ..., each of which may use those before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Program {
    modules: Vec<Module>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Module {
    /// `G0 = 3`, ...
    globals: Vec<Global>,
    kernels: Vec<Kernel>,
    /// A comment at the top, which means nothing.
    comment: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Global {
    Int(i64),
    Float(i64),
    Table(Vec<i64>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Kernel {
    body: Expr,
    /// What the local variable is called, which means nothing.
    local: usize,
    /// The default of the second parameter.
    default: i64,
    option: Option<&'static str>,
    shape: Shape,
}

/// How the kernel is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Plain,
    Loop,
    /// `inline="always"`.
    Inline,
    /// Made by a factory, which captures a number.
    Closure(i64),
    /// An overload's implementation.
    Overload,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Expr {
    X,
    K,
    Const(i64),
    /// A global of a module: module, number.
    Global(usize, usize),
    /// A kernel of a module applied to an expression.
    Call(usize, usize, Box<Expr>),
    Op(char, Box<Expr>, Box<Expr>),
}

impl Program {
    pub(super) fn random(random: &mut Random) -> Self {
        let mut program = Program { modules: Vec::new() };
        for _ in 0..2 + random.below(2) {
            program.modules.push(Module { globals: Vec::new(), kernels: Vec::new(), comment: 0 });
            let at = program.modules.len() - 1;
            for _ in 0..1 + random.below(3) {
                let global = random_global(random);
                program.modules[at].globals.push(global);
            }
            for _ in 0..1 + random.below(3) {
                let kernel = program.random_kernel(random);
                program.modules[at].kernels.push(kernel);
            }
        }
        program
    }

    /// An expression that may use whatever there is now.
    fn random_expr(&self, random: &mut Random, depth: usize) -> Expr {
        let leaf = |random: &mut Random| match random.below(4) {
            0 => Expr::X,
            1 => Expr::K,
            2 => Expr::Const(random.below(9) as i64 + 1),
            _ => {
                let module = random.below(self.modules.len());
                let globals = self.modules[module].globals.len();
                match globals {
                    0 => Expr::X,
                    _ => Expr::Global(module, random.below(globals)),
                }
            }
        };
        if depth == 0 {
            return leaf(random);
        }
        match random.below(5) {
            0 => leaf(random),
            1 | 2 => {
                let op = ['+', '-', '*'][random.below(3)];
                let left = Box::new(self.random_expr(random, depth - 1));
                Expr::Op(op, left, Box::new(self.random_expr(random, depth - 1)))
            }
            _ => {
                let module = random.below(self.modules.len());
                let kernels = self.modules[module].kernels.len();
                match kernels {
                    0 => leaf(random),
                    _ => {
                        let argument = Box::new(self.random_expr(random, depth - 1));
                        Expr::Call(module, random.below(kernels), argument)
                    }
                }
            }
        }
    }

    fn random_kernel(&self, random: &mut Random) -> Kernel {
        let shape = match random.below(7) {
            0 => Shape::Loop,
            1 => Shape::Inline,
            2 => Shape::Closure(random.below(5) as i64),
            3 => Shape::Overload,
            _ => Shape::Plain,
        };
        let option = match (shape, random.below(4)) {
            (Shape::Plain | Shape::Loop, 0) => Some("fastmath=True"),
            (Shape::Plain | Shape::Loop, 1) => Some("error_model=\"numpy\""),
            _ => None,
        };
        let body = self.random_expr(random, 3);
        Kernel { body, local: 0, default: random.below(5) as i64, option, shape }
    }

    /// The program with one change.
    pub(super) fn edited(&self, random: &mut Random) -> Self {
        let mut program = self.clone();
        let at = random.below(program.modules.len());
        let earlier = Program { modules: self.modules[..=at].to_vec() };
        let module = &mut program.modules[at];
        let kernels = module.kernels.len();
        match random.below(8) {
            0 => module.comment += 1,
            1 => module.kernels[random.below(kernels)].local += 1,
            2 => {
                let globals = module.globals.len();
                module.globals[random.below(globals)] = random_global(random);
            }
            3 => module.kernels[random.below(kernels)].default += 1,
            4 => {
                let kernel = &mut module.kernels[random.below(kernels)];
                if matches!(kernel.shape, Shape::Plain | Shape::Loop) {
                    kernel.option = match kernel.option {
                        None => Some("fastmath=True"),
                        Some(_) => None,
                    };
                } else if let Shape::Closure(captured) = &mut kernel.shape {
                    *captured += 1;
                }
            }
            _ => {
                let number = random.below(kernels);
                // What it may call stands before it.
                let mut earlier = earlier;
                earlier.modules[at].kernels.truncate(number);
                module.kernels[number].body = earlier.random_expr(random, 3);
            }
        }
        program
    }

    /// The text of each file.
    pub(super) fn files(&self) -> Vec<(String, String)> {
        let mut files = Vec::new();
        for (at, module) in self.modules.iter().enumerate() {
            files.push((format!("m{at}.py"), self.module_text(at, module)));
        }
        let mut main = String::new();
        for at in 0..self.modules.len() {
            let _ = writeln!(main, "import m{at}");
        }
        for (at, module) in self.modules.iter().enumerate() {
            for number in 0..module.kernels.len() {
                let name = format!("m{at}.k{number}");
                let _ = writeln!(main, "print('{name}', {name}(3), {name}(2, 5), {name}(1.5))");
            }
        }
        files.push(("main.py".to_owned(), main));
        files
    }

    fn module_text(&self, at: usize, module: &Module) -> String {
        let mut text = format!("# version {} of the comment\n", module.comment);
        text +=
            "import numpy as np\nfrom numba import njit\nfrom numba.extending import overload\n";
        for earlier in 0..at {
            let _ = writeln!(text, "import m{earlier}");
        }
        for (number, global) in module.globals.iter().enumerate() {
            let value = match global {
                Global::Int(value) => value.to_string(),
                Global::Float(value) => format!("{value}.5"),
                Global::Table(items) => format!("np.array({items:?})"),
            };
            let _ = writeln!(text, "G{number} = {value}");
        }
        for (number, kernel) in module.kernels.iter().enumerate() {
            text += &self.kernel_text(at, number, kernel);
        }
        text
    }

    fn kernel_text(&self, at: usize, number: usize, kernel: &Kernel) -> String {
        let Kernel { body, local, default, option, shape } = kernel;
        let body = self.expr_text(at, body);
        let options = option.map_or(String::new(), |option| format!("({option})"));
        let local = format!("v{local}");
        let name = format!("k{number}");
        match shape {
            Shape::Plain => format!(
                "\n@njit{options}\ndef {name}(x, k={default}):\n    {local} = {body}\n    return {local}\n"
            ),
            Shape::Inline => format!(
                "\n@njit(inline=\"always\")\ndef {name}_body(x, k):\n    {local} = {body}\n    return {local}\n\
                 \n@njit\ndef {name}(x, k={default}):\n    return {name}_body(x, k) + 1\n"
            ),
            Shape::Loop => format!(
                "\n@njit{options}\ndef {name}(x, k={default}):\n    {local} = {body}\n    for i in range(3):\n        \
                 {local} += i\n    return {local}\n"
            ),
            Shape::Closure(captured) => format!(
                "\ndef make_{name}(c):\n    @njit\n    def inner(x, k={default}):\n        {local} = {body}\n        \
                 return {local} + c\n    return inner\n\n{name} = make_{name}({captured})\n"
            ),
            Shape::Overload => format!(
                "\ndef plain_{name}(x, k):\n    pass\n\n@overload(plain_{name})\ndef ol_{name}(x, k):\n    \
                 def impl_{name}(x, k):\n        {local} = {body}\n        return {local}\n    return impl_{name}\n\
                 \n@njit\ndef {name}(x, k={default}):\n    return plain_{name}(x, k)\n"
            ),
        }
    }

    fn expr_text(&self, at: usize, expr: &Expr) -> String {
        let name = |module: usize, name: String| match module == at {
            true => name,
            false => format!("m{module}.{name}"),
        };
        match expr {
            Expr::X => "x".to_owned(),
            Expr::K => "k".to_owned(),
            Expr::Const(value) => value.to_string(),
            Expr::Global(module, number) => {
                let global = name(*module, format!("G{number}"));
                match self.modules[*module].globals[*number] {
                    Global::Table(_) => format!("{global}[1]"),
                    _ => global,
                }
            }
            Expr::Call(module, number, argument) => {
                let kernel = name(*module, format!("k{number}"));
                format!("{kernel}({}, 2)", self.expr_text(at, argument))
            }
            Expr::Op(op, left, right) => {
                format!("({} {op} {})", self.expr_text(at, left), self.expr_text(at, right))
            }
        }
    }
}

fn random_global(random: &mut Random) -> Global {
    let number = random.below(50) as i64;
    match random.below(4) {
        0 => Global::Float(number),
        1 => Global::Table((0..3).map(|at| number + at).collect()),
        _ => Global::Int(number),
    }
}
