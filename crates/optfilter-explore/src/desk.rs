//! Which request of a page is the newest: older ones on the same subject are not worth finishing.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Pages that are remembered.
const MAX_PAGES: usize = 256;

/// The newest request of each page, by what it is for.
#[derive(Default)]
pub struct Desk(Mutex<HashMap<(String, String), u64>>);

impl Desk {
    /// Takes note of a request.
    pub fn came(&self, page: &str, lane: &str, number: u64) {
        let mut newest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if newest.len() >= MAX_PAGES {
            newest.clear();
        }
        let known = newest.entry((page.to_owned(), lane.to_owned())).or_insert(number);
        *known = number.max(*known);
    }

    /// Whether a newer one has come.
    pub fn is_old(&self, page: &str, lane: &str, number: u64) -> bool {
        let newest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        newest.get(&(page.to_owned(), lane.to_owned())).is_some_and(|known| *known > number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_and_lanes_do_not_disturb_one_another() {
        let desk = Desk::default();
        desk.came("one", "run", 3);
        desk.came("two", "run", 9);
        desk.came("one", "map", 8);
        assert!(!desk.is_old("one", "run", 3));
        desk.came("one", "run", 4);
        desk.came("one", "run", 2);
        assert!(desk.is_old("one", "run", 3));
        assert!(!desk.is_old("one", "run", 4) && !desk.is_old("two", "run", 9));
    }
}
