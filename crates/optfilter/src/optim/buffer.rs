//! The vectors that optimizers act on.

use crate::scalar::Scalar;
use alloc::vec;
use alloc::vec::Vec;
use nalgebra::allocator::Allocator;
use nalgebra::{DefaultAllocator, Dim, OVector, U1};

/// A vector of scalars of fixed length.
pub trait Buffer: Clone {
    /// The kind of number it holds.
    type Elem: Scalar;
    /// The elements.
    fn as_slice(&self) -> &[Self::Elem];
    /// The elements, to be changed.
    fn as_mut_slice(&mut self) -> &mut [Self::Elem];
    /// A vector of the same length with every element set to `value`.
    fn filled_like(&self, value: Self::Elem) -> Self;
    /// A vector of zeros of the same length.
    #[inline(always)]
    fn zeros_like(&self) -> Self {
        self.filled_like(Self::Elem::ZERO)
    }
}

impl<S: Scalar, const N: usize> Buffer for [S; N] {
    type Elem = S;
    #[inline(always)]
    fn as_slice(&self) -> &[S] {
        self
    }
    #[inline(always)]
    fn as_mut_slice(&mut self) -> &mut [S] {
        self
    }
    #[inline(always)]
    fn filled_like(&self, value: S) -> Self {
        [value; N]
    }
}

impl<S: Scalar> Buffer for Vec<S> {
    type Elem = S;
    #[inline(always)]
    fn as_slice(&self) -> &[S] {
        self
    }
    #[inline(always)]
    fn as_mut_slice(&mut self) -> &mut [S] {
        self
    }
    fn filled_like(&self, value: S) -> Self {
        vec![value; self.len()]
    }
}

impl<S: Scalar, N: Dim> Buffer for OVector<S, N>
where
    DefaultAllocator: Allocator<N>,
{
    type Elem = S;
    #[inline(always)]
    fn as_slice(&self) -> &[S] {
        self.as_slice()
    }
    #[inline(always)]
    fn as_mut_slice(&mut self) -> &mut [S] {
        self.as_mut_slice()
    }
    #[inline(always)]
    fn filled_like(&self, value: S) -> Self {
        Self::from_element_generic(self.shape_generic().0, U1, value)
    }
}

/// Whether every lane of every number is finite.
#[inline(always)]
pub(super) fn finite<V: Buffer>(values: &V) -> bool {
    let infinity = V::Elem::from_f64(f64::INFINITY);
    values.as_slice().iter().all(|v| Scalar::all_lt(v.abs(), infinity))
}
