//! Zeroed memory for tables and filters: anonymous, in huge pages where the system has them.
//!
//! ```text
//! mapping  |  up to 2 MiB  | element 0 | element 1 | ... | less than 2 MiB | unused |
//!                          ^ 2 MiB boundary              ^ the last one
//!                          |---- in huge pages -----------|-- small pages --|
//! ```
//!
//! One of the two files with unsafe code; it knows nothing of what is kept in the memory. A random touch
//! costs 1.5 times as much through 4 KiB pages as through huge pages.

#![expect(unsafe_code, reason = "this file turns anonymous memory into slices of atomics")]

use std::ops::Deref;

use super::line::Line;
use crate::error::{Error, Result};
use crate::sync::AtomicU64;

/// Bytes in a huge page.
#[cfg(not(any(loom, miri)))]
const HUGE_BYTES: usize = 2 << 20;

/// Types for which all bytes zero is a value, and which may change under shared references.
///
/// # Safety
///
/// Implemented only for types that consist of atomics, without padding, for which zero is a valid value.
pub(crate) unsafe trait Zeroed {
    /// The value whose bytes are all zero.
    #[cfg(any(loom, miri))]
    fn zeroed() -> Self;
}

// SAFETY: one atomic integer, all bit patterns are valid.
unsafe impl Zeroed for AtomicU64 {
    #[cfg(any(loom, miri))]
    fn zeroed() -> Self {
        AtomicU64::new(0)
    }
}

// SAFETY: a line is 64 bytes of atomic integers without padding (asserted beside it).
unsafe impl Zeroed for Line {
    #[cfg(any(loom, miri))]
    fn zeroed() -> Self {
        Line::zeroed()
    }
}

// SAFETY: an array has no padding between its elements.
unsafe impl<T: Zeroed, const N: usize> Zeroed for [T; N] {
    #[cfg(any(loom, miri))]
    fn zeroed() -> Self {
        std::array::from_fn(|_| T::zeroed())
    }
}

/// A fixed number of elements, all zero in the beginning.
#[derive(Debug)]
pub(crate) struct Region<T> {
    #[cfg(not(any(loom, miri)))]
    map: memmap2::MmapMut,
    #[cfg(not(any(loom, miri)))]
    start: usize,
    #[cfg(not(any(loom, miri)))]
    count: usize,
    #[cfg(not(any(loom, miri)))]
    elements: std::marker::PhantomData<T>,
    #[cfg(any(loom, miri))]
    elements: Box<[T]>,
}

#[cfg(not(any(loom, miri)))]
impl<T: Zeroed> Region<T> {
    /// Reserves memory for `count` elements; the system hands it out when it is touched.
    ///
    /// # Errors
    ///
    /// [`Error::System`] when there is no address space or memory.
    pub(crate) fn zeroed(count: usize) -> Result<Self> {
        const { assert!(size_of::<T>() > 0 && HUGE_BYTES.is_multiple_of(align_of::<T>())) };
        let failed = |message: String| Error::System { operation: "reserving memory", message };
        let bytes = count.checked_mul(size_of::<T>()).filter(|bytes| *bytes <= isize::MAX as usize / 2);
        let bytes = bytes.ok_or_else(|| failed(format!("{count} elements are too many")))?;
        let room = if bytes >= HUGE_BYTES { HUGE_BYTES } else { 0 };
        let map = memmap2::MmapOptions::new()
            .len((bytes + room).max(1))
            .map_anon()
            .map_err(|error| failed(error.to_string()))?;
        let start = if room == 0 { 0 } else { map.as_ptr().align_offset(HUGE_BYTES) };
        #[cfg(target_os = "linux")]
        if room > 0 {
            // Whole ones only: a last one would be handed out for a few lines, and be charged to nobody.
            // Refused where the kernel has no huge pages: slower, not wrong.
            let _ = map.advise_range(memmap2::Advice::HugePage, start, bytes / HUGE_BYTES * HUGE_BYTES);
        }
        Ok(Region { map, start, count, elements: std::marker::PhantomData })
    }

    /// Gives the memory of elements `from..until` back to the system; whole huge pages only, rounded inwards.
    ///
    /// The elements read as zero afterwards. Returns the bytes given back.
    pub(crate) fn release(&self, from: usize, until: usize) -> usize {
        let first = (from * size_of::<T>()).next_multiple_of(HUGE_BYTES);
        let end = until.min(self.count) * size_of::<T>() / HUGE_BYTES * HUGE_BYTES;
        if first >= end {
            return 0;
        }
        #[cfg(target_os = "linux")]
        {
            // SAFETY: the range lies inside the private anonymous mapping, whose bytes become zero, which is
            // a valid value of T (Zeroed). To other threads that is a store of zeros into atomics.
            let advised = unsafe {
                self.map.unchecked_advise_range(
                    memmap2::UncheckedAdvice::DontNeed,
                    self.start + first,
                    end - first,
                )
            };
            if advised.is_ok() {
                return end - first;
            }
        }
        0
    }
}

#[cfg(any(loom, miri))]
impl<T: Zeroed> Region<T> {
    pub(crate) fn zeroed(count: usize) -> Result<Self> {
        if count > 1 << 24 {
            return Err(Error::System {
                operation: "reserving memory",
                message: "too much for a model".into(),
            });
        }
        Ok(Region { elements: (0..count).map(|_| T::zeroed()).collect() })
    }

    pub(crate) fn release(&self, _from: usize, _until: usize) -> usize {
        0
    }
}

impl<T: Zeroed> Deref for Region<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        #[cfg(any(loom, miri))]
        return &self.elements;
        #[cfg(not(any(loom, miri)))]
        {
            // SAFETY: `start` is at most HUGE_BYTES, which the mapping has as room.
            let first = unsafe { self.map.as_ptr().add(self.start) };
            // SAFETY: `count * size_of::<T>()` bytes follow in the mapping, which lives as long as self;
            // page or huge-page alignment is a multiple of T's (asserted); zero bytes and whatever atomic
            // stores left are valid values (Zeroed); the bytes are changed through atomics only, as nobody
            // uses the mapping in any other way.
            unsafe { std::slice::from_raw_parts(first.cast::<T>(), self.count) }
        }
    }
}

/// Asks the processor to bring the cache line of `place` near, without waiting for it.
#[inline(always)]
pub(crate) fn prefetch<T>(place: &T) {
    prefetch_at(std::ptr::from_ref(place).addr());
}

/// The same for an address at which there may be nothing at all: that has no effect.
#[inline(always)]
pub(crate) fn prefetch_at(address: usize) {
    #[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let place = std::ptr::without_provenance::<i8>(address);
        // SAFETY: a prefetch reads nothing that a program could see and never faults, whatever the address;
        // SSE is part of x86_64.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(place) };
    }
    #[cfg(all(target_arch = "aarch64", not(any(loom, miri))))]
    {
        // SAFETY: a prefetch reads nothing that a program could see and never faults, whatever the address.
        unsafe {
            std::arch::asm!(
                "prfm pldl1keep, [{address}]",
                address = in(reg) address,
                options(nostack, preserves_flags, readonly)
            );
        }
    }
    #[cfg(not(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(any(loom, miri)))))]
    let _ = address;
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;
    use crate::sync::Ordering;

    #[test]
    fn region_of_any_size_is_zero_and_aligned() {
        let large = if cfg!(miri) { 1 << 10 } else { 1 << 18 };
        for count in [0, 1, 7, 4096, large, large + 1] {
            let region = Region::<[AtomicU64; 2]>::zeroed(count).unwrap();
            assert_eq!(region.len(), count);
            assert!(region.as_ptr().is_aligned());
            // Relaxed: single thread.
            assert!(region.iter().flatten().all(|word| word.load(Ordering::Relaxed) == 0));
        }
    }

    #[test]
    fn absurd_size_is_an_error() {
        assert!(matches!(Region::<AtomicU64>::zeroed(usize::MAX / 2), Err(Error::System { .. })));
    }

    #[test]
    #[cfg(not(miri))]
    fn released_part_reads_zero_and_neighbours_stay() {
        let count = (8 << 20) / size_of::<AtomicU64>();
        let region = Region::<AtomicU64>::zeroed(count).unwrap();
        // Relaxed: single thread.
        region.iter().for_each(|word| word.store(7, Ordering::Relaxed));
        let bytes = region.release(10, count - 10);
        assert_eq!(bytes, 4 << 20);
        let words = bytes / size_of::<AtomicU64>();
        // Relaxed: single thread.
        let left = region.iter().filter(|word| word.load(Ordering::Relaxed) == 7).count();
        assert_eq!(left, count - words);
        // Relaxed: single thread.
        assert_eq!(region[10].load(Ordering::Relaxed), 7);
    }
}
