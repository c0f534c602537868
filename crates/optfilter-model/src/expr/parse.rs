//! From text to a syntax tree: a precedence-climbing parser.
//!
//! The tree lives in one vector whose children come before their parents, so that nothing that walks
//! it (or drops it) needs the call stack; nesting is limited to [`MAX_DEPTH`] all the same, since the
//! parser itself recurses.

#![deny(clippy::indexing_slicing)] // a place outside of a text is an error, never a panic

use crate::diagnostic::closest;
use std::ops::Range;

/// The deepest nesting of a tree.
pub const MAX_DEPTH: usize = 300;

const IN_PARTS: &str =
    "name its parts under [definitions], or under [parameters] where they are constant";

/// The longest expression, in bytes.
pub const MAX_LENGTH: usize = 1 << 20;

/// What is wrong with an expression, at which bytes of its text.
#[derive(Clone, Debug, PartialEq)]
pub struct SyntaxError {
    /// One sentence.
    pub message: String,
    /// The bytes of the expression at fault.
    pub span: Range<usize>,
    /// A suggestion.
    pub help: Option<String>,
}

/// Operators with two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum BinaryOp {
    Add,
    Sub,
    Mul,
    Div,
    Pow,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Equal,
    NotEqual,
    And,
    Or,
}

/// The functions that expressions may call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Function {
    Sin,
    Cos,
    Tan,
    Asin,
    Acos,
    Atan,
    Atan2,
    Sinh,
    Cosh,
    Tanh,
    Exp,
    Ln,
    Ln1p,
    Log10,
    Sqrt,
    Abs,
    Floor,
    Sign,
    Min,
    Max,
    If,
}

impl Function {
    /// Every function: name, meaning, least and greatest number of arguments.
    pub const TABLE: [(&'static str, Function, usize, usize); 22] = [
        ("sin", Function::Sin, 1, 1),
        ("cos", Function::Cos, 1, 1),
        ("tan", Function::Tan, 1, 1),
        ("asin", Function::Asin, 1, 1),
        ("acos", Function::Acos, 1, 1),
        ("atan", Function::Atan, 1, 1),
        ("atan2", Function::Atan2, 2, 2),
        ("sinh", Function::Sinh, 1, 1),
        ("cosh", Function::Cosh, 1, 1),
        ("tanh", Function::Tanh, 1, 1),
        ("exp", Function::Exp, 1, 1),
        ("ln", Function::Ln, 1, 1),
        ("log", Function::Ln, 1, 1),
        ("ln1p", Function::Ln1p, 1, 1),
        ("log10", Function::Log10, 1, 1),
        ("sqrt", Function::Sqrt, 1, 1),
        ("abs", Function::Abs, 1, 1),
        ("floor", Function::Floor, 1, 1),
        ("sign", Function::Sign, 1, 1),
        ("min", Function::Min, 2, 16),
        ("max", Function::Max, 2, 16),
        ("if", Function::If, 3, 3),
    ];

    /// Its name in expressions.
    pub fn name(self) -> &'static str {
        Self::TABLE.iter().find(|row| row.1 == self).map_or("?", |row| row.0)
    }
}

/// One node; operands are indices of earlier nodes.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum AstNode {
    Number(f64),
    Name(String),
    /// A number of a field.
    Element(String, Vec<usize>),
    Negate(usize),
    Not(usize),
    Binary(BinaryOp, usize, usize),
    Call(Function, Vec<usize>),
}

/// A syntax tree; its root is the last node.
#[derive(Clone, Debug, PartialEq)]
pub struct Ast {
    /// Nodes with the bytes they stand for, children before parents.
    pub nodes: Vec<(AstNode, Range<usize>)>,
}

impl Ast {
    /// The index of the root.
    pub fn root(&self) -> usize {
        self.nodes.len() - 1
    }

    /// The same with trees in place of names, which count as written where the name stands. `None` where the result would have
    /// more than `most` nodes.
    pub fn with(&self, trees: &[(String, Ast)], most: usize) -> Option<Ast> {
        let mut nodes = Vec::new();
        // The place of each node of this tree in the new one.
        let mut places: Vec<usize> = Vec::with_capacity(self.nodes.len());
        for (node, span) in &self.nodes {
            let of = |nodes: &mut Vec<_>, node: &AstNode, places: &[usize], span: &Range<usize>| {
                let to = |i: &usize| places.get(*i).copied().unwrap_or(0);
                let all = |args: &[usize]| args.iter().map(to).collect();
                nodes.push((
                    match node {
                        AstNode::Number(_) | AstNode::Name(_) => node.clone(),
                        AstNode::Element(name, args) => AstNode::Element(name.clone(), all(args)),
                        AstNode::Negate(a) => AstNode::Negate(to(a)),
                        AstNode::Not(a) => AstNode::Not(to(a)),
                        AstNode::Binary(op, a, b) => AstNode::Binary(*op, to(a), to(b)),
                        AstNode::Call(function, args) => AstNode::Call(*function, all(args)),
                    },
                    span.clone(),
                ));
            };
            let tree = match node {
                AstNode::Name(name) => trees.iter().find(|(n, _)| n == name),
                _ => None,
            };
            match tree {
                None => of(&mut nodes, node, &places, span),
                Some((_, tree)) => {
                    let moved: Vec<usize> = (nodes.len()..).take(tree.nodes.len()).collect();
                    tree.nodes.iter().for_each(|(node, _)| of(&mut nodes, node, &moved, span));
                }
            }
            if nodes.len() > most {
                return None;
            }
            places.push(nodes.len() - 1);
        }
        Some(Ast { nodes })
    }

    /// The names that occur, in order of first appearance.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for (node, _) in &self.nodes {
            if let AstNode::Name(name) | AstNode::Element(name, _) = node
                && !names.contains(&name.as_str())
            {
                names.push(name);
            }
        }
        names
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Number(f64),
    Name(String),
    Op(&'static str),
    End,
}

/// Parses an expression.
pub fn parse(text: &str) -> Result<Ast, SyntaxError> {
    if text.len() > MAX_LENGTH {
        let message =
            format!("the expression has {} characters; {MAX_LENGTH} is the most", text.len());
        let mut e = error(0..0, message);
        e.help = Some(IN_PARTS.into());
        return Err(e);
    }
    let tokens = tokenize(text)?;
    let mut parser = Parser { tokens, at: 0, nodes: Vec::new(), depths: Vec::new(), nesting: 0 };
    parser.expression(0)?;
    match parser.peek() {
        (Token::End, _) => Ok(Ast { nodes: parser.nodes }),
        (Token::Op(")"), span) => Err(error(span.clone(), "this parenthesis was never opened")),
        (Token::Op("]"), span) => Err(error(span.clone(), "this bracket was never opened")),
        (token, span) => {
            let mut e = error(span.clone(), "an operator is missing before this");
            if matches!(token, Token::Name(_) | Token::Number(_) | Token::Op("(")) {
                e.help = Some("write `*` between factors".into());
            }
            Err(e)
        }
    }
}

fn error(span: Range<usize>, message: impl Into<String>) -> SyntaxError {
    SyntaxError { message: message.into(), span, help: None }
}

/// Two-character operators come first, so that `<=` is not read as `<`.
const OPERATORS: [&str; 22] = [
    "**", "<=", ">=", "==", "!=", "&&", "||", "+", "-", "*", "/", "^", "(", ")", "[", "]", ",",
    "<", ">", "!", "·", "−",
];

fn tokenize(text: &str) -> Result<Vec<(Token, Range<usize>)>, SyntaxError> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(rest) = text.get(at..)
        && let Some(c) = rest.chars().next()
    {
        if c.is_whitespace() {
            at += c.len_utf8();
        } else if c.is_ascii_digit() || c == '.' {
            let length = number_length(rest);
            let span = at..at + length;
            let digits = rest.get(..length).unwrap_or_default();
            let wrong = |_| error(span.clone(), format!("`{digits}` is not a number"));
            let value = digits.parse().map_err(wrong)?;
            tokens.push((Token::Number(value), span));
            at += length;
        } else if c.is_alphabetic() || c == '_' {
            let length =
                rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
            let token = match rest.get(..length).unwrap_or_default() {
                "and" => Token::Op("&&"),
                "or" => Token::Op("||"),
                "not" => Token::Op("!"),
                name => Token::Name(name.to_owned()),
            };
            tokens.push((token, at..at + length));
            at += length;
        } else if let Some(op) = OPERATORS.iter().find(|op| rest.starts_with(**op)) {
            let meaning = match *op {
                "**" => "^",
                "·" => "*",
                "−" => "-",
                other => other,
            };
            tokens.push((Token::Op(meaning), at..at + op.len()));
            at += op.len();
        } else {
            let mut e = error(at..at + c.len_utf8(), format!("`{c}` has no meaning here"));
            e.help = match c {
                '=' => Some("to compare, write `==`".into()),
                '{' => Some("use parentheses `(`".into()),
                '%' => Some("for a remainder, write a - b*floor(a/b)".into()),
                _ => None,
            };
            return Err(e);
        }
    }
    tokens.push((Token::End, text.len()..text.len()));
    Ok(tokens)
}

/// The length of the number that `text` starts with: digits, point, exponent.
fn number_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let digits = |mut i: usize| {
        while bytes.get(i).is_some_and(u8::is_ascii_digit) {
            i += 1;
        }
        i
    };
    let mut end = digits(0);
    if bytes.get(end) == Some(&b'.') {
        end = digits(end + 1);
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let after = digits(end + 1 + sign);
        // `2e` alone is the number 2 before a name, and will be reported as a missing operator.
        if after > end + 1 + sign {
            end = after;
        }
    }
    end
}

struct Parser {
    tokens: Vec<(Token, Range<usize>)>,
    at: usize,
    nodes: Vec<(AstNode, Range<usize>)>,
    depths: Vec<usize>,
    nesting: usize,
}

/// Binding strength of a binary operator, left and right; the right is lower for `^`, which groups
/// from the right.
fn strength(op: &str) -> Option<(u8, u8, BinaryOp)> {
    Some(match op {
        "||" => (1, 2, BinaryOp::Or),
        "&&" => (3, 4, BinaryOp::And),
        "<" => (7, 8, BinaryOp::Less),
        "<=" => (7, 8, BinaryOp::LessEqual),
        ">" => (7, 8, BinaryOp::Greater),
        ">=" => (7, 8, BinaryOp::GreaterEqual),
        "==" => (7, 8, BinaryOp::Equal),
        "!=" => (7, 8, BinaryOp::NotEqual),
        "+" => (9, 10, BinaryOp::Add),
        "-" => (9, 10, BinaryOp::Sub),
        "*" => (11, 12, BinaryOp::Mul),
        "/" => (11, 12, BinaryOp::Div),
        "^" => (16, 15, BinaryOp::Pow),
        _ => return None,
    })
}

const NOT_STRENGTH: u8 = 5;
const SIGN_STRENGTH: u8 = 13;

impl Parser {
    fn peek(&self) -> &(Token, Range<usize>) {
        static END: (Token, Range<usize>) = (Token::End, 0..0);
        self.tokens.get(self.at).or(self.tokens.last()).unwrap_or(&END)
    }

    fn next(&mut self) -> (Token, Range<usize>) {
        let token = self.peek().clone();
        self.at += 1;
        token
    }

    fn push(&mut self, node: AstNode, span: Range<usize>) -> Result<usize, SyntaxError> {
        let depth = 1 + match &node {
            AstNode::Number(_) | AstNode::Name(_) => 0,
            AstNode::Negate(a) | AstNode::Not(a) => self.depth(*a),
            // A sum of many terms leans to the left, and is not deep for it.
            AstNode::Binary(_, a, b) => self.depth(*a).saturating_sub(1).max(self.depth(*b)),
            AstNode::Call(_, args) | AstNode::Element(_, args) => {
                args.iter().map(|a| self.depth(*a)).max().unwrap_or(0)
            }
        };
        if depth > MAX_DEPTH {
            return Err(too_deep(span));
        }
        self.nodes.push((node, span));
        self.depths.push(depth);
        Ok(self.nodes.len() - 1)
    }

    fn depth(&self, id: usize) -> usize {
        self.depths.get(id).copied().unwrap_or(0)
    }

    fn span(&self, id: usize) -> Range<usize> {
        self.nodes.get(id).map_or(0..0, |(_, span)| span.clone())
    }

    fn expression(&mut self, floor: u8) -> Result<usize, SyntaxError> {
        self.nesting += 1;
        if self.nesting > MAX_DEPTH {
            return Err(too_deep(self.peek().1.clone()));
        }
        let mut left = self.prefix()?;
        while let Token::Op(op) = self.peek().0
            && let Some((bind_left, bind_right, op)) = strength(op)
            && bind_left >= floor
        {
            self.next();
            let right = self.expression(bind_right)?;
            let span = self.span(left).start..self.span(right).end;
            left = self.push(AstNode::Binary(op, left, right), span)?;
        }
        self.nesting -= 1;
        Ok(left)
    }

    fn prefix(&mut self) -> Result<usize, SyntaxError> {
        let (token, span) = self.next();
        match token {
            Token::Number(value) => self.push(AstNode::Number(value), span),
            Token::Name(name) => match self.peek().0 {
                Token::Op("(") => self.call(&name, span),
                Token::Op("[") => {
                    let (indices, end) = self.arguments("]", "this bracket is never closed")?;
                    self.push(AstNode::Element(name, indices), span.start..end)
                }
                _ => self.push(AstNode::Name(name), span),
            },
            Token::Op("[") => {
                let mut e = error(span, "`[` has no meaning here");
                e.help = Some("use parentheses `(`".into());
                Err(e)
            }
            Token::Op("(") => {
                let inner = self.expression(0)?;
                match self.next() {
                    (Token::Op(")"), _) => Ok(inner),
                    _ => Err(error(span, "this parenthesis is never closed")),
                }
            }
            Token::Op("-") => {
                let inner = self.expression(SIGN_STRENGTH)?;
                let span = span.start..self.span(inner).end;
                self.push(AstNode::Negate(inner), span)
            }
            Token::Op("+") => self.expression(SIGN_STRENGTH),
            Token::Op("!") => {
                let inner = self.expression(NOT_STRENGTH)?;
                let span = span.start..self.span(inner).end;
                self.push(AstNode::Not(inner), span)
            }
            Token::Op(op) => Err(error(span, format!("a value is missing before `{op}`"))),
            Token::End => Err(error(span, "the expression ends where a value is expected")),
        }
    }

    /// Expressions with commas between them up to `close`, and where it ends.
    fn arguments(
        &mut self,
        close: &'static str,
        unclosed: &str,
    ) -> Result<(Vec<usize>, usize), SyntaxError> {
        let open = self.next().1;
        let mut arguments = Vec::new();
        if self.peek().0 == Token::Op(close) {
            self.next();
        } else {
            loop {
                arguments.push(self.expression(0)?);
                match self.next().0 {
                    Token::Op(",") => {}
                    Token::Op(op) if op == close => break,
                    _ => return Err(error(open.clone(), unclosed)),
                }
            }
        }
        let last = self.at.checked_sub(1).and_then(|at| self.tokens.get(at));
        Ok((arguments, last.map_or(open.end, |(_, span)| span.end)))
    }

    fn call(&mut self, name: &str, span: Range<usize>) -> Result<usize, SyntaxError> {
        let row = Function::TABLE.iter().find(|row| row.0 == name);
        let Some(&(_, function, least, most)) = row else {
            let mut e = error(span, format!("there is no function `{name}`"));
            e.help = match name {
                "pow" => Some("write `a^b`".into()),
                "arctan" | "arcsin" | "arccos" => {
                    Some(format!("write `{}`", name.replace("arc", "a")))
                }
                "arctan2" => Some("write `atan2`".into()),
                "log2" => Some("write `ln(a)/ln(2)`".into()),
                _ => closest(name, Function::TABLE.iter().map(|row| row.0))
                    .map(|known| format!("did you mean `{known}`?"))
                    .or_else(|| Some("if this is a product, write `*` before `(`".into())),
            };
            return Err(e);
        };
        let (arguments, end) = self.arguments(")", "this parenthesis is never closed")?;
        if !(least..=most).contains(&arguments.len()) {
            let wanted = match (least, most) {
                (1, 1) => "one argument".to_owned(),
                (a, b) if a == b => format!("{a} arguments"),
                (a, b) => format!("{a} to {b} arguments"),
            };
            let message = format!("`{name}` takes {wanted}, not {}", arguments.len());
            return Err(error(span.start..end, message));
        }
        self.push(AstNode::Call(function, arguments), span.start..end)
    }
}

fn too_deep(span: Range<usize>) -> SyntaxError {
    let mut e = error(span, format!("the expression is nested more than {MAX_DEPTH} deep"));
    e.help = Some(IN_PARTS.into());
    e
}
