//! Booked rests of closed edges: floors and permits, which outlive their edge.

use super::Account;
use crate::edge::Vector;
use crate::planted::{self, Bug};
use crate::share::{Kind, Share};
use crate::unit::Incarnation;

impl Account {
    /// Frees the rest of a closed edge, after its wait.
    pub fn forget(&mut self, child: Incarnation) -> Share {
        let Some(kept) = self.kept.remove(child) else {
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
        let Some(kept) = self.kept.get_mut(child) else {
            return Share::EMPTY;
        };
        if self.kind != Kind::Rate
            || (!kept.released.insert(client) && !planted::is(Bug::FloorReleasedTwice))
        {
            return Share::EMPTY;
        }
        let before = kept.holding;
        let (rate, burst) = (
            before.floor_rate.min(floor.rate),
            before.floor_burst.min(floor.burst),
        );
        let after = before.ahead_of(Vector {
            rate,
            burst,
            floor_rate: rate,
            floor_burst: burst,
            ..Vector::ZERO
        });
        kept.holding = after;
        self.rebook(before, after);
        before.ahead_of(after).share()
    }
}
