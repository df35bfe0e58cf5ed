//! Deterministic replacements for the randomness and the clocks of the operating system.
//!
//! Code that is not ours asks the operating system for them: hash maps draw their seeds, servers put a date
//! into their responses, and HTTP/2 remembers reset streams for a while. Each run of a seed would therefore
//! differ. This program defines the C library's functions under their own names, and the linker prefers these
//! definitions. The program generates no secrets.

#![expect(
    unsafe_code,
    reason = "functions of the C library have its signatures, and write where its callers say"
)]

use aliquot_sim::network::monotonic;
use libc::{c_int, c_uint, c_void, clockid_t, size_t, ssize_t, timespec};
use std::sync::atomic::{AtomicU64, Ordering};

/// Every process draws the same sequence.
static DRAWN: AtomicU64 = AtomicU64::new(0);

/// The time of day in seconds since the Unix epoch, which never changes.
const TODAY: i64 = 1_700_000_000;

const BILLION: u64 = 1_000_000_000;

/// SplitMix64.
fn next() -> u64 {
    let drawn = DRAWN.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
    let mut mixed = drawn.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Fills `buffer` with pseudo-random bytes.
///
/// # Safety
///
/// `buffer` must be valid for writing `len` bytes.
unsafe fn fill(buffer: *mut c_void, len: size_t) {
    // SAFETY: the caller guarantees that `len` bytes may be written there.
    let bytes = unsafe { std::slice::from_raw_parts_mut(buffer.cast::<u8>(), len) };
    for chunk in bytes.chunks_mut(8) {
        chunk.copy_from_slice(&next().to_le_bytes()[..chunk.len()]);
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getrandom(buffer: *mut c_void, len: size_t, _flags: c_uint) -> ssize_t {
    if buffer.is_null() {
        return 0;
    }
    // SAFETY: callers of `getrandom(2)` guarantee it.
    unsafe { fill(buffer, len) };
    ssize_t::try_from(len).unwrap_or(ssize_t::MAX)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getentropy(buffer: *mut c_void, len: size_t) -> c_int {
    if !buffer.is_null() {
        // SAFETY: callers of `getentropy(3)` guarantee it.
        unsafe { fill(buffer, len) };
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn clock_gettime(clock: clockid_t, time: *mut timespec) -> c_int {
    let simulated = match clock {
        libc::CLOCK_REALTIME => Some((TODAY, 0)),
        libc::CLOCK_MONOTONIC => monotonic(|| nanos_of(clock)).map(parted),
        _ => None,
    };
    let Some((tv_sec, tv_nsec)) = simulated else {
        // SAFETY: the same system call that the C library would make.
        let done = unsafe { libc::syscall(libc::SYS_clock_gettime, clock, time) };
        return c_int::try_from(done).unwrap_or(-1);
    };
    if !time.is_null() {
        // SAFETY: callers of `clock_gettime(2)` guarantee that `time`, if not null, may be written.
        unsafe { time.write(timespec { tv_sec, tv_nsec }) };
    }
    0
}

/// Returns a clock's reading in nanoseconds, as the kernel gives it.
fn nanos_of(clock: clockid_t) -> u64 {
    let mut time = timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the kernel writes to a local variable that outlives the call.
    unsafe { libc::syscall(libc::SYS_clock_gettime, clock, &raw mut time) };
    let (seconds, nanos) = (time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs());
    seconds.wrapping_mul(BILLION).wrapping_add(nanos)
}

/// Splits nanoseconds into seconds and the remaining nanoseconds.
const fn parted(nanos: u64) -> (i64, i64) {
    ((nanos / BILLION) as i64, (nanos % BILLION) as i64)
}
