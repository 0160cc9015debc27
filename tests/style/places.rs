//! What only one place may name: files, memory maps, time, threads and atomics; and where `unsafe` may stand.

use crate::paths::{imports, inline};
use crate::source::{Source, Violation};
use crate::statement::{comments_above, statement_start};

/// Names that stand in one place of the library, so that tests can replace what is behind them.
struct Confined {
    what: &'static str,
    /// Paths from their crate on; everything below them is meant as well.
    names: &'static [&'static str],
    /// Modules, each with all that is below it.
    homes: &'static [&'static str],
    /// True if the command-line program may name them too.
    is_free_in_program: bool,
}

const CONFINED: [Confined; 4] = [
    Confined {
        what: "the file system",
        names: &["std::fs", "std::os::unix::fs", "std::os::windows::fs", "std::os::linux::fs", "rustix::fs"],
        homes: &["storage"],
        is_free_in_program: true,
    },
    Confined {
        what: "a memory map",
        names: &["memmap2"],
        homes: &["storage", "table::memory"],
        is_free_in_program: false,
    },
    Confined {
        what: "time",
        names: &["std::time::Instant", "std::time::SystemTime", "std::time::UNIX_EPOCH", "rustix::time"],
        homes: &["clock"],
        is_free_in_program: false,
    },
    Confined {
        what: "a primitive of threads",
        names: &[
            "std::sync",
            "std::thread",
            "parking_lot",
            "arc_swap",
            "loom",
            "crossbeam_utils::atomic",
            "crossbeam_utils::sync",
            "crossbeam_utils::thread",
        ],
        homes: &["sync"],
        is_free_in_program: true,
    },
];

/// The files that may hold `unsafe`.
/// The last one counts allocations, which takes an allocator of its own.
const UNSAFE_FILES: [&str; 4] =
    ["src/table/memory.rs", "src/storage/map.rs", "tests/no_alloc.rs", "benches/peers/src/peers/lmdb.rs"];

/// Names used away from their place; test code is exempt.
pub(crate) fn name_violations(sources: &[Source]) -> Vec<Violation> {
    sources.iter().filter(|source| source.is_library()).flat_map(names_away).collect()
}

fn names_away(source: &Source) -> Vec<Violation> {
    let rules: Vec<&Confined> = CONFINED.iter().filter(|rule| !rule.is_home(source)).collect();
    let mut found = Vec::new();
    for named in
        imports(source).into_iter().chain(inline(source)).filter(|named| !source.is_test(named.index))
    {
        let path = normal(&named.segments);
        for rule in rules.iter().filter(|rule| rule.names.iter().any(|name| is_below(&path, name))) {
            let homes = rule.homes.join("`, `");
            let text = format!("`{path}` names {}, which only `{homes}` may", rule.what);
            found.push(source.violation(named.line, text));
        }
    }
    found
}

impl Confined {
    fn is_home(&self, source: &Source) -> bool {
        let module = source.module().unwrap_or_default();
        source.is_program() && self.is_free_in_program
            || self.homes.iter().any(|home| is_below(&module, home))
    }
}

/// The path with `core` and `alloc` read as `std`, which has all that they have.
fn normal(segments: &[String]) -> String {
    let path = segments.join("::");
    let inner = ["core::", "alloc::"].iter().find_map(|name| path.strip_prefix(name));
    inner.map_or(path.clone(), |rest| format!("std::{rest}"))
}

fn is_below(path: &str, top: &str) -> bool {
    path.strip_prefix(top).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// Thread-local variables outside of `sync`: a model checker has its own.
pub(crate) fn thread_local_violations(sources: &[Source]) -> Vec<Violation> {
    let mut found = Vec::new();
    for source in sources.iter().filter(|source| source.is_library() && !source.is_program()) {
        let is_home = source.module().is_some_and(|module| is_below(&module, "sync"));
        let places = (0..source.code.len()).filter(|&at| source.reads(at, &["thread_local", "!"]));
        for at in places.filter(|&at| !is_home && !source.is_test(at)) {
            found.push(
                source.violation(
                    source.code[at].line,
                    "`thread_local!` is a primitive of threads: `sync` only",
                ),
            );
        }
    }
    found
}

/// `unsafe` outside of its two files, and `unsafe` blocks and impls without their argument.
pub(crate) fn unsafe_violations(sources: &[Source]) -> Vec<Violation> {
    let mut found = Vec::new();
    for source in sources {
        let is_home = UNSAFE_FILES.contains(&source.path.as_str());
        for at in (0..source.code.len()).filter(|&at| source.code[at].is("unsafe")) {
            let line = source.code[at].line;
            if !is_home {
                found.push(
                    source.violation(line, format!("`unsafe` stands in {} only", UNSAFE_FILES.join(" and "))),
                );
            } else if needs_argument(source, at) && !has_argument(source, at) {
                found.push(source.violation(line, "`// SAFETY:` is to stand directly above"));
            }
        }
    }
    found
}

/// True for a block and an impl; an `unsafe fn` states its contract in its docs, which clippy looks after.
fn needs_argument(source: &Source, at: usize) -> bool {
    source.reads(at + 1, &["{"]) || source.reads(at + 1, &["impl"])
}

fn has_argument(source: &Source, at: usize) -> bool {
    let lines = [source.code[at].line, source.code[statement_start(&source.code, at)].line];
    lines.iter().any(|line| comments_above(source, *line).lines().any(|text| text.starts_with("// SAFETY:")))
}

mod tests {
    use super::*;

    fn count(rule: fn(&[Source]) -> Vec<Violation>, path: &str, text: &str) -> usize {
        rule(&[Source::new(path, text)]).len()
    }

    #[test]
    fn names_away_from_their_place_are_reported() {
        let names = [
            "std::fs",
            "std::{io, fs::File}",
            "memmap2::Mmap",
            "std::time::{Duration, Instant}",
            "rustix::time",
        ];
        let threads =
            ["core::sync::atomic::AtomicU64", "std::sync::Arc", "std::thread", "parking_lot::Mutex"];
        for name in names.iter().chain(&threads) {
            assert_eq!(count(name_violations, "src/bloom.rs", &format!("use {name};")), 1, "{name}");
        }
        assert_eq!(count(name_violations, "src/lease.rs", "fn f() { std::time::Instant::now() }"), 1);
        assert_eq!(count(name_violations, "src/cli/mod.rs", "use memmap2::Mmap;"), 1);
        assert_eq!(count(thread_local_violations, "src/bloom.rs", "thread_local! { static A: u8 = 1; }"), 1);
    }

    #[test]
    fn names_at_their_place_are_not_reported() {
        let good = [
            ("src/storage/disk.rs", "use std::fs::File; use memmap2::Mmap;"),
            ("src/table/memory.rs", "use memmap2::MmapMut;"),
            ("src/clock.rs", "use std::time::{Instant, SystemTime};"),
            ("src/clock/system.rs", "use rustix::time::clock_gettime;"),
            ("src/sync.rs", "pub(crate) use std::sync::Arc; use loom::sync::atomic;"),
            ("src/main.rs", "use std::{fs, thread, sync::mpsc};"),
            ("src/bloom.rs", "use std::time::Duration; use crate::sync::Arc; use std::io; // std::fs"),
            ("src/bloom.rs", "#[cfg(test)] mod tests { use std::thread; fn f() { std::fs::read(\"a\"); } }"),
            ("src/store/tests.rs", "use std::sync::Arc;"),
            ("tests/stress.rs", "use std::sync::Arc;"),
        ];
        for (path, text) in good {
            assert_eq!(count(name_violations, path, text), 0, "{path}: {text}");
        }
        assert_eq!(count(thread_local_violations, "src/sync.rs", "thread_local! {}"), 0);
    }

    #[test]
    fn keyword_outside_of_its_files_is_reported() {
        assert_eq!(count(unsafe_violations, "src/bloom.rs", "// SAFETY: none.\nunsafe { x() }"), 1);
        assert_eq!(count(unsafe_violations, "tests/a.rs", "unsafe impl Send for A {}"), 1);
        assert_eq!(
            count(unsafe_violations, "src/bloom.rs", "#![deny(unsafe_code)]\n// unsafe\n\"unsafe {\""),
            0
        );
    }

    #[test]
    fn block_without_its_argument_is_reported() {
        let path = UNSAFE_FILES[0];
        assert_eq!(count(unsafe_violations, path, "let a = unsafe { x() };"), 1);
        assert_eq!(count(unsafe_violations, path, "// SAFETY: far.\n\nunsafe impl Send for A {}"), 1);
        assert_eq!(
            count(
                unsafe_violations,
                path,
                "// SAFETY: a.\nunsafe impl Send for A {}\nunsafe impl Sync for A {}"
            ),
            1
        );
        assert_eq!(count(unsafe_violations, path, "// SAFETY: one.\n// More.\nlet a = unsafe { x() };"), 0);
        assert_eq!(count(unsafe_violations, path, "// SAFETY: one.\nlet a =\n    unsafe { x() };"), 0);
        assert_eq!(count(unsafe_violations, path, "/// # Safety\n///\n/// None.\nunsafe fn f() {}"), 0);
    }
}
