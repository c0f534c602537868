//! Expressions in mathematical notation: `x/2 + 25·x/(1 + x²) + 8·cos(1.2·t)`.

use super::parse::{Ast, AstNode, BinaryOp, Function};
use std::fmt::Write;

/// How tightly a written form holds together; parentheses go around looser parts.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Bind {
    Logic,
    Order,
    Sum,
    Product,
    Sign,
    Power,
    Atom,
}

/// The expression as text for people, with no more parentheses than it needs.
pub fn notation(ast: &Ast) -> String {
    let mut out = String::new();
    write_node(ast, ast.root(), Bind::Logic, &mut out);
    out
}

fn bind(ast: &Ast, id: usize) -> Bind {
    match &ast.nodes[id].0 {
        AstNode::Number(v) if *v < 0.0 => Bind::Sign,
        AstNode::Number(_) | AstNode::Name(_) | AstNode::Element(..) | AstNode::Call(..) => {
            Bind::Atom
        }
        AstNode::Negate(_) => Bind::Sign,
        AstNode::Not(_) => Bind::Logic,
        AstNode::Binary(op, ..) => match op {
            BinaryOp::Add | BinaryOp::Sub => Bind::Sum,
            BinaryOp::Mul | BinaryOp::Div => Bind::Product,
            BinaryOp::Pow => Bind::Power,
            BinaryOp::And | BinaryOp::Or => Bind::Logic,
            _ => Bind::Order,
        },
    }
}

fn write_node(ast: &Ast, mut id: usize, mut least: Bind, out: &mut String) {
    // A sum of many terms leans to the left; a loop goes down there, however many there are.
    let mut spine = Vec::new();
    let mut open = opened(ast, id, least, out);
    while let AstNode::Binary(op, a, b) = ast.nodes[id].0 {
        let (sign, left, right) = written(ast, op, b);
        spine.push((sign, b, right, open));
        (id, least) = (a, left);
        open = opened(ast, id, least, out);
    }
    write_operand(ast, id, out);
    if open {
        out.push(')');
    }
    while let Some((sign, b, right, open)) = spine.pop() {
        match sign {
            Some(sign) => {
                out.push_str(sign);
                write_node(ast, b, right, out);
            }
            None => {
                if let AstNode::Number(n) = ast.nodes[b].0 {
                    out.extend(format!("{n}").chars().map(superscript));
                }
            }
        }
        if open {
            out.push(')');
        }
    }
}

/// Opens a parenthesis where one is needed.
fn opened(ast: &Ast, id: usize, least: Bind, out: &mut String) -> bool {
    let open = bind(ast, id) < least;
    if open {
        out.push('(');
    }
    open
}

/// What is no operation on two.
fn write_operand(ast: &Ast, id: usize, out: &mut String) {
    match &ast.nodes[id].0 {
        AstNode::Number(value) => {
            let _ = write!(out, "{value}");
        }
        AstNode::Name(name) => out.push_str(greek(name)),
        AstNode::Element(name, indices) => {
            out.push_str(greek(name));
            write_list(ast, "[", indices, "]", out);
        }
        AstNode::Negate(a) => {
            out.push('−');
            write_node(ast, *a, Bind::Product, out);
        }
        AstNode::Not(a) => {
            out.push_str("not ");
            write_node(ast, *a, Bind::Order, out);
        }
        AstNode::Binary(..) => {}
        AstNode::Call(Function::Sqrt, arguments) => {
            out.push('√');
            write_node(ast, arguments[0], Bind::Atom, out);
        }
        AstNode::Call(function, arguments) => {
            let (open, close) = match function {
                Function::Abs => ("|", "|"),
                Function::Floor => ("⌊", "⌋"),
                _ => {
                    out.push_str(function.name());
                    ("(", ")")
                }
            };
            write_list(ast, open, arguments, close, out);
        }
    }
}

fn write_list(ast: &Ast, open: &str, items: &[usize], close: &str, out: &mut String) {
    out.push_str(open);
    for (i, a) in items.iter().enumerate() {
        if i > 0 {
            out.push_str(", ");
        }
        write_node(ast, *a, Bind::Logic, out);
    }
    out.push_str(close);
}

/// How an operation is written: its sign, none where the second operand is a superscript, and how tightly its operands
/// must hold together.
fn written(ast: &Ast, op: BinaryOp, b: usize) -> (Option<&'static str>, Bind, Bind) {
    if op == BinaryOp::Pow
        && let AstNode::Number(n) = ast.nodes[b].0
        && n >= 0.0
        && n == n.floor()
        && n < 1e6
    {
        return (None, Bind::Atom, Bind::Atom);
    }
    let (sign, left, right) = match op {
        BinaryOp::Add => (" + ", Bind::Sum, Bind::Product),
        BinaryOp::Sub => (" − ", Bind::Sum, Bind::Product),
        BinaryOp::Mul => ("·", Bind::Product, Bind::Power),
        BinaryOp::Div => ("/", Bind::Product, Bind::Power),
        BinaryOp::Pow => ("^", Bind::Atom, Bind::Power),
        BinaryOp::Less => (" < ", Bind::Sum, Bind::Sum),
        BinaryOp::LessEqual => (" ≤ ", Bind::Sum, Bind::Sum),
        BinaryOp::Greater => (" > ", Bind::Sum, Bind::Sum),
        BinaryOp::GreaterEqual => (" ≥ ", Bind::Sum, Bind::Sum),
        BinaryOp::Equal => (" = ", Bind::Sum, Bind::Sum),
        BinaryOp::NotEqual => (" ≠ ", Bind::Sum, Bind::Sum),
        BinaryOp::And => (" and ", Bind::Order, Bind::Order),
        BinaryOp::Or => (" or ", Bind::Order, Bind::Order),
    };
    (Some(sign), left, right)
}

fn superscript(digit: char) -> char {
    match digit {
        '0' => '⁰',
        '1' => '¹',
        '2' => '²',
        '3' => '³',
        '4' => '⁴',
        '5' => '⁵',
        '6' => '⁶',
        '7' => '⁷',
        '8' => '⁸',
        '9' => '⁹',
        other => other,
    }
}

/// Spelled-out Greek letters as letters.
fn greek(name: &str) -> &str {
    match name {
        "alpha" => "α",
        "beta" => "β",
        "gamma" => "γ",
        "delta" => "δ",
        "epsilon" => "ε",
        "zeta" => "ζ",
        "eta" => "η",
        "theta" => "θ",
        "kappa" => "κ",
        "lambda" => "λ",
        "mu" => "μ",
        "nu" => "ν",
        "rho" => "ρ",
        "sigma" => "σ",
        "tau" => "τ",
        "phi" => "φ",
        "psi" => "ψ",
        "omega" => "ω",
        "pi" => "π",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    #[test]
    fn only_needed_parentheses_are_written() {
        for (text, expected) in [
            ("x/2 + 25*x/(1+x^2) + 8*cos(1.2*t)", "x/2 + 25·x/(1 + x²) + 8·cos(1.2·t)"),
            ("(a*b)*c - (d - e)", "a·b·c − (d − e)"),
            ("-(x+1)^10", "−(x + 1)¹⁰"),
            ("2^(a+b)", "2^(a + b)"),
            ("(2^a)^b", "(2^a)^b"),
            ("sqrt(x^2 + y^2)", "√(x² + y²)"),
            ("if(theta >= pi, 1, abs(x))", "if(θ ≥ π, 1, |x|)"),
        ] {
            assert_eq!(notation(&parse(text).unwrap()), expected);
        }
    }
}
