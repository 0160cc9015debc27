//! The manifest as text, and back: pure functions of bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::time::Duration;

use crate::codec::checksum;
use crate::error::{Error, Result};
use crate::fingerprint::Hash;
use crate::generation::Sealed;
use crate::options::Window;
use crate::storage::names::MANIFEST;

use super::{Cut, Manifest};

/// The version that is written, and the latest that is known.
const VERSION: u64 = 1;

const FIRST: &str = "firstseen manifest ";
const LAST: &str = "checksum ";

/// Numbers of files, and times, from which on others can be counted without an overflow (G8).
pub(crate) const NUMBER_MAX: u64 = 1 << 62;

/// Bytes in the last line: its word, sixteen digits and the line feed.
const LAST_BYTES: usize = LAST.len() + 17;

impl Manifest {
    /// The text of the manifest.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut text = format!("{FIRST}{VERSION}\n");
        self.encode_options(&mut text).expect("a string takes all text");
        self.encode_lists(&mut text).expect("a string takes all text");
        let sum = checksum(0, text.as_bytes());
        text.push_str(&format!("{LAST}{sum:016x}\n"));
        text.into_bytes()
    }

    fn encode_options(&self, text: &mut String) -> std::fmt::Result {
        writeln!(text, "store {:016x}", self.store_id)?;
        writeln!(text, "hash {}", hash_word(self.hash))?;
        writeln!(text, "key-check {:016x}", self.check_value)?;
        match self.window {
            Window::Forever => writeln!(text, "window forever")?,
            Window::Fixed(length) => writeln!(text, "window fixed {}", length.as_millis())?,
            Window::Sliding(length) => writeln!(text, "window sliding {}", length.as_millis())?,
        }
        writeln!(text, "ttl-ms-max {}", self.ttl_ms_max)?;
        writeln!(text, "tick-ms {}", self.tick_ms)?;
        writeln!(text, "run {}", self.run)?;
        writeln!(text, "time-ms {}", self.time_ms)?;
        writeln!(text, "attempt-floor {}", self.attempt_floor)?;
        writeln!(text, "log-floor {}", self.log_floor)?;
        writeln!(text, "generation-next {}", self.generation_next)?;
        writeln!(text, "closed {}", if self.was_closed { "yes" } else { "no" })
    }

    fn encode_lists(&self, text: &mut String) -> std::fmt::Result {
        for Cut { segment, offset, resumes_at } in &self.cuts {
            writeln!(text, "cut {segment} {offset} {resumes_at}")?;
        }
        for sealed in &self.generations {
            let Sealed { id, bytes, lines, ids, birth, until_min, until_max, header_checksum } = sealed;
            writeln!(
                text,
                "generation {id} bytes {bytes} lines {lines} ids {ids} birth {birth} until-min {until_min} \
                 until-max {until_max} header {header_checksum:016x}"
            )?;
        }
        for (name, value) in &self.cursors {
            writeln!(text, "cursor {value} {}", escaped(name))?;
        }
        self.optional.iter().try_for_each(|line| writeln!(text, "{line}"))
    }

    /// Reads the text of a manifest.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] with the offset of the line that is wrong; [`Error::Format`] for an intact manifest
    /// of a later version.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Manifest> {
        let text = intact(bytes)?;
        let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
        match first.strip_prefix(FIRST).and_then(decimal) {
            Some(VERSION) => {}
            Some(found) => {
                return Err(Error::Format { file: MANIFEST.to_owned(), found, known: VERSION });
            }
            None => return Err(damaged(0, "a version", first)),
        }
        let mut lines = Lines::default();
        let mut offset = first.len() + 1;
        for line in rest.split_terminator('\n') {
            lines.read(line).ok_or_else(|| damaged(offset, "a line of a manifest", line))?;
            offset += line.len() + 1;
        }
        lines.complete().ok_or_else(|| damaged(offset, "every line that a manifest must have", "the end"))
    }
}

/// All but the last line, when its checksum is right.
fn intact(bytes: &[u8]) -> Result<&str> {
    let at = bytes.len().saturating_sub(LAST_BYTES);
    let (text, last) = bytes.split_at(at);
    let expected = format!("{LAST}{:016x}\n", checksum(0, text));
    if last != expected.as_bytes() {
        return Err(damaged(at, expected.trim_end(), &String::from_utf8_lossy(last)));
    }
    std::str::from_utf8(text).map_err(|error| damaged(error.valid_up_to(), "text", "other bytes"))
}

fn damaged(offset: usize, expected: &str, found: &str) -> Error {
    let found: String = found.chars().take(80).collect();
    Error::corrupt(MANIFEST, offset as u64, expected, format!("{found:?}"))
}

/// What the lines read so far have said.
#[derive(Default)]
struct Lines<'t> {
    /// Values of the lines that come once, by their word.
    once: BTreeMap<&'t str, &'t str>,
    cuts: Vec<Cut>,
    generations: Vec<Sealed>,
    /// Numbers of these generations.
    numbers: BTreeSet<u64>,
    cursors: BTreeMap<Vec<u8>, u64>,
    optional: Vec<String>,
}

impl<'t> Lines<'t> {
    /// Takes a line in; `None` when it is not understood.
    fn read(&mut self, line: &'t str) -> Option<()> {
        if line.starts_with('?') {
            self.optional.push(line.to_owned());
            return Some(());
        }
        let (word, values) = line.split_once(' ')?;
        match word {
            "cut" => self.cuts.push(read_cut(values)?),
            "generation" => {
                let sealed = read_generation(values)?;
                self.generations.push(sealed);
                // One that is named twice could be told from itself nowhere.
                return self.numbers.insert(sealed.id).then_some(());
            }
            "cursor" => {
                let (value, name) = values.split_once(' ')?;
                let is_new = self.cursors.insert(unescaped(name)?, decimal(value)?).is_none();
                return is_new.then_some(());
            }
            "store" | "hash" | "key-check" | "window" | "ttl-ms-max" | "tick-ms" | "run" | "time-ms"
            | "attempt-floor" | "log-floor" | "generation-next" | "closed" => {
                return self.once.insert(word, values).is_none().then_some(());
            }
            _ => return None,
        }
        Some(())
    }

    /// The manifest, if nothing is missing.
    fn complete(self) -> Option<Manifest> {
        let value = |word| self.once.get(word).copied();
        let number = |word| decimal(value(word)?);
        let bounded = |word| number(word).filter(|number| *number <= NUMBER_MAX);
        Some(Manifest {
            store_id: hexadecimal(value("store")?)?,
            hash: hash_of(value("hash")?)?,
            check_value: hexadecimal(value("key-check")?)?,
            window: window_of(value("window")?)?,
            ttl_ms_max: bounded("ttl-ms-max")?,
            tick_ms: number("tick-ms")?,
            run: bounded("run")?,
            time_ms: bounded("time-ms")?,
            attempt_floor: number("attempt-floor")?,
            log_floor: bounded("log-floor")?,
            generation_next: bounded("generation-next")?,
            was_closed: match value("closed")? {
                "yes" => true,
                "no" => false,
                _ => return None,
            },
            cuts: self.cuts,
            generations: self.generations,
            cursors: self.cursors,
            optional: self.optional,
        })
    }
}

fn read_cut(values: &str) -> Option<Cut> {
    let bounded = |number: &u64| *number <= NUMBER_MAX;
    let mut values = values.split(' ').map(|word| decimal(word).filter(bounded));
    let cut = Cut { segment: values.next()??, offset: values.next()??, resumes_at: values.next()?? };
    values.next().is_none().then_some(cut)
}

fn read_generation(values: &str) -> Option<Sealed> {
    let mut words = values.split(' ');
    let id = decimal(words.next()?)?;
    let mut named = |name| words.next().filter(|word| *word == name).and_then(|_| words.next());
    let sealed = Sealed {
        id,
        bytes: decimal(named("bytes")?)?,
        lines: decimal(named("lines")?)?,
        ids: decimal(named("ids")?)?,
        birth: decimal(named("birth")?)?,
        until_min: decimal(named("until-min")?)?,
        until_max: decimal(named("until-max")?)?,
        header_checksum: hexadecimal(named("header")?)?,
    };
    words.next().is_none().then_some(sealed)
}

fn hash_word(hash: Hash) -> &'static str {
    match hash {
        Hash::Xxh3 => "xxh3",
        Hash::Keyed => "keyed",
        Hash::Exact => "exact",
    }
}

pub(super) fn hash_of(word: &str) -> Option<Hash> {
    [Hash::Xxh3, Hash::Keyed, Hash::Exact].into_iter().find(|hash| hash_word(*hash) == word)
}

pub(super) fn window_of(values: &str) -> Option<Window> {
    if values == "forever" {
        return Some(Window::Forever);
    }
    let (kind, length) = values.split_once(' ')?;
    let length = Duration::from_millis(decimal(length)?);
    match kind {
        "fixed" => Some(Window::Fixed(length)),
        "sliding" => Some(Window::Sliding(length)),
        _ => None,
    }
}

/// A decimal number as it is written: no sign, no zeros in front.
pub(super) fn decimal(digits: &str) -> Option<u64> {
    let number: u64 = digits.parse().ok()?;
    (number.to_string() == digits).then_some(number)
}

/// Sixteen hexadecimal digits.
pub(super) fn hexadecimal(digits: &str) -> Option<u64> {
    let number = u64::from_str_radix(digits, 16).ok()?;
    (format!("{number:016x}") == digits).then_some(number)
}

/// What stands for a name without a byte.
const NAMELESS: &str = "%";

/// Any bytes as visible ASCII, at least one letter.
fn escaped(name: &[u8]) -> String {
    if name.is_empty() {
        return NAMELESS.to_owned();
    }
    let mut text = String::with_capacity(name.len());
    for &byte in name {
        if byte.is_ascii_graphic() && byte != b'%' {
            text.push(byte.into());
        } else {
            text.push_str(&format!("%{byte:02x}"));
        }
    }
    text
}

/// The way back; `None` for what [`escaped`] does not write.
fn unescaped(text: &str) -> Option<Vec<u8>> {
    if text == NAMELESS {
        return Some(Vec::new());
    }
    let mut name = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            name.push(byte);
            continue;
        }
        let digits = [bytes.next()?, bytes.next()?];
        name.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
    }
    (escaped(&name) == text).then_some(name)
}
