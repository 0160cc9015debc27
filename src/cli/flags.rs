//! The flags of `filter`, in one table.
//!
//! The parser, the help text and the suggestions for a mistyped flag all read this table, so none of them can
//! forget one.

/// What a help text is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Topic {
    Tool,
    Filter,
}

/// One flag of `filter`, as the parser and the help need it.
#[derive(Debug)]
pub(super) struct Flag {
    pub(super) id: FlagId,
    pub(super) long: &'static str,
    pub(super) short: Option<char>,
    /// The name of its value in the help; none for a switch.
    pub(super) value: Option<&'static str>,
    /// Help text, one element a line.
    pub(super) help: &'static [&'static str],
}

/// Which flag of `filter`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FlagId {
    Null,
    Crlf,
    LineMax,
    Expect,
    Memory,
    WhenFull,
    Window,
    Hash,
    Stats,
    JsonStats,
    Quiet,
    Help,
    Version,
}

/// Every flag of `filter`, in the order of the help.
pub(super) const FILTER_FLAGS: &[Flag] = &[
    Flag {
        id: FlagId::Null,
        long: "null",
        short: Some('0'),
        value: None,
        help: &["records end with a NUL byte, not with a newline"],
    },
    Flag {
        id: FlagId::Crlf,
        long: "crlf",
        short: None,
        value: None,
        help: &[
            "a carriage return before the newline does not count",
            "in comparisons; lines are printed as they came",
        ],
    },
    Flag {
        id: FlagId::LineMax,
        long: "max-line",
        short: None,
        value: Some("SIZE"),
        help: &[
            "a longer line is an error that names file and line",
            "[default: none; the longest line must fit in memory]",
        ],
    },
    Flag {
        id: FlagId::Expect,
        long: "expect",
        short: None,
        value: Some("N"),
        help: &["make room for N distinct lines at the start"],
    },
    Flag {
        id: FlagId::Memory,
        long: "memory",
        short: None,
        value: Some("SIZE"),
        help: &["what the lines that were seen may take in memory", "[default: no limit]"],
    },
    Flag {
        id: FlagId::WhenFull,
        long: "when-full",
        short: None,
        value: Some("WHAT"),
        help: &[
            "at that limit, error [default] ends the run, and",
            "forget-oldest goes on: a line may be printed again",
        ],
    },
    Flag {
        id: FlagId::Window,
        long: "window",
        short: None,
        value: Some("TIME"),
        help: &["a line is new again when TIME has passed since it was", "printed [default: never]"],
    },
    Flag {
        id: FlagId::Hash,
        long: "hash",
        short: None,
        value: Some("KIND"),
        help: &["xxh3 [default], or keyed (slower) for lines that", "somebody hostile may have chosen"],
    },
    Flag {
        id: FlagId::Stats,
        long: "stats",
        short: None,
        value: None,
        help: &["a summary line on stderr, also if that is no terminal"],
    },
    Flag {
        id: FlagId::JsonStats,
        long: "json-stats",
        short: None,
        value: None,
        help: &["the summary on stderr as a JSON object (keys below)"],
    },
    Flag {
        id: FlagId::Quiet,
        long: "quiet",
        short: Some('q'),
        value: None,
        help: &["no summary, also when stderr is a terminal"],
    },
    Flag { id: FlagId::Help, long: "help", short: Some('h'), value: None, help: &["this text"] },
    Flag { id: FlagId::Version, long: "version", short: Some('V'), value: None, help: &["the version"] },
];

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn flag_table_names_each_flag_once() {
        for (index, flag) in FILTER_FLAGS.iter().enumerate() {
            for other in &FILTER_FLAGS[index + 1..] {
                assert_ne!(flag.long, other.long);
                assert_ne!(flag.id, other.id);
                assert!(flag.short.is_none() || flag.short != other.short);
            }
        }
    }
}
