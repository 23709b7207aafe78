//! Statements and loops.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, Value, types};

use super::r#gen::{Gen, Handler, Scope};
use crate::kernel::abi;
use crate::kernel::ir::{
    BinaryOp, Caught, Const, Element, Expr, ExprKind, For, Label, LocalId, Raise, Scalar, Site,
    Stmt, StmtKind, Type, UnaryOp,
};
use crate::kernel::runtime::stack::deep;

impl<'a> Gen<'a, '_> {
    /// Builds statements, as far as they can be reached.
    pub(super) fn stmts(&mut self, body: &'a [Stmt]) {
        let before = self.facts.begin();
        for stmt in body {
            deep(|| self.stmt(stmt));
            if matches!(
                stmt.kind,
                StmtKind::Leave(_)
                    | StmtKind::Next(_)
                    | StmtKind::Return(_)
                    | StmtKind::Raise(_)
                    | StmtKind::RaiseAgain
            ) {
                break;
            }
        }
        self.facts.end(before);
    }

    fn stmt(&mut self, stmt: &'a Stmt) {
        let outer = self.site;
        if stmt.site != Site::default() {
            self.site = stmt.site;
        }
        self.stmt_here(stmt);
        self.site = outer;
    }

    fn stmt_here(&mut self, stmt: &'a Stmt) {
        let mark = self.mark();
        match &stmt.kind {
            StmtKind::Assign(local, value) => {
                let lanes = self.expr(value);
                self.take(&value.ty, &lanes);
                self.assign(*local, &lanes);
                self.release_to(mark);
                self.facts.assign(*local, value);
            }
            StmtKind::Eval(value) => {
                self.expr(value);
                self.release_to(mark);
            }
            StmtKind::If(condition, then, otherwise) => self.if_else(condition, then, otherwise),
            StmtKind::Block(label, body) => {
                let leave = self.b.create_block();
                self.scopes.push(Scope { label: *label, leave, next: None });
                self.stmts(body);
                self.scopes.pop();
                self.b.ins().jump(leave, &[]);
                self.b.switch_to_block(leave);
                self.b.seal_block(leave);
            }
            StmtKind::Loop(label, body) => {
                let (head, leave) = (self.b.create_block(), self.b.create_block());
                self.b.ins().jump(head, &[]);
                self.b.switch_to_block(head);
                self.scopes.push(Scope { label: *label, leave, next: Some(head) });
                self.facts.enter_loop(body);
                self.stmts(body);
                self.scopes.pop();
                self.b.ins().jump(head, &[]);
                self.b.seal_block(head);
                self.b.switch_to_block(leave);
                self.b.seal_block(leave);
            }
            StmtKind::For(rounds) => self.count(rounds),
            StmtKind::ParFor(rounds) if self.is_part => self.count(&rounds.rounds),
            StmtKind::ParFor(rounds) => self.in_parallel(rounds),
            StmtKind::Leave(label) => {
                let leave = self.scope(*label).leave;
                self.b.ins().jump(leave, &[]);
                self.dead();
            }
            StmtKind::Next(label) => {
                let next = self.scope(*label).next.expect("checked: it is a loop's");
                self.b.ins().jump(next, &[]);
                self.dead();
            }
            StmtKind::Return(value) => {
                let lanes = match value {
                    None => self.zero(&self.ir.result),
                    Some(value) => self.returned(value),
                };
                self.return_lanes(&lanes);
            }
            StmtKind::Raise(raise) => self.raise(raise),
            StmtKind::Try(body, handler, caught) => self.attempt(body, handler, *caught),
            StmtKind::RaiseAgain => {
                let kept = self.kept.last().copied().expect("checked: an error is kept");
                let context = self.context;
                self.helper("raise_again", &[context, kept], &[]);
                self.fail();
            }
            StmtKind::Print(values) => {
                for value in values {
                    self.hand_over(value);
                }
                let context = self.context;
                let status = self.helper("print", &[context], &[types::I64]);
                self.check(status[0]);
                self.release_to(mark);
            }
            StmtKind::SetElement(element, value) => {
                let later = element.indices.iter().chain(std::iter::once(&element.array));
                let lanes = self.operand(value, later);
                let array = self.operand(&element.array, element.indices.iter());
                let address = self.element_address(&array, element);
                let holds = element.array.ty.as_array().expect("checked").element.clone();
                self.store_element(&holds, address, &lanes);
                self.carry_on(element, &lanes);
                self.release_to(mark);
            }
            StmtKind::SetView(set) => {
                self.set_view(set);
                self.release_to(mark);
            }
            StmtKind::SetField { record, field, value } => {
                let value = self.operand(value, std::iter::once(record));
                let lanes = self.expr(record);
                self.check_set(record, lanes[1]);
                let Type::Record(layout) = &record.ty else { unreachable!("checked") };
                let field = &layout.fields[*field as usize];
                let address = self.b.ins().iadd_imm_s(lanes[1], i64::from(field.offset));
                self.store_element(&field.element, address, &value);
                self.release_to(mark);
            }
            StmtKind::SetAttribute { object, field, value } => {
                let lanes = self.operand(value, std::iter::once(object));
                let base = self.expr(object)[0];
                self.check_set(object, base);
                self.take(&value.ty, &lanes);
                let data = self.struct_data(base);
                let offset = self.field_offset(&object.ty, *field);
                let old = self.load_lanes(data, offset, &value.ty);
                self.store_lanes(data, offset, &lanes);
                self.release_all(&value.ty, &old);
                self.release_to(mark);
            }
        }
    }

    /// `try`: the error is taken out of the context, and forgotten or kept for the handler.
    fn attempt(&mut self, body: &'a [Stmt], handler: &'a [Stmt], caught: Caught) {
        let (catch, behind) = (self.b.create_block(), self.b.create_block());
        self.b.set_cold_block(catch);
        self.handlers.push(Handler { block: catch, temps: self.mark() });
        self.stmts(body);
        self.handlers.pop();
        self.b.ins().jump(behind, &[]);

        self.b.switch_to_block(catch);
        let context = self.context;
        let is_kept = caught == Caught::Kept;
        let keep = self.int(i64::from(is_kept));
        let kept = self.helper("caught", &[context, keep], &[types::I64])[0];
        if is_kept {
            self.kept.push(kept);
        }
        self.stmts(handler);
        if is_kept {
            self.kept.pop();
        }
        self.b.ins().jump(behind, &[]);
        self.b.switch_to_block(behind);
    }

    /// A value that is about to be returned: owned.
    fn returned(&mut self, value: &'a Expr) -> Vec<Value> {
        if let ExprKind::Local(local) = value.kind
            && let Some(lanes) = self.move_out(local)
        {
            return lanes;
        }
        let lanes = self.expr(value);
        self.take(&value.ty, &lanes);
        lanes
    }

    fn scope(&self, label: Label) -> &Scope {
        let mut scopes = self.scopes.iter().rev();
        scopes.find(|scope| scope.label == label).expect("checked: there is one")
    }

    fn if_else(&mut self, condition: &'a Expr, then: &'a [Stmt], otherwise: &'a [Stmt]) {
        let (yes, no) = (self.b.create_block(), self.b.create_block());
        self.branch(condition, yes, no);
        self.b.seal_block(yes);
        if otherwise.is_empty() {
            self.b.switch_to_block(yes);
            self.stmts(then);
            self.b.ins().jump(no, &[]);
            self.b.switch_to_block(no);
            self.b.seal_block(no);
            return;
        }
        self.b.seal_block(no);
        let behind = self.b.create_block();
        for (block, body) in [(yes, then), (no, otherwise)] {
            self.b.switch_to_block(block);
            self.stmts(body);
            self.b.ins().jump(behind, &[]);
        }
        self.b.switch_to_block(behind);
        self.b.seal_block(behind);
    }

    /// Goes to `yes` or `no`. Temps of the condition are given back on both ways.
    pub(super) fn branch(&mut self, condition: &'a Expr, yes: Block, no: Block) {
        match &condition.kind {
            ExprKind::Unary(UnaryOp::Not, inner) => self.branch(inner, no, yes),
            ExprKind::IfElse(first, a, b) if is_bool(b, false) || is_bool(a, true) => {
                let between = self.b.create_block();
                let second = if is_bool(b, false) {
                    self.branch(first, between, no);
                    a
                } else {
                    self.branch(first, yes, between);
                    b
                };
                self.b.switch_to_block(between);
                self.b.seal_block(between);
                self.branch(second, yes, no);
            }
            _ => {
                let mark = self.mark();
                let value = self.expr(condition)[0];
                self.release_to(mark);
                self.b.ins().brif(value, yes, &[], no, &[]);
            }
        }
    }

    /// A counting loop on this thread. If what its indices need can be told before, the loop is built twice: with the
    /// checks and without. Without, some loops compute a vector at a time, or carry elements from one round to the next.
    fn count(&mut self, rounds: &'a For) {
        let start = self.expr(&rounds.start)[0];
        let stop = self.expr(&rounds.stop)[0];
        let step = self.expr(&rounds.step)[0];
        let uses = self.facts.uses(rounds);
        if uses.all.is_empty() {
            self.count_fast(rounds, start, stop, step);
            return;
        }
        let mut all = None;
        for it in &uses.all {
            let length = self.get_vars(it.array)[2 + it.axis as usize];
            let is_counter =
                matches!(&it.index.kind, ExprKind::Local(local) if uses.counters.contains(local));
            let from_zero = matches!(rounds.start.kind, ExprKind::Const(Const::Int(0..)));
            let first = self.index_at(&it.index, &uses.counters, start);
            let fits = if is_counter && from_zero {
                self.b.ins().icmp(IntCC::SignedLessThanOrEqual, stop, length)
            } else if it.counts {
                // From the first index on there are as many elements as there are rounds. Sums of indices may wrap: then the
                // first is no index, or the last one is reached without leaving the range.
                let below = self.b.ins().icmp(IntCC::UnsignedLessThanOrEqual, first, length);
                let count = self.b.ins().isub(stop, start);
                let room = self.b.ins().isub(length, first);
                let enough = self.b.ins().icmp(IntCC::UnsignedLessThanOrEqual, count, room);
                self.b.ins().band(below, enough)
            } else {
                self.b.ins().icmp(IntCC::UnsignedLessThan, first, length)
            };
            all = Some(match all {
                Some(all) => self.b.ins().band(all, fits),
                None => fits,
            });
        }
        let (fast, slow) = (self.b.create_block(), self.b.create_block());
        self.b.set_cold_block(slow);
        let behind = self.b.create_block();
        self.b.ins().brif(all.expect("there are some"), fast, &[], slow, &[]);
        self.b.switch_to_block(fast);
        self.b.seal_block(fast);
        self.facts.prove(uses.all);
        self.count_fast(rounds, start, stop, step);
        self.facts.unprove();
        self.b.ins().jump(behind, &[]);
        self.b.switch_to_block(slow);
        self.b.seal_block(slow);
        self.count_from(rounds, start, stop, step);
        self.b.ins().jump(behind, &[]);
        self.b.switch_to_block(behind);
        self.b.seal_block(behind);
    }

    /// A loop whose indices are known to be in range, as far as that can be known.
    fn count_fast(&mut self, rounds: &'a For, start: Value, stop: Value, step: Value) {
        let start = self.strips(rounds, start, stop);
        let carries = self.carries(rounds);
        let before = std::mem::replace(&mut self.carried, carries);
        self.count_from(rounds, start, stop, step);
        self.carried = before;
    }

    /// What an index is where the counter has this value; the rest of it does not change in the loop.
    fn index_at(&mut self, index: &Expr, counters: &[LocalId], counter: Value) -> Value {
        match &index.kind {
            ExprKind::Local(local) if counters.contains(local) => counter,
            ExprKind::Local(local) => self.get_vars(*local)[0],
            ExprKind::Const(Const::Int(value)) => self.int(*value),
            ExprKind::Binary(op, a, b) => {
                let a = self.index_at(a, counters, counter);
                let b = self.index_at(b, counters, counter);
                if *op == BinaryOp::Add { self.b.ins().iadd(a, b) } else { self.b.ins().isub(a, b) }
            }
            _ => unreachable!("looked at before"),
        }
    }

    fn count_from(&mut self, rounds: &'a For, start: Value, stop: Value, step: Value) {
        let (begin, body) = (self.b.create_block(), self.b.create_block());
        let (next, leave) = (self.b.create_block(), self.b.create_block());
        let counter = self.b.append_block_param(body, types::I64);
        let simple = match rounds.step.kind {
            ExprKind::Const(Const::Int(1)) => Some(IntCC::SignedLessThan),
            ExprKind::Const(Const::Int(-1)) => Some(IntCC::SignedGreaterThan),
            _ => None,
        };
        // Whether there is another round is asked at the end of each: one jump per round.
        let mut first = vec![start.into()];
        match simple {
            Some(condition) => {
                let go_on = self.b.ins().icmp(condition, start, stop);
                self.b.ins().brif(go_on, begin, &[], leave, &[]);
            }
            None => {
                // The counter may wrap behind the last round, so the rounds are counted.
                let count = self.round_count(rounds, start, stop, step);
                self.b.append_block_param(body, types::I64);
                self.b.ins().brif(count, begin, &[], leave, &[]);
                first.push(count.into());
            }
        }
        self.b.switch_to_block(begin);
        self.b.seal_block(begin);
        self.carry_first(rounds, start);
        self.b.ins().jump(body, &first);

        self.b.switch_to_block(body);
        let ty = self.local_type(rounds.local).scalar().expect("checked: an integer");
        let value = self.cast_scalar(Scalar::I64, ty, &[counter]);
        self.set_vars(rounds.local, &value);
        self.scopes.push(Scope { label: rounds.label, leave, next: Some(next) });
        let before = self.facts.enter(rounds);
        self.stmts(&rounds.body);
        self.facts.end(before);
        self.scopes.pop();
        self.b.ins().jump(next, &[]);

        self.b.switch_to_block(next);
        self.b.seal_block(next);
        let after = self.b.ins().iadd(counter, step);
        match simple {
            Some(condition) => {
                let go_on = self.b.ins().icmp(condition, after, stop);
                self.b.ins().brif(go_on, body, &[after.into()], leave, &[]);
            }
            None => {
                let left = self.b.block_params(body)[1];
                let left = self.b.ins().iadd_imm_s(left, -1);
                self.b.ins().brif(left, body, &[after.into(), left.into()], leave, &[]);
            }
        }
        self.b.seal_block(body);
        self.b.switch_to_block(leave);
        self.b.seal_block(leave);
    }

    /// How many rounds a loop has: `I64`, to be taken as unsigned.
    pub(super) fn round_count(
        &mut self,
        rounds: &For,
        start: Value,
        stop: Value,
        step: Value,
    ) -> Value {
        let zero = self.int(0);
        let (up, distance, stride) = match rounds.step.kind {
            ExprKind::Const(Const::Int(known)) if known > 0 => {
                let is_some = self.b.ins().icmp(IntCC::SignedLessThan, start, stop);
                (is_some, self.b.ins().isub(stop, start), step)
            }
            ExprKind::Const(Const::Int(known)) if known < 0 => {
                let is_some = self.b.ins().icmp(IntCC::SignedGreaterThan, start, stop);
                let stride = self.b.ins().ineg(step);
                (is_some, self.b.ins().isub(start, stop), stride)
            }
            _ => {
                let is_zero = self.b.ins().icmp_imm_s(IntCC::Equal, step, 0);
                self.raise_if(is_zero, "ValueError", "range() arg 3 must not be zero");
                let is_down = self.b.ins().icmp_imm_s(IntCC::SignedLessThan, step, 0);
                let low = self.b.ins().select(is_down, stop, start);
                let high = self.b.ins().select(is_down, start, stop);
                let is_some = self.b.ins().icmp(IntCC::SignedLessThan, low, high);
                let back = self.b.ins().ineg(step);
                let stride = self.b.ins().select(is_down, back, step);
                (is_some, self.b.ins().isub(high, low), stride)
            }
        };
        let short = self.b.ins().iadd_imm_s(distance, -1);
        let full = self.b.ins().udiv(short, stride);
        let count = self.b.ins().iadd_imm_s(full, 1);
        self.b.ins().select(up, count, zero)
    }

    /// Hands a value to the context: for what is printed, and the arguments of exceptions.
    fn hand_over(&mut self, value: &'a Expr) {
        let mark = self.mark();
        let lanes = self.expr(value);
        self.hand_lanes(&value.ty, &lanes);
        self.release_to(mark);
    }

    /// As [`hand_over`](Self::hand_over), of lanes that stay whose they are.
    pub(super) fn hand_lanes(&mut self, ty: &Type, lanes: &[Value]) {
        let slot = self.slot(lanes.len());
        let address = self.slot_address(slot);
        self.store_lanes(address, 0, lanes);
        let described = abi::describe(ty);
        let length = self.int(described.len() as i64);
        let description = self.bytes(described);
        let context = self.context;
        self.helper("hand_over", &[context, description, length, address], &[]);
    }

    pub(super) fn raise(&mut self, raise: &'a Raise) {
        for value in &raise.args {
            self.hand_over(value);
        }
        let length = self.int(raise.class.len() as i64);
        let class = self.bytes(raise.class.clone().into_bytes());
        let context = self.context;
        self.helper("raise_handed", &[context, class, length], &[]);
        self.fail();
    }

    /// Raises if a record or a structref was never set.
    pub(super) fn check_set(&mut self, value: &Expr, pointer: Value) {
        let may_be_unset = matches!(
            value.kind,
            ExprKind::Local(_)
                | ExprKind::Const(_)
                | ExprKind::Item(..)
                | ExprKind::Attribute(..)
                | ExprKind::IfElse(..)
                | ExprKind::Block(..)
                | ExprKind::Call(..)
                | ExprKind::Cast(_)
        );
        if may_be_unset {
            let is_null = self.b.ins().icmp_imm_s(IntCC::Equal, pointer, 0);
            self.raise_if(is_null, "UnboundLocalError", "a variable is used before it is set");
        }
    }

    /// Stores an element or a field at an address.
    pub(super) fn store_element(&mut self, holds: &Element, address: Value, lanes: &[Value]) {
        match holds {
            Element::Scalar(scalar) => self.store_scalar(*scalar, address, 0, lanes),
            Element::Record(record) => {
                let size = self.int(i64::from(record.size));
                self.helper("copy_bytes", &[address, lanes[1], size], &[]);
            }
            Element::Array(..) => unreachable!("checked: nested arrays are assigned as views"),
        }
    }
}

/// Whether an expression is this constant.
fn is_bool(expr: &Expr, value: bool) -> bool {
    matches!(expr.kind, ExprKind::Const(Const::Bool(is)) if is == value)
}
