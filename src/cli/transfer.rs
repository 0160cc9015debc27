//! The commands that move what a store knows: `export` and `import`.

use std::io::{self, BufRead as _, BufReader, BufWriter, Write as _};
use std::path::PathBuf;

use firstseen::{Error, Imported};

use super::exit::Failure;
use super::flags::Topic;
use super::inspect;
use super::open::open_existing;
use super::parse::Raw;
use super::summary::grouped;

/// Runs one of the two.
///
/// # Errors
///
/// Whatever kept it from the end.
pub(super) fn run(topic: Topic, raw: &Raw) -> Result<(), Failure> {
    let [place] = &raw.operands[..] else {
        let reason = "one store: name its directory".to_string();
        return Err(Failure::Usage { reason, help: topic });
    };
    let place = PathBuf::from(place);
    if topic == Topic::Export { export(&place) } else { import(&place, raw.json) }
}

fn export(place: &std::path::Path) -> Result<(), Failure> {
    let store = open_existing(place, inspect::options())?;
    let mut output = BufWriter::new(io::stdout().lock());
    store.export(&mut output).map_err(|error| match error {
        // A reader that ends early has no whole export: that is no success here.
        Error::Io { operation: "writing", message, .. } => Failure::Output(io::Error::other(message)),
        error => Failure::Store(error),
    })?;
    output.flush().map_err(Failure::Output)?;
    inspect::end_reading(store);
    Ok(())
}

/// Takes in all exports that follow each other on standard input.
fn import(place: &std::path::Path, is_json: bool) -> Result<(), Failure> {
    let store = open_existing(place, inspect::options())?;
    let mut input = BufReader::new(io::stdin().lock());
    let (mut facts, mut changed, mut streams) = (0, 0, 0);
    let failed = |reason: String| Failure::Input { name: "standard input".to_string(), reason };
    while streams == 0 || !input.fill_buf().map_err(|error| failed(error.to_string()))?.is_empty() {
        let imported: Imported = store.import(&mut input).map_err(|error| match error {
            Error::Mismatch { name, stored, given } => {
                failed(format!("it comes from a store with another {name} ({given}, here {stored})"))
            }
            Error::Corrupt { offset, expected, found, .. } => failed(format!(
                "it is damaged or not whole: at byte {offset}, expected {expected}, found {found}"
            )),
            error => Failure::Store(error),
        })?;
        facts += imported.facts;
        changed += imported.changed;
        streams += 1;
    }
    store.close().map_err(Failure::Store)?;
    inspect::print(
        if is_json {
            format!("{{\"facts\":{facts},\"changed\":{changed}}}\n")
        } else {
            format!("{} IDs read, {} of them new here or seen for longer\n", grouped(facts), grouped(changed))
        }
        .as_bytes(),
    )
}
