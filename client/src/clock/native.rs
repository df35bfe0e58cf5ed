//! The only unsafe code of this crate: the cycle counter, huge pages, and an unchecked index.
//!
//! Each function is safe to call. Where the processor or the system lacks the feature, nothing is done. Miri
//! supports neither the counter nor `madvise`; both are compiled out there. The rest passes under Miri
//! (`cargo +nightly miri test -p aliquot-client --lib native`).

/// Returns the processor's cycle counter, read in place.
#[inline(always)]
pub(crate) fn counter() -> Option<u64> {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        #[expect(unsafe_code, reason = "an instruction without a safe name")]
        // SAFETY: it reads a register that every x86-64 processor has.
        Some(unsafe { std::arch::x86_64::_rdtsc() })
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    None
}

/// Allocates room for `len` values, in huge pages if the host provides them on request.
///
/// Accesses spread over more memory than the TLB covers wait for the page walk as well; in a virtual machine
/// each step of that walk is itself translated. The advice is only a hint to the kernel.
pub(crate) fn roomy<T>(len: usize) -> Vec<T> {
    advised(Vec::with_capacity(len))
}

#[cfg(all(target_os = "linux", not(miri)))]
fn advised<T>(mut room: Vec<T>) -> Vec<T> {
    advise(room.spare_capacity_mut());
    room
}

#[cfg(not(all(target_os = "linux", not(miri))))]
const fn advised<T>(room: Vec<T>) -> Vec<T> {
    room
}

/// Advises before any of the memory is touched, so that it is mapped in huge pages at once.
#[cfg(all(target_os = "linux", not(miri)))]
fn advise<T>(room: &mut [std::mem::MaybeUninit<T>]) {
    use rustix::mm::{Advice, madvise};

    /// A multiple of the page size of every processor.
    const PAGE: usize = 1 << 16;
    /// Memory smaller than a huge page gets no advice.
    const HUGE: usize = 1 << 21;
    let bytes = room.as_mut_ptr_range();
    let (start, end) = (bytes.start.addr(), bytes.end.addr());
    let (first, last) = (start.next_multiple_of(PAGE), end - end % PAGE);
    let inside = last.saturating_sub(first);
    if inside < HUGE {
        return;
    }
    let first = bytes.start.with_addr(first).cast();
    #[expect(unsafe_code, reason = "the system is told of memory by its address")]
    // SAFETY: these are whole pages inside an allocation that this function borrows exclusively. The advice
    // changes how they are mapped, never their contents.
    let _ = unsafe { madvise(first, inside, Advice::LinuxHugepage) };
}

/// An array of a power of two of places. Every number maps to one of them, so that lookup needs no bounds
/// check.
#[derive(Debug)]
pub(crate) struct PowerOfTwoSlice<T> {
    all: Box<[T]>,
    /// Number of places minus one: the index mask.
    last: usize,
}

impl<T> PowerOfTwoSlice<T> {
    /// # Panics
    ///
    /// If the number of places is not a power of two.
    pub(crate) fn new(all: Box<[T]>) -> Self {
        assert!(all.len().is_power_of_two(), "{} places", all.len());
        let last = all.len() - 1;
        Self { all, last }
    }

    /// Returns the place of a number: numbers that are equal modulo the number of places share one.
    #[inline(always)]
    pub(crate) fn at(&self, number: usize) -> &T {
        #[expect(unsafe_code, reason = "to ask again would be a sixth of a decision")]
        // SAFETY: the index is at most `last`, which `new` derived from the length, and neither changes.
        unsafe {
            self.all.get_unchecked(number & self.last)
        }
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, T> {
        self.all.iter()
    }
}

#[cfg(test)]
#[path = "../../tests/unit/clock/native.rs"]
mod tests;
