//! What this machine is asked in words that are not safe by themselves: the one place of this crate that has any.
//!
//! Each is safe for whoever calls it, whatever it answers; where a machine or a system has no such thing, nothing is asked. Miri
//! knows neither the counter nor the advice, and has none of them; what is around it passes there (`cargo +nightly miri test -p aliquot-client --lib native`).

/// The processor's cycle counter, read in place.
#[inline(always)]
pub(crate) fn counter() -> Option<u64> {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        #[expect(unsafe_code, reason = "an instruction without a safe name")]
        // SAFETY: it reads a register that every processor of this kind has.
        Some(unsafe { std::arch::x86_64::_rdtsc() })
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    None
}

/// Room for so many, in huge pages where the host has them for whoever asks.
///
/// Who walks through more memory than the processor knows pages of waits for the page, too, and in a virtual machine
/// for each step of the way to it. It is only advice: what the host does not want, it leaves.
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

/// Before anything of it is touched, so that it comes in huge pages at once.
#[cfg(all(target_os = "linux", not(miri)))]
fn advise<T>(room: &mut [std::mem::MaybeUninit<T>]) {
    use rustix::mm::{Advice, madvise};

    /// The pages of all processors divide it.
    const PAGE: usize = 1 << 16;
    /// What is smaller than a huge page is left alone.
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
    // SAFETY: these are whole pages within the room, which nobody else has. The advice changes how
    // they are mapped, and never what is in them.
    let _ = unsafe { madvise(first, inside, Advice::LinuxHugepage) };
}

/// Places in a round, a power of two of them: so that each number has one of them, found without asking whether it is there.
#[derive(Debug)]
pub(crate) struct Round<T> {
    all: Box<[T]>,
    /// Less than there are.
    last: usize,
}

impl<T> Round<T> {
    /// # Panics
    ///
    /// If there is not a power of two of them.
    pub(crate) fn new(all: Box<[T]>) -> Self {
        assert!(all.len().is_power_of_two(), "{} places", all.len());
        let last = all.len() - 1;
        Self { all, last }
    }

    /// The place of a number: numbers that are as many apart as there are places have the same.
    #[inline(always)]
    pub(crate) fn at(&self, number: usize) -> &T {
        #[expect(unsafe_code, reason = "to ask again would be a sixth of a decision")]
        // SAFETY: it is at most the last, of which `new` saw that it is one, and nobody changes either.
        unsafe {
            self.all.get_unchecked(number & self.last)
        }
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, T> {
        self.all.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::{Round, counter, roomy};

    #[test]
    fn every_number_has_a_place() {
        for len in [1, 2, 64] {
            let round = Round::new((0..len).collect());
            for number in (0..200).chain([usize::MAX - 1, usize::MAX]) {
                assert_eq!(*round.at(number), number % len);
            }
            assert!(round.iter().copied().eq(0..len));
        }
    }

    #[test]
    fn a_round_has_a_power_of_two_of_places() {
        for len in [0, 3, 12] {
            let made = std::panic::catch_unwind(|| Round::new((0..len).collect::<Box<[usize]>>()));
            assert!(made.is_err(), "{len}");
        }
    }

    #[test]
    fn what_was_made_room_for_is_as_large_as_asked_for_and_can_be_filled() {
        let most = if cfg!(miri) { 1 << 12 } else { 1 << 20 };
        for len in [0, 1, 1_000, most] {
            let mut room = roomy::<u64>(len);
            assert!(room.capacity() >= len);
            room.extend((0..len).map(|at| at as u64));
            assert!(room.iter().enumerate().all(|(at, &word)| at as u64 == word));
        }
    }

    #[test]
    fn the_counter_never_steps_back_on_one_thread() {
        let readings: Vec<_> = (0..1_000).filter_map(|_| counter()).collect();
        assert!(readings.is_sorted());
    }
}
