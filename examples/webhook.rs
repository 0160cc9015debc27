//! A webhook receiver in two phases (claim, work, commit): each delivery's work is done once.
//!
//! Whoever sends webhooks sends again when no answer came in time, often while the first delivery is still
//! being worked on. Every delivery carries an `Idempotency-Key`, and what the store says about it is the
//! answer:
//!
//! | claim | answer | meaning for the sender |
//! | --- | --- | --- |
//! | `Leased`, work, `commit` | 200 `done` | done by this delivery |
//! | `Duplicate` | 200 `already done` | done by an earlier one |
//! | `InFlight` | 409 and `Retry-After` | another one is at it: ask again |
//! | `Leased`, but the work failed | 500 | the lease was dropped, so the next delivery does it |
//!
//! ```text
//! cargo run --example webhook                      # delivers one key to itself many times, and exits
//! cargo run --example webhook -- 127.0.0.1:8080    # serves until it is stopped
//! curl -d '{}' -H 'Idempotency-Key: order-17' http://127.0.0.1:8080/
//! ```
//!
//! The store of this example is in memory: a restart of the process forgets which keys were done. A receiver
//! that must not forget says `Store::open_with(dir, options)` instead, and nothing else changes.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use firstseen::{Claim, Error, Hash, Options, Store, Window};

/// Longer than the work ever takes; should a worker hang, the key is free again after this.
const LEASE: Duration = Duration::from_secs(10);

/// When to ask again about a key in flight: the work is done long before its lease is over.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// How much of a request is read, in bytes.
const REQUEST_BYTES_MAX: u64 = 64 << 10;

/// How long a sender may keep a thread waiting.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// Deliveries of one key that the self-test sends at the same time.
const DELIVERIES: usize = 8;

/// What the handlers share.
struct Receiver {
    store: Store,
    works_done: AtomicUsize,
}

/// What the sender is told.
struct Answer {
    status: &'static str,
    text: &'static str,
    /// When to ask again.
    retry_after: Option<Duration>,
}

const DONE: Answer = Answer::last("200 OK", "done");
const DONE_BEFORE: Answer = Answer::last("200 OK", "already done");
const IN_FLIGHT: Answer = Answer::for_now("409 Conflict", "in flight, ask again");
const FAILED: Answer = Answer::last("500 Internal Server Error", "failed, deliver again");
const REFUSED: Answer = Answer::for_now("503 Service Unavailable", "no room, deliver later");
const KEYLESS: Answer = Answer::last("400 Bad Request", "an Idempotency-Key header is needed");

impl Answer {
    const fn last(status: &'static str, text: &'static str) -> Answer {
        Answer { status, text, retry_after: None }
    }

    const fn for_now(status: &'static str, text: &'static str) -> Answer {
        Answer { status, text, retry_after: Some(RETRY_AFTER) }
    }
}

impl Receiver {
    fn new() -> firstseen::Result<Receiver> {
        // Keys come from strangers, so the hash is one that they cannot make collide. Senders give up after a
        // day at the latest.
        let day = Window::Fixed(Duration::from_secs(86_400));
        let store = Store::in_memory(Options::new().hash(Hash::Keyed).window(day))?;
        Ok(Receiver { store, works_done: AtomicUsize::new(0) })
    }

    /// The two phases.
    fn answer(&self, key: &str) -> firstseen::Result<Answer> {
        match self.store.claim(key, LEASE)? {
            Claim::Leased(lease) => {
                if self.work(key).is_err() {
                    // The lease is dropped here, and the key is free.
                    return Ok(FAILED);
                }
                match lease.commit() {
                    Ok(()) => Ok(DONE),
                    // The work took longer than the lease and another delivery took over: its outcome counts.
                    Err(Error::LeaseLost { .. }) => Ok(IN_FLIGHT),
                    Err(error) => Err(error),
                }
            }
            Claim::Duplicate => Ok(DONE_BEFORE),
            Claim::InFlight { .. } => Ok(IN_FLIGHT),
        }
    }

    /// Stands for what must not be done twice: here it takes a while and is counted.
    fn work(&self, _key: &str) -> io::Result<()> {
        thread::sleep(Duration::from_millis(100));
        // Relaxed: a count, read after all answers have arrived.
        self.works_done.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Reads one request and answers it; whatever goes wrong with the connection is the sender's to repeat.
    fn serve(&self, stream: &TcpStream) -> io::Result<()> {
        stream.set_read_timeout(Some(READ_TIMEOUT))?;
        let answer = match read_key(stream)? {
            None => KEYLESS,
            // Out of memory, or the like: nothing was recorded, a later delivery may succeed.
            Some(key) => self.answer(&key).unwrap_or(REFUSED),
        };
        write_answer(stream, &answer)
    }
}

/// The value of the `Idempotency-Key` header of a request, whose body is read and dropped.
fn read_key(stream: &TcpStream) -> io::Result<Option<String>> {
    let mut reader = BufReader::new(stream).take(REQUEST_BYTES_MAX);
    let (mut key, mut body_bytes) = (None, 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line.trim_end().is_empty() {
            break;
        }
        match line.split_once(':') {
            Some((name, value)) if name.eq_ignore_ascii_case("idempotency-key") => {
                key = Some(value.trim().to_owned());
            }
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                body_bytes = value.trim().parse().unwrap_or(0);
            }
            _ => {}
        }
    }
    io::copy(&mut reader.take(body_bytes), &mut io::sink())?;
    Ok(key.filter(|key| !key.is_empty()))
}

fn write_answer(mut stream: &TcpStream, answer: &Answer) -> io::Result<()> {
    let Answer { status, text, retry_after } = answer;
    let retry = retry_after.map_or_else(String::new, |after| format!("Retry-After: {}\r\n", after.as_secs()));
    let head = format!("HTTP/1.1 {status}\r\n{retry}Content-Length: {}\r\nConnection: close", text.len());
    stream.write_all(format!("{head}\r\n\r\n{text}").as_bytes())
}

/// One thread for each connection, until the process ends.
fn listen(listener: &TcpListener, receiver: &Arc<Receiver>) {
    for stream in listener.incoming().flatten() {
        let receiver = Arc::clone(receiver);
        thread::spawn(move || receiver.serve(&stream));
    }
}

/// Delivers `key` until the answer is 200, as senders do; returns all answers.
fn deliver(address: SocketAddr, key: &str) -> io::Result<Vec<String>> {
    let mut answers = Vec::new();
    loop {
        let mut stream = TcpStream::connect(address)?;
        write!(stream, "POST / HTTP/1.1\r\nHost: localhost\r\nIdempotency-Key: {key}\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let status = answer.split_whitespace().nth(1).unwrap_or_default().to_owned();
        let text = answer.rsplit("\r\n").next().unwrap_or_default();
        answers.push(format!("{status} {text}"));
        if status == "200" {
            return Ok(answers);
        }
        thread::sleep(RETRY_AFTER);
    }
}

/// Delivers one key many times at once and tells what came of it; true if the work was done once.
fn try_out(address: SocketAddr, receiver: &Receiver) -> io::Result<bool> {
    let senders: Vec<_> =
        (0..DELIVERIES).map(|_| thread::spawn(move || deliver(address, "order-17"))).collect();
    for (number, sender) in senders.into_iter().enumerate() {
        let answers = sender.join().map_err(|_| io::Error::other("a sender panicked"))??;
        println!("delivery {number}: {}", answers.join(", then "));
    }
    // Relaxed: every answer has arrived over its connection.
    let works_done = receiver.works_done.load(Ordering::Relaxed);
    println!("{DELIVERIES} deliveries of one key at once: the work was done {works_done} time(s)");
    Ok(works_done == 1)
}

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let asked = std::env::args().nth(1);
    let listener = TcpListener::bind(asked.as_deref().unwrap_or("127.0.0.1:0"))?;
    let address = listener.local_addr()?;
    let receiver = Arc::new(Receiver::new()?);
    if asked.is_some() {
        println!("listening on {address}");
        listen(&listener, &receiver);
        return Ok(ExitCode::SUCCESS);
    }
    let server = Arc::clone(&receiver);
    thread::spawn(move || listen(&listener, &server));
    Ok(if try_out(address, &receiver)? { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
