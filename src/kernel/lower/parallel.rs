//! Loops on many threads.
//!
//! ```text
//!   unit:    captured locals ─► frame ─► parallel(part, frame, rounds) ─► partial results, joined in order
//!   part:    (context, frame, first, count, start, step, partial) -> status      one chunk of the rounds
//! ```
//!
//! The body becomes a function of its own. A local that it assigns is the chunk's own and begins as the unit had it;
//! what it only reads is borrowed. A reduction begins with the operation's neutral element, or, where there is none,
//! with the value before the loop, which joining often does not change.

use cranelift_codegen::ir::{
    AbiParam, Function as Clif, InstBuilder, Signature, UserFuncName, types,
};
use cranelift_codegen::isa::TargetIsa;
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};

use super::facts::{Facts, each_assigned, each_expr};
use super::r#gen::{Gen, Scope, has_owner};
use super::{Reference, Shared};
use crate::kernel::ir::{self, ExprKind, FoldOp, LocalId, ParFor, Scalar, Type};
use crate::kernel::{abi, runtime};

/// A parallel loop whose body is to be built.
#[derive(Clone)]
pub(super) struct Part<'a> {
    rounds: &'a ParFor,
    captured: Vec<LocalId>,
    facts: Facts,
}

/// How many arguments a part has.
const ARGUMENTS: usize = 7;

fn signature(isa: &dyn TargetIsa) -> Signature {
    let mut signature = Signature::new(isa.default_call_conv());
    signature.params.extend([AbiParam::new(types::I64); ARGUMENTS]);
    signature.returns.push(AbiParam::new(types::I64));
    signature
}

impl<'a> Gen<'a, '_> {
    pub(super) fn in_parallel(&mut self, rounds: &'a ParFor) {
        let start = self.expr(&rounds.rounds.start)[0];
        let stop = self.expr(&rounds.rounds.stop)[0];
        let step = self.expr(&rounds.rounds.step)[0];
        let count = self.round_count(&rounds.rounds, start, stop, step);

        let captured = captured(rounds);
        let lanes: Vec<_> = captured.iter().flat_map(|local| self.get_vars(*local)).collect();
        let frame = self.slot(lanes.len());
        let frame = self.slot_address(frame);
        self.store_lanes(frame, 0, &lanes);
        let width: usize = rounds.reductions.iter().map(|it| self.width(it.local)).sum();
        let partials = self.slot(width * runtime::parallel::MOST_CHUNKS);
        let partials = self.slot_address(partials);

        // The unit and its entry come first.
        let number = 2 + self.shared.parts.len() as u32;
        self.shared.parts.push(Part { rounds, captured, facts: self.facts.clone() });
        let part = self.function(Reference::Own(number), signature(self.isa));
        let part = self.b.ins().func_addr(types::I64, part);
        let stride = self.int(8 * width as i64);
        let context = self.context;
        let args = [context, part, frame, count, start, step, partials, stride];
        let returned = self.helper("parallel", &args, &[types::I64, types::I64]);
        self.check(returned[0]);

        self.facts.enter_loop(&rounds.rounds.body);
        let chunks = returned[1];
        let accs: Vec<_> = rounds.reductions.iter().map(|it| it.local).collect();
        self.up_to(chunks, |this, at| {
            let offset = this.b.ins().imul(at, stride);
            let partial = this.b.ins().iadd(partials, offset);
            let mut offset = 0;
            for (reduction, &local) in rounds.reductions.iter().zip(&accs) {
                let ty = this.local_type(local);
                let scalar = ty.scalar().expect("checked: a scalar");
                let before = this.get_vars(local);
                let partial = this.load_lanes(partial, offset, ty);
                let joined = this.join_values(reduction.op, scalar, &before, &partial);
                this.set_vars(local, &joined);
                offset += 8 * joined.len() as i32;
            }
        });
    }

    fn width(&self, local: LocalId) -> usize {
        abi::lane_count(self.local_type(local))
    }
}

/// The locals that a body mentions, in their order; what it makes anew is among them.
fn captured(rounds: &ParFor) -> Vec<LocalId> {
    let mut captured = Vec::new();
    each_expr(&rounds.rounds.body, &mut |expr| {
        if let ExprKind::Local(local) = expr.kind {
            captured.push(local);
        }
    });
    each_assigned(&rounds.rounds.body, &mut |local| captured.push(local));
    captured.extend(rounds.reductions.iter().map(|reduction| reduction.local));
    captured.retain(|local| *local != rounds.rounds.local);
    captured.sort_unstable();
    captured.dedup();
    captured
}

/// The CLIF of a part.
pub(super) fn part<'a>(
    ir: &'a ir::Function,
    part: &Part<'a>,
    isa: &dyn TargetIsa,
    shared: &mut Shared<'a>,
    context: &mut FunctionBuilderContext,
) -> Clif {
    let mut clif = Clif::with_name_signature(UserFuncName::default(), signature(isa));
    let mut this = Gen::new(ir, isa, shared, FunctionBuilder::new(&mut clif, context));
    this.is_part = true;
    this.facts = part.facts.clone();
    let entry = this.b.current_block().expect("there is a first block");
    let args = this.b.block_params(entry).to_vec();
    let [context, frame, first, count, start, step, partial] = args[..] else {
        unreachable!("that is its signature")
    };
    this.context = context;
    let mut assigned = Vec::new();
    each_assigned(&part.rounds.rounds.body, &mut |local| assigned.push(local));
    for index in 0..ir.locals.len() {
        if !assigned.contains(&LocalId(index as u32)) {
            this.borrow_local(LocalId(index as u32));
        }
    }
    let mut offset = 0;
    for &local in &part.captured {
        let ty = this.local_type(local);
        let lanes = this.load_lanes(frame, offset, ty);
        offset += 8 * lanes.len() as i32;
        this.set_vars(local, &lanes);
        if has_owner(ty) && assigned.contains(&local) {
            this.retain_all(ty, &lanes);
        }
    }
    for reduction in &part.rounds.reductions {
        if !matches!(reduction.op, FoldOp::Min | FoldOp::Max) {
            let scalar = this.local_type(reduction.local).scalar().expect("checked: a scalar");
            let neutral = this.neutral(reduction.op, scalar);
            this.set_vars(reduction.local, &neutral);
        }
    }
    if this.facts.calls {
        this.check_stack();
    }

    let rounds = &part.rounds.rounds;
    let (head, body) = (this.b.create_block(), this.b.create_block());
    let (next, leave) = (this.b.create_block(), this.b.create_block());
    let counter = this.b.append_block_param(head, types::I64);
    let left = this.b.append_block_param(head, types::I64);
    let offset = this.b.ins().imul(first, step);
    let begin = this.b.ins().iadd(start, offset);
    this.jump(head, &[begin, count]);
    this.b.switch_to_block(head);
    this.b.ins().brif(left, body, &[], leave, &[]);
    this.b.switch_to_block(body);
    this.b.seal_block(body);
    let ty = this.local_type(rounds.local).scalar().expect("checked: an integer");
    let value = this.cast_scalar(Scalar::I64, ty, &[counter]);
    this.set_vars(rounds.local, &value);
    this.scopes.push(Scope { label: rounds.label, leave, next: Some(next) });
    let before = this.facts.enter(rounds);
    this.stmts(&rounds.body);
    this.facts.end(before);
    this.scopes.pop();
    this.b.ins().jump(next, &[]);
    this.b.switch_to_block(next);
    this.b.seal_block(next);
    let after = this.b.ins().iadd(counter, step);
    let fewer = this.b.ins().iadd_imm_s(left, -1);
    this.jump(head, &[after, fewer]);
    this.b.seal_block(head);
    this.b.switch_to_block(leave);
    this.b.seal_block(leave);

    let mut offset = 0;
    for reduction in &part.rounds.reductions {
        let lanes = this.get_vars(reduction.local);
        this.store_lanes(partial, offset, &lanes);
        offset += 8 * lanes.len() as i32;
    }
    this.return_lanes(&[]);
    this.finish();
    clif
}

/// Whether a local can be reduced: only scalars.
pub(super) fn can_reduce(ty: &Type) -> bool {
    ty.scalar().is_some()
}
