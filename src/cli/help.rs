//! Help texts; the flags' part comes from the table of `flags`.

use std::fmt::Write as _;
use std::io::{self, Write as _};

use super::exit::Failure;
use super::flags::{Flag, Topic};

const TOOL: &str = "\
firstseen passes on each line the first time it is seen.

Usage: firstseen <command> [...]

Commands:
  filter    write each input line that was not seen before, in input order;
            with --store DIR it remembers them from one run to the next
  stats     how much a store holds
  get       whether IDs (lines) are seen in a store
  forget    make IDs unseen
  verify    read all of a store, and say what is damaged
  salvage   a new store from what still reads of a damaged one
  export    write all that a store knows to standard output
  import    take in what another store has written
  capacity  what a store of some size takes: memory, disk, time to open
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

With --store a line counts as seen only after it was printed: a run that is
killed loses no line, but the next one may print the last of them again (at most
1 MiB of input). In a pipe, lines that its reader has not read when it ends come
again as well, so a run lasts until its reader has read everything. --sliding,
--hash and whether there is a --window are fixed when the store is made, and may
be left out later. One run at a time has a store open.

Keys of --json-stats: lines, first_seen, duplicates, bytes_read, bytes_written,
seconds, memory_bytes (held for what was seen), forgotten (lines, to stay within
--memory), collision_probability (that a line was taken for another one: lines
are remembered as 128-bit fingerprints).

Exit code: 0 when everything was read and written, or when whoever reads the
output closed it; 2 on any error, after one sentence on stderr.
";

const STATS: &str = "\
Prints how many IDs a store holds, for how long, and what they take.

Usage: firstseen stats [flags] DIR

Flags:
";

const STATS_TAIL: &str = "
Keys of --json: ids, window (forever, fixed or sliding), window_ms, files and
bytes (in DIR), memory_bytes, collision_probability.

Exit code: 0; 2 on any error, after one sentence on stderr.
";

const GET: &str = "\
Says of each ID whether it is seen in a store; an ID is a line without its end.

Usage: firstseen get [flags] DIR ID ...

Flags:
";

const GET_TAIL: &str = "
Exit code: 0 when all IDs are seen, 1 when one is not; 2 on any error, after one
sentence on stderr.
";

const FORGET: &str = "\
Makes IDs unseen in a store: 'filter' prints such a line again.

Usage: firstseen forget [flags] DIR ID ...

Flags:
";

const FORGET_TAIL: &str = "
Exit code: 0 when all IDs were seen, 1 when one was not; 2 on any error, after
one sentence on stderr.
";

const VERIFY: &str = "\
Reads all of a store that nobody has open, and lists what is damaged.

Usage: firstseen verify [flags] DIR

Nothing is changed.

Flags:
";

const VERIFY_TAIL: &str = "
Keys of --json: sound, files, bytes, generations (file and ids of each that is
sound), log_records, frames_discarded (of the log, lost to a power cut),
needs_recovery (the last run was killed), damages (file, offset, what).

Exit code: 0 when the store is sound, 1 when it is damaged; 2 on any error,
after one sentence on stderr.
";

const SALVAGE: &str = "\
Makes a new store of what still reads of a damaged one.

Usage: firstseen salvage [flags] DIR INTO

Every line of a sealed file and every frame of the log whose checksum holds is
taken. DIR is not changed; INTO must be empty, or is made. Without the file
SECRET nothing can be saved.

Flags:
";

const SALVAGE_TAIL: &str = "
Keys of --json: ids (in the new store), complete, log_records, lines_lost (of up
to three IDs each), frames_lost (of the log, each of an ID or more),
files_unreadable, damages (file, offset, what).

Exit code: 0 when nothing is known to be lost, 1 when something is; 2 on any
error, after one sentence on stderr.
";

const EXPORT: &str = "\
Writes all that a store knows to standard output, for 'firstseen import'.

Usage: firstseen export [flags] DIR > FILE

The IDs are not in it, only their 128-bit fingerprints under the store's secret.

Flags:
";

const EXPORT_TAIL: &str = "
Exit code: 0; 2 on any error, after one sentence on stderr: then FILE is not
whole, and no import takes it for whole.
";

const IMPORT: &str = "\
Takes in what other stores have written: an ID is seen when it was seen in one.

Usage: firstseen import [flags] DIR < FILE

Both must have the same secret, hash and kind of window: DIR began as a copy of
the other store, or both were made by a program that gave them one secret.
Several exports may follow each other on standard input. Importing twice changes
nothing.

Flags:
";

const IMPORT_TAIL: &str = "
Keys of --json: facts (read), changed (those that said more than was known).

Exit code: 0; 2 on any error, after one sentence on stderr: what came before the
error was taken in, and may be imported again.
";

const CAPACITY: &str = "\
Says what a store of some size takes in memory and on disk.

Usage: firstseen capacity --keys N [flags]

Flags:
";

const CAPACITY_TAIL: &str = "
Keys of --json: keys, keys_held, tick_ms, memory_bytes (no directory),
memory_bytes_expected (no directory, made for its IDs at once),
memory_bytes_least (with a directory), filter_bytes, file_bytes,
file_bytes_peak, log_bytes_max, recovery_seconds_max, generations,
false_positive_rate, writes_per_key, collision_probability; with --rate also
log_bytes_per_second, file_bytes_per_second, filled_after_seconds.

Exit code: 0; 2 on any error, after one sentence on stderr.
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
    let (head, tail) = match topic {
        Topic::Tool => (TOOL, ""),
        Topic::Filter => (FILTER_HEAD, FILTER_TAIL),
        Topic::Stats => (STATS, STATS_TAIL),
        Topic::Get => (GET, GET_TAIL),
        Topic::Forget => (FORGET, FORGET_TAIL),
        Topic::Verify => (VERIFY, VERIFY_TAIL),
        Topic::Salvage => (SALVAGE, SALVAGE_TAIL),
        Topic::Export => (EXPORT, EXPORT_TAIL),
        Topic::Import => (IMPORT, IMPORT_TAIL),
        Topic::Capacity => (CAPACITY, CAPACITY_TAIL),
    };
    let flags: String = topic.flags().iter().map(flag_text).collect();
    format!("{head}{flags}{tail}")
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
    use super::super::flags::COMMANDS;
    use super::*;

    #[test]
    fn help_of_each_command_names_every_flag_within_80_columns() {
        for topic in COMMANDS {
            let text = text(topic);
            assert!(text.contains(&format!("Usage: firstseen {} ", topic.word())), "{topic:?}");
            for flag in topic.flags() {
                assert!(text.contains(&format!("--{}", flag.long)), "{}", flag.long);
            }
            for line in text.lines() {
                assert!(line.len() <= 80, "{line}");
            }
        }
    }
}
