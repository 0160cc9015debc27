//! Finds the files: every Rust source and every text file of the repository.

use std::fs;
use std::path::{Path, PathBuf};

use crate::source::{Source, Violation, mark_test_modules};

/// What is not part of the repository: the builds' and the fuzzers' folders and git's own, which in a work
/// tree is a file.
const SKIPPED: [&str; 5] = [".git", "target", "corpus", "artifacts", "mutants.out"];

/// A file that is read as lines: Rust, Markdown, TOML, shell.
#[derive(Debug)]
pub(crate) struct Text {
    pub(crate) path: String,
    pub(crate) text: String,
}

/// The repository: the folder of `Cargo.toml`.
pub(crate) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Every file that is text, sorted by path.
pub(crate) fn texts() -> Vec<Text> {
    let mut texts = Vec::new();
    visit(&root(), "", &mut texts);
    texts.sort_by(|left, right| left.path.cmp(&right.path));
    texts
}

/// Every Rust source of the library, program, tests, benches, examples and fuzz targets.
pub(crate) fn sources() -> Vec<Source> {
    let rust = texts().into_iter().filter(|text| text.path.ends_with(".rs"));
    let mut sources: Vec<Source> = rust.map(|text| Source::new(&text.path, &text.text)).collect();
    mark_test_modules(&mut sources);
    sources
}

fn visit(folder: &Path, prefix: &str, texts: &mut Vec<Text>) {
    let entries = fs::read_dir(folder).expect("a folder of the repository can be listed");
    for entry in entries {
        let entry = entry.expect("an entry of the repository can be read");
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        if SKIPPED.contains(&name.as_str()) {
            continue;
        }
        if entry.path().is_dir() {
            visit(&entry.path(), &format!("{path}/"), texts);
        } else if let Some(text) = text_of(&entry.path()) {
            texts.push(Text { path, text });
        }
    }
}

/// The text of a file, or nothing if it is binary (not UTF-8, or with a zero byte).
fn text_of(path: &Path) -> Option<String> {
    let bytes = fs::read(path).ok()?;
    String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))
}

/// Fails with every violation at once, each on a line of its own that an editor can jump to.
pub(crate) fn assert_none(rule: &str, violations: &[Violation]) {
    let lines: Vec<String> =
        violations.iter().map(|found| format!("{}:{}: {}", found.path, found.line, found.text)).collect();
    assert!(lines.is_empty(), "{rule}: {} violation(s)\n{}\n", lines.len(), lines.join("\n"));
}

mod tests {
    use super::*;

    #[test]
    fn tree_has_this_file_and_no_build() {
        let texts = texts();
        assert!(texts.iter().any(|text| text.path == "tests/style/tree.rs"));
        assert!(texts.iter().any(|text| text.path == "Cargo.toml"));
        assert!(!texts.iter().any(|text| text.path.contains("target/")));
    }

    #[test]
    #[should_panic(expected = "src/x.rs:7: wrong")]
    fn violation_found_fails_with_its_line() {
        assert_none("rule", &[Source::new("src/x.rs", "").violation(7, "wrong")]);
    }
}
