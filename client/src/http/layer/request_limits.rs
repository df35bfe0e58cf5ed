//! Several limits in front of one service.

use super::acquired::{Acquired, Hook, take};
use super::meter::Which;
use super::options::NoKey;
use super::outcome::{Outcome, Refusal, RequestAction, field_name};
use crate::bucket::described::LimitInfo;
use crate::limiter::Limiter;
use crate::limiter::combined::combine::{Combine, Receipt};
use crate::limiter::combined::limit_set::{ClockSource, LimitSet};
use crate::limiter::decision::Decision;
use crate::limiter::permit::Permit;
use crate::limiter::refused::Refused;
use crate::local::keyed::Keyed;
use crate::observe::switched::Switched;
#[cfg(feature = "cluster")]
use crate::session::client::Client;
use http::request::Parts;
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// Limits that a request must all pass, each with a name, for
/// [`RateLimitLayer::combined`](crate::RateLimitLayer::combined).
///
/// The limits are asked in the order given, so put the cheapest and the likeliest to refuse first. All of
/// them admit, or nothing is taken from any, as in [`Combined`](crate::Combined). A request without a key for one
/// of the limits is refused, unless that limit is to be skipped then ([`RequestLimits::without_key`]).
///
/// A leased limit that has to wait for a node, because its budget is not known yet or is in central mode, is
/// asked after all others have admitted, and so is a limit of permits. If it refuses, or if the request is dropped, the others put back
/// what they took.
///
/// A refusal reports the limit with the longest wait: `Retry-After`, the fields ([`Fields`](crate::http::Fields))
/// and the member `layer` of a problem are that limit's. The fields of an admitted request describe the limit
/// with the fewest tokens left.
///
/// ```
/// use aliquot_client::http::{NoKey, Proxies, RequestLimits, key};
/// use aliquot_client::{Keyed, Limit, Limiter, RateLimitLayer};
/// use std::sync::Arc;
///
/// let store = |per_sec, burst| Keyed::new(Limit::per_sec(per_sec), burst, 10_000).map(Arc::new);
/// let limits = RequestLimits::new()
///     .in_store("address", store(5, 10)?, key::ip(key::peer, Proxies::none()))
///     .in_store("user", store(20, 40)?, key::header("x-user"))
///     .without_key(NoKey::Admit)
///     .in_store("route", store(2_000, 2_000)?, key::path())
///     .limiter("service", Limiter::local(Limit::per_sec(10_000), 10_000)?);
/// let layer = RateLimitLayer::combined(limits)?.except(["/health"]).problems();
/// # let _ = tower_layer::Layer::layer(&layer, ());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
#[must_use = "they limit nothing until a layer has them"]
pub struct RequestLimits {
    named: Vec<Named>,
}

/// A limit and its name.
#[derive(Clone)]
pub(super) struct Named {
    name: Box<str>,
    which: Which,
    no_key: NoKey,
}

/// Invalid limits of a layer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestLimitsError {
    /// There are no limits.
    #[error("limits: none are given; at least one is needed")]
    None,
    /// A name cannot be sent in a header field.
    #[error(
        "limits: {name:?} is no name; 1 to {most} visible ASCII characters other than '\"' and '\\' are allowed"
    )]
    Name {
        /// Name that was given, cut to the maximum length.
        name: Box<str>,
        /// Maximum number of characters.
        most: usize,
    },
    /// Two limits have the same name.
    #[error("limits: {name:?} is used twice; each limit needs a name of its own")]
    Twice {
        /// Name that is used twice.
        name: Box<str>,
    },
}

impl fmt::Debug for RequestLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.named.iter().map(|named| &named.name);
        f.debug_list().entries(names).finish()
    }
}

impl RequestLimits {
    /// Maximum number of characters of a name.
    pub const NAME_MAX: usize = 64;

    /// Makes an empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a limiter for all requests, local or leased. If it counts permits, each request takes one and holds it until
    /// its response has been sent.
    pub fn limiter(self, name: &str, limiter: Limiter) -> Self {
        self.and(name, Which::Limiter(limiter))
    }

    /// Adds a limiter for each key, as [`RateLimitLayer::by_key`](crate::RateLimitLayer::by_key) does.
    #[cfg(feature = "cluster")]
    pub fn by_key<F>(self, name: &str, client: &Client, key: F) -> Self
    where
        F: Fn(&Parts) -> Option<String> + Send + Sync + 'static,
    {
        self.and(name, Which::of_keys(client, key))
    }

    /// Adds a bucket for each key of a store, as [`RateLimitLayer::in_store`](crate::RateLimitLayer::in_store) does.
    pub fn in_store<F>(self, name: &str, store: impl Into<Switched<Arc<Keyed>>>, key: F) -> Self
    where
        F: Fn(&Parts) -> Option<String> + Send + Sync + 'static,
    {
        self.and(name, Which::Store(store.into(), Arc::new(key)))
    }

    /// Adds a limit of another kind for all requests: a window, a meter, a pacer, a shadow, or one of your own.
    /// Header fields are made from its [`Combine::info_at`].
    pub fn limit(self, name: &str, limit: impl Combine + 'static) -> Self {
        // Only as a limiter can it hold permits.
        match (&limit as &dyn Any).downcast_ref::<Limiter>() {
            Some(limiter) => self.limiter(name, limiter.clone()),
            None => self.and(name, Which::Other(Arc::new(limit))),
        }
    }

    fn and(mut self, name: &str, which: Which) -> Self {
        let name = name.into();
        let no_key = NoKey::default();
        self.named.push(Named {
            name,
            which,
            no_key,
        });
        self
    }

    /// Sets the treatment of a request that has no key for the limit that was added last: it is refused (the
    /// default), or this limit is skipped ([`NoKey::Admit`]).
    pub fn without_key(mut self, no_key: NoKey) -> Self {
        if let Some(last) = self.named.last_mut() {
            last.no_key = no_key;
        }
        self
    }

    pub(super) fn checked(self) -> Result<Arc<[Named]>, RequestLimitsError> {
        if self.named.is_empty() {
            return Err(RequestLimitsError::None);
        }
        for (at, Named { name, .. }) in self.named.iter().enumerate() {
            let sent = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\');
            let most = Self::NAME_MAX;
            if name.is_empty() || name.len() > most || !name.bytes().all(sent) {
                let name = name.chars().take(most).collect();
                return Err(RequestLimitsError::Name { name, most });
            }
            if self.named.iter().take(at).any(|other| other.name == *name) {
                return Err(RequestLimitsError::Twice { name: name.clone() });
            }
        }
        Ok(self.named.into())
    }
}

/// Tokens taken so far; put back when dropped, unless they were kept.
struct Charges<'r, 'a> {
    layers: LimitSet<'r, 'a>,
    receipts: Vec<Receipt>,
    late: Vec<Acquired>,
    tokens: u64,
    kept: bool,
}

impl Drop for Charges<'_, '_> {
    fn drop(&mut self) {
        if !self.kept {
            for late in self.late.drain(..) {
                late.put_back();
            }
            self.layers
                .settle(&self.receipts, (self.tokens, 0), ClockSource::Own);
        }
    }
}

/// Decides a request by all limits for which it has a key.
pub(super) async fn decide_all<'a>(
    named: &'a [Named],
    parts: &Parts,
    n: u64,
    on_admit: Option<&Hook>,
) -> Outcome<'a> {
    let mut asked = Vec::with_capacity(named.len());
    for Named {
        name,
        which,
        no_key,
    } in named
    {
        match which.meter(parts) {
            None if *no_key == NoKey::Admit => {}
            None => return Outcome::Missing(Some(name)),
            Some(Err(refused)) => return Outcome::NoKey(refused),
            Some(Ok(meter)) => asked.push(RequestAction {
                name: Some(name),
                meter,
            }),
        }
    }
    if asked.is_empty() {
        return Outcome::Free;
    }
    match take_all(&asked, n, on_admit).await {
        Ok((infos, permits)) => {
            let names = asked.iter().map(|asked| field_name(asked.name));
            let known = names
                .zip(infos)
                .filter_map(|(name, info)| Some((name, info?)));
            Outcome::Admitted {
                tightest: known.min_by_key(|(_, info)| info.remaining),
                permits,
            }
        }
        Err((at, refused, info)) => Outcome::Refused(Refusal {
            name: asked[at].name,
            refused,
            info,
        }),
    }
}

/// The state of each limit, and the permits to hold.
type AllAcquired = (Vec<Option<LimitInfo>>, Vec<Permit>);

/// Takes `n` tokens or a permit from each limit, or nothing from any. Returns the state of each limit and the permits,
/// or the position of the limit that refused, and its state. Limits that need a node or count permits come last, in
/// their order.
async fn take_all(
    asked: &[RequestAction<'_>],
    n: u64,
    on_admit: Option<&Hook>,
) -> Result<AllAcquired, (usize, Refused, Option<LimitInfo>)> {
    let (late, here): (Vec<usize>, Vec<usize>) = (0..asked.len()).partition(|&at| {
        let limiter = asked[at].limiter();
        limiter.is_some_and(|limiter| {
            limiter.counts_permits() || limiter.needs_a_node(n, limiter.now())
        })
    });
    let limits = here.iter().map(|&at| {
        let RequestAction { name, meter } = &asked[at];
        (name.unwrap_or_default(), meter as &dyn Combine)
    });
    let limits: Vec<(&str, &dyn Combine)> = limits.collect();
    let (mut receipts, mut seen) = (
        vec![Receipt::NOTHING; limits.len()],
        vec![None; limits.len()],
    );
    let took = LimitSet(&limits).decide((&mut receipts, &mut seen), n, ClockSource::Own);
    took.map_err(|(no, info)| (here[no.index], no.refused, info))?;
    let mut infos = vec![None; asked.len()];
    for (&at, info) in here.iter().zip(seen) {
        infos[at] = info;
    }
    let mut charges = Charges {
        layers: LimitSet(&limits),
        receipts,
        late: Vec::with_capacity(late.len()),
        tokens: n,
        kept: false,
    };
    for &at in &late {
        if let Some(limiter) = asked[at].limiter() {
            let Decision { outcome, info } = take(limiter, n).await;
            let taken = outcome.map_err(|refused| (at, refused, info))?;
            charges.late.push(taken);
            infos[at] = info;
        }
    }
    charges.kept = true;
    if let Some(hook) = on_admit {
        let here = here.iter().zip(&charges.receipts);
        let here =
            here.filter_map(|(&at, receipt)| Some((asked[at].limiter()?, receipt.admission()?)));
        let late = late.iter().zip(&charges.late);
        let late = late.filter_map(|(&at, late)| Some((asked[at].limiter()?, late.admission())));
        here.chain(late)
            .for_each(|(limiter, admission)| hook(limiter, &admission));
    }
    let late = std::mem::take(&mut charges.late);
    let permits = late.into_iter().flat_map(Acquired::permits).collect();
    Ok((infos, permits))
}
