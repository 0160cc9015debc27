//! Second step of the command line: raw flags to checked settings.

use std::ffi::OsString;
use std::io::{self, IsTerminal as _};

use firstseen::{Hash, Options, WhenFull, Window};

use super::exit::Failure;
use super::input::Input;
use super::parse::RawFilter;
use super::summary::Report;
use super::values;

/// What one run of `filter` does.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) inputs: Vec<Input>,
    pub(super) format: Format,
    pub(super) options: Options,
    /// Whether the number of new records may be guessed: the user set no bound that a guess could break.
    pub(super) forecasts: bool,
    pub(super) report: Report,
}

/// What a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Format {
    /// The byte that ends a record.
    pub(super) terminator: u8,
    /// Whether a carriage return at the end of a record does not count.
    pub(super) crlf: bool,
    /// The longest record allowed, its terminator not counted.
    pub(super) bytes_max: Option<u64>,
}

impl Format {
    /// The part of `record` that says whether two records are equal.
    pub(super) fn identity(self, record: &[u8]) -> &[u8] {
        match record {
            [identity @ .., b'\r'] if self.crlf => identity,
            record => record,
        }
    }
}

/// Checks what was typed and turns it into settings.
///
/// # Errors
///
/// A value out of form, or two flags that exclude each other.
pub(super) fn check(raw: RawFilter) -> Result<Settings, Failure> {
    if raw.null && raw.crlf {
        return Err(Failure::usage("--crlf is about lines and cannot go with -0/--null".to_string()));
    }
    let format = Format {
        terminator: if raw.null { 0 } else { b'\n' },
        crlf: raw.crlf,
        bytes_max: value("--max-line", raw.line_max.as_ref(), values::size)?,
    };
    let forecasts = raw.expect.is_none() && raw.memory.is_none() && raw.window.is_none();
    let report = report(&raw);
    let options = options(&raw)?;
    let mut inputs: Vec<Input> = raw.files.into_iter().map(Input::from_operand).collect();
    if inputs.is_empty() {
        inputs.push(Input::Stdin);
    }
    Ok(Settings { inputs, format, options, forecasts, report })
}

fn options(raw: &RawFilter) -> Result<Options, Failure> {
    let forgets = value("--when-full", raw.when_full.as_ref(), when_full)?;
    if forgets == Some(WhenFull::ForgetOldest) && raw.memory.is_none() {
        return Err(Failure::usage(
            "--when-full forget-oldest needs --memory, which says what full is".to_string(),
        ));
    }
    let memory = value("--memory", raw.memory.as_ref(), values::size)?;
    // Like any tool that keeps what it has seen, it may take the machine's memory unless told otherwise.
    let mut options =
        Options::new().memory_budget(memory.unwrap_or(u64::MAX)).when_full(forgets.unwrap_or_default());
    if let Some(ids) = value("--expect", raw.expect.as_ref(), values::count)? {
        options = options.expect(ids);
    }
    if let Some(window) = value("--window", raw.window.as_ref(), values::duration)? {
        options = options.window(Window::Fixed(window));
    }
    if let Some(hash) = value("--hash", raw.hash.as_ref(), hash)? {
        options = options.hash(hash);
    }
    Ok(options)
}

fn when_full(text: &str) -> Result<WhenFull, String> {
    match text {
        "error" => Ok(WhenFull::Error),
        "forget-oldest" => Ok(WhenFull::ForgetOldest),
        _ => Err(format!("'{text}' is neither 'error' nor 'forget-oldest'")),
    }
}

fn hash(text: &str) -> Result<Hash, String> {
    match text {
        "xxh3" => Ok(Hash::Xxh3),
        "keyed" => Ok(Hash::Keyed),
        _ => Err(format!("'{text}' is neither 'xxh3' nor 'keyed'")),
    }
}

fn report(raw: &RawFilter) -> Report {
    if raw.json_stats {
        Report::Json
    } else if raw.stats || (io::stderr().is_terminal() && !raw.quiet) {
        Report::Line
    } else {
        Report::None
    }
}

fn value<T>(
    flag: &str,
    typed: Option<&OsString>,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Result<Option<T>, Failure> {
    let Some(typed) = typed else {
        return Ok(None);
    };
    match parse(&typed.to_string_lossy()) {
        Ok(value) => Ok(Some(value)),
        Err(reason) => Err(Failure::usage(format!("{flag}: {reason}"))),
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn identity_with_crlf_drops_one_carriage_return() {
        let mut format = Format { terminator: b'\n', crlf: false, bytes_max: None };
        assert_eq!(format.identity(b"a\r"), b"a\r");
        format.crlf = true;
        assert_eq!(format.identity(b"a\r"), b"a");
        assert_eq!(format.identity(b"a\r\r"), b"a\r");
        assert_eq!(format.identity(b"\r"), b"");
        assert_eq!(format.identity(b""), b"");
    }

    #[test]
    fn value_out_of_form_names_the_flag() {
        let raw = RawFilter { when_full: Some("panic".into()), ..RawFilter::default() };
        let sentence = check(raw).unwrap_err().sentence();
        assert!(sentence.starts_with("--when-full: 'panic'"), "{sentence}");
        let raw = RawFilter { memory: Some("lots".into()), ..RawFilter::default() };
        assert!(check(raw).unwrap_err().sentence().starts_with("--memory: 'lots'"));
    }

    #[test]
    fn forgetting_without_a_limit_is_refused() {
        let raw = RawFilter { when_full: Some("forget-oldest".into()), ..RawFilter::default() };
        assert!(check(raw).unwrap_err().sentence().contains("needs --memory"));
    }

    #[test]
    fn null_records_with_crlf_are_refused() {
        let raw = RawFilter { null: true, crlf: true, ..RawFilter::default() };
        assert!(check(raw).is_err());
    }

    #[test]
    fn operands_absent_mean_standard_input() {
        let settings = check(RawFilter::default()).unwrap();
        assert!(matches!(settings.inputs[..], [Input::Stdin]));
    }
}
