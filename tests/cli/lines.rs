//! What a line is: bytes, terminators, ends of input, several inputs.

use crate::harness::{Folder, Random, filter, run, twin};

#[test]
fn crlf_by_default_is_part_of_the_line() {
    assert_eq!(filter(&[], b"a\r\na\na\r\n"), b"a\r\na\n");
}

#[test]
fn crlf_ignored_on_request_keeps_the_first_form() {
    assert_eq!(filter(&["--crlf"], b"a\r\na\nb\nb\r\n"), b"a\r\nb\n");
    assert_eq!(filter(&["--crlf"], b"a\r\r\na\r\na\n\r\n\n"), b"a\r\r\na\r\n\r\n");
    // The last line has a carriage return but no newline.
    assert_eq!(filter(&["--crlf"], b"a\nb\r\nb\r"), b"a\nb\r\n");
}

#[test]
fn final_newline_missing_is_added() {
    assert_eq!(filter(&[], b"x\ny\nx"), b"x\ny\n");
    assert_eq!(filter(&[], b"y\ny"), b"y\n");
    assert_eq!(filter(&[], b"x"), b"x\n");
}

#[test]
fn input_empty_gives_output_empty() {
    assert_eq!(filter(&[], b""), b"");
    assert_eq!(filter(&["-0"], b""), b"");
    assert_eq!(filter(&["--crlf"], b""), b"");
}

#[test]
fn newlines_alone_give_one_empty_line() {
    assert_eq!(filter(&[], b"\n\n\n"), b"\n");
    assert_eq!(filter(&[], b"\n"), b"\n");
    assert_eq!(filter(&[], b"a\n\n\nb\n\na\n"), b"a\n\nb\n");
}

#[test]
fn null_records_may_contain_newlines() {
    assert_eq!(filter(&["-0"], b"a\nb\0c\0a\nb\0a\0"), b"a\nb\0c\0a\0");
    assert_eq!(filter(&["--null"], b"a\0b\0a"), b"a\0b\0");
    assert_eq!(filter(&["-0"], b"a\n"), b"a\n\0");
}

#[test]
fn bytes_of_any_kind_pass_unchanged() {
    let every_byte: Vec<u8> = (0..=255).collect();
    assert_eq!(filter(&[], &every_byte), [&every_byte[..], b"\n"].concat());
    assert_eq!(filter(&[], b"\xff\xfe\n\xc3(\n\xff\xfe\nok\n"), b"\xff\xfe\n\xc3(\nok\n");
    // Letters that look the same in Latin-1, composed and decomposed UTF-8 are three lines.
    let accents = b"\xe9\n\xc3\xa9\ne\xcc\x81\n";
    assert_eq!(filter(&[], accents), accents);
}

#[test]
fn lines_that_differ_after_a_nul_byte_differ() {
    assert_eq!(filter(&[], b"a\0b\na\0c\na\na\0b\n\0\n\0\0\n"), b"a\0b\na\0c\na\n\0\n\0\0\n");
}

#[test]
fn blanks_and_other_breaks_are_bytes_like_any() {
    let lines = "a\na \n a\na\t\nA\na\rb\na\u{b}b\na\u{2028}b\n\u{feff}a\n";
    assert_eq!(filter(&[], lines.as_bytes()), lines.as_bytes());
}

#[test]
fn files_without_final_newline_do_not_join() {
    let folder = Folder::new("no-join");
    let files = [
        folder.file("1", b"a\nb"),
        folder.file("2", b"b\nc"),
        folder.file("3", b""),
        folder.file("4", b"c\nd"),
    ];
    let arguments: Vec<&str> = std::iter::once("filter").chain(files.iter().map(String::as_str)).collect();
    assert_eq!(run(&arguments, b"").quiet_success(), b"a\nb\nc\nd\n");
}

#[test]
fn file_given_twice_adds_nothing() {
    let folder = Folder::new("twice");
    let file = folder.file("f", b"a\nb\na");
    assert_eq!(run(&["filter", &file, &file], b"").quiet_success(), b"a\nb\n");
}

#[test]
fn dash_reads_standard_input_in_its_place() {
    let folder = Folder::new("dash");
    let (one, two) = (folder.file("1", b"a\nb\n"), folder.file("2", b"c\nd\n"));
    assert_eq!(run(&["filter", &one, "-", &two], b"b\nc\nx").quiet_success(), b"a\nb\nc\nx\nd\n");
    // Standard input is at its end the second time.
    assert_eq!(run(&["filter", "-", "-"], b"a\n").quiet_success(), b"a\n");
}

#[test]
fn file_named_like_a_flag_is_read_after_two_dashes() {
    let folder = Folder::new("named-like-a-flag");
    folder.file("--stats", b"x\nx\n");
    let mut command = crate::harness::command(&["filter", "--", "--stats"]);
    let child = command.current_dir(folder.path()).spawn().unwrap();
    assert_eq!(crate::harness::finish(child).quiet_success(), b"x\n");
}

#[test]
fn random_bytes_in_random_files_equal_the_slow_twin() {
    const ALPHABET: &[u8] = b"ab\n\r\0";
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let folder = Folder::new(&format!("random-{seed}"));
        let mut inputs: Vec<Vec<u8>> = Vec::new();
        for _ in 0..=random.below(3) {
            let length = random.below(300);
            inputs.push((0..length).map(|_| ALPHABET[random.below(ALPHABET.len() as u64)]).collect());
        }
        let mut files = Vec::new();
        for (index, input) in inputs.iter().enumerate() {
            files.push(folder.file(&index.to_string(), input));
        }
        let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
        for (flag, terminator, crlf) in
            [(None, b'\n', false), (Some("-0"), 0, false), (Some("--crlf"), b'\n', true)]
        {
            let arguments: Vec<&str> =
                std::iter::once("filter").chain(flag).chain(files.iter().map(String::as_str)).collect();
            let (expected, _) = twin(&inputs, terminator, crlf);
            assert_eq!(run(&arguments, b"").quiet_success(), expected, "seed {seed}, {flag:?}");
        }
    }
}

#[test]
fn many_lines_over_many_blocks_equal_the_slow_twin() {
    let mut random = Random::new(7);
    let mut input = Vec::new();
    while input.len() < 8 << 20 {
        let number = random.below(150_000);
        let padding = "-".repeat(number % 97);
        input.extend_from_slice(format!("{number}{padding}\n").as_bytes());
    }
    let (expected, _) = twin(&[&input], b'\n', false);
    let printed = filter(&[], &input);
    assert_eq!(printed.len(), expected.len());
    assert!(printed == expected, "the output differs");
    assert!(filter(&["--hash", "keyed"], &input) == expected, "the output differs with keyed hashes");
    assert!(filter(&["--expect", "150k"], &input) == expected, "the output differs with a capacity hint");
}
