//! Large matrices of plain numbers: products, factors and solves in blocks that stay in the caches, on all threads.
//!
//! What a Kalman filter of a hundred states takes is products of matrices. Each entry of a product is summed along the inner index in
//! blocks of [`DEPTH`](product::DEPTH), by fused multiplications, whatever the vector unit and the number of threads: they change no bit. Of
//! products that are known to be symmetric one half is computed. Factors and solves are small blocks by loops, and products.
//!
//! A processor without fused multiplication (x86 before 2013) has no use for it and stays with the loops of
//! [`linalg`](crate::linalg), as do small matrices and other scalars. `docs/decisions/0016-dense-products.md` says why this is ours.
//!
//! Reference: Goto and van de Geijn 2008.

mod product;
mod solve;
mod tile;
mod view;

pub(crate) use product::{add_product, mirror, takes};
pub(crate) use solve::{factor, solve};
pub(crate) use view::{Place, View};

#[cfg(test)]
mod tests;
