//! The paths that a Rust file mentions: `use` lines, and what has `::` in it elsewhere.
//!
//! This is no parser of Rust. It knows comments, strings and characters, so that nothing in them counts; attributes, so that
//! tests do not; and modules inside of a file, since `super::` is another one there.

/// A path that a file mentions.
#[derive(Debug, PartialEq)]
pub(crate) struct Import {
    pub(crate) line: usize,
    /// The modules inside of the file in which it stands.
    pub(crate) within: Vec<String>,
    pub(crate) path: Vec<String>,
    /// What a `use` line calls it.
    pub(crate) name: Option<String>,
}

/// A line and what stands on it.
type Token = (usize, String);

/// What a text mentions outside of comments, strings and tests.
pub(crate) fn imports(text: &str) -> Vec<Import> {
    let tokens = tokens(text);
    let word = |i: usize| tokens.get(i).map_or("", |t: &Token| t.1.as_str());
    let before = |i: usize| if i > 0 { word(i - 1) } else { "" };
    let mut found = Vec::new();
    // Modules inside of the file, with the number of open braces before each.
    let mut within: Vec<(String, usize)> = Vec::new();
    let (mut at, mut open) = (0, 0);
    while at < tokens.len() {
        let names = || within.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        match word(at) {
            "#" if is_for_tests(&tokens[at..]) => at = after_item(&tokens, at),
            // Who may see an item is no import.
            "pub" if word(at + 1) == "(" && word(at + 2) == "in" => {
                at += tokens[at..].iter().position(|t| t.1 == ")").unwrap_or(1);
            }
            "mod" if word(at + 2) == "{" => {
                within.push((word(at + 1).to_owned(), open));
                at += 2;
            }
            "{" => (at, open) = (at + 1, open + 1),
            "}" => {
                (at, open) = (at + 1, open.saturating_sub(1));
                if within.last().is_some_and(|(_, before)| *before == open) {
                    within.pop();
                }
            }
            "use" => {
                let line = tokens[at].0;
                let mut paths = Vec::new();
                at = tree(&tokens, at + 1, &[], &mut paths);
                let import = |(path, name)| Import { line, within: names(), path, name };
                found.extend(paths.into_iter().map(import));
            }
            // Not the rest of a path, behind a type.
            first if is_name(first) && word(at + 1) == "::" && before(at) != "::" => {
                let line = tokens[at].0;
                let mut path = vec![first.to_owned()];
                while word(at + 1) == "::" && is_name(word(at + 2)) {
                    path.push(word(at + 2).to_owned());
                    at += 2;
                }
                at += 1;
                found.push(Import { line, within: names(), path, name: None });
            }
            _ => at += 1,
        }
    }
    found
}

/// Reads what a `use` line brings in from `at` on, and says where it ends.
fn tree(
    tokens: &[Token],
    mut at: usize,
    prefix: &[String],
    out: &mut Vec<(Vec<String>, Option<String>)>,
) -> usize {
    let word = |i: usize| tokens.get(i).map_or(";", |t| t.1.as_str());
    let mut path = prefix.to_vec();
    loop {
        match word(at) {
            "{" => {
                at += 1;
                while !["}", ";"].contains(&word(at)) {
                    at = tree(tokens, at, &path, out);
                    at += usize::from(word(at) == ",");
                }
                return at + 1;
            }
            "*" => {
                out.push((path, None));
                return at + 1;
            }
            "as" => {
                out.push((path, Some(word(at + 1).to_owned())));
                return at + 2;
            }
            "::" => at += 1,
            name if is_name(name) => {
                // `self` at the end of a list is what stands before the list.
                if name != "self" || path.is_empty() {
                    path.push(name.to_owned());
                }
                at += 1;
                if !["::", "as"].contains(&word(at)) {
                    let name = path.last().cloned();
                    out.push((path, name));
                    return at;
                }
            }
            _ => return at + 1,
        }
    }
}

/// Whether an attribute says that what follows is there in tests only.
fn is_for_tests(tokens: &[Token]) -> bool {
    let attribute = tokens.iter().map(|t| t.1.as_str()).take_while(|word| *word != "]");
    let words: Vec<&str> = attribute.collect();
    words.get(2) == Some(&"cfg") && words.contains(&"test") && !words.contains(&"not")
}

/// Where the item ends whose attributes begin at `at`.
fn after_item(tokens: &[Token], at: usize) -> usize {
    let mut open = 0usize;
    for (i, (_, word)) in tokens.iter().enumerate().skip(at) {
        match word.as_str() {
            "(" | "[" | "{" => open += 1,
            ")" | "]" => open = open.saturating_sub(1),
            "}" if open <= 1 => return i + 1,
            "}" => open -= 1,
            ";" if open == 0 => return i + 1,
            _ => {}
        }
    }
    tokens.len()
}

fn is_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Names, `::` and single signs with their lines, without comments, strings and characters.
fn tokens(text: &str) -> Vec<Token> {
    let mut out = Vec::new();
    let (mut rest, mut line) = (text, 1);
    while let Some(first) = rest.chars().next() {
        let name = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
        let hashes = rest[name..].chars().take_while(|c| *c == '#').count();
        let taken = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if ["r", "br", "cr"].contains(&&rest[..name])
            && rest[name + hashes..].starts_with('"')
        {
            let begin = name + hashes + 1;
            let end = format!("\"{}", "#".repeat(hashes));
            rest[begin..].find(&end).map_or(rest.len(), |at| begin + at + end.len())
        } else if first == '"' {
            quoted(rest, '"')
        } else if first == '\'' && (rest[1..].starts_with('\\') || is_character(rest)) {
            quoted(rest, '\'')
        } else if name > 0 {
            out.push((line, rest[..name].to_owned()));
            name
        } else if rest.starts_with("::") {
            out.push((line, "::".into()));
            2
        } else {
            if !first.is_whitespace() {
                out.push((line, first.into()));
            }
            first.len_utf8()
        };
        line += rest[..taken].matches('\n').count();
        rest = &rest[taken..];
    }
    out
}

/// Whether a quotation mark begins a character and not a lifetime.
fn is_character(text: &str) -> bool {
    text.chars().nth(2) == Some('\'')
}

/// How long what stands between quotation marks is.
fn quoted(text: &str, mark: char) -> usize {
    let mut escaped = true; // the mark at the beginning is none that ends
    for (i, c) in text.char_indices() {
        if c == mark && !escaped {
            return i + 1;
        }
        escaped = (c == '\\' && !escaped) && i > 0;
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(text: &str) -> Vec<String> {
        imports(text).into_iter().map(|i| [i.within, i.path].concat().join("::")).collect()
    }

    #[test]
    fn lists_names_and_paths_in_the_code_are_read() {
        let text =
            "pub(crate) use crate::a::{self, b::{C, D as E}, *};\nlet x = super::f::<u8>(self::K);";
        let found =
            ["crate::a", "crate::a::b::C", "crate::a::b::D", "crate::a", "super::f", "self::K"];
        assert_eq!(paths(text), found);
        assert_eq!(
            paths("below::f(x::<u8>::g(), <T as crate::a::A>::h::i())"),
            ["below::f", "x", "crate::a::A"]
        );
        let names: Vec<_> = imports(text).into_iter().map(|i| (i.line, i.name)).collect();
        assert_eq!(names[0], (1, Some("a".to_owned())));
        assert_eq!(names[2], (1, Some("E".to_owned())));
        assert_eq!(names[5], (2, None));
    }

    #[test]
    fn comments_strings_and_characters_are_not_code() {
        for text in [
            "// use crate::a;",
            "//! [`A`](crate::a)",
            "/* use crate::a; */",
            "f(\"use crate::a; \\\" crate::b\")",
            "f(r#\"\" crate::a \"#)",
            "f(b\"crate::a\")",
        ] {
            assert!(paths(text).is_empty(), "{text}");
        }
        // A quotation mark as a character, and lifetimes, begin no string.
        assert_eq!(paths("f('\"', '\\'', crate::a)"), ["crate::a"]);
        assert_eq!(paths("fn f<'a>(x: &'a str, y: &'a crate::b::B) {}"), ["crate::b::B"]);
    }

    #[test]
    fn tests_are_left_out_and_nothing_else() {
        let text = "#[cfg(test)]\n#[allow(x)]\nmod tests { use crate::a; fn f() { g([1; 2]) } }\nuse crate::b;";
        assert_eq!(paths(text), ["crate::b"]);
        assert_eq!(paths("#[cfg(test)]\nuse crate::{a, b};\nuse crate::c;"), ["crate::c"]);
        assert_eq!(paths("#[cfg(test)] mod tests;\nuse crate::c;"), ["crate::c"]);
        assert_eq!(
            paths("#[cfg(test)] fn f(x: [u8; 2]) { crate::a() }\nuse crate::c;"),
            ["crate::c"]
        );
        assert_eq!(paths("#[cfg(not(test))]\nuse crate::a;"), ["crate::a"]);
        assert_eq!(paths("#[cfg(feature = \"test\")]\nuse crate::a;"), ["crate::a"]);
    }

    #[test]
    fn modules_inside_of_a_file_are_kept() {
        let text = "mod inner { fn f() { super::a() } }\nuse super::b;";
        assert_eq!(paths(text), ["inner::super::a", "super::b"]);
    }

    #[test]
    fn who_may_see_an_item_is_no_import() {
        let text = "pub(in crate::a) x: crate::b::B, pub(in super::super::c) fn f() { super::d() }";
        assert_eq!(paths(text), ["crate::b::B", "super::d"]);
    }
}
