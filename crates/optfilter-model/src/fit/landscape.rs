//! What a climb asks of what it climbs.

use super::quantity::Quantity;
use optfilter::filter::FilterError;

/// What is climbed.
pub(super) trait Landscape: Sync {
    fn quantities(&self) -> &[Quantity];
    fn quantities_mut(&mut self) -> &mut [Quantity];
    fn gradient(&self, z: &[f64]) -> Result<(f64, Vec<f64>), (usize, FilterError)>;
}
