//! Do files import each other in a circle?
//!
//! Of every `crates/*/src` the paths that begin with `crate::`, `super::`, `self::` or the name of a child are read, in `use` lines
//! and in the code, and followed to the file that has what they name: through modules, and through what a module imports from
//! elsewhere. A file that can be reached from itself in this way cannot be read, tested or moved alone. A module may know what it is
//! made of; what a child needs of its module belongs into a file below both. Tests may know everything: they do not count.
//!
//! Not seen are names brought in by `*` or by macros, and methods that stand in another file than their type.

use crate::imports::{Import, imports};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fs;
use std::path::Path;

/// Steps from a name to what it stands for: more than any has, unless names stand for each other.
const MAX_STEPS: usize = 32;

pub(crate) fn check() -> Result<(), String> {
    println!("\n--- circles between files");
    let mut graph = Graph::default();
    let mut files = 0;
    for folder in sorted(Path::new("crates"))? {
        let source = folder.join("src");
        if source.is_dir() {
            let mut texts = Vec::new();
            collect(&source, &mut texts)?;
            files += texts.len();
            graph.extend(imports_between(&texts));
        }
    }
    judge(graph)?;
    println!("{files} files, no circles");
    Ok(())
}

/// Where a file imports another one, and on which line first.
type Graph = BTreeMap<String, BTreeMap<String, usize>>;

/// Every circle is an error.
fn judge(mut graph: Graph) -> Result<(), String> {
    let mut wrong = Vec::new();
    while let Some(circle) = shortest_circle(&graph) {
        let mut lines = Vec::new();
        for (i, from) in circle.iter().enumerate() {
            let to = &circle[(i + 1) % circle.len()];
            let line = graph.get_mut(from).and_then(|to_all| to_all.remove(to));
            lines.push(format!("{from}:{} -> {to}", line.unwrap_or(0)));
        }
        wrong.push(format!("  {}", lines.join("\n    ")));
    }
    if wrong.is_empty() {
        return Ok(());
    }
    Err(format!(
        "files that import each other (move what both need below both):\n{}",
        wrong.join("\n")
    ))
}

/// The files of the shortest circle.
fn shortest_circle(graph: &Graph) -> Option<Vec<String>> {
    let edges = graph.iter().flat_map(|(from, all)| all.keys().map(move |to| (from, to)));
    edges.filter_map(|(from, to)| shortest_way(graph, to, from)).min_by_key(Vec::len)
}

/// The files on the shortest way from one to another, both included.
fn shortest_way(graph: &Graph, from: &str, to: &str) -> Option<Vec<String>> {
    let mut before: HashMap<&str, &str> = HashMap::new();
    let mut waiting = VecDeque::from([from]);
    while let Some(at) = waiting.pop_front() {
        if at == to {
            let mut way = vec![at.to_owned()];
            while let Some(&last) = way.last().and_then(|last| before.get(last.as_str())) {
                way.push(last.to_owned());
            }
            way.reverse();
            return Some(way);
        }
        for next in graph.get(at).into_iter().flat_map(BTreeMap::keys) {
            if next != from && !before.contains_key(next.as_str()) {
                before.insert(next, at);
                waiting.push_back(next);
            }
        }
    }
    None
}

/// A module by the names that lead to it from the root of its crate.
type Module = Vec<String>;

/// The imports between the files of a crate, given with their paths and texts.
fn imports_between(files: &[(String, String)]) -> Graph {
    let read: BTreeMap<Module, (&String, Vec<Import>)> = files
        .iter()
        .filter_map(|(path, text)| Some((module_of(path)?, (path, imports(text)))))
        .collect();
    let modules: BTreeSet<Module> = read.keys().cloned().collect();
    // What the names that a module imports stand for, seen from the root.
    let mut names: HashMap<(Module, &str), Module> = HashMap::new();
    for (module, (_, imports)) in &read {
        for import in imports.iter().filter(|i| i.within.is_empty()) {
            if let (Some(name), Some(path)) = (&import.name, from_root(module, import, &modules)) {
                names.insert((module.clone(), name.as_str()), path);
            }
        }
    }
    let mut graph = Graph::new();
    for (module, (file, imports)) in &read {
        for import in imports {
            let Some(path) = from_root(module, import, &modules) else { continue };
            let Some(found) = owner(path, &modules, &names) else { continue };
            if found == *module {
                continue;
            }
            if let Some((to, _)) = read.get(&found) {
                let from = graph.entry((*file).clone()).or_default();
                from.entry((*to).clone()).or_insert(import.line);
            }
        }
    }
    graph
}

/// The module of a file, unless it is one of tests.
fn module_of(path: &str) -> Option<Module> {
    let inside = path.rsplit_once("/src/").map_or(path, |(_, inside)| inside);
    let mut module: Module = inside.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    if module.last().is_some_and(|last| last == "mod") || ["lib.rs", "main.rs"].contains(&inside) {
        module.pop();
    }
    module.last().is_none_or(|last| last != "tests").then_some(module)
}

/// A path as seen from the root of the crate; none if it leads to another crate.
fn from_root(module: &Module, import: &Import, modules: &BTreeSet<Module>) -> Option<Module> {
    let mut path = [module.as_slice(), &import.within].concat();
    for (i, name) in import.path.iter().enumerate() {
        match name.as_str() {
            "crate" => path.clear(),
            "self" => {}
            "super" => drop(path.pop()),
            _ => path.push(name.clone()),
        }
        // A first name that is no word of the language is a child or another crate.
        if i == 0
            && !["crate", "self", "super"].contains(&name.as_str())
            && !modules.contains(&path)
        {
            return None;
        }
    }
    Some(path)
}

/// The module that has what a path names.
fn owner(
    mut path: Module,
    modules: &BTreeSet<Module>,
    names: &HashMap<(Module, &str), Module>,
) -> Option<Module> {
    for _ in 0..MAX_STEPS {
        // The longest part that is a module: its next name is its own, or one that it imports.
        let depth = (0..=path.len()).rev().find(|&n| modules.contains(&path[..n]))?;
        let (module, rest) = path.split_at(depth);
        let meant = rest.first().and_then(|name| names.get(&(module.to_vec(), name.as_str())));
        match meant {
            Some(meant) if *meant != path => path = [meant.as_slice(), &rest[1..]].concat(),
            _ => return Some(module.to_vec()),
        }
    }
    None
}

/// Every Rust file below a folder with its text.
fn collect(folder: &Path, out: &mut Vec<(String, String)>) -> Result<(), String> {
    for path in sorted(folder)? {
        if path.is_dir() {
            collect(&path, out)?;
        } else if path.extension().is_some_and(|e| e == "rs") {
            let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
            out.push((path.display().to_string().replace('\\', "/"), text));
        }
    }
    Ok(())
}

fn sorted(folder: &Path) -> Result<Vec<std::path::PathBuf>, String> {
    let wrong = |e: std::io::Error| format!("{}: {e}", folder.display());
    let entries = fs::read_dir(folder).map_err(wrong)?;
    let mut paths = Vec::new();
    for entry in entries {
        paths.push(entry.map_err(wrong)?.path());
    }
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(files: &[(&str, &str)]) -> Graph {
        let own = |(path, text): &(&str, &str)| (format!("a/src/{path}"), (*text).to_owned());
        imports_between(&files.iter().map(own).collect::<Vec<_>>())
    }

    #[test]
    fn files_that_import_each_other_are_found_with_their_lines() {
        let files = graph(&[("x.rs", "\nuse crate::y::Y;"), ("y.rs", "fn f() { super::x::g() }")]);
        let error = judge(files).unwrap_err();
        assert!(error.contains("a/src/x.rs:2 -> a/src/y.rs"), "{error}");
        assert!(error.contains("a/src/y.rs:1 -> a/src/x.rs"), "{error}");
    }

    #[test]
    fn a_longer_way_is_a_circle_too() {
        let mut files = vec![
            ("x.rs", "use crate::{y, z::{self, Z as Other}};"),
            ("y.rs", "use super::deep::below::Q;"),
            ("deep/below.rs", "use super::super::z;"),
            ("deep/mod.rs", "mod below;"),
            ("z.rs", "use std::fmt;"),
        ];
        assert_eq!(judge(graph(&files)), Ok(()));
        files[4].1 = "use crate::y::Y;";
        let error = judge(graph(&files)).unwrap_err();
        assert!(error.contains("a/src/deep/below.rs:1 -> a/src/z.rs"), "{error}");
        assert!(!error.contains("x.rs"), "{error}");
    }

    #[test]
    fn what_a_module_hands_on_is_followed_to_its_file() {
        let error = judge(graph(&[
            ("lib.rs", "mod x; mod deep; pub use deep::Q;"),
            ("x.rs", "use crate::Q as P;"),
            ("deep/mod.rs", "mod below; pub(crate) use below::Q;"),
            ("deep/below.rs", "use crate::x::X;"),
        ]));
        assert!(error.unwrap_err().contains("a/src/x.rs:1 -> a/src/deep/below.rs"));
    }

    #[test]
    fn a_module_and_its_child_are_a_circle() {
        let mut files = [
            ("lib.rs", "mod x; use x::X;"),
            ("x/mod.rs", "mod below; mod leaf; pub use below::B; pub use leaf::X;"),
            ("x/below.rs", "use super::X;"),
            ("x/leaf.rs", "pub(in crate::x) struct X;"),
        ];
        // What the module only hands on is not its own.
        assert_eq!(judge(graph(&files)), Ok(()));
        files[1].1 = "mod below; pub use below::B; pub struct X;";
        let error = judge(graph(&files)).unwrap_err();
        assert!(error.contains("a/src/x/mod.rs:1 -> a/src/x/below.rs"), "{error}");
        assert!(error.contains("a/src/x/below.rs:1 -> a/src/x/mod.rs"), "{error}");
        assert!(!error.contains("lib.rs"), "{error}");
        // The same beside a folder, and further up.
        let error = judge(graph(&[
            ("x.rs", "mod below; fn f() { below::deep::g() }"),
            ("x/below.rs", "pub mod deep;"),
            ("x/below/deep.rs", "use crate::x::Y;"),
        ]));
        assert!(error.unwrap_err().contains("a/src/x/below/deep.rs:1 -> a/src/x.rs"));
    }

    #[test]
    fn tests_do_not_count() {
        let files = graph(&[
            ("x.rs", "mod below; use self::below::B;"),
            ("x/below.rs", "use crate::z::C; #[cfg(test)] mod t { use crate::x::X; }"),
            ("x/tests.rs", "use super::X; use crate::z::A;"),
            ("z.rs", "#[cfg(test)] mod tests { use crate::x::below::C; }"),
        ]);
        assert_eq!(judge(files), Ok(()));
    }

    #[test]
    fn names_that_stand_for_each_other_lead_nowhere() {
        let files = graph(&[("x.rs", "use crate::y::A;"), ("y.rs", "use crate::x::A;")]);
        assert_eq!(judge(files), Ok(()));
    }
}
