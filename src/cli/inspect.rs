//! The commands about one store: `stats`, `get`, `forget`, `verify`, `salvage`.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use firstseen::{Error, Hash, Options, Salvage, Stats, Store, Verification, Window};

use super::exit::Failure;
use super::flags::Topic;
use super::json;
use super::open::{expect_store, open_existing};
use super::parse::Raw;
use super::settings;
use super::summary::{grouped, mebibytes};

/// Runs one of the commands.
///
/// # Errors
///
/// [`Failure::Negative`] after an answer that is no; whatever kept it from answering.
pub(super) fn run(topic: Topic, raw: &Raw) -> Result<(), Failure> {
    let mut operands = raw.operands.iter();
    let Some(place) = operands.next().map(PathBuf::from) else {
        return Err(usage(topic, "which store? Name its directory"));
    };
    let rest: Vec<&OsString> = operands.collect();
    match (topic, &rest[..]) {
        (Topic::Get | Topic::Forget, []) => Err(usage(topic, "which IDs? Name them behind the directory")),
        (Topic::Get, ids) => get(&place, ids, raw),
        (Topic::Forget, ids) => forget(&place, ids, raw.json),
        (Topic::Salvage, [into]) => salvage(&place, Path::new(into), raw),
        (Topic::Salvage, _) => Err(usage(topic, "two directories: the damaged store, and one to be made")),
        (_, [other, ..]) => {
            let reason = format!("one store at a time: what is '{}'?", other.to_string_lossy());
            Err(usage(topic, &reason))
        }
        (Topic::Verify, []) => verify(&place, raw.json),
        (_, []) => stats(&place, raw.json),
    }
}

fn usage(topic: Topic, reason: &str) -> Failure {
    Failure::Usage { reason: reason.to_string(), help: topic }
}

/// Like any other command, it has the machine's memory.
pub(super) fn options() -> Options {
    Options::new().memory_budget(u64::MAX)
}

fn get(place: &Path, ids: &[&OsString], raw: &Raw) -> Result<(), Failure> {
    let store = open_existing(place, options())?;
    let (mut text, mut all_seen) = (Vec::new(), true);
    for id in ids {
        let explanation = store.explain(id.as_encoded_bytes()).map_err(Failure::Store)?;
        all_seen &= explanation.is_seen;
        answer(&mut text, raw.json, id, "seen", explanation.is_seen);
        if raw.explain && !raw.json {
            text.extend_from_slice(format!("  fingerprint {explanation}\n").as_bytes());
        }
    }
    end_reading(store);
    print(&text)?;
    if all_seen { Ok(()) } else { Err(Failure::Negative) }
}

/// Closes a store that was only read: should that fail, nothing is lost, and the next opening reads the log.
pub(super) fn end_reading(store: Store) {
    let _ = store.close();
}

fn forget(place: &Path, ids: &[&OsString], is_json: bool) -> Result<(), Failure> {
    let store = open_existing(place, options())?;
    let (mut text, mut all_seen) = (Vec::new(), true);
    for id in ids {
        let was_seen = store.forget(id.as_encoded_bytes()).map_err(Failure::Store)?;
        all_seen &= was_seen;
        answer(&mut text, is_json, id, if is_json { "was_seen" } else { "forgotten" }, was_seen);
    }
    store.close().map_err(Failure::Store)?;
    print(&text)?;
    if all_seen { Ok(()) } else { Err(Failure::Negative) }
}

/// One line: the answer, a tab, and the ID as it was typed; or an object.
fn answer(text: &mut Vec<u8>, is_json: bool, id: &OsStr, word: &str, is_yes: bool) {
    let bytes = id.as_encoded_bytes();
    if is_json {
        let line = format!("{{\"id\":{},\"{word}\":{is_yes}}}\n", json::string(bytes));
        text.extend_from_slice(line.as_bytes());
    } else {
        text.extend_from_slice(if is_yes { word } else { "not seen" }.as_bytes());
        text.push(b'\t');
        text.extend_from_slice(bytes);
        text.push(b'\n');
    }
}

fn stats(place: &Path, is_json: bool) -> Result<(), Failure> {
    let store = open_existing(place, options())?;
    let (stats, window) = (store.stats(), store.window());
    end_reading(store);
    let (files, bytes) = files_in(place);
    print(
        if is_json {
            stats_json(&stats, window, files, bytes)
        } else {
            stats_lines(&stats, window, files, bytes)
        }
        .as_bytes(),
    )
}

/// How many files there are, and their bytes.
fn files_in(place: &Path) -> (u64, u64) {
    let entries = fs::read_dir(place).into_iter().flatten().flatten();
    let sizes = entries.filter_map(|entry| entry.metadata().ok()).filter(fs::Metadata::is_file);
    sizes.fold((0, 0), |(files, bytes), metadata| (files + 1, bytes + metadata.len()))
}

fn stats_lines(stats: &Stats, window: Window, files: u64, bytes: u64) -> String {
    format!(
        "IDs          {}\nremembered   {window}\non disk      {} in {files} files\nin memory    {}\n\
         collision    {:.1e} (probability that two IDs were taken for one)\n",
        grouped(stats.ids),
        mebibytes(bytes),
        mebibytes(stats.memory_bytes),
        stats.collision_probability,
    )
}

fn stats_json(stats: &Stats, window: Window, files: u64, bytes: u64) -> String {
    let (kind, window_ms) = match window {
        Window::Forever => ("forever", "null".to_string()),
        Window::Fixed(length) => ("fixed", length.as_millis().to_string()),
        Window::Sliding(length) => ("sliding", length.as_millis().to_string()),
    };
    format!(
        "{{\"ids\":{},\"window\":\"{kind}\",\"window_ms\":{window_ms},\"files\":{files},\"bytes\":{bytes},\
         \"memory_bytes\":{},\"collision_probability\":{:e}}}\n",
        stats.ids, stats.memory_bytes, stats.collision_probability,
    )
}

fn verify(place: &Path, is_json: bool) -> Result<(), Failure> {
    expect_store(place)?;
    let verification = Store::verify(place).map_err(Failure::Store)?;
    print(if is_json { verify_json(&verification) } else { format!("{verification}\n") }.as_bytes())?;
    if verification.is_sound() { Ok(()) } else { Err(Failure::Negative) }
}

fn verify_json(verification: &Verification) -> String {
    let generations = verification.generations.iter();
    let generations = generations
        .map(|(file, ids)| format!("{{\"file\":{},\"ids\":{ids}}}", json::string(file.as_bytes())));
    let mut text = format!("{{\"sound\":{},", verification.is_sound());
    // String's writer never fails.
    let _ = writeln!(
        text,
        "\"files\":{},\"bytes\":{},\"generations\":{},\"log_records\":{},\
         \"frames_discarded\":{},\"needs_recovery\":{},\"damages\":{}}}",
        verification.files,
        verification.bytes,
        json::array(generations),
        verification.log_records,
        verification.frames_discarded,
        verification.needs_recovery,
        damages_json(&verification.damages),
    );
    text
}

fn damages_json(damages: &[Error]) -> String {
    json::array(damages.iter().map(|damage| {
        let what = json::string(damage.to_string().as_bytes());
        match damage {
            Error::Corrupt { file, offset, .. } => {
                let file = json::string(file.as_bytes());
                format!("{{\"file\":{file},\"offset\":{offset},\"what\":{what}}}")
            }
            _ => format!("{{\"what\":{what}}}"),
        }
    }))
}

fn salvage(place: &Path, into: &Path, raw: &Raw) -> Result<(), Failure> {
    expect_store(place)?;
    let mut options = options();
    if let Some(window) = settings::window(raw, Topic::Salvage)? {
        options = options.window(window);
    }
    if let Some(hash) = settings::value("--hash", Topic::Salvage, raw.hash.as_ref(), hash)? {
        options = options.hash(hash);
    }
    let salvage = Store::salvage_with(place, into, options).map_err(Failure::Store)?;
    print(if raw.json { salvage_json(&salvage) } else { format!("{salvage}\n") }.as_bytes())?;
    if salvage.is_complete() { Ok(()) } else { Err(Failure::Negative) }
}

fn hash(text: &str) -> Result<Hash, String> {
    match text {
        "xxh3" => Ok(Hash::Xxh3),
        "keyed" => Ok(Hash::Keyed),
        "exact" => Ok(Hash::Exact),
        _ => Err(format!("'{text}' is neither 'xxh3', 'keyed' nor 'exact'")),
    }
}

fn salvage_json(salvage: &Salvage) -> String {
    format!(
        "{{\"ids\":{},\"complete\":{},\"log_records\":{},\"lines_lost\":{},\"frames_lost\":{},\
         \"files_unreadable\":{},\"damages\":{}}}\n",
        salvage.ids,
        salvage.is_complete(),
        salvage.log_records,
        salvage.lines_lost,
        salvage.frames_lost,
        salvage.files_unreadable,
        damages_json(&salvage.damages),
    )
}

pub(super) fn print(text: &[u8]) -> Result<(), Failure> {
    let mut output = io::stdout().lock();
    output.write_all(text).and_then(|()| output.flush()).map_err(Failure::write)
}
