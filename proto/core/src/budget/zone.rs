//! Time zones by name, and what the calendar needs to know of them.

use super::calendar::{Offset, WallTime};
use core::fmt;
use core::hash::{Hash, Hasher};

/// Name of a time zone in the IANA database, such as `Europe/Berlin`. It is checked for its form alone: this
/// crate knows no zones.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(
    feature = "serde",
    serde(try_from = "alloc::string::String", into = "alloc::string::String")
)]
pub struct Zone {
    /// The name, filled up with zeros.
    bytes: [u8; Self::BYTES_MAX],
}

impl Zone {
    /// Maximum length of a name.
    pub const BYTES_MAX: usize = 40;

    /// Returns the zone of that name, or `None` if no zone can have it: a name begins with a letter and consists
    /// of at most [`Self::BYTES_MAX`] ASCII letters, digits and `/ _ - +`.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"/_-+".contains(&byte);
        let begins = name.starts_with(|first: char| first.is_ascii_alphabetic());
        let mut bytes = [0; Self::BYTES_MAX];
        let used = bytes.get_mut(..name.len())?;
        used.copy_from_slice(name.as_bytes());
        (begins && name.bytes().all(allowed)).then_some(Self { bytes })
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        let used = self.bytes.split(|byte| *byte == 0).next();
        used.and_then(|name| core::str::from_utf8(name).ok())
            .unwrap_or_default()
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Zone({})", self.name())
    }
}

impl From<Zone> for alloc::string::String {
    fn from(zone: Zone) -> Self {
        zone.name().into()
    }
}

impl TryFrom<alloc::string::String> for Zone {
    type Error = &'static str;

    fn try_from(name: alloc::string::String) -> Result<Self, Self::Error> {
        Self::named(&name).ok_or("not the name of a time zone")
    }
}

/// A local clock, by whose calendar the periods of a quota begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum LocalClock {
    /// A clock that is always off by as much from UTC.
    Offset(Offset),
    /// The clock of a time zone, with its summer time.
    Zone(Zone),
}

impl Default for LocalClock {
    fn default() -> Self {
        Self::Offset(Offset::UTC)
    }
}

impl From<Offset> for LocalClock {
    fn from(offset: Offset) -> Self {
        Self::Offset(offset)
    }
}

impl From<Zone> for LocalClock {
    fn from(zone: Zone) -> Self {
        Self::Zone(zone)
    }
}

/// Writes `+05:30` or `Europe/Berlin`.
impl fmt::Display for LocalClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Offset(offset) => fmt::Display::fmt(offset, f),
            Self::Zone(zone) => fmt::Display::fmt(zone, f),
        }
    }
}

/// Local clocks of named zones, from a database of time zones that the caller has.
///
/// Local times are milliseconds since 1970-01-01 00:00 of the local clock. Implementations are pure: the same
/// question has one answer for as long as the process runs.
pub trait Zones: fmt::Debug + Send + Sync {
    /// Returns the time that the zone's clock shows at `at`, or `None` if the zone is unknown.
    fn local(&self, zone: &Zone, at: WallTime) -> Option<i64>;

    /// Returns the first instant at which the zone's clock shows `local` or a later time: where clocks are set
    /// ahead over `local`, the instant at which they are; where they show it twice, the first time. It never
    /// falls as `local` grows. `None` if the zone is unknown.
    fn first(&self, zone: &Zone, local: i64) -> Option<WallTime>;
}

/// All databases are the same to a hash of a machine's state.
impl Hash for dyn Zones {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

/// A database without a zone, for those that only use offsets.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoZones;

impl Zones for NoZones {
    fn local(&self, _: &Zone, _: WallTime) -> Option<i64> {
        None
    }

    fn first(&self, _: &Zone, _: i64) -> Option<WallTime> {
        None
    }
}

#[cfg(test)]
#[path = "../../tests/unit/budget/zone.rs"]
mod tests;
