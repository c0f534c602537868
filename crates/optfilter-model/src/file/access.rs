//! A model file as keys and values: single ones of them, and errors that point at them.

use super::Equation;
use super::tree::{self, Entry, Kind, Place, Value};
use crate::compile::{RESERVED, Scope};
use crate::diagnostic::{Diagnostic, Source};
use crate::expr::{self, Graph, SyntaxError};

/// A model file that is being read.
pub(super) struct Reader {
    pub(super) sources: Vec<Source>,
    pub(super) entries: Vec<Entry>,
    /// Parameters read so far, for constant expressions.
    pub(super) parameters: Vec<(String, f64)>,
}

impl Reader {
    pub(super) fn new(source: Source) -> Result<Self, Diagnostic> {
        let sources = vec![source];
        let entries = tree::parse(&sources, 0)?;
        Ok(Self { sources, entries, parameters: Vec::new() })
    }

    /// An error at a place.
    pub(super) fn at(&self, place: &Place, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(&self.sources[place.source], place.span.clone(), message)
    }

    /// An error about the file as a whole: shown at its end, where the missing part would go.
    pub(super) fn missing(&self, message: impl Into<String>) -> Diagnostic {
        let end = self.sources[0].text.trim_end().len();
        Diagnostic::new(&self.sources[0], end..end, message)
    }

    pub(super) fn unknown(&self, entry: &Entry, known: &[String], what: &str) -> Diagnostic {
        let message = format!("`{}` is not among the {what}", entry.key);
        self.at(&entry.key_at, message).suggest(&entry.key, known.iter().map(String::as_str))
    }

    pub(super) fn get(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|e| e.key == key)
    }

    pub(super) fn table(&self, key: &str) -> Result<Option<&[Entry]>, Diagnostic> {
        match self.get(key) {
            None => Ok(None),
            Some(Entry { value: Value { kind: Kind::Table(entries), .. }, .. }) => {
                Ok(Some(entries))
            }
            Some(entry) => {
                let message = format!("[{key}] must be a table, not {}", entry.value.describe());
                Err(self.at(&entry.value.at, message))
            }
        }
    }

    pub(super) fn check_keys(
        &self,
        entries: &[Entry],
        known: &[&str],
        table: &str,
    ) -> Result<(), Diagnostic> {
        match entries.iter().find(|e| !known.contains(&e.key.as_str())) {
            None => Ok(()),
            Some(entry) => {
                let message = format!("[{table}] has no key `{}`", entry.key);
                let error = self.at(&entry.key_at, message);
                let suggested = error.clone().suggest(&entry.key, known.iter().copied());
                Err(match suggested.help {
                    Some(_) => suggested,
                    None => error.help(format!("there are {}", known.join(", "))),
                })
            }
        }
    }

    pub(super) fn text<'a>(&self, value: &'a Value) -> Result<&'a str, Diagnostic> {
        match &value.kind {
            Kind::Text(text, _) => Ok(text),
            _ => {
                let message =
                    format!("a text in quotes is expected here, not {}", value.describe());
                Err(self.at(&value.at, message))
            }
        }
    }

    pub(super) fn flag(&self, value: &Value) -> Result<bool, Diagnostic> {
        match value.kind {
            Kind::Flag(b) => Ok(b),
            _ => Err(self.at(&value.at, "true or false is expected here")),
        }
    }

    /// A list of distinct names without indices.
    pub(super) fn names(&self, key: &str) -> Result<Vec<String>, Diagnostic> {
        let names = self.shaped_names(key)?.into_iter().map(|(name, shape, place)| {
            if shape.is_empty() {
                return Ok(name);
            }
            Err(self.at(&place, format!("`{name}` has indices; only states and observations may")))
        });
        names.collect()
    }

    pub(super) fn check_name(&self, name: &str, place: &Place) -> Result<(), Diagnostic> {
        let mut letters = name.chars();
        let good = letters.next().is_some_and(|c| c.is_alphabetic() || c == '_')
            && letters.all(|c| c.is_alphanumeric() || c == '_');
        if !good {
            let message = format!("`{name}` cannot be a name");
            let help = "a name is a letter followed by letters, digits and _";
            return Err(self.at(place, message).help(help));
        }
        let function = expr::Function::TABLE.iter().any(|row| row.0 == name);
        if RESERVED.contains(&name) || function || ["and", "or", "not"].contains(&name) {
            let message = format!("`{name}` already has a meaning in expressions");
            return Err(self.at(place, message).help("choose another name"));
        }
        Ok(())
    }

    /// Turns an error inside an expression into one inside the file.
    pub(super) fn syntax(&self, value: &Value, error: SyntaxError) -> Diagnostic {
        let place = match &value.kind {
            Kind::Text(_, Some(start)) => Place {
                source: value.at.source,
                span: start + error.span.start..start + error.span.end,
            },
            _ => value.at.clone(),
        };
        let diagnostic = self.at(&place, error.message);
        match error.help {
            Some(help) => diagnostic.help(help),
            None => diagnostic,
        }
    }

    pub(super) fn equation(&self, value: &Value) -> Result<Equation, Diagnostic> {
        let (text, parsed) = match &value.kind {
            Kind::Number(v) => (v.to_string(), expr::parse(&v.to_string())),
            _ => (self.text(value)?.to_owned(), expr::parse(self.text(value)?)),
        };
        let ast = parsed.map_err(|e| self.syntax(value, e))?;
        Ok(Equation { text, ast, over: Vec::new() })
    }

    /// The value of a constant expression.
    pub(super) fn constant(&self, value: &Value) -> Result<f64, Diagnostic> {
        let equation = self.equation(value)?;
        self.value_of(&equation, value)
    }

    /// The same of one that was read.
    pub(super) fn value_of(&self, equation: &Equation, value: &Value) -> Result<f64, Diagnostic> {
        let mut graph = Graph::new();
        let scope = Scope::constants(&self.parameters);
        let mut names = scope.within(&mut graph, &[]);
        let id = graph.lower(&equation.ast, &mut names).map_err(|e| self.syntax(value, e))?;
        graph.value(id).ok_or_else(|| self.at(&value.at, "this must be a constant"))
    }

    pub(super) fn choice(
        &self,
        value: &Value,
        known: &[&str],
        what: &str,
    ) -> Result<String, Diagnostic> {
        let text = self.text(value)?;
        if known.contains(&text) {
            return Ok(text.to_owned());
        }
        let error = self.at(&value.at, format!("there is no {what} `{text}`"));
        let suggested = error.clone().suggest(text, known.iter().copied());
        Err(match suggested.help {
            Some(_) => suggested,
            None => error.help(format!("there are {}", known.join(", "))),
        })
    }
}

impl crate::compile::Named for Entry {
    fn name(&self) -> &str {
        &self.key
    }
}
