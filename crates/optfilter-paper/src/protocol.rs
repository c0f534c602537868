//! The two protocols, which are never mixed.

/// What was run, or what the text says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// What was really run.
    Published,
    /// What the text says.
    Specified,
}

impl Protocol {
    /// The name in the files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Published => "published",
            Self::Specified => "specified",
        }
    }
}
