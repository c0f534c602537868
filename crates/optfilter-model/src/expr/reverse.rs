//! The transposed Jacobian of a program times a vector, by one pass forwards and one backwards.
//!
//! That costs about four evaluations however many states there are, where forward derivatives need one evaluation for
//! each state (eight at a time). In dual numbers it gives the derivatives of a gradient along any direction for
//! the price of a gradient, which is what error bars of implicit filters are made of.
//!
//! Reference: Griewank and Walther 2008, *Evaluating Derivatives*, chapter 3.

use super::program::{Environment, Op, Program, STATE};
use optfilter::scalar::{Dual, Scalar};

impl Program {
    /// Writes J' r, where J is the Jacobian of the expressions at the state `x`.
    pub fn pull_back<S: Scalar>(&self, x: &[S], env: &Environment<'_>, r: &[S], out: &mut [S]) {
        let mut plain = vec![0.0; self.plain_slots];
        self.plain.dispatch(&[], env, &[], &mut plain);
        let code = &self.full;
        let count = code.instructions.len();
        // Results of all instructions, since registers are written over; then the states. Their adjoints alike.
        let mut values = vec![S::ZERO; count + x.len()];
        values[count..].copy_from_slice(x);
        let mut adjoints = vec![S::ZERO; count + x.len()];
        // Which instruction wrote a register last, and from where each has its operands.
        let mut writer = vec![0; code.registers];
        let mut places = vec![[0; 4]; count];
        for (position, instruction) in code.instructions.iter().enumerate() {
            let at = |i: u16| match i & STATE {
                0 => writer[usize::from(i)],
                _ => count + usize::from(i ^ STATE),
            };
            places[position] = match instruction.op {
                Op::Unary(_, a) | Op::Scale(a, _) | Op::AddConstant(a, _) | Op::PowerInt(a, _) => {
                    [at(a), 0, 0, 0]
                }
                Op::Binary(_, a, b) => [at(a), at(b), 0, 0],
                Op::SelectLess(all) => all.map(at),
                _ => [0; 4],
            };
            values[position] = instruction.op.apply(|i| values[at(i)], env, &plain);
            writer[usize::from(instruction.to)] = position;
        }
        for &(state, slot) in &code.copies {
            adjoints[count + usize::from(state)] += r[usize::from(slot)];
        }
        for &(done, _, slot) in &code.stores {
            adjoints[done as usize] += r[usize::from(slot)];
        }
        for (position, instruction) in code.instructions.iter().enumerate().rev() {
            let arriving = adjoints[position];
            if arriving == S::ZERO {
                continue;
            }
            let [a, b, c, d] = places[position];
            let variable = || Dual::<S, 1>::variable(values[a], 0);
            match instruction.op {
                Op::Unary(op, _) => adjoints[a] += arriving * op.apply(variable()).eps[0],
                Op::PowerInt(_, n) => adjoints[a] += arriving * variable().powi(n).eps[0],
                Op::Scale(_, k) => adjoints[a] += arriving.scale(k),
                Op::AddConstant(..) => adjoints[a] += arriving,
                Op::Binary(op, ..) => {
                    let other = Dual::<S, 2>::variable(values[b], 1);
                    let slopes = op.apply(Dual::variable(values[a], 0), other).eps;
                    adjoints[a] += arriving * slopes[0];
                    adjoints[b] += arriving * slopes[1];
                }
                Op::SelectLess(_) => {
                    let (low, high) = (values[a], values[b]);
                    adjoints[c] += S::select_lt(low, high, arriving, S::ZERO);
                    adjoints[d] += S::select_lt(low, high, S::ZERO, arriving);
                }
                _ => {}
            }
        }
        out.copy_from_slice(&adjoints[count..]);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Graph, NodeId, parse};
    use super::*;

    fn compile(texts: &[&str], states: &[&str]) -> Program {
        let mut graph = Graph::new();
        let lower = |text: &&str| -> NodeId {
            let lookup = &mut |g: &mut Graph, name: &str| match name {
                "t" => Ok(g.time()),
                name => Ok(g.state(states.iter().position(|s| *s == name).unwrap())),
            };
            graph.lower(&parse(text).unwrap(), lookup).unwrap()
        };
        let outputs: Vec<NodeId> = texts.iter().map(lower).collect();
        Program::compile(&graph, &outputs)
    }

    /// Against forward derivatives, and in duals against second derivatives by differences.
    #[test]
    fn going_backwards_gives_what_going_forwards_does() {
        let texts = [
            "x",
            "x",
            "x*y + exp(-z)/(1 + w^2) - 3*x^5",
            "if(x < y, sin(x)*y, cos(z) + t*w)",
            "if(y < x, sin(x)*y, cos(z) + t*w)",
            "max(x, y)*min(z, w) + abs(x - 2) + sqrt(x*x + w*w)",
            "atan2(y, x) + x^y + tanh(z*w)*(x*y + exp(-z)/(1 + w^2)) + 7",
            "t + 2",
        ];
        let program = compile(&texts, &["x", "y", "z", "w"]);
        let env = Environment { u: &[], t: 0.7, dt: 1.0, k: 1.0 };
        let (x, r) = ([0.6, 1.3, -0.4, 0.9], [1.0, 0.5, -2.0, 0.3, 1.1, 0.7, -0.2, 4.0]);
        let gradient = |x: &[f64]| {
            let mut out = [0.0; 4];
            program.pull_back(x, &env, &r, &mut out);
            out
        };
        let mut image = [Dual::<f64, 4>::ZERO; 8];
        let point: [Dual<f64, 4>; 4] = std::array::from_fn(|i| Dual::variable(x[i], i));
        program.eval(&point, &env, &mut image);
        let found = gradient(&x);
        for i in 0..4 {
            let expected: f64 = image.iter().zip(&r).map(|(v, r)| v.eps[i] * r).sum();
            assert!((found[i] - expected).abs() < 1e-13 * (1.0 + expected.abs()), "{i}: {found:?}");
        }
        let mut second = [Dual::<f64, 4>::ZERO; 4];
        program.pull_back(&point, &env, &r.map(Dual::constant), &mut second);
        for j in 0..4 {
            let h = 1e-5;
            let moved = |by: f64| std::array::from_fn(|i| if i == j { x[i] + by } else { x[i] });
            let (up, down): ([f64; 4], [f64; 4]) = (moved(h), moved(-h));
            let (up, down) = (gradient(&up), gradient(&down));
            for i in 0..4 {
                let difference = (up[i] - down[i]) / (2.0 * h);
                assert!((second[i].eps[j] - difference).abs() < 1e-6, "{i} {j}: {difference}");
            }
        }
    }
}
