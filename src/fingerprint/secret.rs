//! The secret of a store: 192 random bytes that every hash kind draws its key from.

use std::fmt;

use crate::error::{Error, Result};

/// How many bytes a secret has: the length of XXH3's own, so that every length of input meets its full
/// strength.
pub(crate) const SECRET_BYTES: usize = 192;

/// The 192 bytes that make one store's fingerprints unlike another's.
///
/// Whoever knows the secret can find IDs that collide or cluster, so it is kept like a password: `Debug`
/// prints no byte of it, it implements no comparison, and its memory is overwritten when it is dropped (as
/// far as a program can: copies that a move left on the stack are out of its reach).
///
/// A store makes its own with [`Secret::random`]. Stores that are to be merged, or that answer for one
/// another, are created with one shared secret.
#[derive(Clone)]
#[repr(C, align(64))]
pub struct Secret([u8; SECRET_BYTES]);

const _: () = assert!(size_of::<Secret>() == 192, "three cache lines, no padding");
const _: () = assert!(align_of::<Secret>() == 64);

impl Secret {
    /// Draws a new secret from the operating system's random source.
    ///
    /// # Errors
    ///
    /// [`Error::System`] when the operating system gives no randomness. Nothing weaker is used in its place.
    ///
    /// Complexity: one system call, no allocation; early in a boot the call may wait for the system to be
    /// seeded.
    pub fn random() -> Result<Self> {
        let mut secret = Self([0; SECRET_BYTES]);
        getrandom::fill(&mut secret.0).map_err(|cause| Error::System {
            operation: "drawing a random secret",
            message: cause.to_string(),
        })?;
        Ok(secret)
    }

    /// Takes a secret that was drawn before, to open or to share what was written under it.
    ///
    /// The bytes must come from a random source of full strength, all 192 of them: they are used as they are.
    /// A password, a repeated pattern or a short key padded with zeros protects from nothing.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; SECRET_BYTES]) -> Self {
        Self(bytes)
    }

    /// All 192 bytes, for the hash functions and for the file that keeps them.
    #[inline]
    pub(crate) const fn bytes(&self) -> &[u8; SECRET_BYTES] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret(redacted)")
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.fill(0);
        // Without a reader the compiler may leave the writes out.
        std::hint::black_box(&mut self.0);
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn debug_of_secret_shows_no_byte() {
        let shown = format!("{:?}", Secret::from_bytes([0xa7; SECRET_BYTES]));
        assert_eq!(shown, "Secret(redacted)");
    }

    #[test]
    fn random_secrets_differ_and_are_filled_to_the_end() {
        let (one, other) = (Secret::random().unwrap(), Secret::random().unwrap());
        for (one, other) in one.bytes().chunks(16).zip(other.bytes().chunks(16)) {
            assert_ne!(one, other, "equal by chance once in 2^128");
            assert_ne!(one, [0; 16], "left unfilled");
        }
    }

    #[test]
    fn clone_of_secret_has_the_same_bytes() {
        let secret = Secret::random().unwrap();
        assert_eq!(secret.clone().bytes(), secret.bytes());
    }
}
