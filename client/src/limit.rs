//! A limit of a process's own, in numbers.

use aliquot_core::share::Share;
use aliquot_core::unit::{Frequency, Rate, Scale, Span, Tokens};
use std::time::Duration;

/// How many tokens are made in a time, or that nothing is limited.
///
/// A rate is never rounded up. It is exact where a whole number of tokens, or a whole part
/// of one, is made each nanosecond in a bucket that holds at most `2⁴⁶` of such parts (up to
/// 70,000 tokens at any rate, more at round ones), and else, where a bucket is full within ten years, to one part in 10⁸. What is out of range is refused where the limit is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// `None`: everything is admitted.
    rate: Option<(u64, Span)>,
}

/// Why a limit cannot be that. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LimitError {
    /// The rate is out of range.
    #[error(
        "rate: {tokens} tokens per {per} are not between one in ten days and 10¹² a second (nor 0)"
    )]
    Rate {
        /// The tokens.
        tokens: u64,
        /// The span that they are made in.
        per: Span,
    },
    /// A rate that is no number, or below zero.
    #[error("rate: {per_sec} a second is no rate; 0 to 10¹² are allowed")]
    NoRate {
        /// What stood there.
        per_sec: f64,
    },
    /// The burst is out of range.
    #[error("burst: {burst}; at most {most} are allowed at this rate")]
    Burst {
        /// What stood there.
        burst: u64,
        /// The most that it may be.
        most: u64,
    },
    /// The number of keys is out of range.
    #[error("keys: {keys}; 1 to {most} are allowed")]
    Keys {
        /// What stood there.
        keys: usize,
        /// The most that it may be.
        most: usize,
    },
    /// There are too many classes.
    #[error("classes: {classes}; at most 65535 are allowed")]
    Classes {
        /// How many there are.
        classes: usize,
    },
    /// A throttle's multiplier is out of range.
    #[error("multiplier: {percent} %; 100 to 10,000 are allowed")]
    Multiplier {
        /// What stood there.
        percent: u32,
    },
    /// Permits have no rate.
    #[error("rate: permits have none; their number is set as the burst")]
    Permits,
    /// What a controller of rates is to keep between is out of range, or the wrong way round.
    #[error(
        "rate bounds: {least} to {most} tokens a second; in this order, one a day to 10¹² a second are allowed"
    )]
    RateBounds {
        /// The least, in tokens a second.
        least: f64,
        /// The most, in tokens a second.
        most: f64,
    },
    /// A controller's hysteresis is out of range.
    #[error("hysteresis: {percent} %; 0 to 50 are allowed")]
    Hysteresis {
        /// What stood there.
        percent: u32,
    },
    /// A controller sets permits, and this limit has none.
    #[error("permits: this limit is of tokens; a controller sets how many are in flight")]
    NoPermits,
    /// The limit is the coordinator's: budgets are changed there.
    #[error("the limit of {what} belongs to the coordinator: its budget is changed there")]
    NotOwn {
        /// What was to be changed.
        what: &'static str,
    },
}

/// A limit in a fixed point.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fitted {
    pub(crate) scale: Scale,
    pub(crate) rate: Rate,
    pub(crate) burst: Tokens,
}

impl Limit {
    /// Nothing is ever made: what there is at the start is all.
    pub const ZERO: Self = Self::per_sec(0);

    /// Everything is admitted, whatever the burst.
    pub const UNLIMITED: Self = Self { rate: None };

    /// So many tokens a second.
    #[must_use]
    pub const fn per_sec(tokens: u64) -> Self {
        Self::per(tokens, Duration::from_secs(1))
    }

    /// So many tokens in each `span`, evenly.
    ///
    /// ```
    /// use aliquot_client::{Limit, Limiter};
    /// use std::time::Duration;
    ///
    /// // Ten in thirteen seconds.
    /// let limiter = Limiter::local(Limit::per(10, Duration::from_secs(13)), 1)?;
    /// # Ok::<(), aliquot_client::LimitError>(())
    /// ```
    #[must_use]
    pub const fn per(tokens: u64, span: Duration) -> Self {
        let nanos = span.as_nanos();
        let nanos = if nanos > u64::MAX as u128 {
            u64::MAX
        } else {
            nanos as u64
        };
        Self {
            rate: Some((tokens, Span::from_nanos(nanos))),
        }
    }

    /// One token in each `span`.
    #[must_use]
    pub const fn every(span: Duration) -> Self {
        Self::per(1, span)
    }

    /// So many tokens a second, rounded down to a whole number in 10⁹ nanoseconds, or
    /// below one a second in ten days. Infinity is no limit.
    ///
    /// # Errors
    ///
    /// [`LimitError::NoRate`] for a negative number, or none.
    pub fn per_sec_f64(per_sec: f64) -> Result<Self, LimitError> {
        if per_sec.is_infinite() && per_sec > 0.0 {
            return Ok(Self::UNLIMITED);
        }
        // A rate in tokens per second is so many thousandths of a millionth per second.
        const PLACES: u64 = 1_000_000_000;
        const MOST: f64 = 1e12;
        if !(0.0..=MOST).contains(&per_sec) {
            return Err(LimitError::NoRate { per_sec });
        }
        // Below 2⁶⁴ after the clipping: 10¹² a second, or 10⁹ billionths.
        let (tokens, secs) = if per_sec >= 1e9 {
            (per_sec as u64, 1)
        } else {
            ((per_sec * 1e9) as u64, PLACES)
        };
        Ok(Self::per(tokens, Duration::from_secs(secs)))
    }

    /// The tokens that are made in a second; infinity if nothing is limited.
    ///
    /// ```
    /// use aliquot_client::Limit;
    /// use std::time::Duration;
    ///
    /// assert_eq!(Limit::per(30, Duration::from_secs(60)).as_per_sec_f64(), 0.5);
    /// ```
    #[must_use]
    pub fn as_per_sec_f64(self) -> f64 {
        match self.rate {
            None => f64::INFINITY,
            Some((0, _)) => 0.0,
            Some((tokens, per)) => tokens as f64 * 1e9 / per.nanos() as f64,
        }
    }

    /// Whether everything is admitted.
    #[must_use]
    pub const fn is_unlimited(self) -> bool {
        self.rate.is_none()
    }

    /// The limit in a fixed point of its own, or in `now` if that serves it as well.
    pub(crate) fn fit(self, burst: u64, now: Option<Scale>) -> Result<Fitted, LimitError> {
        let frequency = match self.rate {
            None | Some((0, _)) => Frequency::ZERO,
            Some((tokens, per)) => {
                Frequency::new(tokens, per).map_err(|_| LimitError::Rate { tokens, per })?
            }
        };
        if let Some(kept) = now.and_then(|scale| Fitted::keep(scale, frequency, burst)) {
            return Ok(kept);
        }
        if let Some(exact) = Fitted::exact(frequency, burst) {
            return Ok(exact);
        }
        Fitted::coarse(frequency, burst)
    }
}

impl Limit {
    /// The limit in a fixed point in which a 64-bit word lasts for 34 years.
    pub(crate) fn fit_for_long(self, burst: u64) -> Result<Fitted, LimitError> {
        const LASTS: u64 = 1 << 34;
        let fitted = self.fit(burst, None)?;
        let Some((tokens, per)) = self.rate else {
            return Ok(fitted);
        };
        if fitted.rate.grains() <= LASTS {
            return Ok(fitted);
        }
        let frequency = Frequency::new(tokens, per);
        let frequency = frequency.map_err(|_| LimitError::Rate { tokens, per })?;
        Fitted::coarse(frequency, burst)
    }
}

impl Fitted {
    /// Beyond these a unit of the cell is more than a grain.
    const RATE_FITS: u64 = 1 << 40;
    pub(crate) const BURST_FITS: u64 = 1 << 46;

    /// A fixed point in which a nanosecond makes a whole number of grains, so that
    /// nothing at all is rounded, if there is room for one.
    fn exact(rate: Frequency, burst: u64) -> Option<Self> {
        let per = rate.per().nanos();
        let scale = Scale::try_from(per / gcd(rate.tokens(), per)).ok()?;
        Self::within(scale, rate, burst)
    }

    /// The fixed point that a budget would have.
    fn coarse(rate: Frequency, burst: u64) -> Result<Self, LimitError> {
        Self::fitting(rate, burst).ok_or_else(|| LimitError::Burst {
            burst,
            most: Self::most(rate),
        })
    }

    fn fitting(rate: Frequency, burst: u64) -> Option<Self> {
        let scale = Scale::fit(rate, burst).ok()?;
        Some(Self {
            scale,
            rate: scale.rate(rate).ok()?,
            burst: scale.tokens(burst).ok()?,
        })
    }

    /// The greatest burst that fits at a rate: where a greater one does, a smaller one does, too.
    fn most(rate: Frequency) -> u64 {
        let (mut most, mut beyond) = (0, Scale::GRAINS_MAX + 1);
        while beyond - most > 1 {
            let middle = u64::midpoint(most, beyond);
            match Self::fitting(rate, middle) {
                Some(_) => most = middle,
                None => beyond = middle,
            }
        }
        most
    }

    /// The same fixed point as before, where a grain of it is little enough: what
    /// is promised can then still be put back.
    fn keep(scale: Scale, rate: Frequency, burst: u64) -> Option<Self> {
        const FINE: u64 = 1 << 28;
        let kept = Self::within(scale, rate, burst)?;
        let grains = kept.rate.grains();
        // What makes something must not be rounded off to nothing.
        let makes = grains > 0 || rate.tokens() == 0;
        let whole = makes && grains.is_multiple_of(1_000_000_000);
        (whole || grains >= FINE).then_some(kept)
    }

    fn within(scale: Scale, rate: Frequency, burst: u64) -> Option<Self> {
        let (burst, rate) = (scale.tokens(burst).ok()?, scale.rate(rate).ok()?);
        let fits = rate.grains() <= Self::RATE_FITS && burst.grains() <= Self::BURST_FITS;
        fits.then_some(Self { scale, rate, burst })
    }

    pub(crate) fn share(&self) -> Share {
        Share {
            rate: self.rate,
            burst: self.burst,
            tokens: self.burst,
        }
    }
}

/// The greatest common divisor; `b` is not zero.
const fn gcd(mut a: u64, mut b: u64) -> u64 {
    while a != 0 {
        (a, b) = (b % a, a);
    }
    b
}

impl From<Frequency> for Limit {
    fn from(frequency: Frequency) -> Self {
        Self {
            rate: Some((frequency.tokens(), frequency.per())),
        }
    }
}
