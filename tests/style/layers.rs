//! Imports go down only: the table of layers, and the rule that every module stands in one.
//!
//! `lib.rs` and test code are exempt. Modules of one layer may import each other as long as no cycle
//! comes of it (see `cycles`).

use crate::graph::{Edge, Graph};
use crate::source::{Source, Violation};

/// Modules of the same height. A folder is one module here, with all that is in it.
struct Layer {
    name: &'static str,
    modules: &'static [&'static str],
}

/// From the top down.
const LAYERS: [Layer; 6] = [
    Layer { name: CLI, modules: &["main", "cli"] },
    Layer { name: "pipeline", modules: &["pipeline"] },
    Layer { name: "store", modules: &["store"] },
    Layer { name: "files", modules: &["storage", "wal", "generation", "manifest"] },
    Layer {
        name: "structures",
        modules: &["table", "bloom", "floor", "stamp", "lease", "window", "capacity"],
    },
    Layer {
        name: "words",
        modules: &[
            "error",
            "event",
            "fingerprint",
            "clock",
            "options",
            "limits",
            "stats",
            "sync",
            "codec",
            "verdict",
            "partition",
        ],
    },
];

/// The layer that stands on the public API alone.
const CLI: &str = "cli";

/// The module that imports nothing of ours, so that everything can import it.
const LOWEST: &str = "error";

/// Every import that goes up or through the crate's root, and every module that is in no layer.
pub(crate) fn violations(sources: &[Source]) -> Vec<Violation> {
    let graph = Graph::new(sources);
    let homeless = graph.modules().filter(|(module, _)| height(module).is_none());
    let mut found: Vec<Violation> = homeless
        .map(|(module, source)| source.violation(1, format!("module `{module}` is in no layer of the table")))
        .collect();
    for edge in graph.edges() {
        found.extend(breach(&edge).map(|text| Violation { path: edge.path, line: edge.line, text }));
    }
    found
}

/// How high the layer of a module is; the lowest is 0.
fn height(module: &str) -> Option<usize> {
    LAYERS.iter().rev().position(|layer| layer.modules.contains(&folder(module)))
}

fn layer(height: usize) -> &'static str {
    LAYERS[LAYERS.len() - 1 - height].name
}

/// The first segment of a module's name.
pub(crate) fn folder(module: &str) -> &str {
    module.split("::").next().unwrap_or(module)
}

/// What is wrong with an import, if anything is.
fn breach(edge: &Edge) -> Option<String> {
    let Edge { from, to, written, .. } = edge;
    if to.is_empty() {
        let is_explicit = ["crate", "super", "self"].contains(&folder(written));
        let text = || format!("`{written}` leads to no module: import a name from where it is defined");
        return is_explicit.then(text);
    }
    if folder(from) == LOWEST && folder(to) != LOWEST {
        return Some(format!("`{LOWEST}` imports nothing of ours, but here `{to}`"));
    }
    let (above, below) = (height(from)?, height(to)?);
    if layer(above) == CLI && layer(below) != CLI {
        return Some(format!("`{from}` is to use the public API, not `{to}`"));
    }
    (below > above).then(|| {
        let (own, other) = (layer(above), layer(below));
        format!("`{from}` ({own}) imports `{to}` ({other}): imports go down only")
    })
}

mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let sources: Vec<Source> = files.iter().map(|(path, text)| Source::new(path, text)).collect();
        violations(&sources)
            .iter()
            .map(|found| format!("{}:{}: {}", found.path, found.line, found.text))
            .collect()
    }

    #[test]
    fn import_going_up_is_reported_and_down_is_not() {
        let files =
            [("src/store/mod.rs", "use crate::bloom::B;"), ("src/bloom.rs", "\nuse crate::{store::S};")];
        assert_eq!(
            found(&files),
            ["src/bloom.rs:2: `bloom` (structures) imports `store` (store): imports go down only"]
        );
    }

    #[test]
    fn path_in_code_going_up_is_reported() {
        let files = [
            ("src/store/mod.rs", ""),
            ("src/wal/frame.rs", "fn f() { crate::store::g(); }"),
            ("src/wal/mod.rs", ""),
        ];
        assert_eq!(found(&files).len(), 1);
        let quiet = ("src/wal/frame.rs", "// crate::store::g\nfn f() { \"crate::store::g\"; }");
        assert!(found(&[files[0], quiet, files[2]]).is_empty());
    }

    #[test]
    fn error_that_imports_anything_of_ours_is_reported() {
        let error = ("src/error.rs", "use std::fmt;\nuse crate::limits::MAX;");
        assert_eq!(found(&[error, ("src/limits.rs", "")]).len(), 1);
        assert!(found(&[("src/error.rs", "use std::fmt;")]).is_empty());
    }

    #[test]
    fn program_that_reaches_into_the_library_is_reported() {
        let main = ("src/main.rs", "mod cli;\nuse firstseen::Store;\nfn main() { cli::run() }");
        let good = (
            "src/cli/mod.rs",
            "mod args;\nuse args::Args;\nuse crate::cli::args::B;\nuse firstseen::Options;",
        );
        let args = ("src/cli/args.rs", "use super::C;");
        assert!(found(&[main, good, args, ("src/error.rs", "")]).is_empty());
        let bad = ("src/cli/mod.rs", "use crate::error::Error;");
        assert_eq!(found(&[main, bad, args, ("src/error.rs", "")]).len(), 1);
    }

    #[test]
    fn module_outside_of_the_table_is_reported() {
        assert_eq!(
            found(&[("src/misc.rs", "")]),
            ["src/misc.rs:1: module `misc` is in no layer of the table"]
        );
        assert!(found(&[("src/lib.rs", "pub mod error;"), ("src/error.rs", "")]).is_empty());
    }

    #[test]
    fn name_that_only_the_root_has_is_reported() {
        assert_eq!(
            found(&[("src/lib.rs", "pub const N: u8 = 1;"), ("src/codec.rs", "use crate::N;")]).len(),
            1
        );
    }
}
