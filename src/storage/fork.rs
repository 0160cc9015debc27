//! Tells whether the process was forked after a store was opened.
//!
//! The child shares the open files and the lock with its parent, and two that write one log destroy it.
//!
//! One load from memory a call: a page that the system hands to a child full of zeros. Where there is no such
//! page the number of the process is compared, one system call.

use memmap2::MmapMut;

use super::map::page_wiped_on_fork;

/// What the first byte of the page is in the process that wrote it.
const MARK: u8 = 1;

/// Made when a store is opened, asked in every call on it.
#[derive(Debug)]
pub(crate) struct ForkGuard(Home);

#[derive(Debug)]
enum Home {
    Page(MmapMut),
    Process(u32),
}

impl ForkGuard {
    pub(crate) fn new() -> ForkGuard {
        match page_wiped_on_fork() {
            Some(mut page) => {
                page[0] = MARK;
                ForkGuard(Home::Page(page))
            }
            None => ForkGuard::by_number(),
        }
    }

    fn by_number() -> ForkGuard {
        ForkGuard(Home::Process(std::process::id()))
    }

    /// Whether this is a child of the process that made the guard, or a child's child.
    #[inline]
    pub(crate) fn is_child(&self) -> bool {
        match &self.0 {
            Home::Page(page) => page[0] != MARK,
            Home::Process(number) => std::process::id() != *number,
        }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    // What a child sees is tested where the page is made: forking takes unsafe code.

    #[test]
    fn guard_asked_where_it_was_made_finds_no_child() {
        for guard in [ForkGuard::new(), ForkGuard::by_number()] {
            assert!(!guard.is_child());
            let is_child = std::thread::scope(|scope| scope.spawn(|| guard.is_child()).join());
            assert!(!is_child.expect("it does not panic"));
        }
    }

    #[test]
    fn guard_of_another_process_finds_a_child() {
        assert!(ForkGuard(Home::Process(std::process::id() ^ 1)).is_child());
    }
}
