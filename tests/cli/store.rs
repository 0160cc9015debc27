//! `filter --store`, and the commands about a store.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;
use std::time::Duration;

use crate::harness::{Folder, PATIENCE, Run, Typed, command, ends_within, finish, run, twin};

/// `firstseen filter --store` in `folder`, with `flags`.
fn filter_arguments<'a>(store: &'a str, flags: &[&'a str]) -> Vec<&'a str> {
    ["filter", "--store", store].into_iter().chain(flags.iter().copied()).collect()
}

#[track_caller]
fn filter(store: &str, flags: &[&str], input: &[u8]) -> Vec<u8> {
    run(&filter_arguments(store, flags), input).quiet_success()
}

fn store_in(folder: &Folder) -> String {
    format!("{}/store", folder.path())
}

fn lines(range: std::ops::Range<u32>) -> Vec<u8> {
    range.flat_map(|number| format!("{number:031}\n").into_bytes()).collect()
}

fn said(arguments: &[&str]) -> Run {
    run(arguments, b"")
}

#[test]
fn lines_of_an_earlier_run_are_dropped() {
    let folder = Folder::new("store-runs");
    let store = store_in(&folder);
    assert_eq!(filter(&store, &[], b"a\nb\na\n"), b"a\nb\n");
    assert_eq!(filter(&store, &[], b"b\nc\nc\na\n"), b"c\n");
    assert_eq!(filter(&store, &[], b"a\nb\nc\n"), b"");
    assert_eq!(filter(&format!("{}/other", folder.path()), &[], b"a\n"), b"a\n");
}

#[test]
fn last_line_without_newline_is_the_same_line() {
    let folder = Folder::new("store-newline");
    let store = store_in(&folder);
    assert_eq!(filter(&store, &[], b"x\ny\nx"), b"x\ny\n");
    assert_eq!(filter(&store, &[], b"y\nx"), b"");
    assert_eq!(filter(&store, &[], b"z"), b"z\n");
    assert_eq!(filter(&store, &[], b""), b"");
    assert_eq!(filter(&store, &[], b"\n\n\n"), b"\n");
    assert_eq!(filter(&store, &["-0"], b"z\0w\0"), b"w\0");
    assert_eq!(filter(&store, &["--crlf"], b"z\r\nv\r\n"), b"v\r\n");
}

#[test]
fn many_lines_with_repeats_equal_the_twin_for_every_durability() {
    let folder = Folder::new("store-twin");
    let mut input = lines(0..40_000);
    input.extend(lines(20_000..60_000));
    input.extend(lines(0..60_000));
    let (expected, _) = twin(&[&input], b'\n', false);
    for durability in ["buffered", "sync", "none", "deferred=50ms"] {
        let store = format!("{}/{durability}", folder.path());
        let flags = ["--durability", durability, "--expect", "10k"];
        assert!(filter(&store, &flags, &input) == expected, "{durability}");
        assert!(filter(&store, &["--durability", durability], &input).is_empty(), "{durability}");
    }
}

#[test]
fn line_in_flight_is_not_printed_again() {
    let folder = Folder::new("store-flight");
    let store = store_in(&folder);
    let mut child = command(&filter_arguments(&store, &[])).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let stdout = child.stdout.take().unwrap();
    // Three blocks, and nobody reads: all stay in the pipe, unrecorded.
    for block in ["a\nb\na\n", "b\nc\n", "a\nc\nd\n"] {
        stdin.write_all(block.as_bytes()).unwrap();
        std::thread::sleep(Duration::from_millis(50));
    }
    drop(stdin);
    assert!(!ends_within(&mut child, Duration::from_millis(300)), "it left lines in the pipe");
    assert_eq!(crate::harness::rest_of(stdout), b"a\nb\nc\nd\n");
    assert_eq!(finish(child).quiet_success(), b"");
    assert_eq!(filter(&store, &[], b"d\nc\nb\na\n"), b"");
}

#[test]
fn line_typed_appears_at_once_and_only_once() {
    let folder = Folder::new("store-typed");
    let store = store_in(&folder);
    let mut typed = Typed::start(&filter_arguments(&store, &[]));
    for number in 0..10 {
        typed.type_in(&format!("line {number}\nline {number}\n"));
        assert_eq!(typed.next_line().1, format!("line {number}\n"));
        typed.type_in(&format!("line {number}\n"));
    }
    typed.end();
}

#[test]
fn lines_that_the_reader_left_in_the_pipe_come_again() {
    let folder = Folder::new("store-unread");
    let store = store_in(&folder);
    let input = lines(0..200_000);
    let mut child = command(&filter_arguments(&store, &[])).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let generator = std::thread::spawn({
        let input = input.clone();
        move || drop(stdin.write_all(&input))
    });
    let mut stdout = BufReader::with_capacity(64, child.stdout.take().unwrap());
    let mut line = Vec::new();
    stdout.read_until(b'\n', &mut line).unwrap();
    drop(stdout);
    assert_eq!(line, lines(0..1));
    assert_eq!(finish(child).quiet_success(), b"");
    generator.join().unwrap();
    let again = filter(&store, &[], &input);
    assert!(again == input || again == input[32..], "{} bytes came again", again.len());
    assert!(filter(&store, &[], &input).is_empty());
}

#[test]
fn short_input_that_nobody_read_comes_again() {
    let folder = Folder::new("store-short");
    let store = store_in(&folder);
    let mut child = command(&filter_arguments(&store, &[])).spawn().unwrap();
    let stdout = child.stdout.take().unwrap();
    child.stdin.take().unwrap().write_all(b"a\nb\n").unwrap();
    std::thread::sleep(Duration::from_millis(200));
    drop(stdout);
    assert!(ends_within(&mut child, PATIENCE), "it waits for a reader that is gone");
    assert_eq!(finish(child).quiet_success(), b"");
    assert_eq!(filter(&store, &[], b"a\nb\n"), b"a\nb\n");
}

#[cfg(target_os = "linux")]
#[test]
fn lines_that_could_not_be_written_come_again() {
    let folder = Folder::new("store-full");
    let store = store_in(&folder);
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut child = command(&filter_arguments(&store, &[])).stdout(Stdio::from(full)).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"a\nb\na\n").unwrap();
    let run = finish(child);
    assert!(run.refusal().starts_with("cannot write to standard output: No space left"), "{}", run.stderr);
    assert_eq!(filter(&store, &[], b"a\nb\n"), b"a\nb\n");
}

#[test]
fn window_is_kept_by_the_store() {
    let folder = Folder::new("store-window");
    let store = store_in(&folder);
    assert_eq!(filter(&store, &["--window", "1h", "--sliding"], b"a\na\n"), b"a\n");
    assert_eq!(filter(&store, &[], b"a\n"), b"");
    let run = said(&filter_arguments(&store, &["--window", "1h"]));
    let sentence = "--window: the store was created to remember lines 3600s from the last sighting on, which \
                    can't become 3600s from the first sighting on";
    assert_eq!(run.refusal(), sentence, "{}", run.stderr);
    let run = said(&filter_arguments(&store, &["--hash", "keyed"]));
    let sentence = "--hash: the store was created with 'xxh3', which can't become 'keyed'";
    assert_eq!(run.refusal(), sentence, "{}", run.stderr);
    let short = format!("{}/short", folder.path());
    assert_eq!(filter(&short, &["--window", "1ms"], b"a\n"), b"a\n");
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(filter(&short, &["--window", "1ms"], b"a\n"), b"a\n");
    let stats = said(&["stats", "--json", &store]).quiet_success();
    let stats = String::from_utf8(stats).unwrap();
    assert!(stats.contains("\"window\":\"sliding\",\"window_ms\":3600000,"), "{stats}");
}

#[test]
fn second_run_is_told_at_once_who_has_the_store() {
    let folder = Folder::new("store-locked");
    let store = store_in(&folder);
    let mut first = command(&filter_arguments(&store, &[])).spawn().unwrap();
    let mut stdin = first.stdin.take().unwrap();
    stdin.write_all(b"a\n").unwrap();
    let mut printed = [0; 2];
    first.stdout.as_mut().unwrap().read_exact(&mut printed).unwrap();
    for arguments in [&filter_arguments(&store, &[])[..], &["stats", &store], &["verify", &store]] {
        let mut second = command(arguments).spawn().unwrap();
        // Its input stays open: it must not wait for that.
        let input = second.stdin.take();
        assert!(ends_within(&mut second, Duration::from_secs(5)), "{arguments:?} waits");
        drop(input);
        let run = finish(second);
        let expected = format!("process {}", first.id());
        assert!(run.refusal().contains(&expected), "{arguments:?}: {}", run.stderr);
    }
    drop(stdin);
    assert_eq!(finish(first).quiet_success(), b"");
    assert_eq!(filter(&store, &[], b"a\n"), b"");
}

#[test]
fn killed_run_leaves_no_lock() {
    let folder = Folder::new("store-kill-lock");
    let store = store_in(&folder);
    let mut first = command(&filter_arguments(&store, &[])).spawn().unwrap();
    let mut stdin = first.stdin.take().unwrap();
    stdin.write_all(b"a\n").unwrap();
    let mut printed = [0; 2];
    first.stdout.as_mut().unwrap().read_exact(&mut printed).unwrap();
    // The line has been read; the next look at the pipe records it.
    std::thread::sleep(Duration::from_millis(300));
    first.kill().unwrap();
    first.wait().unwrap();
    assert_eq!(filter(&store, &[], b"a\nb\n"), b"b\n");
}

#[test]
fn ids_are_got_and_forgotten_with_exit_codes() {
    let folder = Folder::new("store-get");
    let store = store_in(&folder);
    filter(&store, &[], b"a\nb c\n");
    let stats = String::from_utf8(said(&["stats", &store]).quiet_success()).unwrap();
    assert!(stats.starts_with("IDs          2\nremembered   forever\n"), "{stats}");
    assert_eq!(said(&["get", &store, "a", "b c"]).quiet_success(), b"seen\ta\nseen\tb c\n");
    let run = said(&["get", &store, "a", "z"]);
    assert_eq!((run.code, &run.stdout[..], &run.stderr[..]), (Some(1), &b"seen\ta\nnot seen\tz\n"[..], ""));
    let run = said(&["get", "--json", &store, "a", "\"z"]);
    let expected = "{\"id\":\"a\",\"seen\":true}\n{\"id\":\"\\\"z\",\"seen\":false}\n";
    assert_eq!((run.code, String::from_utf8(run.stdout).unwrap().as_str()), (Some(1), expected));
    assert_eq!(said(&["forget", &store, "a"]).quiet_success(), b"forgotten\ta\n");
    assert_eq!(said(&["forget", &store, "a"]).code, Some(1));
    assert_eq!(filter(&store, &[], b"a\nb c\n"), b"a\n");
    let explained = said(&["get", "--explain", &store, "a"]).quiet_success();
    assert!(String::from_utf8(explained).unwrap().contains("\n  fingerprint "));
}

#[test]
fn directory_without_a_store_is_refused_and_not_made() {
    let folder = Folder::new("store-none");
    let none = format!("{}/none", folder.path());
    let into = format!("{}/into", folder.path());
    for arguments in [
        &["stats", &none][..],
        &["get", &none, "a"],
        &["forget", &none, "a"],
        &["verify", &none],
        &["salvage", &none, &into],
    ] {
        let run = said(arguments);
        assert!(run.refusal().starts_with("there is no store in "), "{arguments:?}: {}", run.stderr);
        assert!(!fs::exists(&none).unwrap() && !fs::exists(&into).unwrap(), "{arguments:?}");
    }
}

#[test]
fn operands_missing_or_too_many_are_refused() {
    for (arguments, expected) in [
        (&["stats"][..], "which store?"),
        (&["verify"], "which store?"),
        (&["get", "x"], "which IDs?"),
        (&["forget", "x"], "which IDs?"),
        (&["salvage", "x"], "two directories:"),
        (&["stats", "x", "y"], "one store at a time: what is 'y'?"),
        (&["filter", "--durability", "sync"], "--durability is about what is kept"),
        (&["filter", "--sliding"], "--sliding needs --window"),
        (&["filter", "--store", "x", "--durability", "maybe"], "--durability: 'maybe' is neither"),
        (
            &["filter", "--store", "x", "--memory", "1G", "--when-full", "forget-oldest"],
            "--when-full forget-oldest cannot go with --store",
        ),
    ] {
        let run = said(arguments);
        assert!(run.refusal().starts_with(expected), "{arguments:?}: {}", run.stderr);
        assert!(
            run.refusal().ends_with(&format!("see 'firstseen {} --help'", arguments[0])),
            "{}",
            run.stderr
        );
    }
}

#[test]
fn help_of_every_command_is_on_stdout() {
    for command in ["filter", "stats", "get", "forget", "verify", "salvage"] {
        let help = said(&[command, "--help"]).quiet_success();
        assert!(String::from_utf8_lossy(&help).contains(&format!("Usage: firstseen {command} ")));
        assert_eq!(said(&["help", command]).quiet_success(), help);
    }
}

#[test]
fn sliding_window_works_without_a_store() {
    let filtered = run(&["filter", "--window", "1h", "--sliding"], b"a\na\nb\n").quiet_success();
    assert_eq!(filtered, b"a\nb\n");
}
