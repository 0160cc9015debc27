//! Bounded memory and windows.

use std::thread;
use std::time::Duration;

use crate::harness::{Typed, run};

/// `count` distinct lines, more than the smallest budget holds.
fn distinct_lines(count: u32) -> String {
    (0..count).map(|number| format!("line number {number}\n")).collect()
}

#[test]
fn memory_used_up_is_an_error_that_names_both_remedies() {
    let input = distinct_lines(400_000);
    let run = run(&["filter", "--memory", "1M"], input.as_bytes());
    let sentence = run.refusal();
    assert!(sentence.contains("memory limit of 1 MiB"), "{sentence}");
    assert!(sentence.contains("--memory") && sentence.contains("--when-full forget-oldest"), "{sentence}");
    // What was answered is out, in order and whole.
    assert!(!run.stdout.is_empty() && run.stdout.ends_with(b"\n"));
    assert!(input.as_bytes().starts_with(&run.stdout));
}

#[test]
fn memory_used_up_while_forgetting_goes_on_and_says_so() {
    let input = distinct_lines(400_000);
    let run = run(&["filter", "--memory", "1M", "--when-full", "forget-oldest", "--stats"], input.as_bytes());
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(run.stdout == input.as_bytes(), "distinct lines are all printed");
    assert!(run.stderr.contains("of them forgotten"), "{}", run.stderr);
}

#[test]
fn memory_forgotten_lets_an_old_line_come_again() {
    let input = format!("old\n{}old\n", distinct_lines(400_000));
    let run = run(&["filter", "--memory", "1M", "--when-full", "forget-oldest"], input.as_bytes());
    assert!(run.quiet_success() == input.as_bytes(), "the old line was forgotten long ago");
}

#[test]
fn memory_enough_changes_nothing() {
    let input = distinct_lines(100_000).repeat(2);
    let run = run(&["filter", "--memory", "64M"], input.as_bytes());
    assert_eq!(run.quiet_success().len(), input.len() / 2);
}

#[test]
fn window_over_makes_a_line_new_again() {
    let mut typed = Typed::start(&["filter", "--window", "300ms"]);
    typed.type_in("a\na\nb\n");
    assert_eq!((typed.next_line().1, typed.next_line().1), ("a\n".to_string(), "b\n".to_string()));
    thread::sleep(Duration::from_millis(600));
    typed.type_in("a\na\n");
    assert_eq!(typed.next_line().1, "a\n");
    typed.end();
}

#[test]
fn window_not_over_keeps_a_line_seen() {
    let run = run(&["filter", "--window", "1h"], b"a\nb\na\n");
    assert_eq!(run.quiet_success(), b"a\nb\n");
}
