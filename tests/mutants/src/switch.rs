// The switch of the mutants, which the copy of each crate gets as a module. `MUTANTS` stands before this text.
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

const UNREAD: u32 = u32::MAX;
const RECORDING: u32 = u32::MAX - 1;
static ACTIVE: AtomicU32 = AtomicU32::new(UNREAD);
static REACHED: [AtomicBool; MUTANTS] = [const { AtomicBool::new(false) }; MUTANTS];

/// Tells if the mutant of this number is the one that the environment names.
#[inline]
pub(crate) fn on(number: u32) -> bool {
    match ACTIVE.load(Relaxed) {
        UNREAD => {
            ACTIVE.store(read(), Relaxed);
            on(number)
        }
        RECORDING => {
            record(number);
            false
        }
        active => active == number,
    }
}

#[cold]
fn read() -> u32 {
    if std::env::var_os("ALIQUOT_MUTANTS_REACHED").is_some() {
        return RECORDING;
    }
    std::env::var("ALIQUOT_MUTANT").ok().and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// Adds the number to the file, once in each process.
fn record(number: u32) {
    use std::io::Write;
    if REACHED[number as usize].swap(true, Relaxed) {
        return;
    }
    let file = std::env::var_os("ALIQUOT_MUTANTS_REACHED").unwrap_or_default();
    if let Ok(mut file) = std::fs::OpenOptions::new().create(true).append(true).open(file) {
        let _ = file.write_all(format!("{number}\n").as_bytes());
    }
}
