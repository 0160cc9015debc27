//! Second step of the command line: raw flags to checked settings.

use std::ffi::OsString;
use std::io::{self, IsTerminal as _};
use std::path::PathBuf;

use firstseen::{Durability, Hash, Options, WhenFull, Window};

use super::exit::Failure;
use super::flags::Topic;
use super::input::Input;
use super::parse::Raw;
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
    /// The directory of the store, if the lines are to be remembered.
    pub(super) place: Option<PathBuf>,
    /// Whether what was printed is to last through a power cut before it is recorded.
    pub(super) syncs: bool,
    pub(super) quiet: bool,
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
pub(super) fn check(raw: Raw) -> Result<Settings, Failure> {
    if raw.null && raw.crlf {
        return Err(refused("--crlf is about lines and cannot go with -0/--null"));
    }
    if raw.store.is_none() && raw.durability.is_some() {
        return Err(refused("--durability is about what is kept: it needs --store"));
    }
    let format = Format {
        terminator: if raw.null { 0 } else { b'\n' },
        crlf: raw.crlf,
        bytes_max: value("--max-line", Topic::Filter, raw.line_max.as_ref(), values::size)?,
    };
    let is_unbounded = raw.expect.is_none() && raw.memory.is_none() && raw.window.is_none();
    let forecasts = is_unbounded && raw.store.is_none();
    let (report, quiet) = (report(&raw), raw.quiet);
    let durability = value("--durability", Topic::Filter, raw.durability.as_ref(), durability)?;
    let options = options(&raw)?.durability(durability.unwrap_or_default());
    let syncs = durability == Some(Durability::Sync);
    let place = raw.store.map(PathBuf::from);
    let mut inputs: Vec<Input> = raw.operands.into_iter().map(Input::from_operand).collect();
    if inputs.is_empty() {
        inputs.push(Input::Stdin);
    }
    Ok(Settings { inputs, format, options, forecasts, report, place, syncs, quiet })
}

fn options(raw: &Raw) -> Result<Options, Failure> {
    let forgets = value("--when-full", Topic::Filter, raw.when_full.as_ref(), when_full)?;
    if forgets == Some(WhenFull::ForgetOldest) && raw.memory.is_none() {
        return Err(refused("--when-full forget-oldest needs --memory, which says what full is"));
    }
    if forgets == Some(WhenFull::ForgetOldest) && raw.store.is_some() {
        return Err(refused("--when-full forget-oldest cannot go with --store: give it a --window"));
    }
    let memory = value("--memory", Topic::Filter, raw.memory.as_ref(), values::size)?;
    // Like any tool that keeps what it has seen, it may take the machine's memory unless told otherwise.
    let mut options =
        Options::new().memory_budget(memory.unwrap_or(u64::MAX)).when_full(forgets.unwrap_or_default());
    if let Some(ids) = value("--expect", Topic::Filter, raw.expect.as_ref(), values::count)? {
        options = options.expect(ids);
    }
    if let Some(window) = window(raw, Topic::Filter)? {
        options = options.window(window);
    }
    if let Some(hash) = value("--hash", Topic::Filter, raw.hash.as_ref(), hash)? {
        options = options.hash(hash);
    }
    Ok(options)
}

/// The window that `--window` and `--sliding` ask for.
pub(super) fn window(raw: &Raw, topic: Topic) -> Result<Option<Window>, Failure> {
    let length = match &raw.window {
        Some(typed) if typed == "forever" => None,
        Some(_) => value("--window", topic, raw.window.as_ref(), values::duration)?,
        None if raw.sliding => {
            let reason = "--sliding needs --window, which says for how long".to_string();
            return Err(Failure::Usage { reason, help: topic });
        }
        None => return Ok(None),
    };
    Ok(Some(match length {
        None => Window::Forever,
        Some(length) if raw.sliding => Window::Sliding(length),
        Some(length) => Window::Fixed(length),
    }))
}

fn durability(text: &str) -> Result<Durability, String> {
    match text {
        "none" => Ok(Durability::None),
        "buffered" => Ok(Durability::Buffered),
        "sync" => Ok(Durability::Sync),
        _ => match text.strip_prefix("deferred=") {
            Some(time) => values::duration(time).map(Durability::Deferred),
            None => Err(format!("'{text}' is neither 'buffered', 'sync', 'none' nor like 'deferred=100ms'")),
        },
    }
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

fn report(raw: &Raw) -> Report {
    if raw.json_stats {
        Report::Json
    } else if raw.stats || (io::stderr().is_terminal() && !raw.quiet) {
        Report::Line
    } else {
        Report::None
    }
}

/// A refusal of flags that do not go together.
fn refused(reason: &str) -> Failure {
    Failure::Usage { reason: reason.to_string(), help: Topic::Filter }
}

/// The value of a flag, if it was given.
pub(super) fn value<T>(
    flag: &str,
    topic: Topic,
    typed: Option<&OsString>,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Result<Option<T>, Failure> {
    let Some(typed) = typed else {
        return Ok(None);
    };
    match parse(&typed.to_string_lossy()) {
        Ok(value) => Ok(Some(value)),
        Err(reason) => Err(Failure::Usage { reason: format!("{flag}: {reason}"), help: topic }),
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
        let raw = Raw { when_full: Some("panic".into()), ..Raw::default() };
        let sentence = check(raw).unwrap_err().sentence();
        assert!(sentence.starts_with("--when-full: 'panic'"), "{sentence}");
        let raw = Raw { memory: Some("lots".into()), ..Raw::default() };
        assert!(check(raw).unwrap_err().sentence().starts_with("--memory: 'lots'"));
    }

    #[test]
    fn forgetting_without_a_limit_is_refused() {
        let raw = Raw { when_full: Some("forget-oldest".into()), ..Raw::default() };
        assert!(check(raw).unwrap_err().sentence().contains("needs --memory"));
    }

    #[test]
    fn null_records_with_crlf_are_refused() {
        let raw = Raw { null: true, crlf: true, ..Raw::default() };
        assert!(check(raw).is_err());
    }

    #[test]
    fn operands_absent_mean_standard_input() {
        let settings = check(Raw::default()).unwrap();
        assert!(matches!(settings.inputs[..], [Input::Stdin]));
    }
}
