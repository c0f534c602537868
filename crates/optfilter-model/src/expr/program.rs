//! Expressions compiled: a graph to a list of instructions on registers.
//!
//! What does not depend on the state (`8*cos(1.2*t)`, say) is computed once in plain numbers; the rest
//! is computed in the scalar asked for, so duals and lanes pay only for what moves. Registers are reused as soon as
//! their last reader has run.

use super::code::{Code, Environment, Instruction, Op, STATE};
use super::graph::{Binary, Graph, Node, NodeId};
use optfilter::scalar::Scalar;

/// A compiled set of expressions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Program {
    plain: Code,
    plain_slots: usize,
    pub(super) full: Code,
    outputs: usize,
}

impl Program {
    /// Compiles the expressions `outputs` of `graph`.
    pub fn compile(graph: &Graph, outputs: &[NodeId]) -> Self {
        // Nodes that the outputs need. Children have smaller numbers, so one pass downwards suffices.
        let mut needed = vec![false; graph.nodes.len()];
        for &id in outputs {
            needed[id] = true;
        }
        for id in (0..graph.nodes.len()).rev() {
            if needed[id] {
                graph.nodes[id].operands().for_each(|a| needed[a] = true);
            }
        }
        // Plain results that the full part reads: outputs that do not move, and operands of nodes that do.
        let mut crosses = vec![false; graph.nodes.len()];
        for &id in outputs {
            crosses[id] |= !graph.moves[id];
        }
        for id in 0..graph.nodes.len() {
            if needed[id] && graph.moves[id] {
                graph.nodes[id].operands().for_each(|a| crosses[a] |= !graph.moves[a]);
            }
        }
        let is_constant = |id: NodeId| matches!(graph.nodes[id], Node::Constant(_));
        let mut slots = vec![None; graph.nodes.len()];
        let mut plain_results = Vec::new();
        for id in 0..graph.nodes.len() {
            if crosses[id] && !is_constant(id) {
                slots[id] = Some(plain_results.len() as u16);
                plain_results.push(id);
            }
        }
        let members = |moving: bool| -> Vec<NodeId> {
            (0..graph.nodes.len()).filter(|&i| needed[i] && graph.moves[i] == moving).collect()
        };
        let no_slots = vec![None; graph.nodes.len()];
        let plain = assemble(graph, &members(false), &plain_results, &no_slots);
        let mut full_members = members(true);
        full_members.extend((0..graph.nodes.len()).filter(|&i| crosses[i]));
        full_members.sort_unstable();
        let full = assemble(graph, &full_members, outputs, &slots);
        Self { plain, plain_slots: plain_results.len(), full, outputs: outputs.len() }
    }

    /// The number of values the program writes.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// The number of instructions, plain and full.
    pub fn len(&self) -> (usize, usize) {
        (self.plain.instructions.len(), self.full.instructions.len())
    }

    /// The same with several instructions in one where that can be done.
    pub(super) fn fused(mut self) -> Self {
        self.full = self.full.fused();
        self
    }

    /// Whether every register has a number of its own.
    pub(super) fn is_addressable(&self) -> bool {
        self.plain.registers.max(self.full.registers) <= usize::from(STATE)
    }

    /// Whether the program computes nothing.
    pub fn is_empty(&self) -> bool {
        self.outputs == 0
    }

    /// What the plain part computes.
    #[inline(always)]
    pub(super) fn plain_values(&self, env: &Environment<'_>) -> Vec<f64> {
        if self.plain_slots == 0 {
            return Vec::new();
        }
        let mut values = vec![0.0; self.plain_slots];
        self.plain.dispatch(&[], env, &[], &mut values);
        values
    }

    /// Evaluates every expression at the state `x`.
    #[inline]
    pub fn eval<S: Scalar>(&self, x: &[S], env: &Environment<'_>, out: &mut [S]) {
        let mut few = [0.0; 16];
        let mut many = Vec::new();
        let slots: &mut [f64] = if self.plain_slots <= few.len() {
            &mut few[..self.plain_slots]
        } else {
            many.resize(self.plain_slots, 0.0);
            &mut many
        };
        if self.plain_slots > 0 {
            self.plain.dispatch(&[], env, &[], slots);
        }
        self.full.dispatch(x, env, slots, out);
    }
}

/// Lays out `members` (children first) as instructions; `slots` names results of the plain part.
fn assemble(graph: &Graph, members: &[NodeId], outputs: &[NodeId], slots: &[Option<u16>]) -> Code {
    let constant = |id: NodeId| graph.value(id);
    // Choose the operations first: constants that were absorbed into one need no register.
    let ops: Vec<(NodeId, Node, Option<(NodeId, f64, bool)>)> = members
        .iter()
        .map(|&id| {
            let node = graph.nodes[id];
            let absorbed = match node {
                Node::Binary(Binary::Mul, a, b) => match (constant(a), constant(b)) {
                    (Some(k), None) => Some((b, k, true)),
                    (None, Some(k)) => Some((a, k, true)),
                    _ => None,
                },
                Node::Binary(Binary::Add, a, b) => match (constant(a), constant(b)) {
                    (Some(k), None) => Some((b, k, false)),
                    (None, Some(k)) => Some((a, k, false)),
                    _ => None,
                },
                _ => None,
            };
            (id, node, absorbed)
        })
        .collect();
    let mut last_use = vec![0usize; graph.nodes.len()];
    for (position, (id, node, absorbed)) in ops.iter().enumerate() {
        if slots[*id].is_some() {
            continue;
        }
        match absorbed {
            Some((a, ..)) => last_use[*a] = position + 1,
            None => node.operands().for_each(|a| last_use[a] = position + 1),
        }
    }
    let is_output: std::collections::HashSet<NodeId> = outputs.iter().copied().collect();
    let mut register = vec![0u16; graph.nodes.len()];
    let mut free: Vec<u16> = Vec::new();
    let mut code = Code::default();
    for (position, (id, node, absorbed)) in ops.iter().enumerate() {
        let (id, node) = (*id, *node);
        if last_use[id] == 0 && !is_output.contains(&id) {
            continue; // a constant absorbed everywhere it is used
        }
        if let (None, Node::State(i)) = (slots[id], node) {
            register[id] = STATE | i as u16;
            let places = outputs.iter().enumerate().filter(|(_, o)| **o == id);
            code.copies.extend(places.map(|(slot, _)| (i as u16, slot as u16)));
            continue;
        }
        let r = |a: NodeId| register[a];
        let op = match (slots[id], absorbed, node) {
            (Some(slot), ..) => Op::Plain(slot),
            (_, Some((a, k, true)), _) => Op::Scale(r(*a), *k),
            (_, Some((a, k, false)), _) => Op::AddConstant(r(*a), *k),
            (_, _, Node::Constant(bits)) => Op::Constant(f64::from_bits(bits)),
            (_, _, Node::State(_)) => continue, // read where it is
            (_, _, Node::Input(i)) => Op::Input(i as u16),
            (_, _, Node::Time) => Op::Time,
            (_, _, Node::Interval) => Op::Interval,
            (_, _, Node::Index) => Op::Index,
            (_, _, Node::Unary(op, a)) => Op::Unary(op, r(a)),
            (_, _, Node::Binary(op, a, b)) => Op::Binary(op, r(a), r(b)),
            (_, _, Node::PowerInt(a, n)) => Op::PowerInt(r(a), n),
            (_, _, Node::SelectLess(a, b, c, d)) => Op::SelectLess([r(a), r(b), r(c), r(d)]),
        };
        // Operands whose last reader this is give their registers back before the result takes one:
        // an instruction reads everything before it writes.
        let mut release = |a: NodeId| {
            let in_register = register[a] & STATE == 0;
            if in_register && last_use[a] == position + 1 && !free.contains(&register[a]) {
                free.push(register[a]);
            }
        };
        match (slots[id], absorbed) {
            (Some(_), _) => {}
            (None, Some((a, ..))) => release(*a),
            (None, None) => node.operands().for_each(release),
        }
        let to = free.pop().unwrap_or_else(|| {
            code.registers += 1;
            (code.registers - 1) as u16
        });
        register[id] = to;
        code.instructions.push(Instruction { op, to });
        if is_output.contains(&id) {
            let done = code.instructions.len() as u32 - 1;
            for (slot, _) in outputs.iter().enumerate().filter(|(_, o)| **o == id) {
                code.stores.push((done, to, slot as u16));
            }
            if last_use[id] == 0 {
                free.push(to);
            }
        }
    }
    code
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;
    use optfilter::scalar::{Dual, Lanes};

    /// Compiles expressions in the states x, y and the input u.
    fn compile(texts: &[&str]) -> Program {
        let mut graph = Graph::new();
        let outputs: Vec<NodeId> = texts
            .iter()
            .map(|text| {
                let ast = parse(text).unwrap();
                let lookup = &mut |g: &mut Graph, name: &str| match name {
                    "x" => Ok(g.state(0)),
                    "y" => Ok(g.state(1)),
                    "u" => Ok(g.input(0)),
                    "t" => Ok(g.time()),
                    "dt" => Ok(g.interval()),
                    _ => Err((format!("unknown {name}"), None)),
                };
                graph.lower(&ast, lookup).unwrap()
            })
            .collect();
        Program::compile(&graph, &outputs)
    }

    fn value(text: &str, x: f64, y: f64) -> f64 {
        let mut out = [f64::NAN];
        let env = Environment { u: &[0.25], t: 2.0, dt: 0.5, k: 4.0 };
        compile(&[text]).eval(&[x, y], &env, &mut out);
        out[0]
    }

    #[test]
    fn precedence_and_functions_mean_what_they_mean_on_paper() {
        let (x, y) = (1.3_f64, -0.4_f64);
        for (text, expected) in [
            ("1 + 2*3", 7.0),
            ("2^3^2", 512.0),
            ("-x^2", -x * x),
            ("2^-1", 0.5),
            ("x/2/2", x / 4.0),
            ("1 - 2 - 3", -4.0),
            (
                "x/2 + 25*x/(1+x^2) + 8*cos(1.2*t)",
                x / 2.0 + 25.0 * x / (1.0 + x * x) + 8.0 * 2.4f64.cos(),
            ),
            ("if(x > y, 1, 2)", 1.0),
            ("if(x < y or not (y >= 0), x, y)", x),
            ("max(x, y, 3) - min(x, y)", 3.4),
            ("atan2(y, x)", y.atan2(x)),
            ("log10(1000)", 1000f64.ln() / 10f64.ln()),
            ("sign(y) + sign(0) + 2*sign(x)", 1.0),
            ("abs(y)^0.5", 0.4f64.sqrt()),
            ("x == 1.3", 1.0),
            ("x != 1.3", 0.0),
            ("u + dt", 0.75),
            (
                "exp(ln(x)) - sinh(y)/cosh(y) - tanh(-y)",
                (x.ln()).exp() - y.sinh() / y.cosh() - (-y).tanh(),
            ),
            ("x**2", x * x),
            ("1e-3 + .5e1", 5.001),
        ] {
            // The same functions in the same order, so the results are equal up to the shape of the formula.
            assert!(
                (value(text, x, y) - expected).abs() < 1e-15 * expected.abs().max(1.0),
                "{text}"
            );
        }
    }

    #[test]
    fn constant_and_shared_parts_cost_nothing() {
        let program = compile(&["2*3*sin(x)", "sin(x) + 8*cos(1.2*t)"]);
        // Plain: t, scale, cos, scale. Full: sin, scale by 6, the plain number, add.
        assert_eq!(program.len(), (4, 4));
    }

    #[test]
    fn derivatives_and_lanes_agree_with_plain_numbers() {
        let texts =
            ["x*y^3/(1 + x^2) + u*sqrt(x)", "if(x < y, x^2.5, sin(x*y))", "atan2(y, x) - y"];
        let program = compile(&texts);
        let env = Environment { u: &[0.25], t: 2.0, dt: 0.5, k: 4.0 };
        let points = [[0.3, 0.9], [1.7, 0.2], [2.0, -1.0], [0.5, 0.5]];
        let mut lanes = [Lanes([0.0; 4]); 3];
        program.eval(&[Lanes(points.map(|p| p[0])), Lanes(points.map(|p| p[1]))], &env, &mut lanes);
        for (lane, [x, y]) in points.into_iter().enumerate() {
            let mut plain = [0.0; 3];
            program.eval(&[x, y], &env, &mut plain);
            let mut duals = [Dual::<f64, 2>::ZERO; 3];
            program.eval(&[Dual::variable(x, 0), Dual::variable(y, 1)], &env, &mut duals);
            for i in 0..3 {
                assert_eq!(lanes[i].0[lane].to_bits(), plain[i].to_bits());
                assert_eq!(duals[i].re.to_bits(), plain[i].to_bits());
                let h = 1e-6;
                for d in 0..2 {
                    let (mut up, mut down) = ([0.0; 3], [0.0; 3]);
                    let shift = |s: f64| {
                        [x + if d == 0 { s } else { 0.0 }, y + if d == 1 { s } else { 0.0 }]
                    };
                    program.eval(&shift(h), &env, &mut up);
                    program.eval(&shift(-h), &env, &mut down);
                    let slope = (up[i] - down[i]) / (2.0 * h);
                    // The step (0.5, 0.5) sits on the edge of the choice; there the sides differ.
                    if lane != 3 || i != 1 {
                        // Central differences: h^2 f''' plus rounding of 1e-16 / h.
                        assert!((duals[i].eps[d] - slope).abs() < 1e-8, "{} d{d}", texts[i]);
                    }
                }
            }
        }
    }

    #[test]
    fn registers_are_reused_and_many_of_them_fall_back_to_the_heap() {
        // Nested to the right, every factor waits for the innermost one; to the left, none does.
        let (mut right, mut left) = ("x".to_owned(), "x".to_owned());
        let mut expected = 0.7;
        for i in 0..120 {
            right = format!("(x+{i})/({right})");
            left = format!("({left})/(x+{i})");
            expected = (0.7 + f64::from(i)) / expected;
        }
        assert!(compile(&[&right]).full.registers > 64);
        assert!(compile(&[&left]).full.registers < 8);
        assert_eq!(value(&right, 0.7, 0.0), expected);
    }
}
