//! Room for the numbers of an evaluation, kept by its thread: to have a few kilobytes anew, and zeros in them, takes longer than an
//! equation over forty indices.

use optfilter::scalar::{Dual, Scalar};
use std::any::Any;
use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::thread::LocalKey;

/// A vector with anything in it, that goes back to its thread at the end of its scope. (A box, since one word is exchanged at once: three
/// are written one by one and read two at a time, for which the processor waits until they are in the cache.)
pub(super) struct Room<S: Scalar>(Option<Box<Numbers<S>>>);

struct Numbers<S>(Vec<S>);

/// Numbers in a vector that is kept, at most: programs of many registers have longer ones.
const LONGEST: usize = 1 << 14;

type Kept<S> = RefCell<Vec<Box<Numbers<S>>>>;

std::thread_local! {
    static NUMBERS: Kept<f64> = const { RefCell::new(Vec::new()) };
    static SLOPES: Kept<Dual<f64, 1>> = const { RefCell::new(Vec::new()) };
}

/// Exchanges a vector for one that was kept, or keeps it, if it is one of `S`.
#[inline(always)]
fn exchange<S: Scalar>(kept: &'static LocalKey<Kept<S>>, of: &mut dyn Any) -> bool {
    let Some(numbers) = of.downcast_mut::<Option<Box<Numbers<S>>>>() else { return false };
    // Where the thread is about to end, nothing is kept any more.
    let _ = kept.try_with(|kept| {
        let mut kept = kept.borrow_mut();
        match numbers.take() {
            Some(numbers) => kept.push(numbers),
            None => *numbers = kept.pop(),
        }
    });
    true
}

impl<S: Scalar> Room<S> {
    /// At least so many numbers.
    #[inline(always)]
    pub(super) fn of(len: usize) -> Self {
        let mut numbers = None::<Box<Numbers<S>>>;
        let _ = exchange(&NUMBERS, &mut numbers) || exchange(&SLOPES, &mut numbers);
        match &mut numbers {
            Some(numbers) if numbers.0.len() < len => numbers.0.resize(len, S::ZERO),
            Some(_) => {}
            None => numbers = Some(Box::new(Numbers(vec![S::ZERO; len]))),
        }
        Self(numbers)
    }
}

impl<S: Scalar> Drop for Room<S> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.len() <= LONGEST {
            let of: &mut dyn Any = &mut self.0;
            let _ = exchange(&NUMBERS, of) || exchange(&SLOPES, of);
        }
    }
}

impl<S: Scalar> Deref for Room<S> {
    type Target = [S];
    #[inline(always)]
    fn deref(&self) -> &[S] {
        self.0.as_ref().map_or(&[], |numbers| &numbers.0)
    }
}

impl<S: Scalar> DerefMut for Room<S> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [S] {
        self.0.as_mut().map_or(&mut [], |numbers| &mut numbers.0)
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
        assert!(Room::<f64>::of(1).len() <= LONGEST);
    }
}
