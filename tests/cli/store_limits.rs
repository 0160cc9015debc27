//! `filter --store` where the system allows too little: short files, few open files, nothing to be written.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "what goes wrong in a test fails it")]

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::process::{Command, Stdio};

use crate::harness::{Folder, Run, command, finish, run};

/// Lines that may be printed again after a run that was refused: a block, and one partly in the pipe.
const AGAIN_MAX: usize = 2 * (1 << 20) / 32;

fn line(number: usize) -> String {
    format!("{number:031}\n")
}

/// Runs the binary under limits that a shell has set.
fn limited(limits: &str, arguments: &[&str]) -> Run {
    let script = format!("trap '' XFSZ; {limits}; exec \"$0\" \"$@\"");
    let mut shell = Command::new("sh");
    shell.args(["-c", &script, env!("CARGO_BIN_EXE_firstseen")]).args(arguments);
    finish(shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
}

/// Of two runs on one input, of which the first was refused: no line is lost, few come twice.
#[track_caller]
fn nothing_is_lost(runs: [&[u8]; 2], distinct: usize) {
    let mut counts: HashMap<&[u8], usize> = HashMap::new();
    for line in runs.iter().flat_map(|output| output.split_inclusive(|byte| *byte == b'\n')) {
        if line.len() == 32 {
            *counts.entry(line).or_default() += 1;
        }
    }
    assert_eq!(counts.len(), distinct, "lines were lost");
    let again = counts.values().map(|count| count - 1).sum::<usize>();
    assert!(again <= AGAIN_MAX, "{again} lines came again, of {:?} bytes", runs.map(<[u8]>::len));
}

/// A file that must not grow any further is an error, also in the middle of a run.
#[test]
fn files_that_may_not_grow_stop_the_run_and_lose_nothing() {
    let folder = Folder::new("store-short-files");
    let distinct = 600_000;
    let input = folder.file("input", (0..distinct).map(line).collect::<String>().as_bytes());
    let mut printed = 0;
    // In blocks of 512 bytes: less than one segment of the log, than the second, than a generation.
    for blocks in [1_u32, 6_000, 12_000, 20_000] {
        let store = format!("{}/store-{blocks}", folder.path());
        let first = limited(&format!("ulimit -f {blocks}"), &["filter", "-q", "--store", &store, &input]);
        assert!(first.refusal().contains("File too large"), "{blocks}: {}", first.stderr);
        printed += first.stdout.len();
        let second = finish(command(&["filter", "-q", "--store", &store, &input]).spawn().unwrap());
        nothing_is_lost([&first.stdout, &second.quiet_success()], distinct);
    }
    assert!(printed > 0, "all runs were stopped at once");
}

/// However few files may be open, a run is refused or does all of it.
#[test]
fn files_that_may_not_be_opened_stop_the_run_and_lose_nothing() {
    let folder = Folder::new("store-few-files");
    let distinct = 300_000;
    let input = folder.file("input", (0..distinct).map(line).collect::<String>().as_bytes());
    let mut outcomes = BTreeMap::new();
    for files in 4..24 {
        let store = format!("{}/store-{files}", folder.path());
        let first = limited(&format!("ulimit -n {files}"), &["filter", "-q", "--store", &store, &input]);
        // The system could not even load the program.
        if first.code == Some(127) {
            continue;
        }
        let is_whole = first.code == Some(0);
        assert!(is_whole || first.refusal().contains("Too many open files"), "{files}: {}", first.stderr);
        outcomes.insert(files, is_whole);
        let second = finish(command(&["filter", "-q", "--store", &store, &input]).spawn().unwrap());
        nothing_is_lost([&first.stdout, &second.quiet_success()], distinct);
    }
    println!("{outcomes:?}");
    assert!(outcomes.values().any(|is_whole| *is_whole) && outcomes.values().any(|is_whole| !is_whole));
}

/// Names and contents of all files but the lock, in which whoever tried last has written his number.
fn contents(place: &str) -> BTreeMap<String, Vec<u8>> {
    let names = fs::read_dir(place).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let names = names.filter(|name| name != "LOCK");
    names.map(|name| (name.clone(), fs::read(format!("{place}/{name}")).unwrap())).collect()
}

/// Something that takes the right to write from a directory, and gives it back when it is dropped.
struct Frozen(Vec<String>);

impl Frozen {
    /// `None` where `freeze` is not permitted.
    fn new(freeze: &[&str], thaw: &[&str]) -> Option<Frozen> {
        let done = Command::new(freeze[0]).args(&freeze[1..]).stderr(Stdio::null()).status();
        done.is_ok_and(|status| status.success())
            .then(|| Frozen(thaw.iter().map(|word| (*word).to_owned()).collect()))
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        let _ = Command::new(&self.0[0]).args(&self.0[1..]).status();
    }
}

/// A store whose directory nobody may write is refused with the system's reason, changed in nothing, and
/// works again when it may be written.
#[track_caller]
fn refuses_while_frozen(store: &str, freeze: &[&str], thaw: &[&str], reason: &str) {
    run(&["filter", "--store", store], b"a\n").quiet_success();
    let before = contents(store);
    let Some(frozen) = Frozen::new(freeze, thaw) else {
        println!("skipped: {} is not permitted here", freeze.join(" "));
        return;
    };
    for store in [store, &format!("{store}/new")] {
        let refused = run(&["filter", "--store", store], b"b\n");
        assert!(refused.refusal().contains(reason) && refused.stdout.is_empty(), "{}", refused.stderr);
    }
    assert!(contents(store) == before);
    drop(frozen);
    assert_eq!(run(&["filter", "--store", store], b"a\nb\n").quiet_success(), b"b\n");
}

#[test]
fn store_on_a_file_system_for_reading_only_is_refused_and_left_alone() {
    let folder = Folder::new("store-read-only");
    let place = format!("{}/disk", folder.path());
    fs::create_dir(&place).unwrap();
    let mount = ["mount", "-t", "tmpfs", "-o", "size=64m,mode=0700", "none", &place];
    let Some(_mounted) = Frozen::new(&mount, &["umount", &place]) else {
        println!("skipped: mounting a small file system is not permitted here");
        return;
    };
    let (freeze, thaw) = (["mount", "-o", "remount,ro", &place], ["mount", "-o", "remount,rw", &place]);
    refuses_while_frozen(&format!("{place}/store"), &freeze, &thaw, "Read-only file system");
}

#[test]
fn store_in_a_directory_that_nobody_may_change_is_refused_and_left_alone() {
    let folder = Folder::new("store-immutable");
    let store = format!("{}/store", folder.path());
    refuses_while_frozen(&store, &["chattr", "+i", &store], &["chattr", "-i", &store], "not permitted");
}
