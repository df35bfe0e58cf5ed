//! The naive book: keeps every edge, and adds up again for every question.

use aliquot_core::account::Account;
use aliquot_core::edge::Vector;
use aliquot_core::share::{Kind, Share};
use aliquot_core::unit::{PeriodId, Span};
use std::collections::{BTreeMap, BTreeSet};

const RATE: usize = 0;
const BURST: usize = 1;
const TOKENS: usize = 2;
const SPENT: usize = 3;
const FLOOR_RATE: usize = 4;
const FLOOR_BURST: usize = 5;

type Parts = [u64; 6];

#[derive(Clone, Debug, Default, PartialEq)]
struct Open {
    given: Parts,
    returned: Parts,
    linger: Span,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Lingering {
    holding: Parts,
    linger: Span,
    released: BTreeSet<u64>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Model {
    kind: Kind,
    whole: Share,
    linger: Span,
    period: PeriodId,
    spent: u64,
    open: BTreeMap<u64, Open>,
    kept: BTreeMap<u64, Lingering>,
}

impl Open {
    fn holding(&self, kind: Kind) -> Parts {
        let mut held = [0; 6];
        for part in [RATE, BURST, FLOOR_RATE, FLOOR_BURST] {
            held[part] = self.given[part] - self.returned[part];
        }
        if kind == Kind::Quota {
            held[TOKENS] = self.given[TOKENS] - self.returned[TOKENS] - self.returned[SPENT];
        }
        held
    }
}

impl Model {
    pub(crate) fn new(kind: Kind, whole: Share, linger: Span) -> Self {
        Self {
            kind,
            whole,
            linger,
            period: PeriodId::new(0),
            spent: 0,
            open: BTreeMap::new(),
            kept: BTreeMap::new(),
        }
    }

    /// Returns everything visible of `account`, in the form of a model.
    pub(crate) fn seen_in(&self, account: &Account) -> Self {
        let mut seen = Self::new(account.kind(), account.whole(), self.linger);
        seen.period = account.period();
        seen.spent = account.spent().grains();
        for (child, slot) in account.open() {
            let open = Open {
                given: slot.counters.given.to_array(),
                returned: slot.counters.returned.to_array(),
                linger: slot.linger,
            };
            seen.open.insert(child.get(), open);
        }
        for (child, kept) in account.kept() {
            let kept = Lingering {
                holding: kept.holding.to_array(),
                linger: kept.linger,
                released: kept.released.iter().map(|client| client.get()).collect(),
            };
            seen.kept.insert(child.get(), kept);
        }
        assert_eq!(account.held().to_array(), seen.held());
        let free = Vector::of(account.free()).to_array();
        assert_eq!(free, seen.free(), "free of {account:?}");
        seen
    }

    fn held(&self) -> Parts {
        let open = self.open.values().map(|open| open.holding(self.kind));
        let mut held = [0; 6];
        for holding in open.chain(self.kept.values().map(|kept| kept.holding)) {
            for (slot, part) in held.iter_mut().zip(holding) {
                *slot += part;
            }
        }
        held
    }

    fn free(&self) -> Parts {
        let (held, whole) = (self.held(), self.whole);
        let mut free = [0; 6];
        free[RATE] = whole.rate.grains().saturating_sub(held[RATE]);
        free[BURST] = whole.burst.grains().saturating_sub(held[BURST]);
        if self.kind == Kind::Quota {
            free[TOKENS] = whole
                .tokens
                .grains()
                .saturating_sub(self.spent + held[TOKENS]);
        }
        free
    }

    pub(crate) fn grant(&mut self, child: u64, period: PeriodId, given: Vector) -> bool {
        let given = given.to_array();
        let mut open = self.open.get(&child).cloned().unwrap_or_default();
        let more: Vec<u64> = (0..6).map(|part| given[part] - open.given[part]).collect();
        open.given = given;
        let after = open.holding(self.kind);
        let travels = match self.kind {
            Kind::Rate => more[TOKENS] <= more[BURST],
            Kind::Quota => more[RATE] == 0 && more[BURST] == 0,
            Kind::Concurrency => more[RATE] == 0 && more[TOKENS] == 0,
        };
        let floored = after[FLOOR_RATE] <= after[RATE] && after[FLOOR_BURST] <= after[BURST];
        let free = self.free();
        let tokens = self.kind != Kind::Quota || more[TOKENS] <= free[TOKENS];
        let fits = more[RATE] <= free[RATE] && more[BURST] <= free[BURST] && tokens;
        let exhausted = given.iter().any(|&part| part > Vector::EXHAUSTED);
        let closed = self.kept.contains_key(&child) || period != self.period;
        let granted = travels && floored && fits && !exhausted && !closed;
        if granted {
            open.linger = open.linger.max(self.linger);
            self.open.insert(child, open);
        }
        granted
    }

    /// Notes a repeated grant of an edge that was accepted.
    pub(crate) fn refresh(&mut self, child: u64, granted: bool) {
        let linger = self.linger;
        if let Some(open) = self.open.get_mut(&child).filter(|_| granted) {
            open.linger = open.linger.max(linger);
        }
    }

    pub(crate) fn release(&mut self, child: u64, period: PeriodId, returned: Vector) -> bool {
        let returned = returned.to_array();
        let Some(open) = self.open.get_mut(&child) else {
            return false;
        };
        let limited = [RATE, BURST, FLOOR_RATE, FLOOR_BURST];
        let given = limited
            .iter()
            .all(|&part| returned[part] <= open.given[part]);
        let tokens =
            self.kind != Kind::Quota || returned[TOKENS] + returned[SPENT] <= open.given[TOKENS];
        let exhausted = returned.iter().any(|&part| part > Vector::EXHAUSTED);
        let released = given && tokens && !exhausted && period == self.period;
        if released {
            if self.kind == Kind::Quota {
                self.spent += returned[SPENT] - open.returned[SPENT];
            }
            open.returned = returned;
        }
        released
    }

    pub(crate) fn close(&mut self, child: u64) {
        let Some(open) = self.open.remove(&child) else {
            return;
        };
        let held = open.holding(self.kind);
        let mut holding = [0; 6];
        match self.kind {
            Kind::Quota => self.spent += held[TOKENS],
            Kind::Concurrency => holding = held,
            Kind::Rate => {
                let floor = [
                    held[FLOOR_RATE].min(held[RATE]),
                    held[FLOOR_BURST].min(held[BURST]),
                ];
                holding = [floor[0], floor[1], 0, 0, floor[0], floor[1]];
            }
        }
        if holding != [0; 6] {
            let kept = Lingering {
                holding,
                linger: open.linger,
                released: BTreeSet::new(),
            };
            self.kept.insert(child, kept);
        }
    }

    pub(crate) fn forget(&mut self, child: u64) {
        self.kept.remove(&child);
    }

    pub(crate) fn release_floor(&mut self, child: u64, client: u64, floor: Share) {
        if self.kind != Kind::Rate {
            return;
        }
        if let Some(kept) = self.kept.get_mut(&child)
            && kept.released.insert(client)
        {
            let rate = kept.holding[FLOOR_RATE].min(floor.rate.grains());
            let burst = kept.holding[FLOOR_BURST].min(floor.burst.grains());
            for (part, back) in [
                (RATE, rate),
                (BURST, burst),
                (FLOOR_RATE, rate),
                (FLOOR_BURST, burst),
            ] {
                kept.holding[part] -= back;
            }
        }
    }

    pub(crate) fn stamp(&mut self, period: PeriodId) -> bool {
        let begins = self.kind == Kind::Quota && period > self.period;
        if begins {
            (self.period, self.spent) = (period, 0);
            self.open.clear();
        }
        begins
    }

    pub(crate) fn set_whole(&mut self, whole: Share, linger: Span) {
        (self.whole, self.linger) = (whole, linger);
        for open in self.open.values_mut() {
            open.linger = open.linger.max(linger);
        }
    }
}
