//! Lines of every length, and the limit on them.

use crate::harness::{Folder, filter, run};

/// A line of `length` bytes; two variants differ in the last byte only.
fn line(length: usize, last: u8) -> Vec<u8> {
    let mut line: Vec<u8> = b"0123456789abcdef".iter().copied().cycle().take(length).collect();
    if let Some(end) = line.last_mut() {
        *end = last;
    }
    line
}

/// All of `lines`, then all again; only the first half may come out.
#[track_caller]
fn assert_all_kept_once(lines: &[Vec<u8>]) {
    let mut once = lines.join(&b'\n');
    once.push(b'\n');
    let printed = filter(&[], &once.repeat(2));
    assert_eq!(printed.len(), once.len());
    assert!(printed == once, "the output differs");
}

#[test]
fn lines_to_64_kib_that_differ_in_the_last_byte_are_all_kept() {
    let mut lines = vec![Vec::new()];
    for length in [1, 254, 255, 256, 65_535, 65_536, 65_537] {
        lines.push(line(length, b'x'));
        lines.push(line(length, b'y'));
    }
    assert_all_kept_once(&lines);
}

#[test]
fn lines_around_the_block_size_are_all_kept() {
    let lines: Vec<Vec<u8>> = [128, 256, 512, 1024]
        .iter()
        .flat_map(|kib| [(kib << 10) - 2, (kib << 10) - 1, kib << 10, (kib << 10) + 1])
        .map(|length| line(length, b'x'))
        .collect();
    assert_all_kept_once(&lines);
}

#[test]
fn lines_of_16_mib_that_differ_in_the_last_byte_are_both_kept() {
    assert_all_kept_once(&[line(16 << 20, b'x'), b"short".to_vec(), line(16 << 20, b'y')]);
}

#[test]
fn lines_of_64_mib_that_differ_in_the_last_byte_are_both_kept() {
    let (x, y) = (line(64 << 20, b'x'), line(64 << 20, b'y'));
    let input = [&x[..], b"\n", &y, b"\n", &x].concat();
    let printed = filter(&[], &input);
    assert_eq!(printed.len(), x.len() + y.len() + 2);
    assert!(input.starts_with(&printed), "the output differs");
}

#[test]
fn lines_equal_in_the_first_64_kib_only_are_not_merged() {
    let mut longer = line(65_536, b'x');
    longer.push(b'z');
    assert_all_kept_once(&[line(65_536, b'x'), longer]);
}

#[test]
fn line_over_the_limit_is_an_error_with_file_and_line() {
    let folder = Folder::new("max-line");
    let ok = folder.file("ok", b"a\nb\n");
    let long = folder.file("long", b"abc\nabcd\nabcde\nnever reached\n");
    let run = run(&["filter", "--max-line", "4", &ok, &long], b"");
    assert!(run.refusal().starts_with(&format!("{long}:3: line is longer than 4 bytes")), "{}", run.stderr);
    assert!(run.refusal().contains("--max-line"));
    // What came before is out, and nothing is cut.
    assert_eq!(run.stdout, b"a\nb\nabc\nabcd\n");
}

#[test]
fn line_over_the_limit_without_newline_is_an_error() {
    for input in [&b"ok\nabcde"[..], b"ok\nabcde\n"] {
        let run = run(&["filter", "--max-line=4"], input);
        assert!(run.refusal().starts_with("standard input:2: "), "{}", run.stderr);
        assert_eq!(run.stdout, b"ok\n");
    }
    assert_eq!(filter(&["--max-line=4"], b"abcd\nabcd"), b"abcd\n");
}

#[test]
fn line_number_over_the_limit_is_right_after_many_blocks() {
    let mut input = "0123456789\n".repeat(200_000).into_bytes();
    input.extend_from_slice(&[b'x'; 5000]);
    let run = run(&["filter", "--max-line", "4K"], &input);
    assert!(
        run.refusal().starts_with("standard input:200001: line is longer than 4096 bytes"),
        "{}",
        run.stderr
    );
    assert_eq!(run.stdout, b"0123456789\n");
}
