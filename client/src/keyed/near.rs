//! Memory that is read soon.

use crate::sync::AtomicU64;

/// Has the line of a word fetched. Where the processor can be told so nothing waits for it; elsewhere the word is read
/// early, so that it comes together with others.
#[inline(always)]
pub(super) fn fetch(word: &AtomicU64) {
    #[cfg(target_arch = "x86_64")]
    safe_arch::prefetch_t0(word);
    #[cfg(not(target_arch = "x86_64"))]
    std::hint::black_box(word.load(crate::sync::Ordering::Relaxed));
}
