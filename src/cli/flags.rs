//! The flags of all commands, in tables.
//!
//! The parser, the help text and the suggestions for a mistyped flag all read these tables, so none of them
//! can forget one.

/// What a help text is about: the tool, or one command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Topic {
    Tool,
    Filter,
    Stats,
    Get,
    Forget,
    Verify,
    Salvage,
    Export,
    Import,
    Capacity,
}

/// Every command but `help`.
pub(super) const COMMANDS: [Topic; 9] = [
    Topic::Filter,
    Topic::Stats,
    Topic::Get,
    Topic::Forget,
    Topic::Verify,
    Topic::Salvage,
    Topic::Export,
    Topic::Import,
    Topic::Capacity,
];

/// One flag, as the parser and the help need it.
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

/// Which flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FlagId {
    Null,
    Crlf,
    LineMax,
    Expect,
    Memory,
    WhenFull,
    Window,
    Sliding,
    Hash,
    Store,
    Durability,
    Stats,
    JsonStats,
    Quiet,
    Json,
    Explain,
    Keys,
    Rate,
    Help,
    Version,
}

impl Topic {
    /// The word on the command line; nothing for the tool itself.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Topic::Tool => "",
            Topic::Filter => "filter",
            Topic::Stats => "stats",
            Topic::Get => "get",
            Topic::Forget => "forget",
            Topic::Verify => "verify",
            Topic::Salvage => "salvage",
            Topic::Export => "export",
            Topic::Import => "import",
            Topic::Capacity => "capacity",
        }
    }

    /// Its flags, in the order of the help.
    pub(super) const fn flags(self) -> &'static [Flag] {
        match self {
            Topic::Tool => &[],
            Topic::Filter => FILTER_FLAGS,
            Topic::Export => &[HELP, VERSION],
            Topic::Capacity => &[KEYS, CAPACITY_WINDOW, SLIDING, RATE, JSON, HELP, VERSION],
            Topic::Stats | Topic::Verify | Topic::Forget | Topic::Import => &[JSON, HELP, VERSION],
            Topic::Get => &[EXPLAIN, JSON, HELP, VERSION],
            Topic::Salvage => &[SALVAGE_WINDOW, SLIDING, SALVAGE_HASH, JSON, HELP, VERSION],
        }
    }
}

const FILTER_FLAGS: &[Flag] = &[
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
        id: FlagId::Store,
        long: "store",
        short: None,
        value: Some("DIR"),
        help: &["remember the lines in DIR from one run to the next"],
    },
    Flag {
        id: FlagId::Durability,
        long: "durability",
        short: None,
        value: Some("WHAT"),
        help: &[
            "how soon a printed line is in DIR for good: buffered",
            "[default] survives a kill, sync also a power cut,",
            "deferred=TIME may lose that time, none the whole run",
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
    SLIDING,
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
    HELP,
    VERSION,
];

const SLIDING: Flag = Flag {
    id: FlagId::Sliding,
    long: "sliding",
    short: None,
    value: None,
    help: &["with --window: each time it comes the line's TIME", "begins anew"],
};

const SALVAGE_WINDOW: Flag = Flag {
    id: FlagId::Window,
    long: "window",
    short: None,
    value: Some("TIME"),
    help: &["the window of the store (or 'forever'), if its", "manifest is lost"],
};

const SALVAGE_HASH: Flag = Flag {
    id: FlagId::Hash,
    long: "hash",
    short: None,
    value: Some("KIND"),
    help: &["the hash of the store (xxh3, keyed or exact), if its", "manifest is lost"],
};

const KEYS: Flag = Flag {
    id: FlagId::Keys,
    long: "keys",
    short: None,
    value: Some("N"),
    help: &[
        "how many IDs are seen at one time, like 5000, 200k,",
        "10M or 1e9; at least what --rate brings in a window",
    ],
};

const CAPACITY_WINDOW: Flag = Flag {
    id: FlagId::Window,
    long: "window",
    short: None,
    value: Some("TIME"),
    help: &["an ID is new again when TIME has passed since it was", "seen [default: never]"],
};

const RATE: Flag = Flag {
    id: FlagId::Rate,
    long: "rate",
    short: None,
    value: Some("N/s"),
    help: &["new IDs a second, like 20k/s: says what is written"],
};

const EXPLAIN: Flag = Flag {
    id: FlagId::Explain,
    long: "explain",
    short: None,
    value: None,
    help: &["also where in the store each ID was looked for"],
};

const JSON: Flag = Flag {
    id: FlagId::Json,
    long: "json",
    short: None,
    value: None,
    help: &["the answer as JSON (one object a line)"],
};

const HELP: Flag =
    Flag { id: FlagId::Help, long: "help", short: Some('h'), value: None, help: &["this text"] };

const VERSION: Flag =
    Flag { id: FlagId::Version, long: "version", short: Some('V'), value: None, help: &["the version"] };

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn flag_tables_name_each_flag_once() {
        for topic in COMMANDS {
            for (index, flag) in topic.flags().iter().enumerate() {
                for other in &topic.flags()[index + 1..] {
                    assert_ne!(flag.long, other.long);
                    assert_ne!(flag.id, other.id);
                    assert!(flag.short.is_none() || flag.short != other.short);
                }
            }
        }
    }
}
