//! What the child has told of its work: notes of 17 bytes, each written at once.

use std::collections::HashMap;
use std::io::Write;

/// An ID: the thread that owns it, and a number.
pub(crate) type Id = [u8; 16];

/// The ID of a thread with a number.
pub(crate) fn id(thread: u64, number: u64) -> Id {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&thread.to_le_bytes());
    id[8..].copy_from_slice(&number.to_le_bytes());
    id
}

/// What a note says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Word {
    /// The store has answered that the ID is seen, or its commit has returned.
    Seen = 1,
    /// A claim on it was aborted, or is held: it is not seen.
    Claimed = 2,
    /// It is about to be committed or checked again: until the next note it may be either.
    Doubtful = 3,
    /// It was forgotten.
    Forgotten = 4,
}

/// Writes a note.
pub(crate) fn tell(word: Word, id: Id) {
    let mut note = [word as u8; 17];
    note[1..].copy_from_slice(&id);
    // Shorter than a pipe's atomic write; a parent that is gone ends the child.
    if std::io::stdout().lock().write_all(&note).and_then(|()| std::io::stdout().flush()).is_err() {
        std::process::exit(1);
    }
}

/// What must hold of an ID.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Expected {
    Seen,
    Unseen,
    Either,
}

/// All notes of one store, summed up.
#[derive(Default)]
pub(crate) struct Ledger(HashMap<Id, Expected>);

impl Ledger {
    /// Takes the notes of one child in; a last one that is cut short counts for nothing.
    pub(crate) fn take(&mut self, notes: &[u8]) {
        for note in notes.chunks_exact(17) {
            let id: Id = note[1..].try_into().expect("16 bytes are left");
            let expected = match note[0] {
                word if word == Word::Seen as u8 => Expected::Seen,
                word if word == Word::Doubtful as u8 => Expected::Either,
                word if word == Word::Claimed as u8 || word == Word::Forgotten as u8 => Expected::Unseen,
                word => unreachable!("a note begins with {word}"),
            };
            self.0.insert(id, expected);
        }
    }

    /// Every ID with what must hold of it.
    pub(crate) fn expected(&self) -> impl Iterator<Item = (Id, Expected)> {
        self.0.iter().map(|(id, expected)| (*id, *expected))
    }
}
