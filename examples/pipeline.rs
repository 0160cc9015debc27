//! Workers that consume batches from a queue which delivers some messages more than once.
//!
//! ```text
//! queue --batch--> claim_batch --leased--> work --> commit --> acknowledge      each order is shipped once
//!                       |
//!                       +-- in flight: give back, another worker (or this batch) is at it
//! ```
//!
//! The order of the steps is the point: a worker that dies before `commit` leaves nothing behind, and the
//! queue delivers its batch again; one that dies between `commit` and the acknowledgement causes duplicates
//! that are skipped. Where nothing can fail, as in the count at the end, `check_batch` alone does.
//!
//! ```text
//! cargo run --example pipeline
//! ```

use std::collections::VecDeque;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use firstseen::{Claim, Options, Store, Verdict};

const ORDERS: usize = 1_000;
const DELIVERIES_PER_ORDER: usize = 4;
const BATCH: usize = 64;
const WORKERS: usize = 4;

/// Longer than the work on a whole batch takes.
const LEASE: Duration = Duration::from_secs(30);

/// Stands for a broker: messages are delivered until they are acknowledged.
struct Queue {
    waiting: Mutex<VecDeque<String>>,
    unacknowledged: AtomicUsize,
}

impl Queue {
    fn new(messages: Vec<String>) -> Queue {
        Queue { unacknowledged: AtomicUsize::new(messages.len()), waiting: Mutex::new(messages.into()) }
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<String>> {
        // A worker that panics leaves the list whole.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next messages; none while the last ones are with other workers, `None` when all are done.
    fn take(&self) -> Option<Vec<String>> {
        let mut waiting = self.waiting();
        // Relaxed: a count of its own.
        let is_done = self.unacknowledged.load(Ordering::Relaxed) == 0;
        let messages = waiting.len().min(BATCH);
        if is_done { None } else { Some(waiting.drain(..messages).collect()) }
    }

    fn acknowledge(&self, messages: usize) {
        // Relaxed: a count of its own.
        self.unacknowledged.fetch_sub(messages, Ordering::Relaxed);
    }

    fn give_back(&self, messages: impl IntoIterator<Item = String>) {
        self.waiting().extend(messages);
    }
}

/// What must happen once for each order: here it is counted.
struct Shop {
    shipped: AtomicUsize,
    failures_left: AtomicUsize,
}

impl Shop {
    fn ship(&self, _order: &str) {
        // Relaxed: a count, read after the workers have ended.
        self.shipped.fetch_add(1, Ordering::Relaxed);
    }

    /// Fails a few times in the beginning, before anything is shipped.
    fn connect(&self) -> Result<(), String> {
        let one_less = |left: usize| left.checked_sub(1);
        // Relaxed: a count of its own.
        match self.failures_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less) {
            Ok(_) => Err("no connection to the shop".to_owned()),
            Err(_) => Ok(()),
        }
    }
}

/// Takes batches until the queue is done.
fn consume(queue: &Queue, store: &Store, shop: &Shop) {
    while let Some(batch) = queue.take() {
        if batch.is_empty() {
            thread::sleep(Duration::from_millis(1));
            continue;
        }
        match process(&batch, store, shop) {
            Ok(is_over) => {
                queue.acknowledge(is_over.iter().filter(|is_over| **is_over).count());
                let rest = batch.into_iter().zip(is_over).filter(|(_, is_over)| !is_over);
                queue.give_back(rest.map(|(message, _)| message));
            }
            Err(error) => {
                println!("{error}: {} messages go back", batch.len());
                queue.give_back(batch);
            }
        }
    }
}

/// Claims, works, commits; says of each message whether it may be acknowledged.
///
/// On the way out by an error the claims are dropped, which frees their IDs.
fn process(batch: &[String], store: &Store, shop: &Shop) -> Result<Vec<bool>, String> {
    let claims = store.claim_batch(batch, LEASE).map_err(|error| error.to_string())?;
    shop.connect()?;
    for index in claims.leased() {
        shop.ship(&batch[index]);
    }
    // In flight with another worker, or earlier in this very batch: ask again later.
    let is_over =
        claims.claims().iter().map(|claim| !matches!(claim, Claim::InFlight { .. })).collect::<Vec<_>>();
    claims.commit().map_err(|error| error.to_string())?;
    Ok(is_over)
}

/// Every order several times: right behind one another, and again much later.
fn deliveries() -> Vec<String> {
    let numbers = (0..ORDERS * DELIVERIES_PER_ORDER).map(|delivery| delivery / 2 * 7 % ORDERS);
    numbers.map(|order| format!("order-{order}")).collect()
}

/// How many different messages there are: no work, so nothing to claim.
fn count_distinct(messages: &[String]) -> firstseen::Result<usize> {
    let store = Store::in_memory(Options::new())?;
    let mut verdicts = vec![Verdict::default(); messages.len()];
    store.check_batch(messages, &mut verdicts)?;
    Ok(verdicts.iter().filter(|verdict| verdict.is_first_seen()).count())
}

fn main() -> Result<ExitCode, firstseen::Error> {
    let messages = deliveries();
    let (delivered, distinct) = (messages.len(), count_distinct(&messages)?);
    let (queue, store) = (Queue::new(messages), Store::in_memory(Options::new())?);
    let shop = Shop { shipped: AtomicUsize::new(0), failures_left: AtomicUsize::new(3) };
    thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| consume(&queue, &store, &shop));
        }
    });
    // Relaxed: the end of the scope has joined the workers.
    let shipped = shop.shipped.load(Ordering::Relaxed);
    println!("{delivered} messages, {distinct} different ones, {shipped} orders shipped");
    Ok(if shipped == distinct { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
