//! What can be believed of a manifest whose checksum is wrong.
//!
//! Most of its lines are likely to be right, but none proves itself. So only what something else confirms is
//! taken: the hash when the secret gives the key check under it, the window when two lines agree on it. Run
//! number and time only need to be high enough.

use crate::fingerprint::{Hash, Hasher, Secret};
use crate::options::Window;
use crate::storage::Storage;
use crate::storage::names::MANIFEST;
use crate::storage::read_file;

use super::text::{decimal, hash_of, hexadecimal, window_of};

/// Lines of a damaged manifest, as far as they could be read.
#[derive(Debug, Default)]
pub(crate) struct Remains {
    key_check: Option<u64>,
    hash: Option<Hash>,
    window: Option<Window>,
    ttl_ms_max: Option<u64>,
    /// How often the store was opened, at least if there is nothing wrong with it.
    pub(crate) run: Option<u64>,
    /// The latest time.
    pub(crate) time_ms: Option<u64>,
}

impl Remains {
    /// Reads what there is; nothing when there is no such file.
    pub(crate) fn read(storage: &dyn Storage) -> Remains {
        let bytes = read_file(storage, MANIFEST, crate::limits::MANIFEST_BYTES_MAX).unwrap_or_default();
        Remains::of_text(&String::from_utf8_lossy(&bytes))
    }

    fn of_text(text: &str) -> Remains {
        let mut remains = Remains::default();
        for (word, values) in text.lines().filter_map(|line| line.split_once(' ')) {
            match word {
                "hash" => remains.hash = hash_of(values),
                "key-check" => remains.key_check = hexadecimal(values),
                "window" => remains.window = window_of(values),
                "ttl-ms-max" => remains.ttl_ms_max = decimal(values),
                "run" => remains.run = decimal(values),
                "time-ms" => remains.time_ms = decimal(values),
                _ => {}
            }
        }
        remains
    }

    /// The hash, if the secret confirms it, or one of the others.
    pub(crate) fn hash(&self, secret: &Secret) -> Option<Hash> {
        let is_it = |hash: &Hash| Some(Hasher::new(*hash, secret.clone()).check_value()) == self.key_check;
        let likely = self.hash.into_iter().chain([Hash::Xxh3, Hash::Keyed, Hash::Exact]);
        likely.into_iter().find(is_it)
    }

    /// The window, if the line of the longest time to live confirms it.
    pub(crate) fn window(&self) -> Option<Window> {
        let window_ms = match self.window? {
            Window::Forever => 0,
            Window::Fixed(length) | Window::Sliding(length) => length.as_millis(),
        };
        (self.ttl_ms_max.map(u128::from) == Some(window_ms)).then_some(self.window?)
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn remains_take_only_what_something_confirms() {
        let secret = Secret::from_bytes([7; 192]);
        let check = Hasher::new(Hash::Keyed, secret.clone()).check_value();
        let text = format!("hash x\u{fffd}\nkey-check {check:016x}\nwindow fixed 5\nttl-ms-max 5\nrun 9");
        let remains = Remains::of_text(&text);
        assert_eq!(remains.hash(&secret), Some(Hash::Keyed));
        assert_eq!(remains.window(), Some(Window::Fixed(std::time::Duration::from_millis(5))));
        assert_eq!(remains.run, Some(9));
        let flipped =
            Remains::of_text(&text.replace("key-check ", "key-check 0").replace("fixed 5", "fixed 4"));
        assert_eq!((flipped.hash(&secret), flipped.window()), (None, None));
        assert!(Remains::of_text("").hash(&secret).is_none());
    }
}
