//! A simulated disk that calls a test before each operation: to wait there, or to panic.

use std::fmt::{self, Debug};
use std::io;
use std::sync::Arc;

use firstseen::testing::{Map, Op, SimDisk, Storage, StorageFile};
use firstseen::{Options, Result, Store};

type Hook = Arc<dyn Fn(Op) + Send + Sync>;

/// The disk as the store sees it.
#[derive(Clone)]
struct Hooked {
    disk: SimDisk,
    hook: Hook,
}

impl Debug for Hooked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.disk.fmt(f)
    }
}

/// Opens the store of a disk; `hook` is called before each operation, with no lock of the disk held.
pub(crate) fn open(
    disk: &SimDisk,
    options: Options,
    hook: impl Fn(Op) + Send + Sync + 'static,
) -> Result<Store> {
    Store::open_on(Arc::new(Hooked { disk: disk.clone(), hook: Arc::new(hook) }), options)
}

impl Hooked {
    /// The disk, once the test has been called.
    fn at(&self, op: Op) -> &SimDisk {
        (self.hook)(op);
        &self.disk
    }

    fn wrap(&self, file: Box<dyn StorageFile>) -> Box<dyn StorageFile> {
        Box::new(HookedFile { file, hook: Arc::clone(&self.hook) })
    }
}

impl Storage for Hooked {
    fn list(&self) -> io::Result<Vec<String>> {
        self.at(Op::List).list()
    }

    fn open_read(&self, name: &str) -> io::Result<Box<dyn StorageFile>> {
        self.at(Op::Open).open_read(name).map(|file| self.wrap(file))
    }

    fn open_write(&self, name: &str) -> io::Result<Box<dyn StorageFile>> {
        self.at(Op::Open).open_write(name).map(|file| self.wrap(file))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn StorageFile>> {
        self.at(Op::Create).create(name).map(|file| self.wrap(file))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.at(Op::Rename).rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.at(Op::Remove).remove(name)
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.at(Op::SyncDir).sync_dir()
    }

    fn lock(&self, name: &str) -> io::Result<Box<dyn Debug + Send + Sync>> {
        self.at(Op::Lock).lock(name)
    }

    fn place(&self) -> String {
        self.disk.place()
    }
}

struct HookedFile {
    file: Box<dyn StorageFile>,
    hook: Hook,
}

impl Debug for HookedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.file.fmt(f)
    }
}

impl HookedFile {
    fn at(&self, op: Op) -> &dyn StorageFile {
        (self.hook)(op);
        &*self.file
    }
}

impl StorageFile for HookedFile {
    fn size(&self) -> io::Result<u64> {
        self.at(Op::Size).size()
    }

    fn read_some_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.at(Op::Read).read_some_at(offset, buffer)
    }

    fn write_some_at(&self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        self.at(Op::Write).write_some_at(offset, bytes)
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        self.at(Op::Allocate).allocate(bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.at(Op::Sync).sync()
    }

    fn map(&self) -> io::Result<Option<Map>> {
        self.at(Op::Map).map()
    }
}
