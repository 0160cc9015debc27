//! Pipes: what is typed appears at once, a closed end is quiet, a full disk is not.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use crate::harness::{Folder, PATIENCE, Typed, command, ends_within, finish, rest_of};

/// What S26 allows between a line going in and coming out.
const PROMPT: Duration = Duration::from_millis(200);

#[test]
fn line_typed_appears_before_the_next_is_typed() {
    let mut typed = Typed::start(&["filter"]);
    let mut waits = Vec::new();
    for number in 0..20 {
        let sent = Instant::now();
        // Each line comes twice, so an answer to a duplicate would be noticed as the next line's.
        typed.type_in(&format!("line {number}\nline {number}\n"));
        let (seen, line) = typed.next_line();
        assert_eq!(line, format!("line {number}\n"));
        waits.push(seen.saturating_duration_since(sent));
    }
    waits.sort();
    // The median: a busy machine may hold up a few.
    assert!(waits[10] < PROMPT, "{waits:?}");
    typed.end();
}

#[test]
fn line_typed_without_newline_waits_for_its_end() {
    let mut child = command(&["filter"]).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdin.write_all(b"whole\nha").unwrap();
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    assert_eq!(line, "whole\n");
    stdin.write_all(b"lf").unwrap();
    drop(stdin);
    assert_eq!(rest_of(stdout), b"half\n");
    assert_eq!(finish(child).quiet_success(), b"");
}

#[test]
fn output_closed_after_one_line_ends_quietly() {
    let mut child = command(&["filter"]).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let generator = thread::spawn(move || {
        // As `seq 10000000`: ends when nobody reads it any more.
        let mut written = 0_u64;
        for start in (0..10_000_000).step_by(1000) {
            let lines: String = (start..start + 1000).map(|number| format!("{number}\n")).collect();
            if stdin.write_all(lines.as_bytes()).is_err() {
                break;
            }
            written += 1000;
        }
        written
    });
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    drop(stdout);
    assert_eq!(line, "0\n");
    assert_eq!(finish(child).quiet_success(), b"");
    assert!(generator.join().unwrap() < 10_000_000, "the input was read to its end though nobody wanted it");
}

#[test]
fn output_closed_ends_the_run_though_input_stays_open() {
    let mut child = command(&["filter"]).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    drop(child.stdout.take());
    stdin.write_all(b"a\n").unwrap();
    assert!(ends_within(&mut child, PATIENCE), "it waits for input that nobody will read");
    drop(stdin);
    assert_eq!(finish(child).quiet_success(), b"");
}

#[test]
fn output_closed_with_null_records_ends_quietly() {
    let mut child = command(&["filter", "-0"]).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    drop(child.stdout.take());
    stdin.write_all(b"a\0").unwrap();
    assert!(ends_within(&mut child, PATIENCE));
    assert_eq!(finish(child).quiet_success(), b"");
}

#[test]
fn help_into_a_closed_pipe_is_quiet() {
    for arguments in [&["--help"][..], &["filter", "--help"], &["--version"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let child = command(arguments).stdout(writer).spawn().unwrap();
        assert_eq!(finish(child).quiet_success(), b"", "{arguments:?}");
    }
}

#[test]
fn messages_into_a_closed_pipe_change_no_exit_code() {
    let cases: [(&[&str], i32); 4] =
        [(&["filter", "--stats"], 0), (&["filter", "--json-stats"], 0), (&["filter", "--what"], 2), (&[], 2)];
    for (arguments, code) in cases {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut child = command(arguments).stderr(writer).spawn().unwrap();
        drop(child.stdin.take());
        assert_eq!(finish(child).code, Some(code), "{arguments:?}");
    }
}

#[cfg(unix)]
#[test]
fn stderr_not_open_at_all_changes_no_exit_code() {
    let binary = env!("CARGO_BIN_EXE_firstseen");
    let cases =
        [("filter --stats </dev/null", 0), ("filter --what", 2), ("filter /no/such/file", 2), ("", 2)];
    for (arguments, code) in cases {
        let status = std::process::Command::new("sh")
            .arg("-c")
            .arg(format!("'{binary}' {arguments} 2>&-"))
            .status()
            .unwrap();
        assert_eq!(status.code(), Some(code), "{arguments}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn output_on_a_full_disk_is_an_error() {
    for arguments in [&["filter"][..], &["--help"], &["filter", "--help"], &["--version"]] {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut child = command(arguments).stdout(Stdio::from(full)).spawn().unwrap();
        // It may have ended before: help reads nothing.
        let _ = child.stdin.take().unwrap().write_all(b"a\n");
        let run = finish(child);
        assert!(
            run.refusal().starts_with("cannot write to standard output: No space left"),
            "{}",
            run.stderr
        );
    }
}

#[test]
fn lines_at_once_by_the_million_keep_their_order() {
    let input: String = (0..1_000_000).map(|number| format!("{number}\n")).collect();
    assert!(crate::harness::filter(&[], input.as_bytes()) == input.as_bytes(), "the output differs");
}

#[test]
fn input_in_many_small_writes_comes_out_whole() {
    let mut child = command(&["filter"]).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let writer = thread::spawn(move || {
        for piece in b"first line\nsecond line\nfirst line\n\nthird".chunks(3) {
            stdin.write_all(piece).unwrap();
            thread::sleep(Duration::from_millis(1));
        }
    });
    assert_eq!(finish(child).quiet_success(), b"first line\nsecond line\n\nthird\n");
    writer.join().unwrap();
}

#[cfg(unix)]
#[test]
fn named_pipe_as_operand_is_read() {
    let folder = Folder::new("named-pipe");
    let path = format!("{}/pipe", folder.path());
    let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(made.success());
    let child = command(&["filter", &path]).spawn().unwrap();
    OpenOptions::new().write(true).open(&path).unwrap().write_all(b"a\na\nb").unwrap();
    assert_eq!(finish(child).quiet_success(), b"a\nb\n");
}

#[test]
fn input_stopped_by_the_reader_of_stdout_leaves_no_half_line() {
    // One block at a time: whatever was printed before the reader left ends with a newline.
    let mut child = command(&["filter"]).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    stdin.write_all(b"one\ntwo\n").unwrap();
    let mut printed = [0; 8];
    stdout.read_exact(&mut printed).unwrap();
    assert_eq!(&printed, b"one\ntwo\n");
    drop(stdout);
    stdin.write_all(b"three\n").unwrap();
    assert!(ends_within(&mut child, PATIENCE));
    assert_eq!(finish(child).quiet_success(), b"");
}
