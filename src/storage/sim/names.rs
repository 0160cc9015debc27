//! The names of the simulated disk, and which changes of them no sync of the directory covers yet.

use std::collections::BTreeMap;
use std::io;

use super::crash::Crash;
use super::random::Random;

/// Numbers files for as long as the disk lives; several names may lead to one file for a while after a power
/// cut.
pub(super) type FileNumber = u64;

#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    live: BTreeMap<String, FileNumber>,
    durable: BTreeMap<String, FileNumber>,
    /// In the order in which they were made.
    pending: Vec<Pending>,
}

/// A change that may or may not outlast a power cut.
#[derive(Clone, Debug)]
struct Pending {
    change: Change,
    /// A sync of the directory failed: later syncs pass the change by.
    is_given_up: bool,
}

#[derive(Clone, Debug)]
enum Change {
    Create { name: String, file: FileNumber },
    Rename { from: String, to: String, file: FileNumber },
    Remove { name: String },
}

impl Change {
    fn names(&self) -> [&str; 2] {
        match self {
            Change::Create { name, .. } | Change::Remove { name } => [name, name],
            Change::Rename { from, to, .. } => [from, to],
        }
    }

    fn touches_any_of(&self, other: &Change) -> bool {
        self.names().iter().any(|name| other.names().contains(name))
    }

    fn apply(&self, names: &mut BTreeMap<String, FileNumber>) {
        match self {
            Change::Create { name, file } => {
                names.insert(name.clone(), *file);
            }
            Change::Rename { from, to, file } => {
                names.remove(from);
                names.insert(to.clone(), *file);
            }
            Change::Remove { name } => {
                names.remove(name);
            }
        }
    }
}

impl Names {
    pub(super) fn list(&self) -> impl Iterator<Item = (&String, FileNumber)> {
        self.live.iter().map(|(name, file)| (name, *file))
    }

    pub(super) fn get(&self, name: &str) -> io::Result<FileNumber> {
        self.live.get(name).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub(super) fn create(&mut self, name: &str, file: FileNumber) -> io::Result<()> {
        if self.live.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.change(Change::Create { name: name.to_owned(), file });
        Ok(())
    }

    pub(super) fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        let file = self.get(from)?;
        // Two names of one file, as a torn rename leaves them, stay: so do systems.
        if self.live.get(to) != Some(&file) {
            self.change(Change::Rename { from: from.to_owned(), to: to.to_owned(), file });
        }
        Ok(())
    }

    pub(super) fn remove(&mut self, name: &str) -> io::Result<()> {
        self.get(name)?;
        self.change(Change::Remove { name: name.to_owned() });
        Ok(())
    }

    /// Gives a file a name that is durable at once.
    pub(super) fn put(&mut self, name: &str, file: FileNumber) {
        let change = Change::Create { name: name.to_owned(), file };
        self.pending.retain(|pending| !pending.change.touches_any_of(&change));
        change.apply(&mut self.live);
        change.apply(&mut self.durable);
    }

    fn change(&mut self, change: Change) {
        change.apply(&mut self.live);
        self.pending.push(Pending { change, is_given_up: false });
    }

    /// Makes durable what no failed sync has given up.
    pub(super) fn sync(&mut self) {
        let (given_up, synced): (Vec<Pending>, Vec<Pending>) =
            std::mem::take(&mut self.pending).into_iter().partition(|pending| pending.is_given_up);
        for pending in &synced {
            pending.change.apply(&mut self.durable);
        }
        // A change given up is decided after all by one to the same name that is synced.
        let is_open = |old: &Pending| !synced.iter().any(|new| new.change.touches_any_of(&old.change));
        self.pending = given_up.into_iter().filter(is_open).collect();
    }

    pub(super) fn sync_failed(&mut self) {
        self.pending.iter_mut().for_each(|pending| pending.is_given_up = true);
    }

    /// Makes of the names what a power cut leaves: of each change independently all or nothing; of a rename,
    /// if they may be torn, also only one half.
    pub(super) fn cut(&mut self, crash: Crash, is_rename_torn: bool, random: &mut Random) {
        let mut names = std::mem::take(&mut self.durable);
        for Pending { change, .. } in std::mem::take(&mut self.pending) {
            let is_kept = match crash {
                Crash::KeepAll => true,
                Crash::LoseAll => false,
                Crash::Random(_) => random.chance(1, 2),
            };
            match change {
                Change::Rename { from, to, file } if is_rename_torn && matches!(crash, Crash::Random(_)) => {
                    if is_kept {
                        names.remove(&from);
                    }
                    if random.chance(1, 2) {
                        names.insert(to, file);
                    }
                }
                change if is_kept => change.apply(&mut names),
                _ => {}
            }
        }
        self.live.clone_from(&names);
        self.durable = names;
    }

    /// Whether a name leads to the file, or may do so after a power cut.
    pub(super) fn leads_to(&self, file: FileNumber) -> bool {
        let is_pending = self.pending.iter().any(|pending| match &pending.change {
            Change::Create { file: other, .. } | Change::Rename { file: other, .. } => *other == file,
            Change::Remove { .. } => false,
        });
        is_pending || self.live.values().chain(self.durable.values()).any(|other| *other == file)
    }
}
