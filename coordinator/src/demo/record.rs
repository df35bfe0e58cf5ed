//! The record of a service's decisions: format, writer and reader.
//!
//! A record file is [`MAGIC`] and then frames. Each has a kind (one byte) and its fields, integers in
//! little endian:
//!
//! | kind | fields |
//! |---|---|
//! | 1, a key | number u32 (counted from 0), length u16, the key |
//! | 2, an admission | key u32, cost u64, before u64, asked u64, decided u64, after u64 |
//! | 3, a refusal | key u32, cost u64, at u64 |
//!
//! Times are nanoseconds of the host's boot clock. The file of a process that was killed may end
//! within a frame, which the reader reports.

use aliquot_core::unit::Tick;
use std::collections::BTreeMap;
use thiserror::Error;

/// Start of a record file.
pub const MAGIC: &[u8; 16] = b"aliquot-record2\n";

const KEY: u8 = 1;
const ADMITTED: u8 = 2;
const REFUSED: u8 = 3;

/// One admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admitted {
    /// Index of the key in [`Recording::keys`].
    pub key: usize,
    /// Cost in whole tokens.
    pub cost: u64,
    /// Clock reading before the decision was requested.
    pub before: Tick,
    /// The earliest time at which it can have been decided: when a central request or one to a face was
    /// sent, or else `decided` itself.
    pub asked: Tick,
    /// The clock reading with which the decision was made, or at which a decision of another process was
    /// known.
    pub decided: Tick,
    /// Clock reading after the decision was known.
    pub after: Tick,
}

impl Admitted {
    /// Returns true if the time of the decision lies between the clock readings around it.
    #[must_use]
    pub fn is_plausible(&self) -> bool {
        [self.before, self.asked, self.decided, self.after].is_sorted()
    }
}

/// One refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Index of the key in [`Recording::keys`].
    pub key: usize,
    /// Cost in whole tokens.
    pub cost: u64,
    /// Clock reading when the refusal was known.
    pub at: Tick,
}

/// All decisions that one service recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recording {
    /// The keys, in the order of their first decisions.
    pub keys: Vec<String>,
    /// The admissions, in the order in which they were written.
    pub admitted: Vec<Admitted>,
    /// The refusals, in the order in which they were written.
    pub refused: Vec<Refused>,
    /// Number of bytes of an incomplete frame at the end, or 0.
    pub torn: usize,
}

/// Error of reading a record file. No part of it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RecordError {
    /// It does not begin with [`MAGIC`].
    #[error("it does not start with the header of a record file")]
    NotARecord,
    /// A frame has an unknown kind, or does not fit those before it.
    #[error("the frame at byte {at} is damaged")]
    Damaged {
        /// Offset of the frame.
        at: usize,
    },
}

impl Recording {
    /// Reads a record file.
    ///
    /// # Errors
    ///
    /// [`RecordError`] for anything but complete frames and at most one incomplete frame at the end.
    pub fn read(bytes: &[u8]) -> Result<Self, RecordError> {
        let mut rest = bytes
            .strip_prefix(MAGIC.as_slice())
            .ok_or(RecordError::NotARecord)?;
        let mut recording = Self::default();
        while !rest.is_empty() {
            let mut frame = Frame(rest);
            let damaged = RecordError::Damaged {
                at: bytes.len() - rest.len(),
            };
            match recording.take(&mut frame) {
                Taken::Whole => rest = frame.0,
                Taken::Torn => {
                    recording.torn = rest.len();
                    break;
                }
                Taken::Damaged => return Err(damaged),
            }
        }
        Ok(recording)
    }

    fn take(&mut self, frame: &mut Frame<'_>) -> Taken {
        let Some([kind]) = frame.bytes() else {
            return Taken::Torn;
        };
        let taken = match kind {
            KEY => frame.key().map(|(number, key)| {
                let next = usize::try_from(number) == Ok(self.keys.len());
                next.then(|| self.keys.push(key))
            }),
            ADMITTED => frame.admitted().map(|admitted| {
                let known = admitted.key < self.keys.len();
                known.then(|| self.admitted.push(admitted))
            }),
            REFUSED => frame.refused().map(|refused| {
                let known = refused.key < self.keys.len();
                known.then(|| self.refused.push(refused))
            }),
            _ => return Taken::Damaged,
        };
        match taken {
            Some(Some(())) => Taken::Whole,
            Some(None) => Taken::Damaged,
            None => Taken::Torn,
        }
    }
}

enum Taken {
    Whole,
    Torn,
    Damaged,
}

/// The rest of the file. Reads return `None` if it ends too early.
struct Frame<'a>(&'a [u8]);

impl Frame<'_> {
    fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    fn u64(&mut self) -> Option<u64> {
        self.bytes().map(u64::from_le_bytes)
    }

    fn tick(&mut self) -> Option<Tick> {
        self.u64().map(Tick::from_nanos)
    }

    fn index(&mut self) -> Option<usize> {
        let number = self.bytes().map(u32::from_le_bytes)?;
        // A number too large for an index is one that no frame defined.
        Some(usize::try_from(number).unwrap_or(usize::MAX))
    }

    fn key(&mut self) -> Option<(u32, String)> {
        let number = self.bytes().map(u32::from_le_bytes)?;
        let length = usize::from(self.bytes().map(u16::from_le_bytes)?);
        let (key, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some((number, String::from_utf8_lossy(key).into_owned()))
    }

    fn admitted(&mut self) -> Option<Admitted> {
        Some(Admitted {
            key: self.index()?,
            cost: self.u64()?,
            before: self.tick()?,
            asked: self.tick()?,
            decided: self.tick()?,
            after: self.tick()?,
        })
    }

    fn refused(&mut self) -> Option<Refused> {
        Some(Refused {
            key: self.index()?,
            cost: self.u64()?,
            at: self.tick()?,
        })
    }
}

/// Collects the frames of a record file until they are written.
#[derive(Debug)]
pub struct Recorder {
    keys: BTreeMap<String, u32>,
    pending: Vec<u8>,
}

impl Default for Recorder {
    fn default() -> Self {
        Self {
            keys: BTreeMap::new(),
            pending: MAGIC.to_vec(),
        }
    }
}

impl Recorder {
    /// Records an admission. The times are `[before, asked, decided, after]`.
    pub fn admitted(&mut self, key: &str, cost: u64, times: [Tick; 4]) {
        let key = self.intern(key);
        self.pending.push(ADMITTED);
        self.pending.extend(key.to_le_bytes());
        self.pending.extend(cost.to_le_bytes());
        for time in times {
            self.pending.extend(time.nanos().to_le_bytes());
        }
    }

    /// Records a refusal.
    pub fn refused(&mut self, key: &str, cost: u64, at: Tick) {
        let key = self.intern(key);
        self.pending.push(REFUSED);
        self.pending.extend(key.to_le_bytes());
        self.pending.extend(cost.to_le_bytes());
        self.pending.extend(at.nanos().to_le_bytes());
    }

    /// Returns the bytes to append to the file.
    #[must_use]
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.pending)
    }

    /// Returns the key's number. A key has at most 256 bytes, and there are fewer keys than requests,
    /// so both fit their fields.
    fn intern(&mut self, key: &str) -> u32 {
        if let Some(number) = self.keys.get(key) {
            return *number;
        }
        let number = u32::try_from(self.keys.len()).unwrap_or(u32::MAX);
        let length = u16::try_from(key.len()).unwrap_or(u16::MAX);
        self.keys.insert(key.to_owned(), number);
        self.pending.push(KEY);
        self.pending.extend(number.to_le_bytes());
        self.pending.extend(length.to_le_bytes());
        let kept = key.as_bytes().get(..usize::from(length));
        self.pending.extend(kept.unwrap_or_default());
        number
    }
}

#[cfg(test)]
#[path = "../../tests/unit/demo/record.rs"]
mod tests;
