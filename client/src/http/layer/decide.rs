//! Decides a request, by one limit or by several.

use super::acquired::{Acquired, Hook, take};
use super::meter::{Meter, Of, Which};
use super::options::{NoKey, Options};
use super::outcome::{Outcome, Refusal, field_name};
use super::request_limits::{Named, decide_all};
use crate::http::path;
use crate::limiter::combined::combine::Combine;
use crate::limiter::decision::Decision;
use http::request::Parts;
use std::sync::Arc;

/// The limit or limits of a layer.
#[derive(Clone)]
pub(super) enum Limits {
    One(Which),
    All(Arc<[Named]>),
}

/// The limits and the settings of a layer.
#[derive(Clone)]
pub(super) struct Rules {
    pub(super) limits: Limits,
    pub(super) cost: Of<u64>,
    pub(super) except: Vec<Box<str>>,
    pub(super) options: Options,
    pub(super) on_admit: Option<Hook>,
}

impl Rules {
    fn leaves_out(&self, path: &str) -> bool {
        let matches = |left_out: &str, path: &str| {
            let below = left_out
                .strip_suffix("/*")
                .and_then(|root| path.strip_prefix(root));
            *left_out == *path || below.is_some_and(|rest| rest.starts_with('/'))
        };
        let is_written = |path: &str| self.except.iter().any(|left_out| matches(left_out, path));
        // However the server reads the path, it must be left out.
        is_written(path) && is_written(&path::resolved(path))
    }

    pub(super) async fn decide(&self, parts: &Parts) -> Outcome<'_> {
        if self.leaves_out(parts.uri.path()) {
            return Outcome::Free;
        }
        match &self.limits {
            Limits::One(which) => match which.meter(parts) {
                None if self.options.no_key == NoKey::Admit => Outcome::Free,
                None => Outcome::Missing(None),
                Some(Err(refused)) => Outcome::NoKey(refused),
                Some(Ok(meter)) => self.decide_one(meter, (self.cost)(parts)).await,
            },
            Limits::All(named) => {
                let cost = (self.cost)(parts);
                match decide_all(named, parts, cost, self.on_admit.as_ref()).await {
                    Outcome::Refused(refusal) => self.refused(refusal),
                    outcome => outcome,
                }
            }
        }
    }

    async fn decide_one(&self, meter: Meter, n: u64) -> Outcome<'_> {
        let (outcome, info) = match &meter {
            Meter::Limiter(limiter) => {
                let Decision { outcome, info } = take(limiter, n).await;
                if let (Some(hook), Ok(taken)) = (&self.on_admit, &outcome) {
                    hook(limiter, &taken.admission());
                }
                (outcome.map(Acquired::permits), info)
            }
            Meter::Key(..) | Meter::Other(_) => {
                let Decision { outcome, info } = meter.decide_at(n, meter.now());
                (outcome.map(|_| Vec::new()), info)
            }
        };
        match outcome {
            Ok(permits) => Outcome::Admitted {
                tightest: info.map(|info| (field_name(None), info)),
                permits,
            },
            Err(refused) => self.refused(Refusal {
                name: None,
                refused,
                info,
            }),
        }
    }

    /// Admits a request for which the limit is not set up, if the layer is told so.
    fn refused<'a>(&self, refusal: Refusal<'a>) -> Outcome<'a> {
        match self
            .options
            .admits_misconfigured(refusal.name, refusal.refused)
        {
            true => Outcome::Free,
            false => Outcome::Refused(refusal),
        }
    }
}
