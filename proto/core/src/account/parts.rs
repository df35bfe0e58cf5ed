//! A book as it is serialized.

use super::rare::Rare;
use super::{Account, Lingering, Slot, slot};
use crate::edge::Vector;
use crate::share::{Kind, Share};
use crate::unit::{Incarnation, PeriodId, Span, Tokens};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;

/// All parts of a book, with the sum of what is held.
#[derive(serde::Serialize, serde::Deserialize)]
pub(super) struct Parts {
    kind: Kind,
    whole: Share,
    linger: Span,
    period: PeriodId,
    spent: Tokens,
    open: BTreeMap<Incarnation, Slot>,
    kept: BTreeMap<Incarnation, Lingering>,
    held: Vector,
}

impl From<Account> for Parts {
    fn from(account: Account) -> Self {
        Self {
            kind: account.kind,
            whole: account.whole,
            linger: account.linger,
            period: account.period(),
            spent: account.spent(),
            open: account.open().collect(),
            held: account.held(),
            kept: account.rare.get().kept.clone(),
        }
    }
}

/// A sum that does not add up is stored: [`Account::adds_up`] tells.
impl From<Parts> for Account {
    fn from(parts: Parts) -> Self {
        let rare = Rare {
            period: parts.period,
            spent: parts.spent,
            linger: slot::longer(&parts.open, parts.linger),
            kept: parts.kept,
            held: None,
        };
        let mut account = Self {
            open: slot::counters(parts.open).collect(),
            rare: rare.into(),
            ..Self::new(parts.kind, parts.whole, parts.linger)
        };
        if account.has_many_edges() || account.held() != parts.held {
            let held = Some(Box::new(parts.held));
            account.rare.change(|rare| rare.held = held);
        }
        account
    }
}
