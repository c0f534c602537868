//! Names in messages: those that were meant, and long ones cut short.

use std::borrow::Cow;

/// A text that somebody else wrote, as a message shows it: its first characters, if it has more than so many.
pub fn cut(text: &str, most: usize) -> Cow<'_, str> {
    match text.char_indices().nth(most) {
        None => Cow::Borrowed(text),
        Some((end, _)) => Cow::Owned(format!("{}...", text.get(..end).unwrap_or_default())),
    }
}

/// The same of a name or a cell.
pub fn short(text: &str) -> Cow<'_, str> {
    cut(text, 60)
}

/// The name among `known` nearest to `given` in edits (insert, delete, replace, swap neighbours),
/// if it is near enough to be a slip of the finger: a third of the letters, at least one.
pub fn closest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (given.chars().count() / 3).max(1);
    known
        .into_iter()
        .map(|name| (edit_distance(&given.to_lowercase(), &name.to_lowercase()), name))
        .filter(|(distance, name)| {
            *distance <= limit && *distance < name.chars().count().max(given.chars().count())
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// Optimal string alignment distance.
#[allow(clippy::indexing_slicing)] // i and j run over the lengths
fn edit_distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    if a.len().abs_diff(b.len()) > 8 || a.len() > 64 {
        return usize::MAX;
    }
    let mut before: Vec<usize> = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replace = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = replace.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(cut("äöü", 3), "äöü");
        assert_eq!(cut("äöü", 2), "äö...");
        assert_eq!(short(&"x".repeat(5 << 20)).len(), 63);
    }

    #[test]
    fn slips_of_the_finger_are_recognised_and_other_words_are_not() {
        assert_eq!(closest("omgea", ["theta", "omega"]), Some("omega"));
        assert_eq!(closest("sine", ["sin", "cos"]), Some("sin"));
        assert_eq!(closest("velocity", ["x", "y"]), None);
    }
}
