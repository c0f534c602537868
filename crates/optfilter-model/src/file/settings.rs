//! The `[filter]` table of a file, written back.

use optfilter_run::FilterSpec;

/// A model file's text with its `[filter]` table replaced by this one, or with this one at the end.
/// Everything else, comments included, stays as it is.
pub fn replace_filter(text: &str, spec: &FilterSpec) -> String {
    replace_table(text, "filter", &spec.to_toml())
}

/// The same for any table, whose new text begins with its header.
pub(crate) fn replace_table(text: &str, name: &str, table: &str) -> String {
    // `[name]` and nothing else; a row of a matrix begins with a bracket as well.
    let is_header = |line: &str| {
        let bare = line.split('#').next().unwrap_or("").trim();
        let name = bare.trim_start_matches('[');
        bare.starts_with('[')
            && bare.ends_with(']')
            && name.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '_' | '"' | '\''))
    };
    let header = format!("[{name}]");
    let mut out = String::new();
    let mut inside = false;
    let mut written = false;
    for line in text.split_inclusive('\n') {
        let bare = line.split('#').next().unwrap_or("").trim();
        if bare == header {
            inside = true;
            written = true;
            out.push_str(table);
            continue;
        }
        if inside && is_header(line) {
            inside = false;
            out.push('\n');
        }
        // Inside the old table only comments are kept.
        if !inside || line.trim_start().starts_with('#') {
            out.push_str(line);
        }
    }
    if !written {
        if !out.is_empty() && !out.ends_with('\n') {
            out.push('\n');
        }
        out.push('\n');
        out.push_str(table);
    }
    out
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
        assert_eq!(after, "[a]\nx = 1\n[noise]\nvar = 3\n\n[b]\ny = 2\n");
    }

    #[test]
    fn only_the_filter_table_is_replaced() {
        let spec = FilterSpec { lr: Some(0.1), ..FilterSpec::of("ekf").unwrap() };
        let before =
            "# mine\nstates = [\"x\"]\n[filter] # old\nmethod = \"pf\"\n[initial]\nmean = 1\n";
        let after = "# mine\nstates = [\"x\"]\n[filter]\nmethod = \"ekf\"\nlr = 0.1\n\n[initial]\nmean = 1\n";
        assert_eq!(replace_filter(before, &spec), after);
        assert_eq!(replace_filter(after, &spec), after);
        assert!(
            replace_filter("a = 1", &spec)
                .ends_with("a = 1\n\n[filter]\nmethod = \"ekf\"\nlr = 0.1\n")
        );
    }
}
