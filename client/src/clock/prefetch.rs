//! Prefetching of memory.

use crate::sync::AtomicU64;

/// Fetches the cache line of a word. With a prefetch instruction nothing waits for it. On other processors
/// the word is read early, so that its fetch overlaps with others.
#[inline(always)]
pub(crate) fn fetch(word: &AtomicU64) {
    #[cfg(target_arch = "x86_64")]
    safe_arch::prefetch_t0(word);
    #[cfg(not(target_arch = "x86_64"))]
    std::hint::black_box(word.load(crate::sync::Ordering::Relaxed));
}
