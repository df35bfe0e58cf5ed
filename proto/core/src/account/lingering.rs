//! Booked rests of closed edges: floors and permits, which outlive their edge.

use super::Account;
use crate::edge::Vector;
use crate::planted::{self, Bug};
use crate::share::{Kind, Share};
use crate::unit::Incarnation;

impl Account {
    /// Frees the rest of a closed edge, after its wait.
    pub fn forget(&mut self, child: Incarnation) -> Share {
        if !self.keeps(child) {
            return Share::EMPTY;
        }
        let Some(kept) = self.rare.change(|rare| rare.kept.remove(&child)) else {
            return Share::EMPTY;
        };
        self.rebook(kept.holding, Vector::ZERO);
        kept.holding.share()
    }

    /// Frees the floor that `client` held under the closed edge of `child`, once for each client. The client
    /// has a new edge and no longer uses the floor.
    pub fn release_floor(
        &mut self,
        child: Incarnation,
        client: Incarnation,
        floor: Share,
    ) -> Share {
        if self.kind != Kind::Rate || !self.keeps(child) {
            return Share::EMPTY;
        }
        let change = self.rare.change(|rare| {
            let kept = rare.kept.get_mut(&child)?;
            if !kept.released.insert(client) && !planted::is(Bug::FloorReleasedTwice) {
                return None;
            }
            let before = kept.holding;
            let (rate, burst) = (
                before.floor_rate.min(floor.rate),
                before.floor_burst.min(floor.burst),
            );
            kept.holding = before.ahead_of(Vector {
                rate,
                burst,
                floor_rate: rate,
                floor_burst: burst,
                ..Vector::ZERO
            });
            Some((before, kept.holding))
        });
        let Some((before, after)) = change else {
            return Share::EMPTY;
        };
        self.rebook(before, after);
        before.ahead_of(after).share()
    }
}
