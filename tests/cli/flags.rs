//! Flags, help, and what is said about wrong ones.

use crate::harness::{Folder, Run, run};

fn said(arguments: &[&str]) -> Run {
    run(arguments, b"")
}

#[test]
fn nothing_asked_for_prints_help_on_stderr() {
    let run = said(&[]);
    assert_eq!((run.code, &run.stdout[..]), (Some(2), &b""[..]));
    assert!(run.stderr.contains("Usage: firstseen"), "{}", run.stderr);
}

#[test]
fn help_in_every_form_is_on_stdout() {
    let tool = said(&["--help"]).quiet_success();
    assert!(String::from_utf8_lossy(&tool).contains("Usage: firstseen <command>"));
    for form in [&["-h"][..], &["help"], &["help", "--help"]] {
        assert_eq!(said(form).quiet_success(), tool, "{form:?}");
    }
    let filter = said(&["filter", "--help"]).quiet_success();
    assert!(String::from_utf8_lossy(&filter).contains("Usage: firstseen filter"));
    for form in
        [&["filter", "-h"][..], &["help", "filter"], &["filter", "-0", "--help", "--wrong-but-behind"]]
    {
        assert_eq!(said(form).quiet_success(), filter, "{form:?}");
    }
}

#[test]
fn version_in_every_form_is_the_packages() {
    let expected = format!("firstseen {}\n", env!("CARGO_PKG_VERSION"));
    for form in [&["--version"][..], &["-V"], &["filter", "--version"]] {
        assert_eq!(said(form).quiet_success(), expected.as_bytes(), "{form:?}");
    }
}

#[test]
fn flag_unknown_is_named_with_the_nearest_and_where_to_look() {
    let run = said(&["filter", "--stat"]);
    assert_eq!(
        run.refusal(),
        "unknown flag '--stat' (did you mean '--stats'?); see 'firstseen filter --help'"
    );
    let run = said(&["filter", "-x"]);
    assert_eq!(run.refusal(), "unknown flag '-x'; see 'firstseen filter --help'");
    let run = said(&["filtr"]);
    assert_eq!(run.refusal(), "unknown command 'filtr' (did you mean 'filter'?); see 'firstseen --help'");
}

#[test]
fn flag_values_out_of_form_are_refused_by_name() {
    for (arguments, expected) in [
        (&["--expect"][..], "flag '--expect' needs a value"),
        (&["--expect", "lots"], "--expect: 'lots' is no count"),
        (&["--memory", "1.5G"], "--memory: '1.5G' is no size"),
        (&["--memory", "1"], "--memory: "),
        (&["--max-line", "-1"], "--max-line: '-1' is no size"),
        (&["--when-full", "explode"], "--when-full: 'explode' is neither"),
        (&["--when-full", "forget-oldest"], "--when-full forget-oldest needs --memory"),
        (&["--window", "10"], "--window: '10' is no time"),
        (&["--hash", "md5"], "--hash: 'md5' is neither 'xxh3' nor 'keyed'"),
        (&["--stats=1"], "flag '--stats' takes no value"),
        (&["-0", "--crlf"], "--crlf is about lines"),
    ] {
        let arguments: Vec<&str> = std::iter::once("filter").chain(arguments.iter().copied()).collect();
        let run = said(&arguments);
        assert!(run.refusal().starts_with(expected), "{arguments:?}: {}", run.stderr);
        assert_eq!(run.stdout, b"", "{arguments:?}");
    }
}

#[test]
fn capacity_hint_beyond_any_machine_is_refused() {
    for hint in ["18446744073709551615", "1000000000G", "10000G"] {
        let run = said(&["filter", "--expect", hint]);
        assert!(!run.refusal().is_empty(), "{hint}");
    }
}

#[test]
fn file_missing_is_named_before_anything_is_written() {
    let folder = Folder::new("missing");
    let there = folder.file("there", b"a\n");
    let missing = format!("{}/missing", folder.path());
    let run = said(&["filter", &there, &missing]);
    assert!(run.refusal().starts_with(&format!("{missing}: cannot open: No such file")), "{}", run.stderr);
    assert_eq!(run.stdout, b"");
}

#[test]
fn directory_as_operand_is_refused_by_name() {
    let folder = Folder::new("directory");
    let run = said(&["filter", folder.path()]);
    assert_eq!(run.refusal(), format!("{}: is a directory; name the files in it", folder.path()));
}

#[cfg(unix)]
#[test]
fn directory_as_standard_input_is_refused() {
    let folder = Folder::new("directory-stdin");
    let directory = std::fs::File::open(folder.path()).unwrap();
    let child = crate::harness::command(&["filter"]).stdin(directory).spawn().unwrap();
    let run = crate::harness::finish(child);
    assert_eq!(run.refusal(), "standard input: is a directory; name the files in it");
}

#[cfg(unix)]
#[test]
fn file_name_with_control_characters_is_escaped() {
    let run = said(&["filter", "no\nsuch\u{1b}[31mfile"]);
    assert!(run.refusal().starts_with("\"no\\nsuch\\u{1b}[31mfile\": cannot open"), "{}", run.stderr);
}

#[cfg(unix)]
#[test]
fn file_name_that_is_not_utf8_is_read() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let folder = Folder::new("not-utf8");
    let path = [folder.path().as_bytes(), b"/\xff\xfe"].concat();
    let path = OsStr::from_bytes(&path);
    std::fs::write(path, b"a\na\n").unwrap();
    let arguments = [OsStr::new("filter"), path];
    assert_eq!(run(&arguments, b"").quiet_success(), b"a\n");
}

#[test]
fn flag_given_twice_counts_as_the_last() {
    let run = run(&["filter", "--max-line", "1", "--max-line", "100"], b"abc\n");
    assert_eq!(run.quiet_success(), b"abc\n");
}
