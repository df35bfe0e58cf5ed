//! Weights of claimants.

use super::UnitError;
use core::num::NonZeroU32;

/// Weight of a claimant relative to others. Range: 1 to 1,000,000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "u32", into = "u32"))]
pub struct Weight(NonZeroU32);

impl Weight {
    /// The default weight of a claimant.
    pub const ONE: Self = Self(NonZeroU32::MIN);

    /// The greatest weight.
    pub const MAX: u32 = 1_000_000;

    /// Returns the weight with this value.
    ///
    /// # Errors
    ///
    /// [`UnitError`] outside 1 to [`Weight::MAX`].
    pub const fn new(weight: u32) -> Result<Self, UnitError> {
        if weight > Self::MAX {
            return Err(UnitError::OutOfRange { what: "weight" });
        }
        match NonZeroU32::new(weight) {
            Some(weight) => Ok(Self(weight)),
            None => Err(UnitError::Zero { what: "weight" }),
        }
    }

    /// Returns the weight as a number.
    #[must_use]
    #[inline]
    pub const fn get(self) -> u32 {
        self.0.get()
    }
}

impl Default for Weight {
    fn default() -> Self {
        Self::ONE
    }
}

impl TryFrom<u32> for Weight {
    type Error = UnitError;

    fn try_from(weight: u32) -> Result<Self, UnitError> {
        Self::new(weight)
    }
}

impl From<Weight> for u32 {
    fn from(weight: Weight) -> Self {
        weight.get()
    }
}
