//! Long vectors for a while. To have memory of a million numbers anew from the system, and zeros in it, takes as long as to
//! step a model of that size; so a thread keeps what it has used, until it ends.

use crate::scalar::Scalar;
use alloc::vec::Vec;
use core::any::Any;
use core::ops::{Deref, DerefMut};
use nalgebra::allocator::Allocator;
use nalgebra::{DVector, DefaultAllocator, Dim, OVector, U1};

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
    let mut values = pool::take::<f64>(dim.value());
    values.resize(dim.value(), 0.0);
    OVector::from_vec_generic(dim, U1, values)
}

/// Keeps a vector that is no longer needed, if it is a long one.
#[inline(always)]
pub(crate) fn keep<N: Dim>(values: OVector<f64, N>)
where
    DefaultAllocator: Allocator<N>,
{
    if is_long::<N>(values.nrows()) {
        let mut values = Some(values);
        if let Some(values) = (&mut values as &mut dyn Any).downcast_mut::<Option<DVector<f64>>>() {
            pool::give(values.take().map(|values| values.data.into()).unwrap_or_default());
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
        /// A `Vec<Vec<S>>` for each kind of number.
        static KINDS: RefCell<Vec<Box<dyn Any>>> = const { RefCell::new(Vec::new()) };
    }

    /// The smallest of those kept that is large enough; or none, and the largest is given up.
    pub(super) fn take<S: Scalar>(len: usize) -> Vec<S> {
        let taken = KINDS.try_with(|kinds| {
            let mut kinds = kinds.borrow_mut();
            let kept = kinds.iter_mut().find_map(|kind| kind.downcast_mut::<Vec<Vec<S>>>())?;
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
        let _ = KINDS.try_with(|kinds| {
            let mut kinds = kinds.borrow_mut();
            match kinds.iter_mut().find_map(|kind| kind.downcast_mut::<Vec<Vec<S>>>()) {
                Some(kept) if kept.len() < KEPT => kept.push(values),
                Some(_) => {}
                None => kinds.push(Box::new(alloc::vec![values])),
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
}
