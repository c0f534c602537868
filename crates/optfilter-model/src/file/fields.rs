//! Fields of a model file: names with indices, their sizes and what lies beyond their edges.

use super::Equation;
use super::access::Reader;
use super::tree::{Entry, Kind, MAX_NAMES, Place, Value};
use crate::compile::count;
use crate::diagnostic::Diagnostic;
use crate::expr::{Edges, Field};

/// The most numbers that the fields of a model may have.
const MAX_NUMBERS: usize = 1 << 24;

/// A name and what stands in brackets behind it: `T[i, j]` is `T` and `i`, `j`.
pub(super) fn split_name(text: &str) -> (&str, Vec<&str>) {
    match text.trim_end().strip_suffix(']').and_then(|t| t.split_once('[')) {
        Some((name, inner)) => (name.trim(), inner.split(',').map(str::trim).collect()),
        None => (text, Vec::new()),
    }
}

/// The names of all numbers of a field.
pub(super) fn element_names(name: &str, shape: &[usize]) -> Vec<String> {
    match *shape {
        [] => vec![name.to_owned()],
        [n] => (0..n).map(|i| format!("{name}[{i}]")).collect(),
        [m, n, ..] => {
            (0..m).flat_map(|i| (0..n).map(move |j| format!("{name}[{i},{j}]"))).collect()
        }
    }
}

/// The places among `names` that a key means: that name, or all numbers of the field of that name.
pub(super) fn places(names: &[String], key: &str) -> Vec<usize> {
    if let Some(i) = names.iter().position(|n| n == key) {
        return vec![i];
    }
    let of_field = |n: &String| n.strip_prefix(key).is_some_and(|rest| rest.starts_with('['));
    (0..names.len()).filter(|&i| of_field(&names[i])).collect()
}

impl Reader {
    /// A list of distinct names, each with the sizes of its indices and its place.
    #[allow(clippy::type_complexity)]
    pub(super) fn shaped_names(
        &self,
        key: &str,
    ) -> Result<Vec<(String, Vec<usize>, Place)>, Diagnostic> {
        let Some(entry) = self.get(key) else { return Ok(Vec::new()) };
        let Kind::List(items) = &entry.value.kind else {
            let message = format!("`{key}` must be a list of names, as in {key} = [\"a\", \"b\"]");
            return Err(self.at(&entry.value.at, message));
        };
        if items.len() > MAX_NAMES {
            let message =
                format!("`{key}` has {} names; at most {MAX_NAMES} are allowed", items.len());
            return Err(self.at(&entry.value.at, message));
        }
        let mut names: Vec<(String, Vec<usize>, Place)> = Vec::new();
        let mut numbers = 0usize;
        for item in items {
            let (name, sizes) = split_name(self.text(item)?);
            self.check_name(name, &item.at)?;
            if names.iter().any(|n| n.0 == name) {
                return Err(self.at(&item.at, format!("`{name}` is listed twice")));
            }
            let shape: Result<Vec<usize>, Diagnostic> =
                sizes.iter().map(|size| self.size(size, &item.at)).collect();
            let shape = self.check_shape(shape?, &item.at)?;
            numbers += shape.iter().product::<usize>();
            if numbers > MAX_NUMBERS {
                let message = format!("`{key}` has more than {MAX_NUMBERS} numbers");
                return Err(self.at(&item.at, message));
            }
            names.push((name.to_owned(), shape, item.at.clone()));
        }
        Ok(names)
    }

    /// A size: a whole number, or a parameter that is one.
    fn size(&self, text: &str, place: &Place) -> Result<usize, Diagnostic> {
        let parameter = self.parameters.iter().find(|p| p.0 == text).map(|p| p.1);
        let whole = |v: &f64| *v >= 1.0 && v.fract() == 0.0 && *v <= MAX_NUMBERS as f64;
        let size = text.parse().ok().or(parameter).filter(whole);
        size.map(|v: f64| v as usize).ok_or_else(|| {
            let message = format!("`{text}` is not a size");
            self.at(place, message).help("a size is a whole number of at least 1, as in \"x[40]\"")
        })
    }

    fn check_shape(&self, shape: Vec<usize>, place: &Place) -> Result<Vec<usize>, Diagnostic> {
        if shape.len() > 2 {
            return Err(self.at(place, "a field has one index or two"));
        }
        let numbers = shape.iter().try_fold(1usize, |p, &n| p.checked_mul(n));
        match numbers.filter(|n| *n <= MAX_NUMBERS) {
            Some(_) => Ok(shape),
            None => Err(self.at(place, format!("a field has at most {MAX_NUMBERS} numbers"))),
        }
    }

    /// The states as fields, with what `[fields]` says of their edges.
    pub(super) fn read_fields(
        &self,
        states: &[(String, Vec<usize>, Place)],
    ) -> Result<Vec<Field>, Diagnostic> {
        let mut first = 0;
        let mut fields: Vec<Field> = Vec::new();
        for (name, shape, _) in states {
            let field =
                Field { name: name.clone(), shape: shape.clone(), first, edges: Edges::Closed };
            first += shape.iter().product::<usize>();
            fields.push(field);
        }
        for entry in self.table("fields")?.unwrap_or_default() {
            let names: Vec<String> = fields.iter().map(|f| f.name.clone()).collect();
            let Some(field) = fields.iter_mut().find(|f| f.name == entry.key) else {
                return Err(self.unknown(entry, &names, "states"));
            };
            if field.shape.is_empty() {
                let message = format!("`{}` has no index", entry.key);
                let help = format!("list it with its size: states = [\"{}[40]\"]", entry.key);
                return Err(self.at(&entry.key_at, message).help(help));
            }
            field.edges = self.read_edges(entry)?;
        }
        Ok(fields)
    }

    fn read_edges(&self, entry: &Entry) -> Result<Edges, Diagnostic> {
        let Kind::Table(settings) = &entry.value.kind else {
            let message = "what lies beyond the edges is a table";
            return Err(self.at(&entry.value.at, message).help("{ edges = \"periodic\" }"));
        };
        self.check_keys(settings, &["edges", "value"], &format!("fields.{}", entry.key))?;
        let find = |key: &str| settings.iter().find(|e| e.key == key);
        let Some(edges) = find("edges") else {
            let help = "add edges = \"periodic\" or edges = \"fixed\"";
            return Err(self.at(&entry.key_at, "the edges are not given").help(help));
        };
        let kind = self.choice(&edges.value, &["periodic", "fixed"], "kind of edges")?;
        match (kind.as_str(), find("value")) {
            ("fixed", Some(value)) => Ok(Edges::Fixed(self.finite(&value.value)?)),
            ("fixed", None) => {
                let message = "fixed edges have a value";
                Err(self.at(&edges.value.at, message).help("add value = 0"))
            }
            (_, Some(value)) => {
                Err(self.at(&value.key_at, "periodic edges have no value of their own"))
            }
            _ => Ok(Edges::Periodic),
        }
    }

    /// An equation over the indices that its key names, of these sizes.
    pub(super) fn equation_over(
        &self,
        (name, entry): (&str, &Entry),
        value: &Value,
        indices: &[&str],
        shape: &[usize],
    ) -> Result<Equation, Diagnostic> {
        if indices.len() != shape.len() {
            let message = format!("`{name}` has {}, not {}", count(shape.len()), indices.len());
            return Err(self.at(&entry.key_at, message));
        }
        for (k, index) in indices.iter().enumerate() {
            self.check_name(index, &entry.key_at)?;
            if indices[..k].contains(index) || self.parameters.iter().any(|p| p.0 == *index) {
                let message = format!("`{index}` names two things");
                return Err(self.at(&entry.key_at, message));
            }
        }
        let mut equation = self.equation(value)?;
        equation.over =
            indices.iter().map(|i| (*i).to_owned()).zip(shape.iter().copied()).collect();
        Ok(equation)
    }

    /// The names of observations, those over indices one by one.
    pub(super) fn observation_names(&self, names: &[String]) -> Result<Vec<String>, Diagnostic> {
        let entries = self.table("observation")?.unwrap_or_default();
        let mut out = Vec::new();
        for name in names {
            let shape = match entries.iter().find(|e| split_name(&e.key).0 == name) {
                Some(entry) => self.observed_shape(entry, &split_name(&entry.key).1)?,
                None => Vec::new(),
            };
            out.extend(element_names(name, &shape));
        }
        Ok(out)
    }

    /// The sizes that an observation over indices states.
    pub(super) fn observed_shape(
        &self,
        entry: &Entry,
        indices: &[&str],
    ) -> Result<Vec<usize>, Diagnostic> {
        let size = match &entry.value.kind {
            Kind::Table(settings) => settings.iter().find(|e| e.key == "size"),
            _ => None,
        };
        let Some(size) = size else {
            if indices.is_empty() {
                return Ok(Vec::new());
            }
            let message = format!("`{}` has no size", entry.key);
            let help = "write { equation = \"...\", size = 20 }";
            return Err(self.at(&entry.key_at, message).help(help));
        };
        let shape: Result<Vec<u32>, Diagnostic> = match &size.value.kind {
            Kind::List(items) => items.iter().map(|v| self.count(v)).collect(),
            _ => self.count(&size.value).map(|n| vec![n]),
        };
        let shape: Vec<usize> = shape?.into_iter().map(|n| n as usize).collect();
        if shape.len() != indices.len() {
            let message = format!("`{}` has {}", entry.key, count(indices.len()));
            let help = "one size for each index: size = 20, or size = [4, 5]";
            return Err(self.at(&size.value.at, message).help(help));
        }
        self.check_shape(shape, &size.value.at)
    }
}
