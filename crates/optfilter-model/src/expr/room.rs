//! Room for the numbers of an evaluation, kept by its thread: to have a few kilobytes anew, and zeros in them, takes longer than an
//! equation over forty indices.

use optfilter::scalar::{Dual, Scalar};
use std::any::Any;
use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::thread::LocalKey;

/// A vector with anything in it, that goes back to its thread at the end of its scope.
pub(super) struct Room<S: Scalar>(Vec<S>);

/// Numbers in a vector that is kept, at most: programs of many registers have longer ones.
const LONGEST: usize = 1 << 14;

type Kept<S> = RefCell<Vec<Vec<S>>>;

std::thread_local! {
    static NUMBERS: Kept<f64> = const { RefCell::new(Vec::new()) };
    static SLOPES: Kept<Dual<f64, 1>> = const { RefCell::new(Vec::new()) };
}

/// Exchanges a vector for one that was kept, or keeps it, if it is one of `S`.
#[inline(always)]
fn exchange<S: Scalar>(kept: &'static LocalKey<Kept<S>>, of: &mut dyn Any, give: bool) -> bool {
    let Some(vector) = of.downcast_mut::<Vec<S>>() else { return false };
    // Where the thread is about to end, nothing is kept any more.
    let _ = kept.try_with(|kept| {
        let mut kept = kept.borrow_mut();
        match give {
            true => kept.push(std::mem::take(vector)),
            false => *vector = kept.pop().unwrap_or_default(),
        }
    });
    true
}

impl<S: Scalar> Room<S> {
    #[inline(always)]
    pub(super) fn new() -> Self {
        let mut vector = Vec::<S>::new();
        let _ = exchange(&NUMBERS, &mut vector, false) || exchange(&SLOPES, &mut vector, false);
        Self(vector)
    }

    /// At least so many numbers.
    #[inline(always)]
    pub(super) fn of(len: usize) -> Self {
        let mut room = Self::new();
        if room.0.len() < len {
            room.0.resize(len, S::ZERO);
        }
        room
    }
}

impl<S: Scalar> Drop for Room<S> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.0.capacity() <= LONGEST {
            let of: &mut dyn Any = &mut self.0;
            let _ = exchange(&NUMBERS, of, true) || exchange(&SLOPES, of, true);
        }
    }
}

impl<S: Scalar> Deref for Room<S> {
    type Target = Vec<S>;
    #[inline(always)]
    fn deref(&self) -> &Vec<S> {
        &self.0
    }
}

impl<S: Scalar> DerefMut for Room<S> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Vec<S> {
        &mut self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was given back is had again, of each kind by itself; what is very long is not kept.
    #[test]
    fn rooms_come_back() {
        let place = |room: &Room<f64>| room.as_ptr() as usize;
        let (first, slopes) = (Room::<f64>::of(100), Room::<Dual<f64, 1>>::of(100));
        let (at, slopes_at) = (place(&first), slopes.as_ptr() as usize);
        let second = Room::<f64>::of(50);
        assert_ne!(place(&second), at);
        drop((second, first, slopes));
        let again = Room::<f64>::of(70);
        assert!(place(&again) == at && again.len() == 100);
        assert_eq!(Room::<Dual<f64, 1>>::of(1).as_ptr() as usize, slopes_at);
        drop(Room::<f64>::of(2 * LONGEST));
        assert!(Room::<f64>::new().len() <= LONGEST);
    }
}
