//! Memory aligned to a cache line: a 64-byte load that crosses lines costs twice.

use super::Real;
use std::ops::{Deref, DerefMut};

/// A zeroed slice whose first element lies on a 64-byte boundary.
#[derive(Debug)]
pub struct Aligned<E> {
    memory: Vec<E>,
    start: usize,
    len: usize,
}

impl<E: Real> Aligned<E> {
    /// `len` zeros.
    pub fn zeros(len: usize) -> Self {
        let slack = 64 / size_of::<E>();
        let memory = vec![E::zero(); len + slack];
        // align_offset may decline (usize::MAX); alignment is speed, not correctness, so start at 0 then.
        let start = match memory.as_ptr().align_offset(64) {
            offset if offset <= slack => offset,
            _ => 0,
        };
        Self { memory, start, len }
    }
}

impl<E: Real> Clone for Aligned<E> {
    fn clone(&self) -> Self {
        let mut copy = Self::zeros(self.len);
        copy.copy_from_slice(self);
        copy
    }
}

impl<E> Deref for Aligned<E> {
    type Target = [E];
    fn deref(&self) -> &[E] {
        &self.memory[self.start..self.start + self.len]
    }
}

impl<E> DerefMut for Aligned<E> {
    fn deref_mut(&mut self) -> &mut [E] {
        &mut self.memory[self.start..self.start + self.len]
    }
}
