//! The timed part: threads take a segment in turns and hand it to a peer, batch by batch.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use firstseen::Verdict;

use crate::key::Id;
use crate::latency::{SAMPLE_EVERY, Samples};
use crate::peer::{Outcome, Peer, Session};
use crate::record::Timed;
use crate::workload::Segment;

/// What a thread takes at a time; the clock is looked at in between.
const BLOCK: usize = 1024;

/// A part of a stream, and where its answers go.
type Block<'a> = (&'a [Id], &'a mut [Verdict]);

/// How a segment is to be taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Drive {
    /// IDs in one call.
    pub(crate) batch: usize,
    /// Threads that call.
    pub(crate) threads: usize,
    /// When to stop, done or not.
    pub(crate) limit: Option<Duration>,
}

/// What all threads did.
#[derive(Debug)]
pub(crate) struct Driven {
    /// How long it took.
    pub(crate) timed: Timed,
    /// How many of its blocks each thread did.
    blocks: Vec<usize>,
    block: usize,
}

impl Driven {
    /// Whether a position was asked for before time was up.
    pub(crate) fn is_done(&self, position: usize) -> bool {
        let index = position / self.block;
        index / self.blocks.len() < self.blocks[index % self.blocks.len()]
    }
}

/// What one thread did.
struct Share {
    begun: Instant,
    ended: Instant,
    blocks: usize,
    checks: u64,
    samples: Samples,
}

impl Drive {
    /// Room for the latencies of each thread, of `count` positions in all; none for real batches.
    pub(crate) fn samples(&self, count: usize) -> Vec<Samples> {
        let each = count.div_ceil(self.threads).next_multiple_of(BLOCK) / SAMPLE_EVERY + 1;
        (0..self.threads).map(|_| Samples::with_capacity(if self.batch == 1 { each } else { 0 })).collect()
    }

    /// Asks for a segment; the answers go to `verdicts`.
    ///
    /// # Errors
    ///
    /// What the peer says.
    pub(crate) fn run(
        &self,
        peer: &dyn Peer,
        segment: &Segment,
        verdicts: &mut [Verdict],
        samples: Vec<Samples>,
    ) -> Outcome<Driven> {
        let block = BLOCK.next_multiple_of(self.batch);
        let mut parts: Vec<Vec<Block<'_>>> = (0..self.threads).map(|_| Vec::new()).collect();
        for (index, pair) in segment.ids.chunks(block).zip(verdicts.chunks_mut(block)).enumerate() {
            parts[index % self.threads].push(pair);
        }
        let start = Barrier::new(self.threads);
        let shares: Vec<Share> = std::thread::scope(|scope| {
            let start = &start;
            let work = parts.into_iter().zip(samples);
            let running: Vec<_> = work
                .map(|(part, samples)| scope.spawn(move || self.take(peer, part, samples, start)))
                .collect();
            running
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|_| Err("a thread panicked".into())))
                .collect::<Outcome<_>>()
        })?;
        Ok(summed_up(shares, block))
    }

    /// One thread's share, from the moment when all are ready.
    fn take(
        &self,
        peer: &dyn Peer,
        part: Vec<Block<'_>>,
        mut samples: Samples,
        start: &Barrier,
    ) -> Outcome<Share> {
        let session = peer.session();
        start.wait();
        let mut session = session?;
        let begun = Instant::now();
        let (mut blocks, mut checks) = (0, 0);
        for (ids, verdicts) in part {
            if self.limit.is_some_and(|limit| begun.elapsed() >= limit) {
                break;
            }
            if self.batch == 1 {
                take_singly(session.as_mut(), ids, verdicts, &mut samples)?;
            } else {
                for (ids, verdicts) in ids.chunks(self.batch).zip(verdicts.chunks_mut(self.batch)) {
                    session.check_batch(ids, verdicts)?;
                }
            }
            blocks += 1;
            checks += ids.len() as u64;
        }
        Ok(Share { begun, ended: Instant::now(), blocks, checks, samples })
    }
}

/// One ID a call; every few calls one is timed by itself.
fn take_singly(
    session: &mut dyn Session,
    ids: &[Id],
    verdicts: &mut [Verdict],
    samples: &mut Samples,
) -> Outcome<()> {
    for (ids, verdicts) in ids.chunks(SAMPLE_EVERY).zip(verdicts.chunks_mut(SAMPLE_EVERY)) {
        let begun = Instant::now();
        session.check_batch(&ids[..1], &mut verdicts[..1])?;
        samples.add(begun.elapsed());
        for index in 1..ids.len() {
            session.check_batch(&ids[index..=index], &mut verdicts[index..=index])?;
        }
    }
    Ok(())
}

fn summed_up(shares: Vec<Share>, block: usize) -> Driven {
    let begun = shares.iter().map(|share| share.begun).min();
    let ended = shares.iter().map(|share| share.ended).max();
    let seconds = begun.zip(ended).map_or(0.0, |(begun, ended)| (ended - begun).as_secs_f64());
    let checks = shares.iter().map(|share| share.checks).sum();
    let blocks = shares.iter().map(|share| share.blocks).collect();
    let mut samples = Samples::with_capacity(0);
    for share in shares {
        samples.append(share.samples);
    }
    Driven { timed: Timed { checks, seconds, latency_ns: samples.percentiles() }, blocks, block }
}
