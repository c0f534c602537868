//! Indices of fields: whole multiples of the indices of an equation plus a whole number, as in `x[2*i + 1]`.

use super::parse::{Ast, AstNode, BinaryOp, SyntaxError};

/// `outer * i + inner * j + offset` in an equation over `[i, j]`; one over `[j]` has no outer index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Affine {
    pub(crate) outer: i64,
    pub(crate) inner: i64,
    pub(crate) offset: i64,
}

/// Indices and factors beyond this are mistakes, and would overflow.
const LARGEST: i64 = 1 << 40;

impl Affine {
    /// The index itself of an equation over `rank` indices.
    pub(crate) fn index(position: usize, rank: usize) -> Self {
        let inner = i64::from(position + 1 == rank);
        Self { outer: 1 - inner, inner, offset: 0 }
    }

    pub(crate) fn at(&self, outer: usize, inner: usize) -> i64 {
        self.outer * outer as i64 + self.inner * inner as i64 + self.offset
    }

    /// The least and the greatest value over an equation of a size.
    pub(crate) fn range(&self, [outer, inner]: [usize; 2]) -> (i64, i64) {
        let last = [outer, inner].map(|n| n.max(1) - 1);
        let ends = [0, last[0]].map(|o| [0, last[1]].map(|p| self.at(o, p)));
        let ends = ends.concat();
        (ends.iter().copied().fold(i64::MAX, i64::min), ends.into_iter().fold(i64::MIN, i64::max))
    }

    fn combine(self, other: Self, factor: i64) -> Self {
        Self {
            outer: self.outer + factor * other.outer,
            inner: self.inner + factor * other.inner,
            offset: self.offset + factor * other.offset,
        }
    }

    fn times(self, k: i64) -> Self {
        Self::default().combine(self, k)
    }

    /// The index that it always is, if it does not depend on those of the equation.
    pub(crate) fn number(self) -> Option<i64> {
        (self.outer == 0 && self.inner == 0).then_some(self.offset)
    }

    fn is_small(self) -> bool {
        [self.outer, self.inner, self.offset].iter().all(|v| v.abs() <= LARGEST)
    }
}

/// For each node of a tree, whether it is part of an index.
pub(super) fn inside_indices(ast: &Ast) -> Vec<bool> {
    let mut inside = vec![false; ast.nodes.len()];
    for (id, (node, _)) in ast.nodes.iter().enumerate().rev() {
        match node {
            AstNode::Element(_, indices) => indices.iter().for_each(|&a| inside[a] = true),
            _ if !inside[id] => {}
            AstNode::Negate(a) | AstNode::Not(a) => inside[*a] = true,
            AstNode::Binary(_, a, b) => (inside[*a], inside[*b]) = (true, true),
            AstNode::Call(_, arguments) => arguments.iter().for_each(|&a| inside[a] = true),
            AstNode::Number(_) | AstNode::Name(_) => {}
        }
    }
    inside
}

/// What a name stands for inside an index.
pub(super) enum Meaning {
    /// An index of the equation, or what follows from one.
    Index(Affine),
    /// A number.
    Number(f64),
    /// Something that changes.
    Other,
}

/// What a name inside an index stands for, or what is wrong with it and what to do about it.
pub(super) type Meant = Result<Meaning, (String, Option<String>)>;

/// Reads the expression at `id` of a tree as an index.
pub(super) fn affine(
    ast: &Ast,
    id: usize,
    meaning: &mut dyn FnMut(&str) -> Meant,
) -> Result<Affine, SyntaxError> {
    affine_within(ast, id, meaning, 100)
}

/// The same, for an index of so many levels at most: a long sum is as deep as it is long.
fn affine_within(
    ast: &Ast,
    id: usize,
    meaning: &mut dyn FnMut(&str) -> Meant,
    levels: usize,
) -> Result<Affine, SyntaxError> {
    let (node, span) = &ast.nodes[id];
    let wrong = |message: &str, help: &str| SyntaxError {
        message: message.to_owned(),
        span: span.clone(),
        help: Some(help.to_owned()),
    };
    let whole = |value: f64| match value {
        v if v == v.floor() && v.abs() < LARGEST as f64 => {
            Ok(Affine { offset: v as i64, ..Affine::default() })
        }
        _ => Err(wrong("an index is a whole number", "write x[i + 1] or x[2*i], say")),
    };
    let other = || wrong("this is not an index", "an index is i plus or times whole numbers");
    let part = |a: usize, meaning: &mut dyn FnMut(&str) -> Meant| match levels {
        0 => Err(other()),
        _ => affine_within(ast, a, meaning, levels - 1),
    };
    let result = match node {
        AstNode::Number(value) => whole(*value)?,
        AstNode::Name(name) => match meaning(name) {
            Ok(Meaning::Index(index)) => index,
            Ok(Meaning::Number(value)) => whole(value)?,
            Ok(Meaning::Other) => return Err(other()),
            Err((message, help)) => {
                return Err(SyntaxError { message, span: span.clone(), help });
            }
        },
        AstNode::Negate(a) => part(*a, meaning)?.times(-1),
        AstNode::Binary(op, a, b) => {
            let (a, b) = (part(*a, meaning)?, part(*b, meaning)?);
            match (op, a.number(), b.number()) {
                (BinaryOp::Add, ..) => a.combine(b, 1),
                (BinaryOp::Sub, ..) => a.combine(b, -1),
                (BinaryOp::Mul, Some(k), _) => b.times(k),
                (BinaryOp::Mul, _, Some(k)) => a.times(k),
                _ => return Err(other()),
            }
        }
        _ => return Err(other()),
    };
    if result.is_small() { Ok(result) } else { Err(other()) }
}
