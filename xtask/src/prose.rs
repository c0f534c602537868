//! Are the hand-written pages short and plain?
//!
//! For each page it prints words, the mean length of a sentence and the share of sentences over forty words. Code blocks, tables,
//! comments, images and link targets do not count; inline code is one word. Headings and list items end a sentence. A page
//! fails with a mean of 18 words or more, more than 4% of long sentences, or a banned word; all pages together may have 21,000 words.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

const MAX_MEAN: f64 = 18.0;
const LONG: usize = 40;
const MAX_LONG_SHARE: f64 = 0.04;
const MAX_TOTAL: usize = 21_000;

/// Words and phrases that a plain page does without, in lower case.
const BANNED: [&str; 18] = [
    "anew",
    "besides",
    "beside",
    "whoever",
    "nobody",
    "somebody",
    "thereof",
    "kin",
    "mend",
    "owe",
    "owed",
    "told",
    "gone",
    "stand in",
    "stands in",
    "as it is",
    "of its own",
    "what there is",
];

/// Measures all pages and fails if one is too hard to read.
pub(crate) fn check() -> Result<(), String> {
    println!("{:>6} {:>6} {:>6}  page", "words", "mean", "long");
    let (mut total, mut faults) = (0, String::new());
    let pages = pages()?;
    for path in &pages {
        let text = fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
        let page = Page::read(&text);
        let (mean, long) = (page.mean(), page.long_share());
        println!("{:>6} {mean:>6.1} {:>5.1}%  {}", page.words, 100.0 * long, path.display());
        total += page.words;
        let mut fault = |text: String| {
            let _ = write!(faults, "\n  {}: {text}", path.display());
        };
        if mean >= MAX_MEAN {
            fault(format!("{mean:.1} words per sentence; the mean must be below {MAX_MEAN}"));
        }
        if long > MAX_LONG_SHARE {
            fault(format!("{:.1}% of sentences have more than {LONG} words", 100.0 * long));
        }
        for (line, phrase) in &page.banned {
            fault(format!("line {line}: replace \"{phrase}\""));
        }
    }
    println!("{total:>6} words on {} pages", pages.len());
    if total > MAX_TOTAL {
        let _ = write!(faults, "\n  {total} words in total; at most {MAX_TOTAL} are allowed");
    }
    if faults.is_empty() { Ok(()) } else { Err(format!("pages to rewrite:{faults}")) }
}

/// README.md, docs except decisions and generated pages, and the Python tutorial.
fn pages() -> Result<Vec<PathBuf>, String> {
    let mut found = vec![PathBuf::from("README.md")];
    collect(Path::new("docs"), &mut found)?;
    collect(Path::new("python/tutorial"), &mut found)?;
    found.sort();
    Ok(found)
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) -> Result<(), String> {
    let entries = fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    for entry in entries {
        let path = entry.map_err(|e| format!("{}: {e}", folder.display()))?.path();
        let left_out = [Path::new("docs/decisions"), Path::new("docs/settings.md")];
        if left_out.contains(&path.as_path()) {
            continue;
        }
        if path.is_dir() {
            collect(&path, found)?;
        } else if path.extension().is_some_and(|e| e == "md") {
            found.push(path);
        }
    }
    Ok(())
}

#[derive(Default)]
struct Page {
    words: usize,
    /// Words of each sentence, headings excluded.
    sentences: Vec<usize>,
    /// Line and phrase of each banned word.
    banned: Vec<(usize, &'static str)>,
}

impl Page {
    fn read(text: &str) -> Self {
        let (mut page, mut block, mut fence) = (Self::default(), String::new(), None);
        let text = without_comments(text);
        for (at, line) in text.lines().enumerate() {
            let start = line.trim_start();
            let marker = ["```", "~~~"].into_iter().find(|m| start.starts_with(m));
            if fence.is_some() {
                if marker == fence {
                    fence = None;
                }
                continue;
            }
            if marker.is_some() {
                fence = marker;
                page.end(&mut block);
                continue;
            }
            if start.is_empty() || start.starts_with('|') {
                page.end(&mut block);
                continue;
            }
            let (is_item, start) = list_item(start.trim_start_matches("> "));
            if is_item {
                page.end(&mut block);
            }
            let plain = plain(start);
            // A phrase may begin on the line before.
            let tail = last_words(&block);
            let joined = format!("{tail} {plain}");
            let found = BANNED.iter().filter(|phrase| {
                has_phrase(&plain, phrase)
                    || has_phrase(&joined, phrase) && !has_phrase(tail, phrase)
            });
            page.banned.extend(found.map(|phrase| (at + 1, *phrase)));
            if start.starts_with('#') {
                page.end(&mut block);
                page.words += words(plain.trim_start_matches('#'));
            } else {
                block.push_str(&plain);
                block.push(' ');
            }
        }
        page.end(&mut block);
        page
    }

    /// Ends a paragraph or list item: its sentences are counted.
    fn end(&mut self, block: &mut String) {
        for sentence in sentences(block) {
            let length = words(sentence);
            self.words += length;
            if length > 0 {
                self.sentences.push(length);
            }
        }
        block.clear();
    }

    #[expect(clippy::cast_precision_loss, reason = "counts of words")]
    fn mean(&self) -> f64 {
        self.sentences.iter().sum::<usize>() as f64 / self.sentences.len().max(1) as f64
    }

    #[expect(clippy::cast_precision_loss, reason = "counts of words")]
    fn long_share(&self) -> f64 {
        let long = self.sentences.iter().filter(|length| **length > LONG).count();
        long as f64 / self.sentences.len().max(1) as f64
    }
}

/// Whether a line begins a list item, and the line without the bullet or number.
fn list_item(line: &str) -> (bool, &str) {
    let numbered = line.split_once(". ").filter(|(number, _)| {
        !number.is_empty() && number.len() < 3 && number.bytes().all(|b| b.is_ascii_digit())
    });
    let bullet = ["- ", "* ", "+ "].iter().find_map(|mark| line.strip_prefix(mark));
    match bullet.or(numbered.map(|(_, rest)| rest)) {
        Some(rest) => (true, rest),
        None => (false, line),
    }
}

/// The text with comments blanked out; lines keep their numbers.
fn without_comments(text: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once("<!--") {
        let (comment, after) = after.split_once("-->").unwrap_or((after, ""));
        out.push_str(before);
        out.extend(comment.matches('\n'));
        rest = after;
    }
    out + rest
}

/// A line without images, link targets and emphasis; inline code is the word `x`.
fn plain(line: &str) -> String {
    let (mut out, mut rest) = (String::new(), line);
    while let Some(at) = rest.find(['`', '!', ']', '*']) {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        rest = if let Some(code) = from.strip_prefix('`') {
            out.push('x');
            code.split_once('`').map_or("", |(_, after)| after)
        } else if from.starts_with("![") {
            from.split_once(')').map_or("", |(_, after)| after)
        } else if let Some(target) = from.strip_prefix("](") {
            target.split_once(')').map_or("", |(_, after)| after)
        } else {
            if from.starts_with('!') {
                out.push('!');
            }
            &from[1..]
        };
    }
    out.push_str(rest);
    out.replace('[', "").replace("e.g.", "eg").replace("i.e.", "ie").replace("et al.", "et al")
}

/// Parts that end in a full stop, question or exclamation mark with a space after it.
fn sentences(block: &str) -> impl Iterator<Item = &str> {
    block
        .split_inclusive([' ', '\n'])
        .scan(0, |end, word| {
            *end += word.len();
            let stops =
                word.trim_end().trim_end_matches([')', '"', '\'']).ends_with(['.', '?', '!']);
            Some((*end, stops))
        })
        .scan(0, move |start, (end, stops)| {
            let done = stops || end == block.len();
            let part = done.then(|| &block[std::mem::replace(start, end)..end]);
            Some(part)
        })
        .flatten()
}

/// The last two words: all but one of the longest banned phrase.
fn last_words(block: &str) -> &str {
    let block = block.trim_end();
    block.rmatch_indices(' ').nth(1).map_or(block, |(at, _)| &block[at + 1..])
}

/// Words have at least one letter or digit.
fn words(text: &str) -> usize {
    text.split_whitespace().filter(|word| word.chars().any(char::is_alphanumeric)).count()
}

fn has_phrase(text: &str, phrase: &str) -> bool {
    let lower = text.to_lowercase();
    let is_end = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric());
    lower.match_indices(phrase).any(|(at, found)| {
        is_end(lower[..at].chars().next_back()) && is_end(lower[at + found.len()..].chars().next())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_counted_without_code_tables_and_targets() {
        let page = Page::read(
            "# A page\n\nOne `a. b` two\n[three](x.md#y). Four five?\n\n```\ncode. code\n```\n| a | b |\n- six\n- 7. eight\n",
        );
        assert_eq!(page.sentences, [4, 2, 1, 1, 1]);
        assert_eq!(page.words, 2 + 9);
        assert!(page.banned.is_empty());
    }

    #[test]
    fn banned_words_are_whole_words_outside_of_code() {
        let page = Page::read(
            "Besides, `told` or toldness.\n<!-- told\n -->\nIt stands in here, of its\nown.\n",
        );
        assert_eq!(page.banned, [(1, "besides"), (4, "stands in"), (5, "of its own")]);
    }

    #[test]
    fn long_sentences_are_a_share() {
        let page = Page::read(&format!("{}. Short.", ["word"; 41].join(" ")));
        assert_eq!((page.mean(), page.long_share()), (21.0, 0.5));
    }
}
