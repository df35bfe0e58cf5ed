//! Amounts: tokens, and tokens per second.

use core::fmt;
use core::iter::Sum;

/// Declares a 64-bit amount with checked arithmetic.
macro_rules! amount {
    ($(#[$doc:meta])+ $name:ident, $unit:literal) => {
        $(#[$doc])+
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        #[cfg_attr(feature = "serde", serde(transparent))]
        pub struct $name(u64);

        impl $name {
            /// Zero.
            pub const ZERO: Self = Self(0);

            /// The greatest value of the unit.
            pub const MAX: Self = Self(u64::MAX);

            #[doc = concat!("Returns this many ", $unit, ".")]
            #[must_use]
            #[inline]
            pub const fn from_grains(grains: u64) -> Self {
                Self(grains)
            }

            #[doc = concat!("Returns the value in ", $unit, ".")]
            #[must_use]
            #[inline]
            pub const fn grains(self) -> u64 {
                self.0
            }

            /// Returns true if the amount is zero.
            #[must_use]
            #[inline]
            pub const fn is_zero(self) -> bool {
                self.0 == 0
            }

            /// Returns the sum, if it is in range.
            #[must_use]
            #[inline]
            pub const fn plus(self, other: Self) -> Option<Self> {
                match self.0.checked_add(other.0) {
                    Some(sum) => Some(Self(sum)),
                    None => None,
                }
            }

            /// Returns the difference, if `other` is not the greater.
            #[must_use]
            #[inline]
            pub const fn minus(self, other: Self) -> Option<Self> {
                match self.0.checked_sub(other.0) {
                    Some(difference) => Some(Self(difference)),
                    None => None,
                }
            }

            /// Returns the difference, or zero if `other` is the greater.
            #[must_use]
            #[inline]
            pub const fn minus_or_zero(self, other: Self) -> Self {
                Self(self.0.saturating_sub(other.0))
            }

            /// Returns `self · numerator ÷ denominator` rounded down, if it is in range and `denominator` is
            /// not zero.
            #[must_use]
            pub fn scaled_down(self, numerator: u64, denominator: u64) -> Option<Self> {
                super::mul_div_floor(self.0, numerator, denominator).map(Self)
            }
        }

        impl Sum<$name> for Option<$name> {
            fn sum<I: Iterator<Item = $name>>(mut amounts: I) -> Self {
                amounts.try_fold($name::ZERO, $name::plus)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

amount! {
    /// An amount of tokens, counted in the grains of its budget's
    /// [`Scale`](super::Scale). Range: 0 to 2⁶⁴ − 1 grains.
    Tokens, "grains"
}

amount! {
    /// A rate, in grains per second of its budget's [`Scale`](super::Scale).
    /// Range: 0 to 2⁶⁴ − 1 grains per second.
    Rate, "grains per second"
}
