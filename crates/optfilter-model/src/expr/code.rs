//! Instructions on registers, and what runs them over any scalar.
//!
//! States are read where they are. Registers live on the stack for up to 64 of them: running a small list of instructions
//! allocates nothing.

use super::graph::{Binary, Unary};
use optfilter::scalar::Scalar;

/// What an expression may refer to besides the state.
#[derive(Clone, Copy, Debug)]
pub struct Environment<'a> {
    /// Inputs.
    pub u: &'a [f64],
    /// Time.
    pub t: f64,
    /// Interval since the time before.
    pub dt: f64,
    /// Number of the time step.
    pub k: f64,
}

/// What is cheap beside a loop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Arithmetic {
    Add,
    Sub,
    Mul,
}

/// What makes one number of two before it is multiplied.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Sum {
    Add,
    Sub,
}

/// What is done with a result and one number more.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Then {
    Add,
    Sub,
    /// The result is taken from that number.
    From,
    Mul,
}

/// What is done with a number and a constant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ByConstant {
    Add,
    Scale,
}

impl Arithmetic {
    #[inline(always)]
    pub(super) fn apply<S: Scalar>(self, a: S, b: S) -> S {
        match self {
            Self::Add => a + b,
            Self::Sub => a - b,
            Self::Mul => a * b,
        }
    }
}

impl Sum {
    #[inline(always)]
    pub(super) fn apply<S: Scalar>(self, a: S, b: S) -> S {
        match self {
            Self::Add => a + b,
            Self::Sub => a - b,
        }
    }
}

impl Then {
    #[inline(always)]
    pub(super) fn apply<S: Scalar>(self, result: S, other: S) -> S {
        match self {
            Self::Add => result + other,
            Self::Sub => result - other,
            Self::From => other - result,
            Self::Mul => result * other,
        }
    }
}

impl ByConstant {
    #[inline(always)]
    pub(super) fn apply<S: Scalar>(self, a: S, k: f64) -> S {
        match self {
            Self::Add => a + S::from_f64(k),
            Self::Scale => a.scale(k),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Op {
    Constant(f64),
    Input(u16),
    Time,
    Interval,
    Index,
    /// A number computed by the plain part.
    Plain(u16),
    Unary(Unary, u16),
    Binary(Binary, u16, u16),
    /// Operations with a constant, which duals do faster than with a full number.
    Scale(u16, f64),
    AddConstant(u16, f64),
    PowerInt(u16, i32),
    SelectLess([u16; 4]),
    /// Two operations in one: the second is on the result of the first and the last operand or the constant.
    Chain(Arithmetic, Then, [u16; 3]),
    ChainConstant(Arithmetic, ByConstant, [u16; 2], f64),
    /// The same, with the constant in the first of the two.
    ConstantChain(ByConstant, Then, [u16; 2], f64),
    /// Three or four in one, the shape of what flows along a field: a sum or a difference, times a third operand, and then a fourth; at
    /// the end a constant is added, if there is one.
    Flow(Sum, Then, [u16; 4], Option<f64>),
}

impl Op {
    /// Whether an operand is this one.
    pub(super) fn reads(&self, operand: u16) -> bool {
        match *self {
            Self::Constant(_) | Self::Plain(_) | Self::Input(_) => false,
            Self::Time | Self::Interval | Self::Index => false,
            Self::Unary(_, a) | Self::Scale(a, _) => a == operand,
            Self::AddConstant(a, _) | Self::PowerInt(a, _) => a == operand,
            Self::Binary(_, a, b) => [a, b].contains(&operand),
            Self::SelectLess(all) | Self::Flow(_, _, all, _) => all.contains(&operand),
            Self::Chain(_, _, all) => all.contains(&operand),
            Self::ChainConstant(_, _, both, _) => both.contains(&operand),
            Self::ConstantChain(_, _, both, _) => both.contains(&operand),
        }
    }
}

/// An operand with this bit set is a state; without it, a register.
pub(super) const STATE: u16 = 1 << 15;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Instruction {
    pub(super) op: Op,
    pub(super) to: u16,
}

/// Instructions that leave results in numbered slots.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Code {
    pub(super) instructions: Vec<Instruction>,
    pub(super) registers: usize,
    /// States that are results as they are: (state, slot).
    pub(super) copies: Vec<(u16, u16)>,
    /// After instruction `.0`, register `.1` is copied to slot `.2`; in order of `.0`.
    pub(super) stores: Vec<(u32, u16, u16)>,
}

impl Code {
    /// Runs with as many registers as are needed, on the stack if there are at most 64.
    #[inline]
    pub(super) fn dispatch<S: Scalar>(
        &self,
        x: &[S],
        env: &Environment<'_>,
        plain: &[f64],
        out: &mut [S],
    ) {
        for &(state, slot) in &self.copies {
            out[usize::from(slot)] = x[usize::from(state)];
        }
        match self.registers {
            0 => {}
            1..=4 => self.run(&mut [S::ZERO; 4], x, env, plain, out),
            5..=16 => self.run(&mut [S::ZERO; 16], x, env, plain, out),
            17..=64 => self.run(&mut [S::ZERO; 64], x, env, plain, out),
            n => self.run(&mut vec![S::ZERO; n], x, env, plain, out),
        }
    }

    // Not inlined: an interpreter is large, and every scalar and every caller would have its own.
    fn run<S: Scalar>(
        &self,
        registers: &mut [S],
        x: &[S],
        env: &Environment<'_>,
        plain: &[f64],
        out: &mut [S],
    ) {
        let mut stores = self.stores.iter().peekable();
        for (position, instruction) in self.instructions.iter().enumerate() {
            let r = |i: u16| match i & STATE {
                0 => registers[usize::from(i)],
                _ => x[usize::from(i ^ STATE)],
            };
            let value = match instruction.op {
                Op::Constant(k) => S::from_f64(k),
                Op::Input(i) => S::from_f64(env.u[usize::from(i)]),
                Op::Time => S::from_f64(env.t),
                Op::Interval => S::from_f64(env.dt),
                Op::Index => S::from_f64(env.k),
                Op::Plain(i) => S::from_f64(plain[usize::from(i)]),
                Op::Unary(op, a) => op.apply(r(a)),
                Op::Binary(op, a, b) => op.apply(r(a), r(b)),
                Op::Scale(a, k) => r(a).scale(k),
                Op::AddConstant(a, k) => r(a) + S::from_f64(k),
                Op::PowerInt(a, n) => r(a).powi(n),
                Op::SelectLess([a, b, c, d]) => S::select_lt(r(a), r(b), r(c), r(d)),
                Op::Chain(first, then, [a, b, c]) => then.apply(first.apply(r(a), r(b)), r(c)),
                Op::ChainConstant(first, then, [a, b], k) => then.apply(first.apply(r(a), r(b)), k),
                Op::ConstantChain(first, then, [a, b], k) => then.apply(first.apply(r(a), k), r(b)),
                Op::Flow(sum, then, [a, b, c, d], k) => {
                    let flow = then.apply(sum.apply(r(a), r(b)) * r(c), r(d));
                    k.map_or(flow, |k| flow + S::from_f64(k))
                }
            };
            registers[usize::from(instruction.to)] = value;
            while let Some(&&(done, from, slot)) = stores.peek()
                && done as usize == position
            {
                out[usize::from(slot)] = registers[usize::from(from)];
                stores.next();
            }
        }
    }
}
