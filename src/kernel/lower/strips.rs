//! Innermost loops on vectors: a strip of rounds at a time.
//!
//! ```text
//!   for j in range(p):            strips of four rounds, while no two arrays overlap
//!       c[i, j] += f * b[k, j]    then the loop itself, for the rounds that are left
//! ```
//!
//! The body assigns scalars of one size and stores elements, without branches, calls or errors; each element lies at the
//! counter in the last axis of a dense array. Arrays that share memory other than element by element are found out before
//! the loop. At least one round is left to the loop itself, which gives the locals their last values.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value, types};

use super::facts::{counters, each_assigned, is_innermost, steps};
use super::r#gen::{Gen, heap};
use super::vector::{Strip, VECTORS, can_be_vector, is_vector};
use crate::kernel::ir::{
    Const, Element, Element1, ExprKind, For, Layout, LocalId, Scalar, Stmt, StmtKind,
};

/// More elements than this are too many to compare with each other.
const MOST: usize = 8;

/// What is known of a loop that can be computed in strips.
struct Plan<'a> {
    body: &'a [Stmt],
    scalar_size: u32,
    lanes: u32,
    /// The elements that are read and written, each once.
    elements: Vec<&'a Element1>,
    /// Those that are apart only if their addresses are, by their places.
    apart: Vec<(usize, usize)>,
    /// Locals of the same value in all rounds.
    outer: Vec<LocalId>,
}

impl<'a> Gen<'a, '_> {
    /// Builds strips of a loop whose indices are known to be in range as far as that can be known. What it gives is where
    /// the rounds begin that are left.
    pub(super) fn strips(&mut self, rounds: &'a For, start: Value, stop: Value) -> Value {
        let before = self.facts.enter(rounds);
        self.note_counter(rounds);
        let begin = match self.strip_plan(rounds) {
            Some(plan) => self.build_strips(rounds, &plan, start, stop),
            None => start,
        };
        self.facts.end(before);
        begin
    }

    fn strip_plan(&self, rounds: &'a For) -> Option<Plan<'a>> {
        let one = matches!(rounds.step.kind, ExprKind::Const(Const::Int(1)));
        if !one || !is_innermost(&rounds.body) {
            return None;
        }
        let mut assigned = Vec::new();
        each_assigned(&rounds.body, &mut |local| assigned.push(local));
        let counters = counters(rounds, &assigned);
        // The copy of the counter, if there is one, comes first.
        let body = &rounds.body[counters.len().checked_sub(1)?..];
        let first = body.iter().find_map(|stmt| match &stmt.kind {
            StmtKind::SetElement(element, _) => self.strip_element(element, &counters, &assigned),
            _ => None,
        });
        let scalar_size = first?.size();

        let mut elements: Vec<&'a Element1> = Vec::new();
        let mut place = |element: &'a Element1| match elements.iter().position(|it| *it == element)
        {
            Some(at) => at,
            None => {
                elements.push(element);
                elements.len() - 1
            }
        };
        let (mut defined, mut stores, mut outer) = (Vec::new(), Vec::new(), Vec::new());
        for stmt in body {
            let (value, scalar) = match &stmt.kind {
                StmtKind::Assign(local, value) => (value, self.local_type(*local).scalar()?),
                StmtKind::SetElement(element, value) => {
                    (value, self.strip_element(element, &counters, &assigned)?)
                }
                _ => return None,
            };
            let fits = scalar.size() == scalar_size
                && is_vector(scalar)
                && can_be_vector(value, scalar_size, &mut |leaf| match &leaf.kind {
                    ExprKind::Local(local) if assigned.contains(local) => defined.contains(local),
                    ExprKind::Local(local) => {
                        outer.push(*local);
                        !counters.contains(local)
                    }
                    ExprKind::Element(element) => {
                        place(element);
                        self.strip_element(element, &counters, &assigned).is_some()
                    }
                    _ => false,
                });
            if !fits {
                return None;
            }
            match &stmt.kind {
                StmtKind::Assign(local, _) => defined.push(*local),
                StmtKind::SetElement(element, _) => stores.push(place(element)),
                _ => {}
            }
        }
        outer.sort_unstable();
        outer.dedup();
        stores.sort_unstable();
        stores.dedup();
        if elements.len() > MOST {
            return None;
        }
        let mut apart = Vec::new();
        for &store in &stores {
            for other in 0..elements.len() {
                let seen = stores.contains(&other) && other < store;
                if other == store || seen {
                    continue;
                }
                let (a, b) = (elements[store], elements[other]);
                if a.array == b.array
                    && a.indices[..a.indices.len() - 1] == b.indices[..b.indices.len() - 1]
                {
                    // One row, another column: what a round stores, another one reads.
                    return None;
                }
                apart.push((store, other));
            }
        }
        Some(Plan { body, scalar_size, lanes: 16 / scalar_size, elements, apart, outer })
    }

    /// What an element holds, if a strip can read and write it.
    fn strip_element(
        &self,
        element: &Element1,
        counters: &[LocalId],
        assigned: &[LocalId],
    ) -> Option<Scalar> {
        let ExprKind::Local(array) = element.array.kind else { return None };
        let ty = element.array.ty.as_array().expect("checked");
        let Element::Scalar(scalar) = ty.element else { return None };
        let (last, rest) = element.indices.split_last()?;
        let fits = is_vector(scalar)
            && ty.layout == Layout::C
            && !assigned.contains(&array)
            && steps(last, counters, assigned) == Some(true)
            && rest.iter().all(|index| steps(index, counters, assigned) == Some(false))
            && self.is_in_range(element);
        fits.then_some(scalar)
    }

    fn build_strips(
        &mut self,
        rounds: &'a For,
        plan: &Plan<'a>,
        start: Value,
        stop: Value,
    ) -> Value {
        let width = i64::from(VECTORS * plan.lanes);
        let (check, left) = (self.b.create_block(), self.b.create_block());
        let begin = self.b.append_block_param(left, types::I64);
        // It cannot wrap: the elements of so many rounds are in memory.
        let count = self.b.ins().isub(stop, start);
        let enough = self.b.ins().icmp_imm_s(IntCC::SignedGreaterThanOrEqual, count, 2 * width);
        self.b.ins().brif(enough, check, &[], left, &[start.into()]);

        self.b.switch_to_block(check);
        self.b.seal_block(check);
        if !plan.apart.is_empty() {
            self.set_counter(rounds, start);
            let addresses: Vec<Value> =
                plan.elements.iter().map(|element| self.address_of(element)).collect();
            let bytes = self.scale(count, plan.scalar_size);
            let mut all = self.b.ins().iconst(types::I8, 1);
            for &(a, b) in &plan.apart {
                let (a, b) = (addresses[a], addresses[b]);
                let (a_end, b_end) = (self.b.ins().iadd(a, bytes), self.b.ins().iadd(b, bytes));
                let before = self.b.ins().icmp(IntCC::UnsignedLessThanOrEqual, a_end, b);
                let behind = self.b.ins().icmp(IntCC::UnsignedLessThanOrEqual, b_end, a);
                let apart = self.b.ins().bor(before, behind);
                all = self.b.ins().band(all, apart);
            }
            let strips = self.b.create_block();
            self.b.ins().brif(all, strips, &[], left, &[start.into()]);
            self.b.switch_to_block(strips);
            self.b.seal_block(strips);
        }

        let mut constants = Vec::with_capacity(plan.outer.len());
        for &local in &plan.outer {
            let value = self.get_vars(local)[0];
            let ty = self.b.func.dfg.value_type(value).by(plan.lanes).expect("128 bits");
            constants.push((local, self.b.ins().splat(ty, value)));
        }
        let most = self.b.ins().iadd_imm_s(count, -1);
        let most = self.b.ins().band_imm_s(most, -width);
        let end = self.b.ins().iadd(start, most);
        self.step_to(start, end, width, |this, at| {
            this.set_counter(rounds, at);
            for vector in 0..VECTORS {
                let next = vector * plan.lanes;
                let mut known = constants.clone();
                for stmt in plan.body {
                    let strip = Strip { known: &known, lanes: plan.lanes, next };
                    match &stmt.kind {
                        StmtKind::Assign(local, value) => {
                            let value = this.vector(value, strip);
                            known.push((*local, value));
                        }
                        StmtKind::SetElement(element, value) => {
                            let value = this.vector(value, strip);
                            let address = this.address_of(element);
                            let offset = (next * plan.scalar_size) as i32;
                            this.b.ins().store(heap(), value, address, offset);
                        }
                        _ => unreachable!("looked at before"),
                    }
                }
            }
        });
        self.b.ins().jump(left, &[end.into()]);
        self.b.switch_to_block(left);
        self.b.seal_block(left);
        begin
    }

    /// Where an element of a local lies.
    pub(super) fn address_of(&mut self, element: &'a Element1) -> Value {
        let ExprKind::Local(array) = element.array.kind else { unreachable!("looked at before") };
        let lanes = self.get_vars(array);
        self.element_address(&lanes, element)
    }
}
