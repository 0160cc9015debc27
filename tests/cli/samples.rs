//! Real samples with known answers, and the corpora where they were built.

use std::fs;
use std::path::{Path, PathBuf};

use crate::harness::{Run, filter, run, twin};
use crate::sha256::hex_digest;

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data")
}

/// The log files in the order of their names' bytes, as `LC_ALL=C` sorts them.
fn log_files() -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(data().join("fail2ban"))
        .expect("the samples are there")
        .map(|entry| entry.expect("the folder can be read").path())
        .collect();
    files.sort();
    files
}

fn lines(run: &Run) -> usize {
    run.stdout.iter().filter(|&&byte| byte == b'\n').count()
}

#[test]
fn logs_as_operands_give_the_known_answer() {
    let files = log_files();
    assert_eq!(files.len(), 92);
    let arguments: Vec<&Path> =
        std::iter::once(Path::new("filter")).chain(files.iter().map(PathBuf::as_path)).collect();
    let run = run(&arguments, b"");
    assert_eq!(lines(&run), 2091);
    assert_eq!(
        hex_digest(&run.quiet_success()),
        "b79b2d5b2e9be434a62c6b1135d8247d6c3d92ac54f5f77c82f95ce7276df0a2"
    );
}

#[test]
fn logs_as_one_stream_give_the_known_answer() {
    let stream: Vec<u8> = log_files().iter().flat_map(|file| fs::read(file).unwrap()).collect();
    let run = run(&["filter"], &stream);
    assert_eq!(lines(&run), 2087);
    assert_eq!(
        hex_digest(&run.quiet_success()),
        "9f9fc106fcfb65473dc1749643907a30bae9a77f3804339f992412aeff6ddb00"
    );
}

#[test]
fn flights_of_january_give_the_known_answer() {
    let file = data().join("nycflights13-january.csv");
    let run = run(&[Path::new("filter"), &file], b"");
    assert_eq!(lines(&run), 21_901);
    assert_eq!(
        hex_digest(&run.quiet_success()),
        "0ea415ba61d18acbf8ccee45b45b84f0a0c0a791a047f566a49b9699d354ad02"
    );
}

#[test]
fn samples_agree_with_the_slow_twin_under_every_hash() {
    let flights = fs::read(data().join("nycflights13-january.csv")).unwrap();
    let (expected, records) = twin(&[&flights], b'\n', false);
    assert_eq!(records, 27_005);
    for hash in ["xxh3", "keyed"] {
        assert!(filter(&["--hash", hash], &flights) == expected, "{hash}");
    }
}

/// Lines that share one unseeded 64-bit XXH3 hash: its first factor is nought, so bytes 8 to 15 do not count.
#[test]
fn lines_crafted_to_collide_are_all_kept() {
    let mut input = Vec::new();
    for number in 0..1000 {
        input.extend_from_slice(b"\xb8\xfe\x6c\x39\x23\xa4\x4b\xbe");
        input.extend_from_slice(format!("{number:08}0123456789abcdef\n").as_bytes());
    }
    assert!(filter(&[], &input) == input, "a crafted line was dropped");
}

/// The folder that `FIRSTSEEN_CORPORA` names, if it is set and holds `file`.
fn corpus(file: &str) -> Option<PathBuf> {
    let found = std::env::var_os("FIRSTSEEN_CORPORA").map(|folder| PathBuf::from(folder).join(file));
    let found = found.filter(|path| path.exists());
    if found.is_none() {
        println!("skipped: FIRSTSEEN_CORPORA names no folder with {file}");
    }
    found
}

/// (name, SHA-256 of the first-seen stream) of each entry of a JSON index with one key a line.
fn index_entries(index: &str) -> Vec<(String, String)> {
    let mut entries = Vec::new();
    let mut name = String::new();
    for line in index.lines() {
        let words: Vec<&str> = line.split('"').collect();
        if let [_, key, rest] = words[..]
            && rest.trim() == ": {"
        {
            name = key.to_string();
        } else if let [_, "first_seen_sha256", _, digest, _] = words[..] {
            entries.push((name.clone(), digest.to_string()));
        }
    }
    entries
}

#[test]
fn nasty_corpus_gives_every_known_answer() {
    let Some(index) = corpus("nasty/index.json") else {
        return;
    };
    let entries = index_entries(&fs::read_to_string(&index).unwrap());
    assert!(entries.len() >= 20, "only {} entries", entries.len());
    for (name, digest) in entries {
        let file = index.with_file_name(&name);
        let printed = run(&[Path::new("filter"), &file], b"").quiet_success();
        assert_eq!(hex_digest(&printed), digest, "{name}");
    }
}

#[test]
fn words_corpus_gives_the_known_answer() {
    let (Some(words), Some(manifest)) = (corpus("words"), corpus("manifest.json")) else {
        return;
    };
    let manifest = fs::read_to_string(manifest).unwrap();
    let entries = index_entries(&manifest);
    let (_, digest) =
        entries.iter().find(|(name, _)| name == "words").expect("the manifest names the corpus");
    let printed = run(&[Path::new("filter"), &words], b"").quiet_success();
    assert_eq!(&hex_digest(&printed), digest);
}
