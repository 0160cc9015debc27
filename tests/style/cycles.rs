//! No module imports itself by a detour: neither among all modules nor among the folders of `src`.
//!
//! What counts as an import is told in `graph`. A folder is checked once as its files, and once as a
//! whole: two folders may not lean on each other even where their files do not.

use std::collections::{BTreeMap, VecDeque};

use crate::graph::{Edge, Graph};
use crate::layers::folder;
use crate::source::{Source, Violation};

/// One violation for each knot of modules, with the places of all imports along one of its shortest cycles.
pub(crate) fn violations(sources: &[Source]) -> Vec<Violation> {
    let files: Vec<Edge> =
        Graph::new(sources).edges().into_iter().filter(|edge| !edge.to.is_empty()).collect();
    let folders: Vec<Edge> = files.iter().cloned().map(collapsed).collect();
    let mut found: Vec<Violation> = cycles(&files).iter().map(|cycle| violation(cycle)).collect();
    found.extend(cycles(&folders).iter().map(|cycle| violation(cycle)));
    found.dedup_by(|left, right| left.text == right.text);
    found
}

fn collapsed(edge: Edge) -> Edge {
    Edge { from: folder(&edge.from).to_owned(), to: folder(&edge.to).to_owned(), ..edge }
}

fn violation(cycle: &[Edge]) -> Violation {
    let steps: Vec<String> = cycle
        .iter()
        .map(|edge| format!("{} -> {} ({}:{})", edge.from, edge.to, edge.path, edge.line))
        .collect();
    let (path, line) = (cycle[0].path.clone(), cycle[0].line);
    Violation { path, line, text: format!("cycle of modules: {}", steps.join(", ")) }
}

/// A shortest cycle through each module that is on one, leaving out modules of a cycle already found.
fn cycles(edges: &[Edge]) -> Vec<Vec<Edge>> {
    let mut from: BTreeMap<&str, Vec<&Edge>> = BTreeMap::new();
    for edge in edges.iter().filter(|edge| edge.from != edge.to) {
        from.entry(&edge.from).or_default().push(edge);
    }
    let mut found: Vec<Vec<Edge>> = Vec::new();
    for &start in from.keys() {
        if !found.iter().flatten().any(|edge| edge.from == start) {
            found.extend(shortest(&from, start));
        }
    }
    found
}

/// Breadth first from `start` back to it.
fn shortest(from: &BTreeMap<&str, Vec<&Edge>>, start: &str) -> Option<Vec<Edge>> {
    let mut reached_by: BTreeMap<&str, &Edge> = BTreeMap::new();
    let mut queue = VecDeque::from([start]);
    while let Some(module) = queue.pop_front() {
        for &edge in from.get(module).into_iter().flatten() {
            if !reached_by.contains_key(edge.to.as_str()) {
                reached_by.insert(&edge.to, edge);
                queue.push_back(&edge.to);
            }
        }
    }
    let mut cycle = vec![(*reached_by.get(start)?).clone()];
    while cycle[0].from != start {
        let before = reached_by[cycle[0].from.as_str()].clone();
        cycle.insert(0, before);
    }
    Some(cycle)
}

mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let sources: Vec<Source> = files.iter().map(|(path, text)| Source::new(path, text)).collect();
        violations(&sources).into_iter().map(|found| found.text).collect()
    }

    #[test]
    fn cycle_inside_a_layer_is_reported_with_its_path() {
        let files = [
            ("src/bloom.rs", "use crate::stamp::S;"),
            ("src/lease.rs", "use crate::bloom::B;"),
            ("src/stamp.rs", "\nuse crate::lease::L;"),
            ("src/window.rs", "use crate::stamp::S;"),
        ];
        let steps = ["bloom -> stamp (src/bloom.rs:1)", "stamp -> lease (src/stamp.rs:2)"];
        let cycle = format!("cycle of modules: {}, lease -> bloom (src/lease.rs:1)", steps.join(", "));
        assert_eq!(found(&files), [cycle]);
        assert!(found(&files[..2]).is_empty());
    }

    #[test]
    fn child_that_uses_its_parent_which_uses_it_is_reported() {
        let parent = ("src/table/mod.rs", "mod memory;\nuse memory::Memory;\npub struct Table(Memory);");
        assert_eq!(found(&[parent, ("src/table/memory.rs", "use super::Table;")]).len(), 1);
        let facade =
            ("src/table/mod.rs", "mod memory;\nmod line;\npub use memory::Memory;\npub use line::Line;");
        let memory = ("src/table/memory.rs", "use super::Line;");
        assert!(found(&[facade, memory, ("src/table/line.rs", "")]).is_empty());
        assert_eq!(found(&[facade, memory, ("src/table/line.rs", "use super::Memory;")]).len(), 1);
    }

    #[test]
    fn folders_that_lean_on_each_other_are_reported() {
        let files = [
            ("src/table/a.rs", "use crate::bloom::x::X;"),
            ("src/table/b.rs", ""),
            ("src/bloom/x.rs", ""),
            ("src/bloom/y.rs", "use crate::table::b::B;"),
        ];
        assert_eq!(found(&files).len(), 1);
        assert!(found(&files[..3]).is_empty());
    }
}
