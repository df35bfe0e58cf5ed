//! Tracers, which get everything that happens in a run, and the one that hashes it.

use std::cell::Cell;
use std::fmt::{Display, Formatter, Result};
use std::hash::{Hash, Hasher};
use std::rc::Rc;

/// A value that a tracer can look at: as text, for people, or as a hash, for comparison. Hashing costs a
/// fiftieth of writing the text.
pub trait Traced {
    /// Writes the value as text.
    fn tell(&self, f: &mut Formatter<'_>) -> Result;

    /// Hashes the value. Values that differ must give different hashes.
    fn digest(&self, fold: &mut Fold);
}

impl Display for dyn Traced + '_ {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        self.tell(f)
    }
}

impl Traced for String {
    fn tell(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(self)
    }

    fn digest(&self, fold: &mut Fold) {
        self.hash(fold);
    }
}

/// An event that is shown to a tracer.
#[derive(Clone, Copy)]
pub struct TraceEvent<'a> {
    /// True time in nanoseconds.
    pub at: u64,
    /// Kind of the event: `message`, `state`, `books`, `fault`, `over`, `applied`, `admitted` and others.
    pub kind: &'static str,
    /// Name of the host; empty if the event belongs to none.
    pub host: &'a str,
    /// Name of the sender, if the event is a message.
    pub from: &'a str,
    /// The contents.
    pub what: &'a dyn Traced,
}

impl std::fmt::Debug for TraceEvent<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Self {
            at,
            kind,
            host,
            from,
            what,
        } = self;
        write!(f, "{at} {kind} {host} {from} {what}")
    }
}

/// A receiver of everything that happens.
pub trait Tracer {
    /// Called for each event that the hash of a trace covers.
    fn record(&mut self, event: &TraceEvent<'_>);

    /// Called for each event that follows from those: a message that was recorded has its content, too.
    fn note(&mut self, _event: &TraceEvent<'_>) {}
}

/// Hashes all events of a run.
///
/// The hash covers every message with its contents, time and hosts, and the state of the host that received
/// it. It also covers every admission, log entry and fault, and once a second the state of all nodes. Clones
/// share one hash.
#[derive(Clone, Debug)]
pub struct Trace {
    hash: Rc<Cell<u64>>,
    events: Rc<Cell<u64>>,
}

impl Default for Trace {
    fn default() -> Self {
        Self {
            hash: Rc::new(Cell::new(0xcbf2_9ce4_8422_2325)),
            events: Rc::default(),
        }
    }
}

impl Trace {
    /// Returns the hash so far, in hexadecimal.
    #[must_use]
    pub fn hash(&self) -> String {
        format!("{:016x}", self.hash.get())
    }

    /// Returns the number of events hashed so far.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.events.get()
    }
}

impl Tracer for Trace {
    fn record(&mut self, event: &TraceEvent<'_>) {
        self.events.set(self.events.get() + 1);
        let mut fold = Fold(self.hash.get());
        fold.write_u64(event.at);
        for text in [event.kind, event.host, event.from] {
            fold.write(text.as_bytes());
        }
        event.what.digest(&mut fold);
        self.hash.set(fold.0);
    }
}

/// FNV-1a over words of eight bytes. Gives the same hash on all machines with the same `usize` width.
#[derive(Clone, Debug)]
pub struct Fold(u64);

impl Fold {
    const fn word(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x0000_0100_0000_01b3);
        self.0 ^= self.0 >> 29;
    }
}

impl Hasher for Fold {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.word(u64::from_le_bytes(word));
        }
        self.0 ^= bytes.len() as u64;
    }

    fn write_u8(&mut self, value: u8) {
        self.word(u64::from(value));
    }

    fn write_u16(&mut self, value: u16) {
        self.word(u64::from(value));
    }

    fn write_u32(&mut self, value: u32) {
        self.word(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        self.word(value);
    }

    fn write_u128(&mut self, value: u128) {
        self.word(value as u64);
        self.word((value >> 64) as u64);
    }

    fn write_usize(&mut self, value: usize) {
        self.word(value as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
