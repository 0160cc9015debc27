//! Redis: `SET key 1 NX`, pipelined over a private socket.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use firstseen::Verdict;

use crate::key::{Id, key_of};
use crate::peer::{Outcome, Peer, Place, Session};

use super::server::Server;

/// The program, of Debian's package of the same name.
pub(super) const PROGRAM: &str = "redis-server";

/// Requests on their way before answers are read: more bring nothing.
const PIPELINE_MAX: usize = 1024;

/// Both answers have this length.
const ANSWER_BYTES: usize = 5;
const STORED: &[u8; ANSWER_BYTES] = b"+OK\r\n";
const NOT_STORED: &[u8; ANSWER_BYTES] = b"$-1\r\n";

/// In memory only.
pub(super) fn open(place: &Place) -> Outcome<Box<dyn Peer>> {
    open_with(place, "appendonly no")
}

/// With its log, handed to the page cache before an answer and synced every second.
pub(super) fn open_with_log(place: &Place) -> Outcome<Box<dyn Peer>> {
    open_with(place, "appendonly yes\nappendfsync everysec\nauto-aof-rewrite-percentage 0")
}

fn open_with(place: &Place, log: &str) -> Outcome<Box<dyn Peer>> {
    let socket = place.dir.join("socket");
    let settings = place.dir.join("redis.conf");
    let dir = place.dir.display();
    fs::write(
        &settings,
        format!(
            "port 0\nunixsocket \"{}\"\nunixsocketperm 700\ndir \"{dir}\"\nsave \"\"\ndaemonize no\n\
             databases 1\nloglevel warning\n{log}\n",
            socket.display()
        ),
    )?;
    let server = Server::start(PROGRAM, &[&settings.display().to_string()], &place.dir, &socket)?;
    let mut connection = server.connect()?;
    wait_until_loaded(&mut connection)?;
    Ok(Box::new(Redis(server)))
}

/// A server that reads its log refuses commands until it is through.
fn wait_until_loaded(connection: &mut UnixStream) -> Outcome<()> {
    loop {
        connection.write_all(b"PING\r\n")?;
        let mut answer = [0; 256];
        let length = connection.read(&mut answer)?;
        match &answer[..length] {
            b"+PONG\r\n" => return Ok(()),
            answer if answer.starts_with(b"-LOADING") => {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            answer => return Err(format!("redis: {}", String::from_utf8_lossy(answer)).into()),
        }
    }
}

struct Redis(Server);

impl Peer for Redis {
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
                self.requests.extend_from_slice(b"*4\r\n$3\r\nSET\r\n$16\r\n");
                self.requests.extend_from_slice(&key_of(id).to_be_bytes());
                self.requests.extend_from_slice(b"\r\n$1\r\n1\r\n$2\r\nNX\r\n");
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
        answer => Err(format!("redis: {}", String::from_utf8_lossy(answer)).into()),
    }
}
