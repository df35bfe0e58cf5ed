//! The hash of all that happens in a seed.

use crate::world::{Sight, Witness};
use std::cell::Cell;
use std::fmt::Write;
use std::rc::Rc;

/// Hashes what it sees: every message with all that is in it, its time and its
/// hosts, the state of every host that heard one, every decision to admit, every
/// entry and fault, and once a second all books. Clones hash together.
#[derive(Clone, Debug)]
pub struct Trace {
    hash: Rc<Cell<u64>>,
    sights: Rc<Cell<u64>>,
}

impl Default for Trace {
    fn default() -> Self {
        Self {
            hash: Rc::new(Cell::new(0xcbf2_9ce4_8422_2325)),
            sights: Rc::default(),
        }
    }
}

impl Trace {
    /// The hash so far, in hexadecimal.
    #[must_use]
    pub fn hash(&self) -> String {
        format!("{:016x}", self.hash.get())
    }

    /// How much it has seen.
    #[must_use]
    pub fn sights(&self) -> u64 {
        self.sights.get()
    }
}

impl Witness for Trace {
    fn saw(&mut self, sight: &Sight<'_>) {
        self.sights.set(self.sights.get() + 1);
        let mut words = Words(self.hash.get());
        words.add(&sight.at.to_le_bytes());
        for text in [sight.kind, sight.host, sight.from] {
            words.add(text.as_bytes());
        }
        // Writing into a hash cannot fail.
        let _ = write!(words, "{}", sight.text);
        self.hash.set(words.0);
    }
}

/// FNV-1a, word by word of eight bytes.
struct Words(u64);

impl Words {
    fn add(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.0 = (self.0 ^ u64::from_le_bytes(word)).wrapping_mul(0x0000_0100_0000_01b3);
            self.0 ^= self.0 >> 29;
        }
        self.0 ^= bytes.len() as u64;
    }
}

impl Write for Words {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.add(text.as_bytes());
        Ok(())
    }
}
