//! Long vectors and large matrices for a while. To have memory of a million numbers anew from the system, and zeros in it, takes
//! as long as to step a model of that size; so a thread keeps what it has used, until it ends.

use crate::scalar::Scalar;
use alloc::vec::Vec;
use core::any::Any;
use core::ops::{Deref, DerefMut};
use nalgebra::allocator::Allocator;
use nalgebra::{DMatrix, DefaultAllocator, Dim, OMatrix, OVector, U1};

/// Whether code for this dimension is worth a copy for each caller: the compiler knows it, as a type that takes no memory, and the copy is
/// short. Of any other there is one. (So there is of all in tests, which are compiled more often than run.)
pub(crate) const fn is_fixed<N: Dim>() -> bool {
    size_of::<N>() == 0 && !cfg!(debug_assertions)
}

/// Numbers from which on a vector whose length is known at run time only is long.
pub(crate) const LONG: usize = 32;

/// Whether a vector of that length is worth keeping.
#[inline(always)]
pub(crate) fn is_long<N: Dim>(len: usize) -> bool {
    N::try_to_usize().is_none() && len >= LONG
}

/// A vector that is given back when it goes out of scope.
pub(crate) struct Scratch<S: Scalar>(Vec<S>);

impl<S: Scalar> Scratch<S> {
    /// `len` numbers, with anything in them.
    pub(crate) fn new(len: usize) -> Self {
        let mut values = pool::take::<S>(len);
        values.resize(len, S::ZERO);
        Self(values)
    }
}

/// A vector of state or measurement with anything in it, that is not taken from the system where one of its length was
/// [kept](keep).
#[inline(always)]
pub(crate) fn vector<N: Dim>(dim: N) -> OVector<f64, N>
where
    DefaultAllocator: Allocator<N>,
{
    if !is_long::<N>(dim.value()) {
        return OVector::zeros_generic(dim, U1);
    }
    let kept = pool::take_one::<OVector<f64, N>>(|kept| kept.nrows() == dim.value());
    kept.unwrap_or_else(|| OVector::zeros_generic(dim, U1))
}

/// Keeps a vector that is no longer needed, if it is a long one.
#[inline(always)]
pub(crate) fn keep<N: Dim>(values: OVector<f64, N>)
where
    DefaultAllocator: Allocator<N>,
{
    if is_long::<N>(values.nrows()) {
        pool::give_one(values);
    }
}

/// Numbers from which on a matrix whose size is known at run time only is large.
const LARGE: usize = 2048;

/// Whether a matrix is worth keeping.
#[inline(always)]
fn is_large<R: Dim, C: Dim>(rows: R, columns: C) -> bool {
    R::try_to_usize().is_none()
        && C::try_to_usize().is_none()
        && rows.value().saturating_mul(columns.value()) >= LARGE
}

/// A matrix of zeros, which is not taken from the system where one of its size was [kept](keep_matrix).
#[inline(always)]
pub(crate) fn zeros<S: Scalar, R: Dim, C: Dim>(rows: R, columns: C) -> OMatrix<S, R, C>
where
    DefaultAllocator: Allocator<R, C>,
{
    let mut kept = None;
    if is_large(rows, columns) && recall(rows.value(), columns.value(), &[], &mut kept) {
        return kept.unwrap_or_else(|| OMatrix::from_element_generic(rows, columns, S::ZERO));
    }
    OMatrix::from_element_generic(rows, columns, S::ZERO)
}

/// A copy of a matrix, likewise.
#[inline(always)]
pub(crate) fn copy<S: Scalar, R: Dim, C: Dim>(of: &OMatrix<S, R, C>) -> OMatrix<S, R, C>
where
    DefaultAllocator: Allocator<R, C>,
{
    let (rows, columns) = of.shape_generic();
    let mut kept = None;
    if is_large(rows, columns)
        && let Some(of) = (of as &dyn Any).downcast_ref::<DMatrix<f64>>()
        && recall(rows.value(), columns.value(), of.as_slice(), &mut kept)
        && let Some(kept) = kept
    {
        return kept;
    }
    of.clone()
}

/// The transpose of a matrix, likewise.
#[inline(always)]
pub(crate) fn transposed<S: Scalar, R: Dim, C: Dim>(of: &OMatrix<S, R, C>) -> OMatrix<S, C, R>
where
    DefaultAllocator: Allocator<R, C> + Allocator<C, R>,
{
    let (rows, columns) = of.shape_generic();
    if !is_large(rows, columns) {
        return of.transpose();
    }
    let mut out = zeros(columns, rows);
    of.transpose_to(&mut out);
    out
}

/// Fills `kept` with a matrix of these numbers, or of zeros, if it is of plain numbers and one of its size was kept.
fn recall(rows: usize, columns: usize, of: &[f64], kept: &mut dyn Any) -> bool {
    let Some(kept) = kept.downcast_mut::<Option<DMatrix<f64>>>() else { return false };
    let Some(mut values) = pool::take_matrix(rows * columns) else { return false };
    if of.is_empty() {
        values.fill(0.0)
    } else {
        values.copy_from_slice(of)
    }
    *kept = Some(DMatrix::from_vec(rows, columns, values));
    true
}

/// Keeps a matrix that is no longer needed, if it is a large one.
#[inline(always)]
pub(crate) fn keep_matrix<S: Scalar, R: Dim, C: Dim>(matrix: OMatrix<S, R, C>)
where
    DefaultAllocator: Allocator<R, C>,
{
    let (rows, columns) = matrix.shape_generic();
    if is_large(rows, columns) {
        let mut matrix = Some(matrix);
        if let Some(matrix) = (&mut matrix as &mut dyn Any).downcast_mut::<Option<DMatrix<f64>>>() {
            pool::give_matrix(matrix.take().map(|matrix| matrix.data.into()).unwrap_or_default());
        }
    }
}

impl<S: Scalar> Drop for Scratch<S> {
    fn drop(&mut self) {
        pool::give(core::mem::take(&mut self.0));
    }
}

impl<S: Scalar> Deref for Scratch<S> {
    type Target = [S];
    #[inline(always)]
    fn deref(&self) -> &[S] {
        &self.0
    }
}

impl<S: Scalar> DerefMut for Scratch<S> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [S] {
        &mut self.0
    }
}

#[cfg(feature = "std")]
mod pool {
    use crate::scalar::Scalar;
    use alloc::boxed::Box;
    use alloc::vec::Vec;
    use core::any::Any;
    use core::cell::RefCell;

    /// Vectors of one kind that a thread keeps.
    const KEPT: usize = 16;

    std::thread_local! {
        /// A `Vec` for each type that is kept: vectors of each kind of number and of dimension.
        static KINDS: RefCell<Vec<Box<dyn Any>>> = const { RefCell::new(Vec::new()) };
        /// Matrices of plain numbers, the longest kept first.
        static MATRICES: RefCell<Vec<Vec<f64>>> = const { RefCell::new(Vec::new()) };
    }

    /// Numbers in all matrices that a thread keeps: 64 MiB of them.
    const NUMBERS: usize = 1 << 23;

    /// A matrix with anything in it, if there is one of just that size: those of a filter come back at every step.
    #[inline(never)]
    pub(super) fn take_matrix(len: usize) -> Option<Vec<f64>> {
        let taken = MATRICES.try_with(|kept| {
            let mut kept = kept.borrow_mut();
            let found = kept.iter().rposition(|values| values.len() == len)?;
            Some(kept.remove(found))
        });
        taken.ok().flatten()
    }

    /// Keeps a matrix, in the place of older ones if there are too many.
    #[inline(never)]
    pub(super) fn give_matrix(values: Vec<f64>) {
        let _ = MATRICES.try_with(|kept| {
            let mut kept = kept.borrow_mut();
            let mut numbers = values.len() + kept.iter().map(Vec::len).sum::<usize>();
            let mut old = 0;
            while numbers > NUMBERS && old < kept.len() || kept.len() - old >= 2 * KEPT {
                numbers -= kept[old].len();
                old += 1;
            }
            kept.drain(..old);
            if numbers <= NUMBERS {
                kept.push(values);
            }
        });
    }

    /// The smallest of those kept that is large enough; or none, and the largest is given up.
    pub(super) fn take<S: Scalar>(len: usize) -> Vec<S> {
        let taken = KINDS.try_with(|kinds| {
            let mut kinds = kinds.borrow_mut();
            let kept = kinds.iter_mut().find_map(|kind| kind.downcast_mut::<Vec<Vec<S>>>())?;
            // Most were of that length before.
            if let Some(same) = kept.iter().rposition(|values| values.len() == len) {
                return Some(kept.swap_remove(same));
            }
            let fitting = kept.iter().enumerate().filter(|(_, values)| values.capacity() >= len);
            if let Some((best, _)) = fitting.min_by_key(|(_, values)| values.capacity()) {
                return Some(kept.swap_remove(best));
            }
            // What was needed before has grown: a window that fills would leave one of every size behind.
            let sizes = kept.iter().enumerate();
            let (largest, _) = sizes.max_by_key(|(_, values)| values.capacity())?;
            kept.swap_remove(largest);
            None
        });
        taken.ok().flatten().unwrap_or_default()
    }

    /// Keeps a vector, unless the thread is about to end.
    pub(super) fn give<S: Scalar>(values: Vec<S>) {
        give_one(values);
    }

    /// The last of a type that was kept and fits.
    pub(super) fn take_one<T: 'static>(fits: impl Fn(&T) -> bool) -> Option<T> {
        let taken = KINDS.try_with(|kinds| {
            let mut kinds = kinds.borrow_mut();
            let kept = kinds.iter_mut().find_map(|kind| kind.downcast_mut::<Vec<T>>())?;
            let found = kept.iter().rposition(fits)?;
            Some(kept.swap_remove(found))
        });
        taken.ok().flatten()
    }

    /// Keeps anything, in the place of what was kept first if there is much.
    pub(super) fn give_one<T: 'static>(one: T) {
        let _ = KINDS.try_with(|kinds| {
            let mut kinds = kinds.borrow_mut();
            match kinds.iter_mut().find_map(|kind| kind.downcast_mut::<Vec<T>>()) {
                Some(kept) if kept.len() < KEPT => kept.push(one),
                Some(kept) => kept[0] = one,
                None => kinds.push(Box::new(alloc::vec![one])),
            }
        });
    }
}

#[cfg(not(feature = "std"))]
mod pool {
    use crate::scalar::Scalar;
    use alloc::vec::Vec;

    pub(super) fn take<S: Scalar>(_: usize) -> Vec<S> {
        Vec::new()
    }

    pub(super) fn give<S: Scalar>(_: Vec<S>) {}

    pub(super) fn take_one<T>(_: impl Fn(&T) -> bool) -> Option<T> {
        None
    }

    pub(super) fn give_one<T>(_: T) {}

    pub(super) fn take_matrix(_: usize) -> Option<Vec<f64>> {
        None
    }

    pub(super) fn give_matrix(_: Vec<f64>) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_comes_back_and_those_in_use_do_not() {
        let first: Scratch<f64> = Scratch::new(100);
        let at = first.as_ptr();
        let second: Scratch<f64> = Scratch::new(100);
        assert_ne!(second.as_ptr(), at);
        drop(first);
        let third: Scratch<f64> = Scratch::new(80);
        assert_eq!((third.len(), third.as_ptr()), (80, at));
    }

    #[test]
    fn one_that_has_become_too_small_is_given_up() {
        drop(Scratch::<f32>::new(100));
        drop(Scratch::<f32>::new(200));
        let kept: Scratch<f32> = Scratch::new(10);
        assert!(kept.0.capacity() >= 200);
    }

    #[cfg(feature = "std")]
    #[test]
    fn matrices_come_back_as_they_are_asked_for() {
        let d = nalgebra::Dyn;
        let mut first: DMatrix<f64> = zeros(d(60), d(40));
        first.fill(3.0);
        let at = first.as_ptr();
        keep_matrix(first);
        let other: DMatrix<f64> = zeros(d(60), d(41));
        assert_ne!(other.as_ptr(), at);
        let again: DMatrix<f64> = zeros(d(40), d(60));
        assert_eq!((again.as_ptr(), again.shape(), again.max()), (at, (40, 60), 0.0));
        keep_matrix(again);
        assert_eq!(copy(&other), other);
        // Too much is not kept: the oldest goes first.
        for _ in 0..100 {
            keep_matrix(DMatrix::<f64>::zeros(60, 41));
        }
        assert!(pool::take_matrix(60 * 41).is_some() && pool::take_matrix(40 * 60).is_none());
    }
}
