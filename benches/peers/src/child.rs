//! One run: one peer and one case in a process of its own, so that its memory and its writes are its own.

use std::path::Path;
use std::time::{Duration, Instant};

use firstseen::Verdict;

use crate::drive::Drive;
use crate::key::Id;
use crate::peer::{Entry, Keeps, Outcome, Peer, Place};
use crate::record::{Case, Run, Timed};
use crate::usage::{self, Written};
use crate::verify;
use crate::workload::{Draw, Segment, id_of};

/// IDs in one call while preloading, for all peers: large, so that ordered stores gain from the order.
const PRELOAD_BATCH: usize = 1 << 16;

/// Known IDs that are asked for after opening again.
const REOPEN_CHECKS: u64 = 16;

/// What a run is told beside its case.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    /// Timed segments, one after the other on what the earlier ones have left.
    pub(crate) segments: usize,
    /// What caches of databases may hold.
    pub(crate) cache_bytes: u64,
    /// When to stop a segment.
    pub(crate) limit: Option<Duration>,
}

/// A run on its way.
struct Running<'a> {
    entry: &'a Entry,
    case: Case,
    place: Place,
    setting: &'a Setting,
    draw: Draw,
}

/// Runs a peer in an empty folder and removes nothing.
///
/// # Errors
///
/// What the peer or the system says, and every wrong answer.
pub(crate) fn run(entry: &Entry, case: Case, setting: &Setting, dir: &Path) -> Outcome<Run> {
    let preload = case.preload_needed();
    let stream = case.keys * setting.segments as u64;
    let place = Place {
        dir: dir.to_owned(),
        // With nothing but repeats there is nothing to come.
        keys_expected: preload + (stream as f64 * (1.0 - case.repeats)).ceil() as u64 + 1,
        threads: case.threads,
        cache_bytes: setting.cache_bytes,
        new_share: 1.0 - case.repeats,
    };
    let draw = Draw::new(preload, case.repeats);
    Running { entry, case, place, setting, draw }.run()
}

impl Running<'_> {
    fn run(mut self) -> Outcome<Run> {
        let count = usize::try_from(self.case.keys)?;
        // The first segment is there before the peer is, so that what memory grows by is the peer's.
        let mut segment = Segment::draw(&mut self.draw, count);
        let mut verdicts = vec![Verdict::InFlight; count.max(PRELOAD_BATCH)];
        let mut preload_ids = vec![[b' '; 36]; PRELOAD_BATCH];
        let memory_before = usage::memory_now(None)?;
        usage::forget_memory_peak()?;
        let written_before = Written::by(None)?;

        let peer = (self.entry.open)(&self.place)?;
        let preload_seconds = self.preload(peer.as_ref(), &mut preload_ids, &mut verdicts)?;
        let mut timed = Vec::new();
        let mut distinct = self.case.preload_needed();
        for index in 0..self.setting.segments {
            if index > 0 {
                segment = Segment::draw(&mut self.draw, count);
            }
            let (taken, new) = self.time(peer.as_ref(), &segment, &mut verdicts[..count])?;
            timed.push(taken);
            distinct += new;
        }
        let server = peer.server_pid();
        let memory_peak = usage::memory_peak(server)?;
        let written_by_server = server.map(|pid| Written::by(Some(pid))).transpose()?;
        let begun = Instant::now();
        peer.close()?;
        let close_seconds = begun.elapsed().as_secs_f64();
        let written = match written_by_server {
            Some(written) => written,
            None => Written::by(None)?.since(written_before),
        };
        Ok(Run {
            peer: self.entry.name.to_owned(),
            keeps: self.entry.keeps.word().to_owned(),
            case: self.case,
            timed,
            distinct,
            preload_seconds,
            memory_bytes: memory_peak - if server.is_some() { 0 } else { memory_before.min(memory_peak) },
            written_bytes: written.to_disk,
            write_call_bytes: written.by_calls,
            disk_bytes: if self.entry.keeps.is_on_disk() { usage::disk_bytes(&self.place.dir)? } else { 0 },
            close_seconds,
            reopen_seconds: self.reopen()?,
        })
    }

    /// Puts in what was there before; everything must be new.
    fn preload(&self, peer: &dyn Peer, ids: &mut [Id], verdicts: &mut [Verdict]) -> Outcome<f64> {
        let preload = self.case.preload_needed();
        let mut session = peer.session()?;
        let mut seconds = 0.0;
        for first in (0..preload).step_by(PRELOAD_BATCH) {
            let count = (preload - first).min(PRELOAD_BATCH as u64);
            let (ids, verdicts) =
                (&mut ids[..usize::try_from(count)?], &mut verdicts[..usize::try_from(count)?]);
            ids.iter_mut().zip(first..).for_each(|(id, number)| *id = id_of(number));
            let begun = Instant::now();
            session.check_batch(ids, verdicts)?;
            seconds += begun.elapsed().as_secs_f64();
            let is_wrong = |verdict: &Verdict| *verdict != Verdict::FirstSeen;
            if self.entry.keeps != Keeps::Nothing && verdicts.iter().any(is_wrong) {
                return Err(format!("a new ID from {first} on was not new while preloading").into());
            }
        }
        Ok(seconds)
    }

    /// One segment, its answers verified: what it took, and how many IDs were new.
    fn time(&self, peer: &dyn Peer, segment: &Segment, verdicts: &mut [Verdict]) -> Outcome<(Timed, u64)> {
        let Case { batch, threads, .. } = self.case;
        let drive = Drive { batch, threads, limit: self.setting.limit };
        verdicts.fill(Verdict::InFlight);
        let driven = drive.run(peer, segment, verdicts, drive.samples(verdicts.len()))?;
        if self.setting.segments > 1 && driven.timed.checks < self.case.keys {
            return Err("time was up in a run of several segments: later ones would build on it".into());
        }
        if self.entry.keeps == Keeps::Nothing {
            return Ok((driven.timed, self.draw.known() - segment.known_before));
        }
        let new = if threads == 1 {
            verify::in_order(segment, &verdicts[..usize::try_from(driven.timed.checks)?])?
        } else {
            verify::in_any_order(segment, verdicts, |position| driven.is_done(position))?
        };
        Ok((driven.timed, new))
    }

    /// Opens what is on the disk again, until known IDs have been answered; the time that took.
    fn reopen(&self) -> Outcome<Option<f64>> {
        if !self.entry.keeps.is_on_disk() {
            return Ok(None);
        }
        // The first position of a stream was surely asked for; after it, whatever time allowed.
        let ids: Vec<Id> = (0..REOPEN_CHECKS.min(self.case.preload_needed().max(1))).map(id_of).collect();
        let mut verdicts = vec![Verdict::InFlight; ids.len()];
        let begun = Instant::now();
        let peer = (self.entry.open)(&self.place)?;
        peer.session()?.check_batch(&ids, &mut verdicts)?;
        let seconds = begun.elapsed().as_secs_f64();
        peer.close()?;
        if verdicts.iter().any(|verdict| *verdict != Verdict::Duplicate) {
            return Err("known IDs were new after opening again".into());
        }
        Ok(Some(seconds))
    }
}
