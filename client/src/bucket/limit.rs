//! The rate of a limit of this process.

use aliquot_core::share::Share;
use aliquot_core::unit::{Frequency, Rate, Scale, Span, Tokens};
use std::time::Duration;

/// A rate: tokens per time span, or no limit.
///
/// A rate is never rounded up. It is exact if each nanosecond produces a whole number of tokens, or of equal
/// fractions of a token, and the bucket holds at most `2⁴⁶` of these fractions. That is up to
/// 70,000 tokens at any rate, and more at round ones. Any other rate is exact to one part in 10⁸ if its
/// bucket fills within ten years.
///
/// Values out of range are refused where the limit is used.
///
/// ```
/// use aliquot_client::Limit;
/// use std::time::Duration;
///
/// let api = Limit::per_sec(100);
/// let mails = Limit::per(100, Duration::from_secs(60));
/// let poll = Limit::every(Duration::from_secs(10));
/// assert!(mails.as_per_sec_f64() < api.as_per_sec_f64());
/// assert_eq!(poll, Limit::per(1, Duration::from_secs(10)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// `None` admits everything.
    rate: Option<(u64, Span)>,
}

/// An invalid limit. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LimitError {
    /// The rate is out of range.
    #[error(
        "rate: {tokens} tokens per {per:?} are not between one in ten days and 10¹² a second (nor 0)"
    )]
    Rate {
        /// Tokens per span.
        tokens: u64,
        /// Time in which they are made.
        per: Duration,
    },
    /// The rate is negative, too large, or not a number.
    #[error("rate: {per_sec} per second is not a valid rate; 0 to 10¹² are allowed")]
    NoRate {
        /// Tokens per second that were given.
        per_sec: f64,
    },
    /// The burst is out of range.
    #[error("burst: {burst}; at most {most} are allowed at this rate")]
    Burst {
        /// Burst that was given.
        burst: u64,
        /// Maximum burst at this rate.
        most: u64,
    },
    /// The number of keys is out of range.
    #[error("keys: {keys}; 1 to {most} are allowed")]
    Keys {
        /// Number of keys that was given.
        keys: usize,
        /// Maximum number of keys.
        most: usize,
    },
    /// There are too many classes.
    #[error("classes: {classes}; at most 65535 are allowed")]
    Classes {
        /// Number of classes that was given.
        classes: usize,
    },
    /// The multiplier of a throttle is out of range.
    #[error("multiplier: {percent} %; 100 to 10,000 are allowed")]
    Multiplier {
        /// Multiplier that was given, in percent.
        percent: u32,
    },
    /// The limit counts permits, which have no rate.
    #[error("rate: a limiter of permits has no rate; set the number of permits as its burst")]
    Permits,
    /// The bounds of a rate controller are out of range, or in the wrong order.
    #[error(
        "rate bounds: {least} to {most} tokens a second; in this order, one a day to 10¹² a second are allowed"
    )]
    RateBounds {
        /// Lower bound, in tokens per second.
        least: f64,
        /// Upper bound, in tokens per second.
        most: f64,
    },
    /// The hysteresis of a controller is out of range.
    #[error("hysteresis: {percent} %; 0 to 50 are allowed")]
    Hysteresis {
        /// Hysteresis that was given, in percent.
        percent: u32,
    },
    /// A controller of concurrency was given a limit of tokens.
    #[error(
        "permits: this limiter counts tokens; a controller of concurrency needs a limiter of permits"
    )]
    NoPermits,
    /// The limit belongs to the coordinator, and is changed there by its budget.
    #[error("the limit of {what} belongs to the coordinator: change its budget there")]
    NotOwn {
        /// The limit that was to be changed.
        what: &'static str,
    },
}

impl LimitError {
    fn rate(tokens: u64, per: Span) -> Self {
        let per = Duration::from_nanos(per.nanos());
        Self::Rate { tokens, per }
    }
}

/// A limit in fixed point.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fitted {
    pub(crate) scale: Scale,
    pub(crate) rate: Rate,
    pub(crate) burst: Tokens,
}

impl Limit {
    /// Produces no tokens: only the initial burst is admitted.
    pub const ZERO: Self = Self::per_sec(0);

    /// Admits everything, whatever the burst.
    pub const UNLIMITED: Self = Self { rate: None };

    /// Makes `tokens` tokens per second.
    #[must_use]
    pub const fn per_sec(tokens: u64) -> Self {
        Self::per(tokens, Duration::from_secs(1))
    }

    /// Makes `tokens` tokens per `span`, evenly.
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

    /// Makes one token per `span`.
    #[must_use]
    pub const fn every(span: Duration) -> Self {
        Self::per(1, span)
    }

    /// Makes `per_sec` tokens per second. Infinity is no limit.
    ///
    /// At 10⁹ a second and more the rate is rounded down to a whole number of tokens per second, below that
    /// to a whole number of tokens per 10⁹ seconds. A rate below 10⁻⁹ a second becomes zero.
    ///
    /// # Errors
    ///
    /// [`LimitError::NoRate`] if `per_sec` is negative, above 10¹², or not a number. A rate between 10⁻⁹ a
    /// second and one token in ten days is refused where the limit is used.
    pub fn per_sec_f64(per_sec: f64) -> Result<Self, LimitError> {
        if per_sec.is_infinite() && per_sec > 0.0 {
            return Ok(Self::UNLIMITED);
        }
        // Below 10⁹ a second: billionths of a token per second are tokens per 10⁹ seconds.
        const PLACES: u64 = 1_000_000_000;
        const MOST: f64 = 1e12;
        if !(0.0..=MOST).contains(&per_sec) {
            return Err(LimitError::NoRate { per_sec });
        }
        // The casts fit: at most 10¹², or less than 10⁹ · 10⁹ < 2⁶⁴.
        let (tokens, secs) = if per_sec >= 1e9 {
            (per_sec as u64, 1)
        } else {
            ((per_sec * 1e9) as u64, PLACES)
        };
        Ok(Self::per(tokens, Duration::from_secs(secs)))
    }

    /// Returns the rate in tokens per second; infinity if there is no limit.
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

    /// Returns the tokens and the span that the limit was made of; `None` without a limit.
    pub(crate) const fn per_span(self) -> Option<(u64, Span)> {
        self.rate
    }

    /// Returns true if everything is admitted.
    #[must_use]
    pub const fn is_unlimited(self) -> bool {
        self.rate.is_none()
    }

    /// Converts the limit to a fixed point of its own, or keeps the scale `now` if that is as good.
    pub(crate) fn fit(self, burst: u64, now: Option<Scale>) -> Result<Fitted, LimitError> {
        let frequency = match self.rate {
            None | Some((0, _)) => Frequency::ZERO,
            Some((tokens, per)) => {
                Frequency::new(tokens, per).map_err(|_| LimitError::rate(tokens, per))?
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
    /// Converts the limit to a fixed point in which a 64-bit word lasts for 34 years.
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
        let frequency = frequency.map_err(|_| LimitError::rate(tokens, per))?;
        Fitted::coarse(frequency, burst)
    }
}

impl Fitted {
    /// Above this, a unit of the bucket is more than a grain. The same holds for the burst below.
    const RATE_FITS: u64 = 1 << 40;
    pub(crate) const BURST_FITS: u64 = 1 << 46;

    /// Picks a scale in which each nanosecond makes a whole number of grains, so that nothing is rounded.
    /// `None` if there is no room for it.
    fn exact(rate: Frequency, burst: u64) -> Option<Self> {
        let per = rate.per().nanos();
        let scale = Scale::try_from(per / gcd(rate.tokens(), per)).ok()?;
        Self::within(scale, rate, burst)
    }

    /// Picks the scale that a budget would have.
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

    /// Returns the largest burst that fits at a rate. Smaller bursts fit as well, so a binary search finds
    /// it.
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

    /// Keeps the scale of before if its grain is fine enough. What was promised under it can then still be
    /// put back.
    fn keep(scale: Scale, rate: Frequency, burst: u64) -> Option<Self> {
        const FINE: u64 = 1 << 28;
        let kept = Self::within(scale, rate, burst)?;
        let grains = kept.rate.grains();
        // A positive rate must not be rounded down to zero.
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

/// Returns the greatest common divisor; `b` is not zero.
const fn gcd(mut a: u64, mut b: u64) -> u64 {
    while a != 0 {
        (a, b) = (b % a, a);
    }
    b
}
