//! Expressions backwards: the transposed Jacobian times a vector, as nodes of the same graph.
//!
//! Reverse differentiation is done once, when a model is compiled, and on the graph: the adjoint of every node becomes
//! nodes that share parts with the equations and with each other, and the whole is a program like any other. So a
//! gradient costs a few evaluations whatever the number of states, in every scalar, and nothing is recorded while it
//! runs.
//!
//! ```text
//! w[output k] = r_k,      w[a] = sum over the readers b of a of  (db/da) w[b],      (J' r)_j = w[state j]
//! ```
//!
//! A branch that was not taken has the adjoint zero, and zero times an infinite slope would be no number:
//! `if(x > 0, sqrt(x), 0)` has the slope 0 at 0. Where branches exist, a second value therefore says whether a node
//! was used at all, and chooses. The root of zero passes nothing back, as it passes nothing forwards when what
//! stands below it does not move (`sqrt(x^2 + y^2)` at the origin).

use super::code::Environment;
use super::graph::{Binary, Graph, Node, NodeId, Unary};
use super::program::Program;
use optfilter::scalar::Scalar;

/// Adjoints of the nodes of a graph while they are summed up.
struct Adjoints<'a> {
    graph: &'a mut Graph,
    /// The adjoint of each node so far, and whether it was used: the node of a 1 or a 0.
    of: Vec<Option<(NodeId, NodeId)>>,
    zero: NodeId,
    one: NodeId,
}

impl Graph {
    /// Adds the transposed Jacobian of `outputs`, functions of the first `states` states, times the states that
    /// follow those: one node per state.
    pub fn vjp(&mut self, outputs: &[NodeId], states: usize) -> Vec<NodeId> {
        let top = self.nodes.len();
        let (zero, one) = (self.constant(0.0), self.constant(1.0));
        let mut adjoints = Adjoints { graph: self, of: vec![None; top], zero, one };
        for (k, &id) in outputs.iter().enumerate() {
            let seed = adjoints.graph.state(states + k);
            adjoints.add(id, seed, one);
        }
        for id in (0..top).rev() {
            if let Some((w, used)) = adjoints.of[id] {
                adjoints.pass(id, w, used);
            }
        }
        let of = adjoints.of;
        (0..states)
            .map(|j| {
                let adjoint = self.find(Node::State(j)).and_then(|id| *of.get(id)?);
                adjoint.map_or(zero, |(w, _)| w)
            })
            .collect()
    }
}

impl Adjoints<'_> {
    /// Passes the adjoint `w` of a node on to what the node reads.
    fn pass(&mut self, id: NodeId, w: NodeId, used: NodeId) {
        match self.graph.nodes[id] {
            Node::Unary(op, a) => self.pass_unary(op, id, a, w, used),
            Node::Binary(op, a, b) => self.pass_binary(op, id, [a, b], w, used),
            Node::PowerInt(_, 0) => {}
            Node::PowerInt(a, n) => {
                let (order, less) = (self.constant(n), self.constant(n - 1));
                let power = self.graph.power(a, less);
                let slope = self.graph.binary(Binary::Mul, order, power);
                self.times(a, w, slope, used);
            }
            Node::SelectLess(a, b, then, otherwise) => {
                self.choose([a, b], [then, otherwise], w, used);
            }
            Node::Constant(_)
            | Node::State(_)
            | Node::Input(_)
            | Node::Time
            | Node::Interval
            | Node::Index => {}
        }
    }

    fn pass_unary(&mut self, op: Unary, id: NodeId, a: NodeId, w: NodeId, used: NodeId) {
        match op {
            Unary::Negate => self.subtract(a, w, used),
            Unary::Square => {
                let two = self.constant(2);
                let slope = self.graph.binary(Binary::Mul, two, a);
                self.times(a, w, slope, used);
            }
            Unary::Sqrt => {
                let half = self.graph.constant(0.5);
                let half = self.graph.binary(Binary::Mul, half, w);
                let share = self.graph.binary(Binary::Div, half, id);
                // The root itself where it is not positive: zero, or no number.
                let share = self.graph.select_less(self.zero, id, share, id);
                self.add_if_used(a, share, used);
            }
            Unary::Exp => self.times(a, w, id, used),
            Unary::Ln => self.over(a, w, a, used),
            Unary::Ln1p => {
                let below = self.graph.binary(Binary::Add, self.one, a);
                self.over(a, w, below, used);
            }
            Unary::Sin => self.times_function(Unary::Cos, a, w, used),
            Unary::Cos => {
                let sine = self.graph.unary(Unary::Sin, a);
                let share = self.graph.binary(Binary::Mul, w, sine);
                let share = self.if_used(share, used);
                self.subtract(a, share, used);
            }
            Unary::Sinh => self.times_function(Unary::Cosh, a, w, used),
            Unary::Cosh => self.times_function(Unary::Sinh, a, w, used),
            Unary::Tan | Unary::Tanh => {
                let square = self.graph.unary(Unary::Square, id);
                let op = if op == Unary::Tan { Binary::Add } else { Binary::Sub };
                let slope = self.graph.binary(op, self.one, square);
                self.times(a, w, slope, used);
            }
            Unary::Asin | Unary::Acos => {
                let square = self.graph.unary(Unary::Square, a);
                let rest = self.graph.binary(Binary::Sub, self.one, square);
                let below = self.graph.unary(Unary::Sqrt, rest);
                let w = if op == Unary::Asin { w } else { self.graph.unary(Unary::Negate, w) };
                self.over(a, w, below, used);
            }
            Unary::Atan => {
                let square = self.graph.unary(Unary::Square, a);
                let below = self.graph.binary(Binary::Add, self.one, square);
                self.over(a, w, below, used);
            }
            Unary::Abs => {
                let negative = self.graph.unary(Unary::Negate, w);
                let share = self.graph.select_less(a, self.zero, negative, w);
                self.add(a, share, used);
            }
            Unary::Floor => {}
        }
    }

    fn pass_binary(
        &mut self,
        op: Binary,
        id: NodeId,
        [a, b]: [NodeId; 2],
        w: NodeId,
        used: NodeId,
    ) {
        match op {
            Binary::Add => {
                self.add(a, w, used);
                self.add(b, w, used);
            }
            Binary::Sub => {
                self.add(a, w, used);
                self.subtract(b, w, used);
            }
            Binary::Mul => {
                self.times(a, w, b, used);
                self.times(b, w, a, used);
            }
            Binary::Div => {
                let share = self.graph.binary(Binary::Div, w, b);
                self.add_if_used(a, share, used);
                let share = self.graph.binary(Binary::Mul, share, id);
                let share = self.if_used(share, used);
                self.subtract(b, share, used);
            }
            Binary::Powf => {
                let less = self.graph.binary(Binary::Sub, b, self.one);
                let power = self.graph.binary(Binary::Powf, a, less);
                let slope = self.graph.binary(Binary::Mul, b, power);
                self.times(a, w, slope, used);
                let log = self.graph.unary(Unary::Ln, a);
                let slope = self.graph.binary(Binary::Mul, id, log);
                self.times(b, w, slope, used);
            }
            Binary::Atan2 => {
                let squares = [a, b].map(|v| self.graph.unary(Unary::Square, v));
                let below = self.graph.binary(Binary::Add, squares[0], squares[1]);
                let share = self.graph.binary(Binary::Div, w, below);
                self.times(a, share, b, used);
                let share = self.graph.binary(Binary::Mul, share, a);
                let share = self.if_used(share, used);
                self.subtract(b, share, used);
            }
            // As the scalars choose between the two.
            Binary::Min => self.choose([b, a], [b, a], w, used),
            Binary::Max => self.choose([a, b], [b, a], w, used),
        }
    }

    fn constant(&mut self, value: i32) -> NodeId {
        self.graph.constant(f64::from(value))
    }

    /// Gives `w` to `then` where `a < b`, else to `otherwise`.
    fn choose(
        &mut self,
        [a, b]: [NodeId; 2],
        [then, otherwise]: [NodeId; 2],
        w: NodeId,
        used: NodeId,
    ) {
        let zero = self.zero;
        for (branch, taken) in [(then, true), (otherwise, false)] {
            let mut pick = |v| match taken {
                true => self.graph.select_less(a, b, v, zero),
                false => self.graph.select_less(a, b, zero, v),
            };
            let (share, used) = (pick(w), pick(used));
            self.add(branch, share, used);
        }
    }

    /// Adds `w` times the slope to the adjoint of `a`.
    fn times(&mut self, a: NodeId, w: NodeId, slope: NodeId, used: NodeId) {
        if self.graph.moves[a] {
            let share = self.graph.binary(Binary::Mul, w, slope);
            self.add_if_used(a, share, used);
        }
    }

    fn times_function(&mut self, slope: Unary, a: NodeId, w: NodeId, used: NodeId) {
        let slope = self.graph.unary(slope, a);
        self.times(a, w, slope, used);
    }

    /// Adds `w / below` to the adjoint of `a`.
    fn over(&mut self, a: NodeId, w: NodeId, below: NodeId, used: NodeId) {
        let share = self.graph.binary(Binary::Div, w, below);
        self.add_if_used(a, share, used);
    }

    /// `share` where a node was used, else zero whatever `share` is.
    fn if_used(&mut self, share: NodeId, used: NodeId) -> NodeId {
        if used == self.one {
            return share;
        }
        self.graph.select_less(self.zero, used, share, self.zero)
    }

    fn add_if_used(&mut self, a: NodeId, share: NodeId, used: NodeId) {
        let share = self.if_used(share, used);
        self.add(a, share, used);
    }

    /// Adds to the adjoint of `a`, if that depends on the state at all.
    fn add(&mut self, a: NodeId, share: NodeId, used: NodeId) {
        if !self.graph.moves[a] {
            return;
        }
        self.of[a] = Some(match self.of[a] {
            None => (share, used),
            Some((so_far, before)) => {
                let sum = match self.graph.nodes[so_far] {
                    Node::Unary(Unary::Negate, v) => self.graph.binary(Binary::Sub, share, v),
                    _ => self.graph.binary(Binary::Add, so_far, share),
                };
                (sum, self.either(before, used))
            }
        });
    }

    fn subtract(&mut self, a: NodeId, share: NodeId, used: NodeId) {
        if !self.graph.moves[a] {
            return;
        }
        self.of[a] = Some(match self.of[a] {
            None => (self.graph.unary(Unary::Negate, share), used),
            Some((so_far, before)) => {
                let rest = self.graph.binary(Binary::Sub, so_far, share);
                (rest, self.either(before, used))
            }
        });
    }

    fn either(&mut self, a: NodeId, b: NodeId) -> NodeId {
        if a == b || a == self.one {
            return a;
        }
        if b == self.one { b } else { self.graph.binary(Binary::Max, a, b) }
    }
}

impl Program {
    /// The program of [`Graph::vjp`] for outputs compiled from a graph, unless it is too large.
    pub fn compile_pull_back(mut graph: Graph, outputs: &[NodeId], states: usize) -> Option<Self> {
        let gradient = graph.vjp(outputs, states);
        let program = Self::compile(&graph, &gradient);
        program.is_addressable().then_some(program)
    }

    /// Evaluates a program of [`compile_pull_back`](Self::compile_pull_back) at `x` and `r`.
    #[inline]
    pub fn eval_pull_back<S: Scalar>(
        &self,
        x: &[S],
        r: &[S],
        env: &Environment<'_>,
        out: &mut [S],
    ) {
        let (mut few, mut many) = ([S::ZERO; 16], Vec::new());
        let both = match x.len() + r.len() {
            n @ ..=16 => {
                few[..x.len()].copy_from_slice(x);
                few[x.len()..n].copy_from_slice(r);
                &few[..n]
            }
            _ => {
                many.extend_from_slice(x);
                many.extend_from_slice(r);
                &many
            }
        };
        self.eval(both, env, out);
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;
    use crate::expr::Function;
    use optfilter::scalar::{Dual, Lanes};

    const ENV: Environment<'static> = Environment { u: &[0.25], t: 2.0, dt: 0.5, k: 4.0 };

    /// The program of a text in the states x, y and the input u, and the one of its gradient.
    fn compile(text: &str) -> (Program, Program) {
        let mut graph = Graph::new();
        let lookup = &mut |g: &mut Graph, name: &str| match name {
            "x" => Ok(g.state(0)),
            "y" => Ok(g.state(1)),
            "u" => Ok(g.input(0)),
            "t" => Ok(g.time()),
            _ => Err((format!("unknown {name}"), None)),
        };
        let id = graph.lower(&parse(text).unwrap(), lookup).unwrap();
        let program = Program::compile(&graph, &[id]);
        (program, Program::compile_pull_back(graph, &[id], 2).unwrap())
    }

    /// Every function of the language, and every operator.
    fn texts() -> Vec<String> {
        let mut texts: Vec<String> = [
            "-x",
            "x + y",
            "x - y",
            "x*y",
            "x/y",
            "x^y",
            "x^3",
            "x^-2",
            "x^2",
            "x^0.5",
            "x^2.5",
            "2^x",
            "x^0",
            "u*x/(1 + t)",
            "(x + y)*(x - y)/(x*x + 1)",
            "x < y",
            "x <= y",
            "x == y or x > 1",
            "not (x != y) and y >= 0",
            "if(x < y, x^2*y, sin(x*y)*y) + if(y < x, x/y, y/x)",
            "if(x > y, sqrt(x - y)*x, ln(y - x)) + min(x*y, 1/x, y)",
            "x*sin(x)*exp(-y) + sin(x) - (y - x)",
        ]
        .map(str::to_owned)
        .into();
        for (name, _, least, _) in Function::TABLE {
            // Inside (-1, 1), where every function has a slope.
            let inside = "(0.9*x/(1 + x*x) + 0.1*y)";
            texts.push(match least {
                1 => format!("{name}{inside}*y"),
                2 => format!("{name}(x*y, y - x)"),
                _ => format!("{name}(x < 0.8, x*y, exp(y))"),
            });
        }
        texts
    }

    #[test]
    fn every_function_and_operator_has_the_slope_of_duals_and_of_differences() {
        let points = [[0.3, 0.9], [1.7, 0.2], [0.7, 1.1], [0.5, 0.4]];
        for text in texts() {
            let (program, reverse) = compile(&text);
            let mut lanes = [Lanes([0.0; 4]); 2];
            let x = [Lanes(points.map(|p| p[0])), Lanes(points.map(|p| p[1]))];
            reverse.eval_pull_back(&x, &[Lanes([-1.5; 4])], &ENV, &mut lanes);
            for (lane, point) in points.into_iter().enumerate() {
                let mut gradient = [f64::NAN; 2];
                reverse.eval_pull_back(&point, &[-1.5], &ENV, &mut gradient);
                let mut dual = [Dual::<f64, 2>::ZERO];
                let variables = [Dual::variable(point[0], 0), Dual::variable(point[1], 1)];
                program.eval(&variables, &ENV, &mut dual);
                for j in 0..2 {
                    assert_eq!(lanes[j].0[lane].to_bits(), gradient[j].to_bits(), "{text}");
                    let expected = -1.5 * dual[0].eps[j];
                    // A handful of roundings on either side.
                    let rounding = 1e-14 * (1.0 + expected.abs());
                    assert!((gradient[j] - expected).abs() <= rounding, "{text} at {point:?}");
                    let at = |h: f64| {
                        let (mut moved, mut value) = (point, [0.0]);
                        moved[j] += h;
                        program.eval(&moved, &ENV, &mut value);
                        value[0]
                    };
                    let slope = -1.5 * (at(1e-6) - at(-1e-6)) / 2e-6;
                    // Central differences: h^2 f''' plus rounding of 1e-16 / h.
                    let off = (gradient[j] - slope).abs();
                    assert!(off < 1e-7 * (1.0 + slope.abs()), "{text} at {point:?}: off {off}");
                }
            }
        }
    }

    #[test]
    fn second_derivatives_come_from_duals_through_the_gradient() {
        let (program, reverse) = compile("if(x < y, x^2*y, 1) + x*exp(y)");
        type Nested = Dual<Dual<f64, 2>, 2>;
        let (x, y) = (0.3, 0.9);
        let inner = [Dual::variable(x, 0), Dual::variable(y, 1)];
        let mut twice = [Nested::ZERO];
        program.eval(&[Dual::variable(inner[0], 0), Dual::variable(inner[1], 1)], &ENV, &mut twice);
        let mut gradient = [Dual::<f64, 2>::ZERO; 2];
        reverse.eval_pull_back(&inner, &[Dual::ONE], &ENV, &mut gradient);
        for i in 0..2 {
            for j in 0..2 {
                assert!((gradient[i].eps[j] - twice[0].eps[i].eps[j]).abs() < 1e-14);
            }
        }
    }

    #[test]
    fn branches_that_are_not_taken_and_roots_of_zero_pass_nothing_back() {
        for (text, expected) in [
            ("if(x > 0, sqrt(x), 0) + y", [0.0, 1.0]),
            ("if(x > 0, x*ln(x), 0) + if(x > 0, 1/x, y)", [0.0, 1.0]),
            ("sqrt(x^2 + (y - 1)^2) + y", [0.0, 1.0]),
            ("max(0, if(x > 0, y/x, 0)) + 2*x", [2.0, 0.0]),
        ] {
            let mut gradient = [f64::NAN; 2];
            compile(text).1.eval_pull_back(&[0.0, 1.0], &[1.0], &ENV, &mut gradient);
            assert_eq!(gradient, expected, "{text}");
        }
        let mut gradient = [0.0; 2];
        compile("x*sqrt(y)").1.eval_pull_back(&[1.0, 2.0], &[f64::NAN], &ENV, &mut gradient);
        assert!(gradient.iter().all(|g| g.is_nan()), "a seed that is no number is not hidden");
    }
}
