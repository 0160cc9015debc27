//! The peer memcached: the meta command `ms` in mode "add", pipelined over a private socket.
//!
//! Its text protocol takes no arbitrary bytes as keys, so the key travels in Base64 and is kept as the
//! sixteen bytes that it stands for (flag `b`).

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use firstseen::Verdict;

use crate::key::{Id, KeyBytes, key_of};
use crate::peer::{Outcome, Peer, Place, Session};

use super::server::Server;

/// The program, of Debian's package of the same name.
pub(super) const PROGRAM: &str = "memcached";

/// Requests on their way before answers are read. A server that cannot send its answers stops reading.
const PIPELINE_MAX: usize = 1024;

/// Both answers have this length.
const ANSWER_BYTES: usize = 4;
const STORED: &[u8; ANSWER_BYTES] = b"HD\r\n";
const NOT_STORED: &[u8; ANSWER_BYTES] = b"NS\r\n";

const MEMORY_MIB: u32 = 65_536;
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// A server that would refuse a key rather than forget one (`-M`), with its hash table made for the keys.
pub(super) fn open(place: &Place) -> Outcome<Box<dyn Peer>> {
    let socket = place.dir.join("socket");
    let power = place.keys_expected.next_power_of_two().ilog2().clamp(16, 32);
    let socket_path = socket.display().to_string();
    let memory = MEMORY_MIB.to_string();
    let tuning = format!("hashpower={power},no_lru_crawler,no_lru_maintainer");
    let arguments =
        ["-u", "root", "-s", &socket_path, "-a", "700", "-m", &memory, "-M", "-t", "2", "-o", &tuning];
    Ok(Box::new(Memcached(Server::start(PROGRAM, &arguments, &place.dir, &socket)?)))
}

struct Memcached(Server);

impl Peer for Memcached {
    fn session(&self) -> Outcome<Box<dyn Session + '_>> {
        Ok(Box::new(Pipeline { connection: self.0.connect()?, requests: Vec::new(), answers: Vec::new() }))
    }

    fn server_pid(&self) -> Option<u32> {
        Some(self.0.pid())
    }

    fn close(self: Box<Self>) -> Outcome<()> {
        self.0.stop()
    }
}

struct Pipeline {
    connection: UnixStream,
    requests: Vec<u8>,
    answers: Vec<u8>,
}

impl Session for Pipeline {
    fn check_batch(&mut self, ids: &[Id], verdicts: &mut [Verdict]) -> Outcome<()> {
        for (ids, verdicts) in ids.chunks(PIPELINE_MAX).zip(verdicts.chunks_mut(PIPELINE_MAX)) {
            self.requests.clear();
            for id in ids {
                self.requests.extend_from_slice(b"ms ");
                self.requests.extend_from_slice(&base64(key_of(id).to_be_bytes()));
                self.requests.extend_from_slice(b" 0 b ME\r\n\r\n");
            }
            self.connection.write_all(&self.requests)?;
            self.answers.resize(ids.len() * ANSWER_BYTES, 0);
            self.connection.read_exact(&mut self.answers)?;
            for (answer, verdict) in self.answers.chunks_exact(ANSWER_BYTES).zip(verdicts) {
                *verdict = verdict_of(answer)?;
            }
        }
        Ok(())
    }
}

fn verdict_of(answer: &[u8]) -> Outcome<Verdict> {
    match answer {
        answer if answer == STORED => Ok(Verdict::FirstSeen),
        answer if answer == NOT_STORED => Ok(Verdict::Duplicate),
        answer => Err(format!("memcached: {}", String::from_utf8_lossy(answer)).into()),
    }
}

/// Sixteen bytes in Base64, with padding.
fn base64(key: KeyBytes) -> [u8; 24] {
    // 128 bits are 21 digits of six and one of two, which is filled up with zeros.
    let bits = u128::from_be_bytes(key);
    let mut text = [b'='; 24];
    for (place, letter) in text.iter_mut().take(21).enumerate() {
        *letter = ALPHABET[(bits >> (122 - 6 * place)) as usize & 63];
    }
    text[21] = ALPHABET[(bits << 4) as usize & 63];
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_of_known_bytes_is_as_elsewhere() {
        assert_eq!(&base64(*b"0123456789abcdef"), b"MDEyMzQ1Njc4OWFiY2RlZg==");
        assert_eq!(&base64([0xff; 16]), b"/////////////////////w==");
    }
}
