//! Why a filter cannot be had.

use optfilter::filter::FilterError;

/// Why a filter cannot be had: what is wrong, and with which setting if it is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecError {
    /// The setting at fault; empty if it is not one.
    pub key: &'static str,
    /// What is wrong and what to do.
    pub message: String,
}

impl SpecError {
    /// About the combination of model and filter.
    pub fn new(message: impl ToString) -> Self {
        Self { key: "", message: message.to_string() }
    }

    /// About one setting.
    pub fn of(key: &'static str, message: impl ToString) -> Self {
        Self { key, message: message.to_string() }
    }
}

/// What a filter refuses when it is made, under the names that users know.
impl From<FilterError> for SpecError {
    fn from(error: FilterError) -> Self {
        let quantity = match &error {
            FilterError::NotPositiveDefinite { quantity, .. } => quantity,
            FilterError::NotFinite { argument, .. }
            | FilterError::Size { argument, .. }
            | FilterError::Setting { argument, .. } => argument,
            _ => "",
        };
        let key = match quantity {
            "initial cov" => "P0",
            "initial mean" => "x0",
            "alpha^2 (n + kappa)" => "kappa",
            "bounds" => "bounds",
            _ => "",
        };
        Self { key, message: error.to_string() }
    }
}

impl std::fmt::Display for SpecError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // What a filter refuses begins with the name of it.
        if !self.message.starts_with(self.key) {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for SpecError {}

/// Why a whole run came to nothing: it could not begin, or it failed on the way.
#[derive(Clone, Debug, PartialEq)]
pub enum RunError {
    /// The filter or its problem does not allow it.
    Spec(SpecError),
    /// It failed at a row.
    Filter(FilterError),
}

impl From<SpecError> for RunError {
    fn from(error: SpecError) -> Self {
        Self::Spec(error)
    }
}

impl From<FilterError> for RunError {
    fn from(error: FilterError) -> Self {
        Self::Filter(error)
    }
}

impl std::fmt::Display for RunError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Spec(error) => error.fmt(f),
            Self::Filter(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for RunError {}

/// Refuses what would not fit in memory: so many numbers for each of a count. The system is asked for them for a moment, and they are not touched.
pub(crate) fn check_room(key: &'static str, count: usize, numbers: usize) -> Result<(), SpecError> {
    let bytes = count.checked_mul(numbers).and_then(|all| all.checked_mul(size_of::<f64>()));
    let mut room = Vec::<u8>::new();
    let had = bytes.is_some_and(|bytes| room.try_reserve_exact(bytes).is_ok());
    std::hint::black_box(&room); // else the compiler may leave it out, and take it to have been had
    if had {
        return Ok(());
    }
    let gigabytes = count as f64 * numbers as f64 * size_of::<f64>() as f64 / 1e9;
    let message = format!(
        "{count} would take about {gigabytes:.1} GB, which this process cannot have; take fewer"
    );
    Err(SpecError::of(key, message))
}
