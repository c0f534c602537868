//! A program over many indices at once: every instruction is a loop over a block of numbers.
//!
//! The cost of reading an instruction is shared by the block, and its loop is one that the compiler makes vector code
//! of. Registers are blocks; the result of an instruction goes to a spare one, which then changes places with the
//! register it is for, so that nothing is read and written at once.

use super::graph::{Binary, Unary};
use super::program::{Code, Op, STATE};
use optfilter::scalar::Scalar;

#[inline(always)]
fn each<S: Scalar>(a: &[S], out: &mut [S], f: impl Fn(S) -> S) {
    for (out, &a) in out.iter_mut().zip(a) {
        *out = f(a);
    }
}

#[inline(always)]
fn each_pair<S: Scalar>(a: &[S], b: &[S], out: &mut [S], f: impl Fn(S, S) -> S) {
    for ((out, &a), &b) in out.iter_mut().zip(a).zip(b) {
        *out = f(a, b);
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
    /// Runs over `out_len` numbers. `load` gives the block of a state; `store` takes that of a result. The last of
    /// `registers` is spare.
    #[inline(always)]
    pub(super) fn run_block<'x, S: Scalar>(
        &self,
        len: usize,
        registers: &mut [&mut [S]],
        plain: &[f64],
        load: impl Fn(usize) -> &'x [S],
        mut store: impl FnMut(usize, &[S]),
    ) {
        for &(state, slot) in &self.copies {
            store(usize::from(slot), load(usize::from(state)));
        }
        let Some((spare, registers)) = registers.split_last_mut() else { return };
        let mut stores = self.stores.iter().peekable();
        for (position, instruction) in self.instructions.iter().enumerate() {
            let read = |i: u16| match i & STATE {
                0 => &registers[usize::from(i)][..len],
                _ => load(usize::from(i ^ STATE)),
            };
            let out = &mut spare[..len];
            match instruction.op {
                Op::Constant(k) => out.fill(S::from_f64(k)),
                Op::Plain(i) => out.fill(S::from_f64(plain[usize::from(i)])),
                Op::Unary(op, a) => per_operation!(
                    Unary[Negate Square Sqrt Exp Ln Ln1p Sin Cos Tan Asin Acos Atan Sinh Cosh Tanh Abs Floor],
                    op => each(
                        read(a),
                        out,
                        #[inline(always)]
                        |a| op.apply(a),
                    )
                ),
                Op::Binary(op, a, b) => per_operation!(
                    Binary[Add Sub Mul Div Powf Atan2 Min Max],
                    op => each_pair(
                        read(a),
                        read(b),
                        out,
                        #[inline(always)]
                        |a, b| op.apply(a, b),
                    )
                ),
                Op::Scale(a, k) => each(
                    read(a),
                    out,
                    #[inline(always)]
                    |a| a.scale(k),
                ),
                Op::AddConstant(a, k) => {
                    let k = S::from_f64(k);
                    each(
                        read(a),
                        out,
                        #[inline(always)]
                        |a| a + k,
                    );
                }
                Op::PowerInt(a, n) => each(
                    read(a),
                    out,
                    #[inline(always)]
                    |a| a.powi(n),
                ),
                Op::SelectLess(operands) => {
                    let [a, b, c, d] = operands.map(read);
                    for i in 0..len {
                        out[i] = S::select_lt(a[i], b[i], c[i], d[i]);
                    }
                }
                // These do not move with the state, so the plain part has computed them.
                Op::Input(_) | Op::Time | Op::Interval | Op::Index => {}
            }
            while let Some(&&(done, _, slot)) = stores.peek()
                && done as usize == position
            {
                store(usize::from(slot), &spare[..len]);
                stores.next();
            }
            std::mem::swap(spare, &mut registers[usize::from(instruction.to)]);
        }
    }
}
