//! The expression language of model files.
//!
//! | step | file |
//! |---|---|
//! | text to a tree of names, numbers and calls | `parse` |
//! | tree to a graph without repeated or constant parts | `graph` |
//! | graph to a list of instructions on registers, and running it | `program`, `code` |
//! | graph to the graph of its gradient | `reverse` |
//! | one equation over all indices of a field | `index`, `stencil`, `block`, `fuse` |
//! | tree to mathematical notation | `notation` |
//!
//! Grammar, weakest binding first:
//!
//! ```text
//! or     a or b          a || b
//! and    a and b         a && b
//! not    not a           !a
//! order  a < b  <=  >  >=  ==  !=          (1 where true, 0 where false)
//! sum    a + b  a - b
//! term   a * b  a / b
//! sign   -a  +a
//! power  a ^ b  (from the right; -a^b is -(a^b), and a^-b is allowed); ** is the same as ^
//! atom   number  name  name[index, ...]  function(a, ...)  (a)
//! ```
//!
//! `if(c, a, b)` chooses; both branches are computed, as they must be for lanes.

mod block;
mod code;
mod fuse;
mod graph;
mod index;
mod notation;
mod parse;
mod program;
mod reverse;
mod room;
mod stencil;

pub use code::Environment;
pub use graph::{Found, Graph, Names, NodeId};
pub use index::Affine;
pub use notation::notation;
pub use parse::{Ast, AstNode, BinaryOp, Function, SyntaxError, parse};
pub use program::Program;
pub use stencil::{Edges, Field, Load, Stencil};
