//! A program over many indices at once: every instruction is a loop over a block of numbers.
//!
//! The cost of reading an instruction is shared by the block, and its loop is one that the compiler makes vector code
//! of. Registers are blocks; the result of an instruction goes to a spare one, which then changes places with the
//! register it is for, so that nothing is read and written at once.

use super::code::{Arithmetic, ByConstant, Code, Op, STATE, Sum, Then};
use super::graph::{Binary, Unary};
use optfilter::scalar::Scalar;

/// Consecutive indices, and where what is read at them stands.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Block {
    pub outer: usize,
    pub inner: usize,
    /// The place of the first result.
    pub result: usize,
    pub len: usize,
    /// Where the numbers of each load stand side by side.
    pub placed: Vec<Placed>,
    /// What is gathered, in this order: numbers from a place on, or one number so many times.
    pub gathers: Vec<(usize, Result<usize, f64>)>,
}

/// Where the numbers of a block that a load reads stand side by side.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Placed {
    /// Among the states, from this one on.
    State(usize),
    /// Among those that were gathered.
    Gathered(usize),
}

/// What becomes of the results of a program. (Not closures: passed on by reference, they would be compiled for any processor.)
pub(super) trait Target<S> {
    /// Whether every result may be written at once to where it belongs.
    const PLACES: bool;
    /// Where the results of a slot may be written at once, if they may.
    fn place(&mut self, block: &Block, slot: usize) -> Option<&mut [S]>;
    /// Takes the results of a slot.
    fn take(&mut self, block: &Block, slot: usize, values: &[S]);
}

#[inline(always)]
fn each<S: Scalar>(a: &[S], out: &mut [S], f: impl Fn(S) -> S) {
    let a = &a[..out.len()];
    for i in 0..out.len() {
        out[i] = f(a[i]);
    }
}

#[inline(always)]
fn each_pair<S: Scalar>(a: &[S], b: &[S], out: &mut [S], f: impl Fn(S, S) -> S) {
    let (a, b) = (&a[..out.len()], &b[..out.len()]);
    for i in 0..out.len() {
        out[i] = f(a[i], b[i]);
    }
}

#[inline(always)]
fn each_triple<S: Scalar>([a, b, c]: [&[S]; 3], out: &mut [S], f: impl Fn(S, S, S) -> S) {
    let (a, b, c) = (&a[..out.len()], &b[..out.len()], &c[..out.len()]);
    for i in 0..out.len() {
        out[i] = f(a[i], b[i], c[i]);
    }
}

#[inline(always)]
fn each_quadruple<S: Scalar>([a, b, c, d]: [&[S]; 4], out: &mut [S], f: impl Fn(S, S, S, S) -> S) {
    let (a, b) = (&a[..out.len()], &b[..out.len()]);
    let (c, d) = (&c[..out.len()], &d[..out.len()]);
    for i in 0..out.len() {
        out[i] = f(a[i], b[i], c[i], d[i]);
    }
}

/// One loop for each operation, so that none is chosen inside a loop.
macro_rules! per_operation {
    ($type:ident [$($name:ident)*], $op:ident => $loop:expr) => {
        match $op {
            $($type::$name => {
                let $op = $type::$name;
                $loop
            })*
        }
    };
}

impl Code {
    /// The slot of a result that is the last instruction's alone: what nobody reads but the target need not go through a register.
    #[inline(always)]
    fn direct(&self) -> Option<usize> {
        match self.stores[..] {
            [(done, _, slot)] if done as usize + 1 == self.instructions.len() => {
                Some(usize::from(slot))
            }
            _ => None,
        }
    }

    /// Whether there is one instruction, and one result.
    #[inline(always)]
    pub(super) fn is_single(&self) -> bool {
        self.instructions.len() == 1 && self.direct().is_some()
    }

    /// Runs over the indices of a block. `load` gives the numbers of a state. The last of `registers` is spare.
    #[inline(always)]
    pub(super) fn run_block<'x, S: Scalar>(
        &self,
        block: &Block,
        registers: &mut [&mut [S]],
        plain: &[f64],
        load: impl Fn(usize) -> &'x [S],
        target: &mut impl Target<S>,
    ) {
        let len = block.len;
        for &(state, slot) in &self.copies {
            target.take(block, usize::from(slot), load(usize::from(state)));
        }
        let Some((spare, registers)) = registers.split_last_mut() else { return };
        if self.instructions.is_empty() {
            return;
        }
        let (last, direct) = (self.instructions.len() - 1, self.direct());
        let mut stores = self.stores.iter().peekable();
        for (position, instruction) in self.instructions.iter().enumerate() {
            // Not a closure, which would be compiled apart and called for every operand.
            macro_rules! read {
                ($i:expr) => {
                    match $i & STATE {
                        0 => &registers[usize::from($i)][..len],
                        _ => load(usize::from($i ^ STATE)),
                    }
                };
            }
            let mut placed = match direct {
                Some(slot) if position == last => target.place(block, slot),
                _ => None,
            };
            let out = match &mut placed {
                Some(placed) => &mut placed[..len],
                None => &mut spare[..len],
            };
            match instruction.op {
                Op::Constant(k) => out.fill(S::from_f64(k)),
                Op::Plain(i) => out.fill(S::from_f64(plain[usize::from(i)])),
                Op::Unary(op, a) => per_operation!(
                    Unary[Negate Square Sqrt Exp Ln Ln1p Sin Cos Tan Asin Acos Atan Sinh Cosh Tanh Abs Floor],
                    op => each(
                        read!(a),
                        out,
                        #[inline(always)]
                        |a| op.apply(a),
                    )
                ),
                Op::Binary(op, a, b) => per_operation!(
                    Binary[Add Sub Mul Div Powf Atan2 Min Max],
                    op => each_pair(
                        read!(a),
                        read!(b),
                        out,
                        #[inline(always)]
                        |a, b| op.apply(a, b),
                    )
                ),
                Op::Scale(a, k) => each(
                    read!(a),
                    out,
                    #[inline(always)]
                    |a| a.scale(k),
                ),
                Op::AddConstant(a, k) => {
                    let k = S::from_f64(k);
                    each(
                        read!(a),
                        out,
                        #[inline(always)]
                        |a| a + k,
                    );
                }
                Op::Chain(first, then, [a, b, c]) => per_operation!(
                    Arithmetic[Add Sub Mul],
                    first => per_operation!(
                        Then[Add Sub From Mul],
                        then => each_triple(
                            [read!(a), read!(b), read!(c)],
                            out,
                            #[inline(always)]
                            |a, b, c| then.apply(first.apply(a, b), c),
                        )
                    )
                ),
                Op::ChainConstant(first, then, [a, b], k) => per_operation!(
                    Arithmetic[Add Sub Mul],
                    first => per_operation!(
                        ByConstant[Add Scale],
                        then => each_pair(
                            read!(a),
                            read!(b),
                            out,
                            #[inline(always)]
                            |a, b| then.apply(first.apply(a, b), k),
                        )
                    )
                ),
                Op::ConstantChain(first, then, [a, b], k) => per_operation!(
                    ByConstant[Add Scale],
                    first => per_operation!(
                        Then[Add Sub From Mul],
                        then => each_pair(
                            read!(a),
                            read!(b),
                            out,
                            #[inline(always)]
                            |a, b| then.apply(first.apply(a, k), b),
                        )
                    )
                ),
                Op::Flow(sum, then, [a, b, c, d], k) => {
                    let of = [read!(a), read!(b), read!(c), read!(d)];
                    per_operation!(
                        Sum[Add Sub],
                        sum => per_operation!(
                            Then[Add Sub From Mul],
                            then => match k.map(S::from_f64) {
                                None => each_quadruple(
                                    of,
                                    out,
                                    #[inline(always)]
                                    |a, b, c, d| then.apply(sum.apply(a, b) * c, d),
                                ),
                                Some(k) => each_quadruple(
                                    of,
                                    out,
                                    #[inline(always)]
                                    |a, b, c, d| then.apply(sum.apply(a, b) * c, d) + k,
                                ),
                            }
                        )
                    );
                }
                Op::PowerInt(a, n) => each(
                    read!(a),
                    out,
                    #[inline(always)]
                    |a| a.powi(n),
                ),
                Op::SelectLess(operands) => {
                    let [a, b, c, d] = operands;
                    let (a, b, c, d) = (read!(a), read!(b), read!(c), read!(d));
                    for i in 0..len {
                        out[i] = S::select_lt(a[i], b[i], c[i], d[i]);
                    }
                }
                // These do not move with the state, so the plain part has computed them.
                Op::Input(_) | Op::Time | Op::Interval | Op::Index => {}
            }
            if placed.is_some() {
                return;
            }
            while let Some(&&(done, _, slot)) = stores.peek()
                && done as usize == position
            {
                target.take(block, usize::from(slot), &spare[..len]);
                stores.next();
            }
            std::mem::swap(spare, &mut registers[usize::from(instruction.to)]);
        }
    }
}
