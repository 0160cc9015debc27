//! The summary line and the JSON object.

use crate::harness::run;

const INPUT: &[u8] = b"a\nb\na\nc\nlast";

/// The text after `"key":` up to the next comma or brace.
#[track_caller]
fn value<'a>(json: &'a str, key: &str) -> &'a str {
    let (_, rest) = json.split_once(&format!("\"{key}\":")).expect("the key is there");
    rest.split([',', '}']).next().expect("a split has a first part")
}

#[test]
fn summary_is_off_when_stderr_is_no_terminal() {
    assert_eq!(run(&["filter"], INPUT).quiet_success(), b"a\nb\nc\nlast\n");
}

#[test]
fn summary_on_request_is_one_line() {
    let run = run(&["filter", "--stats"], INPUT);
    assert_eq!((run.code, &run.stdout[..]), (Some(0), &b"a\nb\nc\nlast\n"[..]));
    assert!(
        run.stderr.starts_with("firstseen: 5 lines, 4 first seen, 1 duplicates (20.0 %), "),
        "{}",
        run.stderr
    );
    assert_eq!(run.stderr.matches('\n').count(), 1);
}

#[test]
fn summary_of_nothing_has_no_odd_numbers() {
    let run = run(&["filter", "--stats"], b"");
    assert!(
        run.stderr.starts_with("firstseen: 0 lines, 0 first seen, 0 duplicates (0.0 %)"),
        "{}",
        run.stderr
    );
    assert!(!run.stderr.contains("NaN") && !run.stderr.contains("inf"), "{}", run.stderr);
}

#[test]
fn json_summary_has_every_documented_key() {
    let help = String::from_utf8(run(&["filter", "--help"], b"").quiet_success()).unwrap();
    let run = run(&["filter", "--json-stats"], INPUT);
    assert_eq!(run.code, Some(0));
    let json = run.stderr.trim_end();
    assert!(json.starts_with('{') && json.ends_with('}') && !json.contains('\n'), "{json}");
    for (key, expected) in [
        ("lines", "5"),
        ("first_seen", "4"),
        ("duplicates", "1"),
        ("bytes_read", "12"),
        ("bytes_written", "11"),
    ] {
        assert_eq!(value(json, key), expected, "{json}");
    }
    let keys: Vec<&str> = json.split('"').skip(1).step_by(2).collect();
    assert_eq!(keys.len(), 9, "{keys:?}");
    for key in keys {
        assert!(help.contains(key), "{key} is not in the help");
        let number: f64 = value(json, key).parse().expect("every value is a number");
        assert!(number.is_finite() && number >= 0.0, "{json}");
    }
    assert!(value(json, "memory_bytes").parse::<u64>().unwrap() > 0);
}

#[test]
fn json_summary_wins_over_the_line() {
    let run = run(&["filter", "--stats", "--json-stats", "--quiet"], INPUT);
    assert!(run.stderr.starts_with('{'), "{}", run.stderr);
}
