//! Are the licences of all dependencies compatible with MIT OR Apache-2.0?
//!
//! cargo-deny does this and more, but takes minutes to install; `cargo metadata` has all that is needed.

use std::process::Command;

/// Licences that may be linked into a program under MIT OR Apache-2.0.
const ALLOWED: [&str; 12] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

pub(crate) fn check() -> Result<(), String> {
    println!("\n--- licences of all dependencies");
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--locked", "--all-features"])
        .output()
        .map_err(|e| format!("cargo metadata cannot be started: {e}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let metadata: serde_json::Value =
        serde_json::from_slice(&output.stdout).map_err(|e| format!("cargo metadata: {e}"))?;
    let packages = metadata["packages"].as_array().ok_or("cargo metadata lists no packages")?;
    let mut bad = Vec::new();
    for package in packages {
        let licence = package["license"].as_str().unwrap_or("none");
        if !allowed(licence) {
            bad.push(format!("  {} {}: {licence}", package["name"], package["version"]));
        }
        let source = package["source"].as_str();
        if source.is_some_and(|s| s.starts_with("git+")) {
            bad.push(format!("  {}: a git dependency", package["name"]));
        }
    }
    if bad.is_empty() {
        println!("{} packages, all allowed", packages.len());
        return Ok(());
    }
    Err(format!("licences that are not on the list:\n{}", bad.join("\n")))
}

/// Whether an SPDX expression can be satisfied by allowed licences: every operand of AND, one of OR.
fn allowed(expression: &str) -> bool {
    let expression = expression.trim();
    if let Some(parts) = split(expression, " OR ").or_else(|| split(expression, "/")) {
        return parts.iter().any(|p| allowed(p));
    }
    if let Some(parts) = split(expression, " AND ") {
        return parts.iter().all(|p| allowed(p));
    }
    match expression.strip_prefix('(').and_then(|e| e.strip_suffix(')')) {
        Some(inner) => allowed(inner),
        None => ALLOWED.contains(&expression),
    }
}

/// The operands of a separator outside parentheses, if it occurs there.
fn split<'a>(expression: &'a str, separator: &str) -> Option<Vec<&'a str>> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0, 0);
    for (i, c) in expression.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 && i >= start && expression[i..].starts_with(separator) {
            parts.push(&expression[start..i]);
            start = i + separator.len();
        }
    }
    if parts.is_empty() {
        return None;
    }
    parts.push(&expression[start..]);
    Some(parts)
}

#[cfg(test)]
mod tests {
    use super::allowed;

    #[test]
    fn expressions_are_read_as_spdx_means_them() {
        assert!(allowed("MIT OR GPL-3.0"));
        assert!(allowed("MIT/Apache-2.0"));
        assert!(allowed("(MIT OR Apache-2.0) AND Unicode-3.0"));
        assert!(!allowed("MIT AND GPL-3.0"));
        assert!(!allowed("GPL-3.0"));
        assert!(!allowed("none"));
    }
}
