//! A key of a store as one of several limits.

use super::ask::{Price, no_room};
use super::name::by_words;
use super::{Class, Keyed};
use crate::bucket::described::LimitInfo;
use crate::bucket::step::Next;
use crate::limiter::combined::combine::{Combine, KeyCharge, Receipt};
use crate::limiter::decision::Decision;
use crate::limiter::refused::Refused;
use crate::sync::{self, Bug, Ordering};
use aliquot_core::unit::Tick;

/// The bucket of one key of a store, as a [`Combine`].
///
/// It borrows the store and the key, and is made for one request. The key is looked up when the limit is
/// asked.
///
/// A refund made at once is exact, and a later one is as exact as a limiter's. If other keys of the store put
/// tokens back in between, it may lose the tokens that were made since the charge.
///
/// Tokens are put back to the key that they were taken from, as long as that key is remembered. If it was
/// forgotten, nothing is put back: it was full, and is full when it comes again. This holds even if another
/// key has its slot by then.
///
/// ```
/// use aliquot_client::{Combined, Keyed, Limit, Limiter};
///
/// // The cheapest and the likeliest to refuse first.
/// let addresses = Keyed::new(Limit::per_sec(5), 10, 10_000)?;
/// let users = Keyed::new(Limit::per_sec(20), 40, 10_000)?;
/// let tenants = Keyed::builder(Limit::per_sec(200), 400, 1_000)
///     .class(Limit::per_sec(5_000), 10_000)
///     .build()?;
/// let route = Limiter::local(Limit::per_sec(2_000), 2_000)?;
/// let global = Limiter::local(Limit::per_sec(10_000), 10_000)?;
///
/// let (address, user) = (addresses.bucket("203.0.113.7"), users.bucket("user/42"));
/// let tenant = tenants.bucket_of(1, "tenant/paying");
/// let limits = Combined::of_any([
///     ("address", &address),
///     ("user", &user),
///     ("tenant", &tenant),
///     ("route", &route),
///     ("global", &global),
/// ]);
/// assert!(limits.try_acquire(10).is_ok());
/// let refused = limits.try_acquire(1).unwrap_err();
/// assert_eq!(refused.limit, "address");
/// assert_eq!(users.tokens_at("user/42", users.now()), 30);
/// # Ok::<(), aliquot_client::LimitError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct KeyedBucket<'a> {
    store: &'a Keyed,
    class: u16,
    key: &'a str,
}

impl Keyed {
    /// Returns a key of class 0 as one of the limits of a [`Combined`](crate::Combined).
    #[must_use]
    pub const fn bucket<'a>(&'a self, key: &'a str) -> KeyedBucket<'a> {
        self.bucket_of(0, key)
    }

    /// Returns a key of a class as one of several limits. The first class is 0.
    #[must_use]
    pub const fn bucket_of<'a>(&'a self, class: u16, key: &'a str) -> KeyedBucket<'a> {
        KeyedBucket {
            store: self,
            class,
            key,
        }
    }

    /// Takes tokens and returns a record of them; `None` for a class without a limit. `seen` receives the debt
    /// that a key in the store has then.
    fn charge(
        &self,
        class: u16,
        key: &str,
        n: u64,
        now: Tick,
        seen: &mut Option<u64>,
    ) -> Result<Option<KeyCharge>, Refused> {
        let Some(price) = self.price(class, n)? else {
            return Ok(None);
        };
        by_words!(key, W => {
            let name = self.table.maker().name::<W>(class, key);
            let name = name.spelled();
            let mut found = self.table.find(&name);
            loop {
                // Read this before the debt: what is put back in between is then counted twice, never missed.
                let back = self.table.put_back(name.hash).load(Ordering::Acquire);
                let decided = found.and_then(|found| Some((found, price.charge_and_look(found, now)?)));
                if let Some((found, (answer, debt))) = decided {
                    *seen = Some(debt);
                    answer?;
                    let (place, owner) = found.identity();
                    let cost = price.cost;
                    return Ok(Some(KeyCharge { place, owner, cost, debt, back, at: now }));
                }
                found = Some(self.claim(&name, now)?);
            }
        })
    }

    fn would(&self, class: u16, key: &str, n: u64, now: Tick) -> Result<(), Refused> {
        let Some(price) = self.price(class, n)? else {
            return Ok(());
        };
        by_words!(key, W => {
            let name = self.table.maker().name::<W>(class, key);
            let name = name.spelled();
            loop {
                let Some(found) = self.table.find(&name) else {
                    let room = self.table.room(&name, now, self);
                    room.map_err(|soonest| no_room(soonest, now))?;
                    let owed = self.table.owed_by_new(class, now, self);
                    return price.next(owed, now).map(|_| ());
                };
                if let Some(answer) = price.after(found, now) {
                    return answer.map(|_| ());
                }
            }
        })
    }

    /// Puts back up to `n` of `of` tokens that were taken, and returns how many.
    fn put_back(
        &self,
        class: u16,
        key: &str,
        charged: &KeyCharge,
        (n, of): (u64, u64),
        clock: impl Fn() -> Tick,
    ) -> u64 {
        let Some(Class {
            slot: Some(slot),
            grains_per_token,
            ..
        }) = self.classes.get(usize::from(class))
        else {
            return 0;
        };
        let units = match n == of {
            true => charged.cost,
            false => (n * grains_per_token) >> slot.shift,
        };
        let lowered = by_words!(key, W => {
            let name = self.table.maker().name::<W>(class, key);
            let name = name.spelled();
            let identity = (charged.place, charged.owner);
            let mut said_in_vain = 0_u64;
            loop {
                let found = self.table.find(&name).filter(|found| found.identity() == identity);
                let Some(seen) = found.map(|found| found.debt()) else {
                    return 0;
                };
                // Read the clock after the debt: the reading must not be behind those of other charges.
                let full = slot.made_up(clock().max(charged.at));
                // No more is lost than what was made since the charge.
                let since = full.saturating_sub(slot.made(charged.at).0);
                let mut same = true;
                let lowered = self.table.hold(&name, identity, |debt| {
                    same = debt == seen;
                    if !same {
                        return debt;
                    }
                    // Counted before the debt is lowered: concurrent refunds may see less room than there is,
                    // never more.
                    let back = self.table.put_back(name.hash).fetch_add(n, Ordering::AcqRel);
                    let back = back.wrapping_sub(charged.back);
                    let others = back.wrapping_sub(said_in_vain).saturating_mul(*grains_per_token);
                    let others = slot.units(others).saturating_add(full);
                    let room = charged.debt.saturating_sub(others).max(charged.cost.saturating_sub(since));
                    let room = room.min(debt.saturating_sub(full)).min(units);
                    if !sync::planted(Bug::SaidAgain) {
                        said_in_vain = said_in_vain.wrapping_add(n);
                    }
                    debt - room
                });
                if same {
                    break lowered;
                }
            }
        });
        let Some((before, after)) = lowered else {
            return 0;
        };
        match before - after == charged.cost {
            true => of,
            false => slot.grains(before - after) / grains_per_token,
        }
    }

    /// Takes up to `n` tokens, whether they are there or not, and returns how many it took: no more than make
    /// a debt of the burst and half an hour's tokens.
    fn owe(&self, class: u16, key: &str, n: u64, now: Tick) -> u64 {
        let Some(class_of) = self.classes.get(usize::from(class)) else {
            return 0;
        };
        let Some(slot) = &class_of.slot else {
            return n;
        };
        let (per_token, most) = (class_of.grains_per_token, class_of.most);
        let price = Price {
            slot,
            most,
            cost: 0,
        };
        // The other half of the maximum debt is for a clock that steps back.
        let most = slot.burst + (most - slot.burst) / 2;
        let bucket = slot.at(now, 0);
        by_words!(key, W => {
            let name = self.table.maker().name::<W>(class, key);
            let name = name.spelled();
            loop {
                let found = self.table.find(&name).map_or_else(|| self.claim(&name, now), Ok);
                let Ok(found) = found else {
                    return 0;
                };
                let owed = found.update(|debt| {
                    let debt = price.sane(debt, bucket.made);
                    let room = bucket.made.saturating_add(most);
                    let room = room.saturating_sub(bucket.step(debt, 0).debt);
                    match slot.affordable(n, per_token, room) {
                        Some((tokens, cost)) => Next::Swap(bucket.step(debt, cost).debt, tokens),
                        None => Next::Keep(0),
                    }
                });
                if let Some(owed) = owed {
                    return owed;
                }
            }
        })
    }
}

impl KeyedBucket<'_> {
    fn take_and_look(&self, n: u64, now: Tick, seen: &mut Option<u64>) -> Result<Receipt, Refused> {
        let charged = self.store.charge(self.class, self.key, n, now, seen)?;
        Ok(charged.map_or(Receipt::of_window(n, 0), |charged| {
            Receipt::of_key(n, charged)
        }))
    }

    /// Describes the key with this debt.
    fn describe(&self, debt: u64, now: Tick) -> Option<LimitInfo> {
        let class = self.store.classes.get(usize::from(self.class))?;
        let bucket = class.bucket_of(debt, now)?;
        (bucket.burst >= bucket.scale).then(|| bucket.describe(Some(class.limit)))
    }

    fn put_back_by(&self, receipt: &Receipt, n: u64, clock: impl Fn() -> Tick) -> u64 {
        let (n, of) = (n.min(receipt.tokens()), receipt.tokens());
        // A class without a limit took nothing, so all tokens are free.
        receipt.charged().map_or(n, |charged| {
            self.store
                .put_back(self.class, self.key, charged, (n, of), clock)
        })
    }
}

impl Combine for KeyedBucket<'_> {
    fn now(&self) -> Tick {
        self.store.now()
    }

    fn info_at(&self, now: Tick) -> Option<LimitInfo> {
        self.store.classes.get(usize::from(self.class))?;
        self.describe(self.store.owed(self.class, self.key, now), now)
    }

    fn take_at(&self, n: u64, now: Tick) -> Result<Receipt, Refused> {
        self.take_and_look(n, now, &mut None)
    }

    fn decide_at(&self, n: u64, now: Tick) -> Decision<Receipt> {
        let mut seen = None;
        let outcome = self.take_and_look(n, now, &mut seen);
        let info = match seen {
            Some(debt) => self.describe(debt, now),
            None => self.info_at(now),
        };
        Decision { outcome, info }
    }

    fn peek_at(&self, n: u64, now: Tick) -> Result<(), Refused> {
        self.store.would(self.class, self.key, n, now)
    }

    fn put_back_at(&self, receipt: &Receipt, n: u64, now: Tick) -> u64 {
        self.put_back_by(receipt, n, || now)
    }

    fn put_back(&self, receipt: &Receipt, n: u64) -> u64 {
        self.put_back_by(receipt, n, || self.store.now())
    }

    fn owe_at(&self, receipt: &Receipt, n: u64, now: Tick) -> u64 {
        let now = receipt.charged().map_or(now, |charged| now.max(charged.at));
        self.store.owe(self.class, self.key, n, now)
    }
}
