//! Bands of importance.

use super::UnitError;

/// A priority band. Range: 0 to 9; the default is 5.
///
/// **The higher number is served first**: a band's demand, up to its ceilings, is served before any lower
/// band gets more than its floors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "u8", into = "u8"))]
pub struct Band(u8);

impl Band {
    /// The band that is served first.
    pub const MAX: u8 = 9;

    /// Returns the band with this number.
    ///
    /// # Errors
    ///
    /// [`UnitError::OutOfRange`] above [`Band::MAX`].
    #[inline]
    pub const fn new(band: u8) -> Result<Self, UnitError> {
        if band > Self::MAX {
            return Err(UnitError::OutOfRange { what: "band" });
        }
        Ok(Self(band))
    }

    /// Returns the band as a number.
    #[must_use]
    #[inline]
    pub const fn get(self) -> u8 {
        self.0
    }
}

impl Default for Band {
    fn default() -> Self {
        Self(5)
    }
}

impl TryFrom<u8> for Band {
    type Error = UnitError;

    fn try_from(band: u8) -> Result<Self, UnitError> {
        Self::new(band)
    }
}

impl From<Band> for u8 {
    fn from(band: Band) -> Self {
        band.get()
    }
}
