//! Colours, only where a person looks at a terminal that wants them.

use std::io::IsTerminal;

fn coloured(text: &str, code: &str, terminal: bool) -> String {
    let plain = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty())
        || std::env::var_os("TERM").is_some_and(|v| v == "dumb");
    if terminal && !plain { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
}

/// An error, on standard error.
pub fn error(text: &str) -> String {
    coloured(text, "1;31", std::io::stderr().is_terminal())
}

/// Something to look at, on standard output.
pub fn strong(text: &str) -> String {
    coloured(text, "1", std::io::stdout().is_terminal())
}

/// Something good, on standard output.
pub fn good(text: &str) -> String {
    coloured(text, "32", std::io::stdout().is_terminal())
}

/// A table with columns as wide as they need to be; the first line is its head.
pub fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |c: usize| {
        rows.iter().filter_map(|r| r.get(c)).map(|t| t.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut out = String::new();
    for (i, row) in rows.iter().enumerate() {
        let mut line = String::new();
        for (c, cell) in row.iter().enumerate() {
            let pad = " ".repeat(widths[c].saturating_sub(cell.chars().count()));
            let number = i > 0 && cell.parse::<f64>().is_ok();
            let text = if number { format!("{pad}{cell}") } else { format!("{cell}{pad}") };
            line.push_str(&text);
            line.push_str("  ");
        }
        let line = line.trim_end();
        out.push_str(&if i == 0 { strong(line) } else { line.to_owned() });
        out.push('\n');
    }
    out
}

/// A number with four significant digits, for people.
pub fn short(v: f64) -> String {
    if v.is_nan() {
        return "n/a".into();
    }
    if v == 0.0 {
        return "0".into();
    }
    let size = v.abs().log10().floor();
    if (-4.0..7.0).contains(&size) {
        let digits = (3.0 - size).max(0.0) as usize;
        return format!("{v:.digits$}");
    }
    format!("{v:.3e}")
}
