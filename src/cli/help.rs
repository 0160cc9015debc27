//! Help texts; the flags' part comes from the table of `flags`.

use std::fmt::Write as _;
use std::io::{self, Write as _};

use super::exit::Failure;
use super::flags::{FILTER_FLAGS, Flag, Topic};

const TOOL: &str = "\
firstseen passes on each line the first time it is seen.

Usage: firstseen <command> [...]

Commands:
  filter    write each input line that was not seen before, in input order
  help      this text; 'firstseen help <command>' says more about one

  -h, --help       this text
  -V, --version    the version
";

const FILTER_HEAD: &str = "\
Writes each line that was not seen before to standard output, in input order.

Usage: firstseen filter [flags] [file ...]

Reads the files one after the other as one input, or standard input if there is
none or where a file is '-'. Lines are bytes: any encoding, any length, compared
as they are. A last line without a newline counts, and is printed with one.
A line is printed as soon as it was read.

Flags:
";

const FILTER_TAIL: &str = "
SIZE is in bytes or like 64K, 512M, 2G (powers of 1024); N like 5000, 200k, 10M;
TIME like 500ms, 90s, 10m, 24h, 7d.

Keys of --json-stats: lines, first_seen, duplicates, bytes_read, bytes_written,
seconds, memory_bytes (held for what was seen), forgotten (lines, to stay within
--memory), collision_probability (that a line was taken for another one: lines
are remembered as 128-bit fingerprints).

Exit code: 0 when everything was read and written, or when whoever reads the
output closed it; 2 on any error, after one sentence on stderr.
";

/// Widest left column of the flags.
const FLAG_COLUMN: usize = 22;

/// Prints the help on standard output.
///
/// # Errors
///
/// As writing fails; a closed pipe is told apart.
pub(super) fn print(topic: Topic) -> Result<(), Failure> {
    write_out(&text(topic))
}

/// Prints name and version on standard output.
///
/// # Errors
///
/// As [`print`].
pub(super) fn print_version() -> Result<(), Failure> {
    write_out(concat!("firstseen ", env!("CARGO_PKG_VERSION"), "\n"))
}

/// The help on `topic`.
pub(super) fn text(topic: Topic) -> String {
    match topic {
        Topic::Tool => TOOL.to_string(),
        Topic::Filter => {
            let flags: String = FILTER_FLAGS.iter().map(flag_text).collect();
            format!("{FILTER_HEAD}{flags}{FILTER_TAIL}")
        }
    }
}

fn flag_text(flag: &Flag) -> String {
    let short = flag.short.map_or_else(|| "    ".to_string(), |letter| format!("-{letter}, "));
    let value = flag.value.map_or_else(String::new, |value| format!(" {value}"));
    let mut left = format!("{short}--{}{value}", flag.long);
    let mut text = String::new();
    for line in flag.help {
        // String's writer never fails.
        let _ = writeln!(text, "  {left:FLAG_COLUMN$}  {line}");
        left.clear();
    }
    text
}

fn write_out(text: &str) -> Result<(), Failure> {
    let mut output = io::stdout().lock();
    output.write_all(text.as_bytes()).and_then(|()| output.flush()).map_err(Failure::write)
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn help_of_filter_names_every_flag_within_80_columns() {
        let text = text(Topic::Filter);
        for flag in FILTER_FLAGS {
            assert!(text.contains(&format!("--{}", flag.long)), "{}", flag.long);
        }
        for line in text.lines() {
            assert!(line.len() <= 80, "{line}");
        }
    }
}
