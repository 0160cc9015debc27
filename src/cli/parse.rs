//! First step of the command line: words to raw flags; nothing is interpreted beyond which flag it is.

use std::ffi::OsString;

use lexopt::Arg;

use super::exit::Failure;
use super::flags::{COMMANDS, Flag, FlagId, Topic};
use super::nearest::nearest;

/// What was asked for.
#[derive(Debug)]
pub(super) enum Command {
    Nothing,
    Help(Topic),
    Version,
    /// One of the commands, with what was typed behind it.
    Run(Topic, Box<Raw>),
}

/// Flags and operands of a command as typed; of a flag given twice the last one counts.
#[derive(Debug, Default)]
pub(super) struct Raw {
    pub(super) operands: Vec<OsString>,
    pub(super) null: bool,
    pub(super) crlf: bool,
    pub(super) sliding: bool,
    pub(super) stats: bool,
    pub(super) json_stats: bool,
    pub(super) quiet: bool,
    pub(super) json: bool,
    pub(super) explain: bool,
    pub(super) line_max: Option<OsString>,
    pub(super) expect: Option<OsString>,
    pub(super) memory: Option<OsString>,
    pub(super) when_full: Option<OsString>,
    pub(super) window: Option<OsString>,
    pub(super) hash: Option<OsString>,
    pub(super) store: Option<OsString>,
    pub(super) durability: Option<OsString>,
    pub(super) keys: Option<OsString>,
    pub(super) rate: Option<OsString>,
}

/// Reads the command line; `arguments` start with the program's name.
pub(super) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Command, Failure> {
    let mut parser = lexopt::Parser::from_iter(arguments);
    let malformed = |error| malformed(Topic::Tool, error);
    match parser.next().map_err(malformed)? {
        None => Ok(Command::Nothing),
        Some(Arg::Short('h') | Arg::Long("help")) => Ok(Command::Help(Topic::Tool)),
        Some(Arg::Short('V') | Arg::Long("version")) => Ok(Command::Version),
        Some(Arg::Value(name)) if name == "help" => parse_help_topic(&mut parser),
        Some(Arg::Value(name)) => parse_command(&mut parser, topic_of(&name)?),
        Some(flag) => Err(misplaced_flag(&spelling(&flag))),
    }
}

fn topic_of(name: &OsString) -> Result<Topic, Failure> {
    COMMANDS.into_iter().find(|topic| name == topic.word()).ok_or_else(|| unknown_command(name))
}

fn parse_help_topic(parser: &mut lexopt::Parser) -> Result<Command, Failure> {
    match parser.next().map_err(|error| malformed(Topic::Tool, error))? {
        None => Ok(Command::Help(Topic::Tool)),
        Some(Arg::Value(name)) => topic_of(&name).map(Command::Help),
        Some(Arg::Short('h') | Arg::Long("help")) => Ok(Command::Help(Topic::Tool)),
        Some(flag) => {
            let reason = format!("'help' takes no flag '{}'", spelling(&flag));
            Err(Failure::Usage { reason, help: Topic::Tool })
        }
    }
}

fn parse_command(parser: &mut lexopt::Parser, topic: Topic) -> Result<Command, Failure> {
    let mut raw = Raw::default();
    let flags = topic.flags();
    let malformed = |error| malformed(topic, error);
    while let Some(argument) = parser.next().map_err(malformed)? {
        let found = match &argument {
            Arg::Value(operand) => {
                raw.operands.push(operand.clone());
                continue;
            }
            Arg::Long(name) => flags.iter().find(|flag| flag.long == *name),
            Arg::Short(letter) => flags.iter().find(|flag| flag.short == Some(*letter)),
        };
        let Some(flag) = found else {
            return Err(unknown_flag(topic, &spelling(&argument)));
        };
        let value = match flag.value {
            None => None,
            Some(_) => Some(parser.value().map_err(malformed)?),
        };
        match flag.id {
            FlagId::Help => return Ok(Command::Help(topic)),
            FlagId::Version => return Ok(Command::Version),
            id => set(&mut raw, id, value),
        }
    }
    Ok(Command::Run(topic, Box::new(raw)))
}

fn set(raw: &mut Raw, id: FlagId, value: Option<OsString>) {
    match id {
        FlagId::Null => raw.null = true,
        FlagId::Crlf => raw.crlf = true,
        FlagId::Sliding => raw.sliding = true,
        FlagId::Stats => raw.stats = true,
        FlagId::JsonStats => raw.json_stats = true,
        FlagId::Quiet => raw.quiet = true,
        FlagId::Json => raw.json = true,
        FlagId::Explain => raw.explain = true,
        FlagId::LineMax => raw.line_max = value,
        FlagId::Expect => raw.expect = value,
        FlagId::Memory => raw.memory = value,
        FlagId::WhenFull => raw.when_full = value,
        FlagId::Window => raw.window = value,
        FlagId::Hash => raw.hash = value,
        FlagId::Store => raw.store = value,
        FlagId::Durability => raw.durability = value,
        FlagId::Keys => raw.keys = value,
        FlagId::Rate => raw.rate = value,
        // They end the parse before anything is set.
        FlagId::Help | FlagId::Version => {}
    }
}

/// The flag as it was typed, for the sentence that refuses it.
fn spelling(argument: &Arg<'_>) -> String {
    match argument {
        Arg::Long(name) => format!("--{name}"),
        Arg::Short(letter) => format!("-{letter}"),
        Arg::Value(value) => value.to_string_lossy().into_owned(),
    }
}

/// A flag where a command should be: one of `filter` in front of it is the likely slip.
fn misplaced_flag(typed: &str) -> Failure {
    let of_filter = |flag: &Flag| {
        typed.strip_prefix("--") == Some(flag.long)
            || flag
                .short
                .is_some_and(|letter| typed.strip_prefix('-') == Some(letter.encode_utf8(&mut [0; 4])))
    };
    let reason = if Topic::Filter.flags().iter().any(of_filter) {
        format!("flag '{typed}' belongs after the command: firstseen filter {typed}")
    } else {
        format!("unknown flag '{typed}'{}", suggestion(typed, &["--help", "--version"]))
    };
    Failure::Usage { reason, help: Topic::Tool }
}

fn unknown_flag(topic: Topic, typed: &str) -> Failure {
    let known: Vec<String> = topic.flags().iter().map(|flag| format!("--{}", flag.long)).collect();
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    let reason = format!("unknown flag '{typed}'{}", suggestion(typed, &known));
    Failure::Usage { reason, help: topic }
}

fn unknown_command(typed: &OsString) -> Failure {
    let typed = typed.to_string_lossy();
    let known: Vec<&str> = COMMANDS.iter().map(|topic| topic.word()).chain(["help"]).collect();
    let reason = format!("unknown command '{typed}'{}", suggestion(&typed, &known));
    Failure::Usage { reason, help: Topic::Tool }
}

fn suggestion(typed: &str, known: &[&str]) -> String {
    nearest(typed, known).map_or_else(String::new, |best| format!(" (did you mean '{best}'?)"))
}

/// A word that fits no flag's form: a value that is missing or one too many.
fn malformed(topic: Topic, error: lexopt::Error) -> Failure {
    let reason = match error {
        lexopt::Error::MissingValue { option: Some(option) } => format!("flag '{option}' needs a value"),
        lexopt::Error::UnexpectedValue { option, .. } => format!("flag '{option}' takes no value"),
        other => other.to_string(),
    };
    Failure::Usage { reason, help: topic }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Result<Command, Failure> {
        parse(std::iter::once("firstseen").chain(words.iter().copied()).map(OsString::from))
    }

    fn refusal(words: &[&str]) -> String {
        parsed(words).unwrap_err().sentence()
    }

    #[test]
    fn every_flag_parses_in_long_form() {
        for (topic, flag) in
            COMMANDS.iter().flat_map(|topic| topic.flags().iter().map(move |flag| (topic, flag)))
        {
            let (word, long) = (topic.word(), format!("--{}", flag.long));
            let words: &[&str] = if flag.value.is_some() { &[word, &long, "1"] } else { &[word, &long] };
            assert!(parsed(words).is_ok(), "{word} {long}");
        }
    }

    #[test]
    fn operands_after_two_dashes_are_files() {
        let Ok(Command::Run(Topic::Filter, raw)) = parsed(&["filter", "-0", "a", "--", "--stats", "-"])
        else {
            panic!("filter did not parse");
        };
        assert!(raw.null && !raw.stats);
        assert_eq!(raw.operands, ["a", "--stats", "-"]);
    }

    #[test]
    fn mistyped_flag_gets_the_nearest_one() {
        assert!(refusal(&["filter", "--stat"]).contains("unknown flag '--stat' (did you mean '--stats'?)"));
        assert!(refusal(&["filter", "--jsonstats"]).contains("'--json-stats'"));
        assert!(refusal(&["filtre"]).contains("unknown command 'filtre' (did you mean 'filter'?)"));
        assert!(refusal(&["--stats"]).contains("firstseen filter --stats"));
        assert!(!refusal(&["filter", "--zzzzzzzz"]).contains("did you mean"));
    }

    #[test]
    fn value_missing_or_too_many_names_the_flag() {
        assert!(refusal(&["filter", "--expect"]).contains("flag '--expect' needs a value"));
        assert!(refusal(&["filter", "--stats=yes"]).contains("flag '--stats' takes no value"));
    }
}
