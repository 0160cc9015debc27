//! The file that keeps a store's hash secret, readable by its owner only.
//!
//! | bytes | field | |
//! | --- | --- | --- |
//! | 0 | magic | `fseen-s\n` |
//! | 8 | version | u32, 1 |
//! | 12 | zeros | |
//! | 16 | the secret | 192 bytes |
//! | 208 | XXH3-64 of bytes 0 to 207 | u64, seed 0 |
//!
//! It is written once, before the first manifest, and replaced by rename: a crash leaves it whole or not at
//! all. Version 1 is the only one so far.

use std::io;

use crate::codec::{checksum, u32_at, u64_at};
use crate::error::{Error, Result};
use crate::fingerprint::{SECRET_BYTES, Secret};
use crate::storage::names::SECRET;
use crate::storage::replace::replace_file;
use crate::storage::{Storage, read_file};

const VERSION: u32 = 1;
const MAGIC: [u8; 8] = *b"fseen-s\n";
const SECRET_AT: usize = 16;
const CHECKSUM_AT: usize = SECRET_AT + SECRET_BYTES;

/// Bytes in the file.
const FILE_BYTES: usize = CHECKSUM_AT + 8;

/// Reads the secret; `None` when there is no such file.
///
/// # Errors
///
/// [`Error::Corrupt`], [`Error::Format`] for a later version, [`Error::Io`].
pub(crate) fn read_secret(storage: &dyn Storage) -> Result<Option<Secret>> {
    let mut bytes = match read_file(storage, SECRET, FILE_BYTES as u64) {
        Err(Error::Io { kind: io::ErrorKind::NotFound, .. }) => return Ok(None),
        outcome => outcome?,
    };
    let secret = decode(&bytes);
    forget(&mut bytes);
    secret.map(Some)
}

/// Writes the secret in the place of any that is there, and makes it last.
///
/// # Errors
///
/// [`Error::Io`].
pub(crate) fn write_secret(storage: &dyn Storage, secret: &Secret) -> Result<()> {
    let mut bytes = encode(secret);
    let written = replace_file(storage, SECRET, &bytes);
    forget(&mut bytes);
    written
}

fn encode(secret: &Secret) -> [u8; FILE_BYTES] {
    let mut bytes = [0; FILE_BYTES];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[SECRET_AT..CHECKSUM_AT].copy_from_slice(secret.bytes());
    let sum = checksum(0, &bytes[..CHECKSUM_AT]);
    bytes[CHECKSUM_AT..].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// The secret in the bytes of a file; errors name no byte of it.
pub(super) fn decode(bytes: &[u8]) -> Result<Secret> {
    let damaged = |offset: usize, expected: &str| {
        Error::corrupt(SECRET, offset as u64, expected.to_owned(), "something else")
    };
    if bytes.len() != FILE_BYTES {
        return Err(damaged(bytes.len(), "216 bytes in all"));
    }
    if bytes[..8] != MAGIC {
        return Err(damaged(0, "the first bytes of a secret"));
    }
    if u64_at(bytes, CHECKSUM_AT) != Some(checksum(0, &bytes[..CHECKSUM_AT])) {
        return Err(damaged(CHECKSUM_AT, "the checksum of the secret"));
    }
    match u32_at(bytes, 8) {
        Some(VERSION) => {}
        found => {
            let (found, known) = (found.unwrap_or(0).into(), VERSION.into());
            return Err(Error::Format { file: SECRET.to_owned(), found, known });
        }
    }
    let secret = bytes[SECRET_AT..].first_chunk().ok_or_else(|| damaged(SECRET_AT, "a secret"))?;
    Ok(Secret::from_bytes(*secret))
}

/// Overwrites a copy of the secret.
fn forget(bytes: &mut [u8]) {
    bytes.fill(0);
    // Without a reader the compiler may leave the writes out.
    std::hint::black_box(bytes);
}
