//! From syntax trees to one graph in which equal parts exist once and constants are computed.
//!
//! All equations of a model go into one graph, so `sin(theta)` in two of them is computed once. Only
//! rewrites that keep every bit of the result are made: constants are folded with the functions that
//! would run later, `a + b` and `b + a` are one, and whole powers become products.

use super::index::{Affine, Meaning, Meant, affine, inside_indices};
use super::parse::{Ast, AstNode, BinaryOp, Function, SyntaxError};
use optfilter::scalar::Scalar;
use std::collections::HashMap;

/// A node of a [`Graph`].
pub type NodeId = usize;

/// Functions of one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Unary {
    Negate,
    Square,
    Sqrt,
    Exp,
    Ln,
    Ln1p,
    Sin,
    Cos,
    Tan,
    Asin,
    Acos,
    Atan,
    Sinh,
    Cosh,
    Tanh,
    Abs,
    Floor,
}

/// Functions of two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Binary {
    Add,
    Sub,
    Mul,
    Div,
    Powf,
    Atan2,
    Min,
    Max,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Node {
    /// The bits of a number.
    Constant(u64),
    State(usize),
    Input(usize),
    Time,
    Interval,
    Index,
    Unary(Unary, NodeId),
    Binary(Binary, NodeId, NodeId),
    PowerInt(NodeId, i32),
    /// `c` where `a < b`, else `d`.
    SelectLess(NodeId, NodeId, NodeId, NodeId),
}

impl Node {
    /// What a node reads.
    pub(super) fn operands(&self) -> impl Iterator<Item = NodeId> + use<> {
        let list = match *self {
            Self::Unary(_, a) | Self::PowerInt(a, _) => [Some(a), None, None, None],
            Self::Binary(_, a, b) => [Some(a), Some(b), None, None],
            Self::SelectLess(a, b, c, d) => [Some(a), Some(b), Some(c), Some(d)],
            _ => [None; 4],
        };
        list.into_iter().flatten()
    }
}

impl Unary {
    #[inline(always)]
    pub(super) fn apply<S: Scalar>(self, a: S) -> S {
        match self {
            Self::Negate => -a,
            Self::Square => a.square(),
            Self::Sqrt => a.sqrt(),
            Self::Exp => a.exp(),
            Self::Ln => a.ln(),
            Self::Ln1p => a.ln_1p(),
            Self::Sin => a.sin(),
            Self::Cos => a.cos(),
            Self::Tan => a.tan(),
            Self::Asin => a.asin(),
            Self::Acos => a.acos(),
            Self::Atan => a.atan(),
            Self::Sinh => a.sinh(),
            Self::Cosh => a.cosh(),
            Self::Tanh => a.tanh(),
            Self::Abs => a.abs(),
            Self::Floor => a.floor(),
        }
    }
}

impl Binary {
    #[inline(always)]
    pub(super) fn apply<S: Scalar>(self, a: S, b: S) -> S {
        match self {
            Self::Add => a + b,
            Self::Sub => a - b,
            Self::Mul => a * b,
            Self::Div => a / b,
            Self::Powf => a.powf(b),
            Self::Atan2 => a.atan2(b),
            Self::Min => a.min(b),
            Self::Max => a.max(b),
        }
    }
}

/// A node, or what is wrong with a name and what to do about it.
pub type Found = Result<NodeId, (String, Option<String>)>;

/// What the names in an expression stand for.
pub trait Names {
    /// The node of a name with these indices.
    fn find(&mut self, graph: &mut Graph, name: &str, indices: &[Affine]) -> Found;

    /// The index that a name stands for.
    fn index(&self, _name: &str) -> Option<Affine> {
        None
    }
}

/// Names without indices.
impl<F: FnMut(&mut Graph, &str) -> Found> Names for F {
    fn find(&mut self, graph: &mut Graph, name: &str, indices: &[Affine]) -> Found {
        match indices {
            [] => self(graph, name),
            _ => Err((format!("`{name}` has no indices"), None)),
        }
    }
}

/// The largest number of nodes in a graph; registers are counted in 15 bits.
const MAX_NODES: usize = 32_000;

/// The expressions of a model, with shared parts.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    pub(super) nodes: Vec<Node>,
    /// Whether the node depends on the state.
    pub(super) moves: Vec<bool>,
    index: HashMap<Node, NodeId>,
}

impl Graph {
    /// A graph without nodes.
    pub fn new() -> Self {
        Self::default()
    }

    /// A number.
    pub fn constant(&mut self, value: f64) -> NodeId {
        self.add(Node::Constant(value.to_bits()))
    }
    /// The state component `i`.
    pub fn state(&mut self, i: usize) -> NodeId {
        self.add(Node::State(i))
    }
    /// The input component `i`.
    pub fn input(&mut self, i: usize) -> NodeId {
        self.add(Node::Input(i))
    }
    /// The time.
    pub fn time(&mut self) -> NodeId {
        self.add(Node::Time)
    }
    /// The interval since the time before.
    pub fn interval(&mut self) -> NodeId {
        self.add(Node::Interval)
    }
    /// The number of the time step.
    pub fn step_index(&mut self) -> NodeId {
        self.add(Node::Index)
    }

    /// The value of a node that is a constant.
    pub fn value(&self, id: NodeId) -> Option<f64> {
        match self.nodes.get(id) {
            Some(Node::Constant(bits)) => Some(f64::from_bits(*bits)),
            _ => None,
        }
    }

    fn add(&mut self, node: Node) -> NodeId {
        if let Some(&id) = self.index.get(&node) {
            return id;
        }
        let moves = match node {
            Node::State(_) => true,
            Node::Unary(_, a) | Node::PowerInt(a, _) => self.moves[a],
            Node::Binary(_, a, b) => self.moves[a] || self.moves[b],
            Node::SelectLess(a, b, c, d) => [a, b, c, d].iter().any(|&i| self.moves[i]),
            _ => false,
        };
        self.nodes.push(node);
        self.moves.push(moves);
        self.index.insert(node, self.nodes.len() - 1);
        self.nodes.len() - 1
    }

    /// A node that exists already.
    pub(super) fn find(&self, node: Node) -> Option<NodeId> {
        self.index.get(&node).copied()
    }

    pub(super) fn unary(&mut self, op: Unary, a: NodeId) -> NodeId {
        match self.value(a) {
            Some(x) => self.constant(op.apply(x)),
            None => self.add(Node::Unary(op, a)),
        }
    }

    /// e^a.
    pub fn exp(&mut self, a: NodeId) -> NodeId {
        self.unary(Unary::Exp, a)
    }

    /// 1 / (1 + e^-a).
    pub fn logistic(&mut self, a: NodeId) -> NodeId {
        let one = self.constant(1.0);
        let negative = self.unary(Unary::Negate, a);
        let power = self.unary(Unary::Exp, negative);
        let below = self.binary(Binary::Add, one, power);
        self.binary(Binary::Div, one, below)
    }

    pub(super) fn binary(&mut self, op: Binary, a: NodeId, b: NodeId) -> NodeId {
        let (x, y) = (self.value(a), self.value(b));
        if let (Some(x), Some(y)) = (x, y) {
            return self.constant(op.apply(x, y));
        }
        match (op, x, y) {
            (Binary::Mul, Some(1.0), _) => b,
            (Binary::Mul | Binary::Div, _, Some(1.0)) => a,
            (Binary::Sub, _, Some(0.0)) => a,
            // A product commutes bit for bit, and so does a sum.
            (Binary::Add | Binary::Mul, ..) => self.add(Node::Binary(op, a.min(b), a.max(b))),
            (Binary::Div, _, Some(y)) if is_power_of_two(y) => {
                let inverse = self.constant(1.0 / y);
                self.binary(Binary::Mul, a, inverse)
            }
            _ => self.add(Node::Binary(op, a, b)),
        }
    }

    pub(super) fn power(&mut self, a: NodeId, b: NodeId) -> NodeId {
        match (self.value(a), self.value(b)) {
            (_, Some(1.0)) => a,
            (None, Some(2.0)) => self.unary(Unary::Square, a),
            (None, Some(0.5)) => self.unary(Unary::Sqrt, a),
            (x, Some(n)) if n == n.floor() && n.abs() <= 1024.0 => match x {
                Some(x) => self.constant(Scalar::powi(x, n as i32)),
                None => self.add(Node::PowerInt(a, n as i32)),
            },
            _ => self.binary(Binary::Powf, a, b),
        }
    }

    pub(super) fn select_less(
        &mut self,
        a: NodeId,
        b: NodeId,
        then: NodeId,
        otherwise: NodeId,
    ) -> NodeId {
        match (self.value(a), self.value(b)) {
            (Some(a), Some(b)) => {
                if a < b {
                    then
                } else {
                    otherwise
                }
            }
            _ if then == otherwise => then,
            _ => self.add(Node::SelectLess(a, b, then, otherwise)),
        }
    }

    /// 1 where the comparison holds, else 0.
    fn compare(&mut self, op: BinaryOp, a: NodeId, b: NodeId) -> NodeId {
        let (zero, one) = (self.constant(0.0), self.constant(1.0));
        match op {
            BinaryOp::Less => self.select_less(a, b, one, zero),
            BinaryOp::Greater => self.select_less(b, a, one, zero),
            BinaryOp::LessEqual => self.select_less(b, a, zero, one),
            BinaryOp::GreaterEqual => self.select_less(a, b, zero, one),
            _ => {
                let (differ, same) = match op {
                    BinaryOp::Equal => (zero, one),
                    _ => (one, zero),
                };
                let above = self.select_less(b, a, differ, same);
                self.select_less(a, b, differ, above)
            }
        }
    }

    /// Whether a node is a sum of states times factors that do not depend on the state. `counts` says which states
    /// of the graph are such; the others are factors.
    pub fn is_affine(&self, id: NodeId, counts: impl Fn(usize) -> bool) -> bool {
        if !self.moves[id] {
            return true;
        }
        // Children come first in the list, so one pass decides for every node on the way.
        let (mut affine, mut fixed): (Vec<bool>, Vec<bool>) = (Vec::new(), Vec::new());
        for node in &self.nodes[..=id] {
            let still = match node {
                Node::State(k) => !counts(*k),
                _ => node.operands().all(|a| fixed[a]),
            };
            affine.push(match *node {
                _ if still => true,
                Node::State(_) => true,
                Node::Unary(Unary::Negate, a) => affine[a],
                Node::Binary(Binary::Add | Binary::Sub, a, b) => affine[a] && affine[b],
                Node::Binary(Binary::Mul, a, b) => affine[a] && affine[b] && (fixed[a] || fixed[b]),
                Node::Binary(Binary::Div, a, b) => affine[a] && fixed[b],
                _ => false,
            });
            fixed.push(still);
        }
        affine[id]
    }

    /// Whether a node is a constant plus a sum of states and inputs times constants, which may depend on the length of a step
    /// if `over_steps`.
    pub fn is_time_invariant(&self, id: NodeId, over_steps: bool) -> bool {
        // The degree in states and inputs together: 0, 1, or none that is of use.
        let mut degrees: Vec<Option<u8>> = Vec::with_capacity(id + 1);
        for node in &self.nodes[..=id] {
            let of = |a: NodeId| degrees[a];
            let flat = |all: &[NodeId]| all.iter().all(|&a| of(a) == Some(0)).then_some(0);
            degrees.push(match *node {
                Node::Constant(_) => Some(0),
                Node::State(_) | Node::Input(_) => Some(1),
                Node::Unary(Unary::Negate, a) => of(a),
                Node::Binary(Binary::Add | Binary::Sub, a, b) => {
                    of(a).zip(of(b)).map(|(a, b)| a.max(b))
                }
                Node::Binary(Binary::Mul, a, b) => {
                    of(a).zip(of(b)).map(|(a, b)| a + b).filter(|degree| *degree < 2)
                }
                Node::Binary(Binary::Div, a, b) => of(a).filter(|_| of(b) == Some(0)),
                Node::Unary(_, a) | Node::PowerInt(a, _) => flat(&[a]),
                Node::Binary(_, a, b) => flat(&[a, b]),
                Node::SelectLess(a, b, c, d) => flat(&[a, b, c, d]),
                Node::Interval => over_steps.then_some(0),
                Node::Time | Node::Index => None,
            });
        }
        degrees[id].is_some()
    }

    /// Whether a node is state `i` as it is.
    pub fn is_state(&self, id: NodeId, i: usize) -> bool {
        self.nodes[id] == Node::State(i)
    }

    /// Whether the length of a step goes into a node.
    pub fn reads_interval(&self, id: NodeId) -> bool {
        self.reads(id, |node| *node == Node::Interval)
    }

    /// Whether the time, the number of a step or an input goes into a node.
    pub fn reads_row(&self, id: NodeId) -> bool {
        self.reads(id, |node| matches!(node, Node::Time | Node::Index | Node::Input(_)))
    }

    fn reads(&self, id: NodeId, what: impl Fn(&Node) -> bool) -> bool {
        let mut reads: Vec<bool> = Vec::with_capacity(id + 1);
        for node in &self.nodes[..=id] {
            reads.push(what(node) || node.operands().any(|a| reads[a]));
        }
        reads[id]
    }

    /// Which states a node depends on.
    pub(super) fn states_below(&self, id: NodeId) -> Vec<usize> {
        let mut needed = vec![false; id + 1];
        needed[id] = true;
        let mut states = Vec::new();
        for id in (0..=id).rev().filter(|&i| self.moves[i]) {
            if !needed[id] {
                continue;
            }
            if let Node::State(k) = self.nodes[id] {
                states.push(k);
            }
            self.nodes[id].operands().for_each(|a| needed[a] = true);
        }
        states.sort_unstable();
        states
    }

    /// Adds an expression. `names` gives the node of a name, or what is wrong with it.
    pub fn lower(&mut self, ast: &Ast, names: &mut dyn Names) -> Result<NodeId, SyntaxError> {
        let mut ids: Vec<NodeId> = Vec::with_capacity(ast.nodes.len());
        let in_index = inside_indices(ast);
        for (position, (node, span)) in ast.nodes.iter().enumerate() {
            let id = match node {
                // Read as a whole number below, where the field is met.
                _ if in_index[position] => 0,
                AstNode::Number(value) => self.constant(*value),
                AstNode::Name(name) => names
                    .find(self, name, &[])
                    .map_err(|(message, help)| SyntaxError { message, span: span.clone(), help })?,
                AstNode::Element(name, indices) => {
                    let mut meaning = |name: &str| self.meaning_in_index(name, names);
                    let indices: Result<Vec<Affine>, SyntaxError> =
                        indices.iter().map(|&a| affine(ast, a, &mut meaning)).collect();
                    names.find(self, name, &indices?).map_err(|(message, help)| SyntaxError {
                        message,
                        span: span.clone(),
                        help,
                    })?
                }
                AstNode::Negate(a) => self.unary(Unary::Negate, ids[*a]),
                AstNode::Not(a) => {
                    let zero = self.constant(0.0);
                    self.compare(BinaryOp::Equal, ids[*a], zero)
                }
                AstNode::Binary(op, a, b) => self.operator(*op, ids[*a], ids[*b]),
                AstNode::Call(function, arguments) => {
                    let arguments: Vec<NodeId> = arguments.iter().map(|a| ids[*a]).collect();
                    self.call(*function, &arguments)
                }
            };
            if self.nodes.len() > MAX_NODES {
                let message = format!("the model has more than {MAX_NODES} operations");
                return Err(SyntaxError { message, span: span.clone(), help: None });
            }
            ids.push(id);
        }
        Ok(ids[ast.root()])
    }

    /// What a name stands for inside an index.
    fn meaning_in_index(&mut self, name: &str, names: &mut dyn Names) -> Meant {
        if let Some(index) = names.index(name) {
            return Ok(Meaning::Index(index));
        }
        let id = names.find(self, name, &[])?;
        Ok(self.value(id).map_or(Meaning::Other, Meaning::Number))
    }

    fn operator(&mut self, op: BinaryOp, a: NodeId, b: NodeId) -> NodeId {
        match op {
            BinaryOp::Add => self.binary(Binary::Add, a, b),
            BinaryOp::Sub => self.binary(Binary::Sub, a, b),
            BinaryOp::Mul if a == b => self.unary(Unary::Square, a),
            BinaryOp::Mul => self.binary(Binary::Mul, a, b),
            BinaryOp::Div => self.binary(Binary::Div, a, b),
            BinaryOp::Pow => self.power(a, b),
            BinaryOp::And | BinaryOp::Or => {
                let (zero, one) = (self.constant(0.0), self.constant(1.0));
                let (a, b) = (self.truth(a, one, zero), self.truth(b, one, zero));
                let op = if op == BinaryOp::And { Binary::Min } else { Binary::Max };
                self.binary(op, a, b)
            }
            comparison => self.compare(comparison, a, b),
        }
    }

    /// `then` where `condition` is not zero, else `otherwise`.
    fn truth(&mut self, condition: NodeId, then: NodeId, otherwise: NodeId) -> NodeId {
        if let Some(value) = self.value(condition) {
            return if value != 0.0 { then } else { otherwise };
        }
        // A comparison chooses directly, without going through 1 and 0.
        if let Node::SelectLess(a, b, c, d) = self.nodes[condition]
            && let (Some(c), Some(d)) = (self.value(c), self.value(d))
        {
            let pick = |v: f64| if v != 0.0 { then } else { otherwise };
            return self.select_less(a, b, pick(c), pick(d));
        }
        let zero = self.constant(0.0);
        let size = self.unary(Unary::Abs, condition);
        self.select_less(zero, size, then, otherwise)
    }

    fn call(&mut self, function: Function, arguments: &[NodeId]) -> NodeId {
        let a = arguments[0];
        let op = match function {
            Function::Sin => Unary::Sin,
            Function::Cos => Unary::Cos,
            Function::Tan => Unary::Tan,
            Function::Asin => Unary::Asin,
            Function::Acos => Unary::Acos,
            Function::Atan => Unary::Atan,
            Function::Sinh => Unary::Sinh,
            Function::Cosh => Unary::Cosh,
            Function::Tanh => Unary::Tanh,
            Function::Exp => Unary::Exp,
            Function::Ln => Unary::Ln,
            Function::Ln1p => Unary::Ln1p,
            Function::Sqrt => Unary::Sqrt,
            Function::Abs => Unary::Abs,
            Function::Floor => Unary::Floor,
            Function::Log10 => {
                let natural = self.unary(Unary::Ln, a);
                let ten = self.constant(std::f64::consts::LN_10);
                return self.binary(Binary::Div, natural, ten);
            }
            Function::Sign => {
                let constants = [-1.0, 0.0, 1.0].map(|v| self.constant(v));
                let upper = self.select_less(constants[1], a, constants[2], constants[1]);
                return self.select_less(a, constants[1], constants[0], upper);
            }
            Function::Atan2 => return self.binary(Binary::Atan2, a, arguments[1]),
            Function::If => return self.truth(a, arguments[1], arguments[2]),
            Function::Min | Function::Max => {
                let op = if function == Function::Min { Binary::Min } else { Binary::Max };
                return arguments[1..].iter().fold(a, |so_far, &b| self.binary(op, so_far, b));
            }
        };
        self.unary(op, a)
    }
}

/// Whether dividing by `y` and multiplying by `1/y` are the same, bit for bit.
fn is_power_of_two(y: f64) -> bool {
    y.is_normal() && (1.0 / y).is_normal() && y.to_bits() & ((1 << 52) - 1) == 0
}
