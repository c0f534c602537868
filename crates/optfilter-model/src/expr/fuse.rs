//! Two to four instructions in one, for programs over blocks.
//!
//! ```text
//! r = a - b;  s = r * c                           becomes        s = (a - b) * c
//! r = (a - b) * c;  s = r - d + k                 becomes        s = (a - b) * c - d + k
//! ```
//!
//! Over a block an instruction is a loop that reads and writes memory near the processor; a sum or a product costs less than
//! that. So where an operation is read by the next one and by nobody else, one loop does both. Each is rounded as before:
//! the results are the same to the bit.

use super::code::{Arithmetic, ByConstant, Code, Instruction, Op, Sum, Then};
use super::graph::Binary;

impl Arithmetic {
    fn of(op: Binary) -> Option<Self> {
        match op {
            Binary::Add => Some(Self::Add),
            Binary::Sub => Some(Self::Sub),
            Binary::Mul => Some(Self::Mul),
            _ => None,
        }
    }
}

impl Then {
    /// `op` with the result before on its left or on its right.
    fn of(op: Arithmetic, left: bool) -> Self {
        match (op, left) {
            (Arithmetic::Add, _) => Self::Add,
            (Arithmetic::Mul, _) => Self::Mul,
            (Arithmetic::Sub, true) => Self::Sub,
            (Arithmetic::Sub, false) => Self::From,
        }
    }
}

/// Arithmetic on two numbers, or on one and a constant.
enum Simple {
    Two(Arithmetic, u16, u16),
    One(ByConstant, u16, f64),
}

impl Simple {
    fn of(op: Op) -> Option<Self> {
        match op {
            Op::Binary(op, a, b) => Some(Self::Two(Arithmetic::of(op)?, a, b)),
            Op::Scale(a, k) => Some(Self::One(ByConstant::Scale, a, k)),
            Op::AddConstant(a, k) => Some(Self::One(ByConstant::Add, a, k)),
            _ => None,
        }
    }
}

/// `first`, whose result is in register `r`, and then `next`, as one operation, if there is one.
fn chain(first: Op, r: u16, next: Op) -> Option<Op> {
    match (Simple::of(first)?, Simple::of(next)?) {
        // Both sides are the result: a square, which would be computed twice.
        (_, Simple::Two(_, x, y)) if (x == r) == (y == r) => None,
        (Simple::Two(first, a, b), Simple::Two(then, x, y)) => {
            let c = if x == r { y } else { x };
            Some(Op::Chain(first, Then::of(then, x == r), [a, b, c]))
        }
        (Simple::One(first, a, k), Simple::Two(then, x, y)) => {
            let c = if x == r { y } else { x };
            Some(Op::ConstantChain(first, Then::of(then, x == r), [a, c], k))
        }
        (Simple::Two(first, a, b), Simple::One(then, x, k)) if x == r => {
            Some(Op::ChainConstant(first, then, [a, b], k))
        }
        _ => None,
    }
}

/// Pairs once more: `first`, whose result is in register `r`, and then `next`, as one operation, if there is one.
fn flow(first: Op, r: u16, next: Op) -> Option<Op> {
    let Op::Chain(sum, Then::Mul, [a, b, c]) = first else { return None };
    let sum = match sum {
        Arithmetic::Add => Sum::Add,
        Arithmetic::Sub => Sum::Sub,
        Arithmetic::Mul => return None,
    };
    let (then, [x, y], k) = match next {
        Op::ChainConstant(then, ByConstant::Add, both, k) => (then, both, Some(k)),
        Op::Binary(op, x, y) => (Arithmetic::of(op)?, [x, y], None),
        _ => return None,
    };
    if (x == r) == (y == r) {
        return None;
    }
    let d = if x == r { y } else { x };
    Some(Op::Flow(sum, Then::of(then, x == r), [a, b, c, d], k))
}

impl Code {
    /// The same with several instructions in one wherever that can be done.
    pub(super) fn fused(&self) -> Self {
        self.joined(chain).joined(flow)
    }

    /// The same with two instructions in one wherever `join` makes one of them.
    fn joined(&self, join: fn(Op, u16, Op) -> Option<Op>) -> Self {
        let mut fused = Self { instructions: Vec::new(), stores: Vec::new(), ..self.clone() };
        let mut at = 0;
        while let Some(this) = self.instructions.get(at) {
            let next = self.instructions.get(at + 1);
            let chained = next.filter(|_| self.is_read_next_only(at)).and_then(|next| {
                Some(Instruction { op: join(this.op, this.to, next.op)?, to: next.to })
            });
            let taken = 1 + usize::from(chained.is_some());
            fused.instructions.push(chained.unwrap_or_else(|| this.clone()));
            let done = fused.instructions.len() as u32 - 1;
            let stores = self.stores.iter().filter(|s| s.0 as usize == at + taken - 1);
            fused.stores.extend(stores.map(|&(_, from, slot)| (done, from, slot)));
            at += taken;
        }
        fused
    }

    /// Whether nobody but the next instruction reads what this one writes.
    fn is_read_next_only(&self, at: usize) -> bool {
        let r = self.instructions[at].to;
        if self.stores.iter().any(|s| s.0 as usize == at) {
            return false;
        }
        let Some((next, later)) = self.instructions[at + 1..].split_first() else { return false };
        if next.to == r {
            return true;
        }
        let until = later.iter().position(|i| i.to == r).map_or(later.len(), |p| p + 1);
        !later[..until].iter().any(|i| i.op.reads(r))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Environment, Graph, NodeId, Program, parse};
    use optfilter::scalar::{Dual, Scalar};

    fn program(texts: &[&str]) -> Program {
        let mut graph = Graph::new();
        let lookup = &mut |g: &mut Graph, name: &str| match name {
            "x" => Ok(g.state(0)),
            "y" => Ok(g.state(1)),
            "z" => Ok(g.state(2)),
            _ => Err((format!("unknown {name}"), None)),
        };
        let ids: Vec<NodeId> =
            texts.iter().map(|text| graph.lower(&parse(text).unwrap(), lookup).unwrap()).collect();
        Program::compile(&graph, &ids)
    }

    #[test]
    fn fused_programs_give_the_same_bits_in_fewer_instructions() {
        for (texts, before, after) in [
            (&["(x - y)*z - x + 8"][..], 4, 1),
            (&["x - (x + y)*z"], 3, 1),
            (&["(x - y)*z - (x - y)*z*y"], 4, 2), // a product that is read twice
            (&["x - (y + z)*3"], 3, 2),
            (&["(2*x + y)*(x - z)", "(2*x + y) - z"], 5, 3),
            (&["(x + y)*(x + y)"], 2, 2),    // a square
            (&["sin(x*y) + x*y"], 3, 3),     // read by two
            (&["x + y", "(x + y)*z"], 2, 2), // a result by itself
            (&["z - 0.1*(x - 2*y + z)/3"], 7, 5),
        ] {
            let plain = program(texts);
            let fused = plain.clone().fused();
            assert_eq!((plain.len().1, fused.len().1), (before, after), "{texts:?}");
            let env = Environment { u: &[], t: 0.0, dt: 0.0, k: 0.0 };
            for point in [[0.3, -1.7, 2.9], [1e-3, 7.1, -0.2], [f64::INFINITY, 0.0, -0.0]] {
                let x: Vec<Dual<f64, 3>> =
                    point.iter().enumerate().map(|(i, v)| Dual::variable(*v, i)).collect();
                let run = |p: &Program| {
                    let mut out = vec![Dual::ZERO; texts.len()];
                    p.eval(&x, &env, &mut out);
                    let bits =
                        |d: &Dual<f64, 3>| [d.re, d.eps[0], d.eps[1], d.eps[2]].map(f64::to_bits);
                    out.iter().map(bits).collect::<Vec<_>>()
                };
                assert_eq!(run(&plain), run(&fused), "{texts:?}");
            }
        }
    }
}
