//! Tables of a file, written back: what is replaced stands where it stood, and every comment stays.

use optfilter_run::FilterSpec;

/// A model file's text with its `[filter]` table replaced by this one, or with this one at the end.
/// Everything else, comments included, stays as it is.
pub fn replace_filter(text: &str, spec: &FilterSpec) -> String {
    replace_table(text, "filter", &spec.to_toml())
}

/// The same for any table, whose new text begins with its header and has an entry on each line. A comment behind an entry
/// that goes away gets a line of its own.
pub(crate) fn replace_table(text: &str, name: &str, table: &str) -> String {
    let entries: Vec<&str> = table.lines().skip(1).filter(|line| !line.trim().is_empty()).collect();
    edit_table(text, name, &entries, false)
}

/// A model file's text with these entries (`key = value`) in a table, each where it stood before, the others after the last one
/// that stood there; further entries of the table are kept or not.
pub(crate) fn edit_table(text: &str, name: &str, entries: &[&str], keep: bool) -> String {
    let mut left = entries.to_vec();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let header = format!("[{name}]");
    let Some(begin) = lines.iter().position(|line| bare(line) == header) else {
        let mut out = text.to_owned();
        if !out.is_empty() && !out.ends_with('\n') {
            out.push('\n');
        }
        let blank = if out.is_empty() { "" } else { "\n" };
        return format!("{out}{blank}{header}\n{}\n", entries.join("\n"));
    };
    let mut out: Vec<String> = lines[..=begin].iter().map(|line| line.to_string()).collect();
    // Where entries go that have no place of their own.
    let mut place = out.len();
    let mut at = begin + 1;
    while let Some(line) = lines.get(at).filter(|line| !is_header(line)) {
        at += 1;
        if bare(line).is_empty() {
            out.push((*line).to_owned());
            continue;
        }
        let (key, mut depth, mut comments) = (key_of(line), depth(line), Vec::new());
        comments.extend(comment(line));
        let mut whole = vec![*line];
        // A value may go on over several lines.
        while depth > 0
            && let Some(line) = lines.get(at)
        {
            at += 1;
            depth += self::depth(line);
            comments.extend(comment(line));
            whole.push(line);
        }
        match left.iter().position(|entry| key_of(entry) == key) {
            Some(found) => {
                let entry = left.remove(found);
                // Those of a value on several lines stand above the new one, which is on one.
                let behind = if whole.len() == 1 { comments.pop() } else { None };
                out.extend(comments.iter().map(|comment| format!("{comment}\n")));
                let behind = behind.map_or_else(String::new, |comment| format!(" {comment}"));
                out.push(format!("{entry}{behind}\n"));
            }
            None if keep => out.extend(whole.iter().map(|line| line.to_string())),
            None => out.extend(comments.iter().map(|comment| format!("{comment}\n"))),
        }
        place = out.len();
    }
    if let Some(last) = out.last_mut().filter(|last| !last.ends_with('\n')) {
        last.push('\n');
    }
    out.splice(place..place, left.iter().map(|entry| format!("{entry}\n")));
    out.extend(lines[at..].iter().map(|line| line.to_string()));
    out.concat()
}

/// `[name]` and nothing else; a row of a matrix begins with a bracket as well.
fn is_header(line: &str) -> bool {
    let bare = bare(line);
    let name = bare.trim_start_matches('[');
    bare.starts_with('[')
        && bare.ends_with(']')
        && name.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '_' | '"' | '\''))
}

/// The key of an entry, without quotes.
fn key_of(line: &str) -> String {
    let key = bare(line).split('=').next().unwrap_or("").trim();
    key.trim_matches('"').trim_matches('\'').to_owned()
}

/// A line without its comment.
fn bare(line: &str) -> &str {
    line.split_at_checked(comment_begin(line)).map_or(line, |(before, _)| before).trim()
}

/// The comment of a line, from its `#` on.
fn comment(line: &str) -> Option<&str> {
    let (_, comment) = line.split_at_checked(comment_begin(line))?;
    Some(comment.trim_end()).filter(|comment| !comment.is_empty())
}

/// Where the comment of a line begins: at the first `#` that is in no string, or at its end.
fn comment_begin(line: &str) -> usize {
    outside_strings(line).find(|(_, c)| *c == '#').map_or(line.len(), |(at, _)| at)
}

/// How many brackets a line opens more than it closes.
fn depth(line: &str) -> i32 {
    let one = |(_, c)| match c {
        '[' | '{' => 1,
        ']' | '}' => -1,
        _ => 0,
    };
    outside_strings(bare(line)).map(one).sum()
}

/// The characters of a line that are in no string, with their places.
fn outside_strings(line: &str) -> impl Iterator<Item = (usize, char)> {
    let (mut quote, mut escaped) = (None, false);
    line.char_indices().filter(move |(_, c)| {
        match quote {
            Some(_) if escaped => escaped = false,
            Some('"') if *c == '\\' => escaped = true,
            Some(q) if *c == q => {
                quote = None;
                return false;
            }
            Some(_) => {}
            None if matches!(c, '"' | '\'') => quote = Some(*c),
            None => return true,
        }
        false
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rows of a matrix begin as tables do, and are none.
    #[test]
    fn rows_of_a_matrix_are_no_tables() {
        let text =
            "[a]\nx = 1\n[noise]\nvar = [\n  [0.09, 0.001],\n  [0.001, 0.09],\n]\n[b]\ny = 2\n";
        let after = replace_table(text, "noise", "[noise]\nvar = 3\n");
        assert_eq!(after, "[a]\nx = 1\n[noise]\nvar = 3\n[b]\ny = 2\n");
    }

    #[test]
    fn only_the_filter_table_is_replaced() {
        let spec = FilterSpec { lr: Some(0.1), ..FilterSpec::of("ekf").unwrap() };
        let before =
            "# mine\nstates = [\"x\"]\n[filter] # old\nmethod = \"pf\"\n\n[initial]\nmean = 1\n";
        let after = "# mine\nstates = [\"x\"]\n[filter] # old\nmethod = \"ekf\"\nlr = 0.1\n\n[initial]\nmean = 1\n";
        assert_eq!(replace_filter(before, &spec), after);
        assert_eq!(replace_filter(after, &spec), after);
        let end = "\n\n[filter]\nmethod = \"ekf\"\nlr = 0.1\n";
        assert_eq!(replace_filter("a = 1", &spec), format!("a = 1{end}"));
        let end = "\n[filter]\nmethod = \"ekf\"\nlr = 0.1\n";
        assert_eq!(replace_filter("a = 1\n[filter]", &spec), format!("a = 1{end}"));
    }

    #[test]
    fn every_comment_stays() {
        let text = "\
[noise] # of the sensor
# from the data sheet
var = [
  [1, 0], # north
  [0, 1], # east
] # square metres
scale = 'a # b' # no unit
std = 3 # metres

# what comes next
[next]
";
        let after = "\
[noise] # of the sensor
# from the data sheet
# north
# east
# square metres
var = 7
# no unit
# metres
per = \"time\"

# what comes next
[next]
";
        assert_eq!(replace_table(text, "noise", "[noise]\nvar = 7\nper = \"time\"\n"), after);
        let kept = "[p]\na = 2 # one\nb = 'x # y' # two\nc = 1\n";
        assert_eq!(
            edit_table("[p]\na = 1 # one\nb = 'x # y' # two\n", "p", &["a = 2", "c = 1"], true),
            kept
        );
    }
}
