//! Small files that are replaced as a whole: after a crash there is the old one or the new one.

use std::io;

use super::names::temporary_name;
use super::{Storage, StorageFile, failed};
use crate::error::Result;

/// Creates a file in the place of any that a crash left under this name.
///
/// # Errors
///
/// [`Error::Io`](crate::Error::Io).
pub(crate) fn create_anew(storage: &dyn Storage, name: &str) -> Result<Box<dyn StorageFile>> {
    match storage.create(name) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            storage.remove(name).map_err(failed("removing", name))?;
            storage.create(name).map_err(failed("creating", name))
        }
        outcome => outcome.map_err(failed("creating", name)),
    }
}

/// Puts a file of this content in the place of any that has the name, and makes it last.
///
/// Written under a temporary name, synced, renamed, and the directory synced.
///
/// # Errors
///
/// [`Error::Io`](crate::Error::Io); the old file may still be there, or the new one.
pub(crate) fn replace_file(storage: &dyn Storage, name: &str, content: &[u8]) -> Result<()> {
    let temporary = temporary_name(name);
    let file = create_anew(storage, &temporary)?;
    file.write_all_at(0, content).map_err(failed("writing", &temporary))?;
    file.sync().map_err(failed("syncing", &temporary))?;
    storage.rename(&temporary, name).map_err(failed("renaming", &temporary))?;
    storage.sync_dir().map_err(failed("syncing the directory of", name))
}
