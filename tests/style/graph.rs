//! The graph of modules: which module of the crate imports from which, with the line where it does.
//!
//! What counts as an edge:
//!
//! - Every `use` and every path in code that leads into another module, test code left out. A name taken from
//!   a folder's `mod.rs` leads to the module that the `mod.rs` re-exports it from, by name; a name that the
//!   `mod.rs` defines itself, or passes on with a glob, leads to the `mod.rs`.
//! - `mod child;` is none, and neither is a re-export by name of a folder's own child: so a `mod.rs` may be a
//!   facade. It becomes one as soon as the code of the `mod.rs` uses the name itself. A glob always is one.
//! - A path through the crate's root (`crate::Store`) leads to where `lib.rs` has it from.

use std::collections::BTreeMap;

use crate::paths::{Named, imports, inline, inline_modules, use_items};
use crate::source::{Source, attributes};

/// An import of one module from another, and the first place where it is written.
#[derive(Clone, Debug)]
pub(crate) struct Edge {
    pub(crate) from: String,
    pub(crate) to: String,
    /// The path as it was written.
    pub(crate) written: String,
    pub(crate) path: String,
    pub(crate) line: usize,
}

/// All modules by name, each with its imports outside of test code.
#[derive(Debug)]
pub(crate) struct Graph<'a> {
    modules: BTreeMap<String, Module<'a>>,
}

#[derive(Debug)]
struct Module<'a> {
    source: &'a Source,
    imports: Vec<Named>,
}

/// Re-exports lead from one to the next at most so often; a longer chain ends where it is.
const REEXPORTS_MAX: usize = 16;

impl<'a> Graph<'a> {
    pub(crate) fn new(sources: &'a [Source]) -> Self {
        let modules = sources.iter().filter_map(|source| {
            let imports = imports(source).into_iter().filter(|named| !source.is_test(named.index)).collect();
            Some((source.module()?, Module { source, imports }))
        });
        Self { modules: modules.collect() }
    }

    /// Every module but the library's root, with its source.
    pub(crate) fn modules(&self) -> impl Iterator<Item = (&str, &'a Source)> {
        let named = self.modules.iter().filter(|(name, _)| !name.is_empty());
        named.map(|(name, module)| (name.as_str(), module.source))
    }

    /// Every edge, also from a module to itself; `to` is empty where the crate's root defines the name.
    pub(crate) fn edges(&self) -> Vec<Edge> {
        self.modules().flat_map(|(name, _)| self.edges_of(name)).collect()
    }

    fn edges_of(&self, from: &str) -> Vec<Edge> {
        let module = &self.modules[from];
        let source = module.source;
        let uses = module.imports.iter().filter(|named| !self.is_facade(from, named)).cloned();
        let code = inline(source).into_iter().filter(|named| !source.is_test(named.index));
        let edge = |named: Named| {
            let to = self.target(from, &named)?;
            let written = named.segments.join("::");
            Some(Edge { from: from.to_owned(), to, written, path: source.path.clone(), line: named.line })
        };
        uses.chain(code).filter_map(edge).collect()
    }

    /// True for a re-export by name of a module's own child, whose name the module's code does not use.
    fn is_facade(&self, module: &str, named: &Named) -> bool {
        if !named.is_public || named.is_glob() || !self.is_own(module, named) {
            return false;
        }
        let source = self.modules[module].source;
        let items = [use_items(source), attributes(&source.code)].concat();
        let is_elsewhere = |index: &usize| items.iter().any(|range| range.contains(index));
        let is_member = |index: usize| index > 0 && source.code[index - 1].is(".");
        let mut code = (0..source.code.len()).filter(|index| !source.is_test(*index) && !is_elsewhere(index));
        !code.any(|index| source.code[index].is(&named.alias) && !is_member(index))
    }

    /// True if the path leads into a child of the module, or into a child's child.
    fn is_own(&self, module: &str, named: &Named) -> bool {
        let own = self.absolute(module, named).map(|path| self.split(&path).0);
        own.is_some_and(|to| to.strip_prefix(module).is_some_and(|rest| rest.starts_with("::")))
    }

    /// The module that a path leads to; none if it leads out of the crate or names a local item.
    fn target(&self, from: &str, named: &Named) -> Option<String> {
        let mut path = self.absolute(from, named)?;
        for _ in 0..REEXPORTS_MAX {
            let (module, name) = self.split(&path);
            let Some(next) = name.and_then(|name| self.reexported(&module, &name)) else {
                return Some(module);
            };
            path = next;
        }
        Some(self.split(&path).0)
    }

    /// Where a module has a name from that it only passes on: from a child, or, for a root, from anywhere.
    fn reexported(&self, module: &str, name: &str) -> Option<Vec<String>> {
        let mut imports = self.modules.get(module)?.imports.iter();
        let named = imports.find(|named| {
            named.alias == name && (module.is_empty() || named.is_public && self.is_own(module, named))
        })?;
        self.absolute(module, named)
    }

    /// The longest part of a path that is a module, and the name after it.
    fn split(&self, path: &[String]) -> (String, Option<String>) {
        let is_module = |length: &usize| self.modules.contains_key(&path[..*length].join("::"));
        let length = (1..=path.len()).rev().find(is_module).unwrap_or(0);
        (path[..length].join("::"), path.get(length).cloned())
    }

    /// The path from the crate's root; none if it is not one of this crate's.
    fn absolute(&self, module: &str, named: &Named) -> Option<Vec<String>> {
        let source = self.modules[module].source;
        let mut base: Vec<String> = split_name(module);
        base.extend(inline_modules(source, named.index));
        let mut segments = named.segments.as_slice();
        match segments.first()?.as_str() {
            "crate" => (base, segments) = (Vec::new(), &segments[1..]),
            "self" => segments = &segments[1..],
            "super" => {}
            first => return self.relative(module, base, first, segments),
        }
        while segments.first().is_some_and(|segment| segment == "super") {
            base.pop();
            segments = &segments[1..];
        }
        base.extend_from_slice(segments);
        Some(base)
    }

    /// A path whose first name was imported (then it is that path continued), or is a child module's.
    fn relative(
        &self,
        module: &str,
        base: Vec<String>,
        first: &str,
        segments: &[String],
    ) -> Option<Vec<String>> {
        let child = [base, segments.to_vec()].concat();
        let length = child.len() - segments.len() + 1;
        if self.modules.contains_key(&child[..length].join("::")) {
            return Some(child);
        }
        let mut imports = self.modules[module].imports.iter();
        let imported = imports.find(|named| named.alias == first && named.segments[0] != first)?;
        let mut path = self.absolute(module, imported)?;
        path.extend_from_slice(&segments[1..]);
        Some(path)
    }
}

/// The segments of a module's name; the roots have none.
fn split_name(module: &str) -> Vec<String> {
    let is_root = module.is_empty() || module == "main";
    if is_root { Vec::new() } else { module.split("::").map(str::to_owned).collect() }
}

mod tests {
    use super::*;

    /// The edges of a crate of these files, as "from -> to".
    fn edges(files: &[(&str, &str)]) -> Vec<String> {
        let sources: Vec<Source> = files.iter().map(|(path, text)| Source::new(path, text)).collect();
        let mut edges: Vec<String> =
            Graph::new(&sources).edges().iter().map(|edge| format!("{} -> {}", edge.from, edge.to)).collect();
        edges.dedup();
        edges
    }

    #[test]
    fn imports_and_paths_in_code_are_edges() {
        let lease = (
            "src/lease.rs",
            "use crate::{error::{Error}, codec};\nfn f() { codec::read(); crate::stamp::x(); }",
        );
        let others = [("src/error.rs", ""), ("src/codec.rs", ""), ("src/stamp.rs", "use std::fs;")];
        assert_eq!(
            edges(&[lease, others[0], others[1], others[2]]),
            ["lease -> error", "lease -> codec", "lease -> stamp"]
        );
    }

    #[test]
    fn facade_of_a_folder_leads_to_the_child() {
        let facade = ("src/table/mod.rs", "mod a;\nmod b;\npub(crate) use a::A;\npub use self::b::B;");
        let a = ("src/table/a.rs", "use super::B;");
        let b = ("src/table/b.rs", "use super::a::c;");
        let user = ("src/lease.rs", "use crate::table::A;");
        assert_eq!(
            edges(&[facade, a, b, user]),
            ["lease -> table::a", "table::a -> table::b", "table::b -> table::a"]
        );
    }

    #[test]
    fn facade_that_uses_the_name_is_an_edge() {
        let parent = ("src/table/mod.rs", "pub use a::A;\nstruct Table(A);");
        assert_eq!(
            edges(&[parent, ("src/table/a.rs", "use super::Table;")]),
            ["table -> table::a", "table::a -> table"]
        );
        let glob = ("src/table/mod.rs", "pub use a::*;");
        assert_eq!(edges(&[glob, ("src/table/a.rs", "")]), ["table -> table::a"]);
    }

    #[test]
    fn facade_named_like_a_derive_is_no_edge() {
        let parent = ("src/table/mod.rs", "pub use a::Hash;\n#[derive(Hash)]\nstruct Table;");
        assert_eq!(edges(&[parent, ("src/table/a.rs", "use super::Table;")]), ["table::a -> table"]);
    }

    #[test]
    fn root_is_looked_through() {
        let files = [("src/lib.rs", "pub use store::Store;\npub const N: u8 = 1;"), ("src/store/mod.rs", "")];
        let bloom = ("src/bloom.rs", "use crate::Store;\nfn f() { crate::N }");
        assert_eq!(edges(&[files[0], files[1], bloom]), ["bloom -> store", "bloom -> "]);
    }

    #[test]
    fn test_code_makes_no_edge() {
        let text = "#[cfg(test)]\nmod tests { use super::*; use crate::b::B; }";
        assert!(
            edges(&[("src/a.rs", text), ("src/b.rs", ""), ("src/b/tests.rs", "use crate::a;")]).is_empty()
        );
    }

    #[test]
    fn super_in_an_inline_module_is_the_file() {
        let text = "mod inner { use super::super::b::B; use super::X; }";
        assert_eq!(edges(&[("src/a.rs", text), ("src/b.rs", "")]), ["a -> b", "a -> a"]);
    }
}
