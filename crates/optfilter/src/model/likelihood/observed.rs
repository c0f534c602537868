//! Which components of a measurement are there.

/// Which components of a measurement are there; the others are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Observed<'a> {
    /// All of them.
    All,
    /// Those marked `true`.
    Some(&'a [bool]),
}

impl<'a> Observed<'a> {
    /// Whether component `i` is there.
    #[inline(always)]
    pub fn has(&self, i: usize) -> bool {
        match self {
            Self::All => true,
            Self::Some(mask) => mask.get(i).copied().unwrap_or(false),
        }
    }

    /// The components that are there, of `m`.
    #[inline(always)]
    pub fn indices(self, m: usize) -> impl Iterator<Item = usize> + 'a {
        (0..m).filter(move |&i| self.has(i))
    }

    /// How many of `m` components are there.
    #[inline]
    pub fn count(self, m: usize) -> usize {
        match self {
            Self::All => m,
            Self::Some(_) => self.indices(m).count(),
        }
    }
}
