//! What outlives its edge: floors and permits of the closed.

use super::Account;
use crate::edge::Vector;
use crate::planted::{self, Bug};
use crate::share::{Kind, Share};
use crate::unit::Incarnation;

impl Account {
    /// Frees what was kept of a closed edge, its wait being over.
    pub fn forget(&mut self, child: Incarnation) -> Share {
        let Some(kept) = self.kept.remove(&child) else {
            return Share::EMPTY;
        };
        self.rebook(kept.holding, Vector::ZERO);
        kept.holding.share()
    }

    /// Frees the floor that `client` held under the closed edge of `child`:
    /// the client came back elsewhere and no longer uses it. Once per client.
    pub fn release_floor(
        &mut self,
        child: Incarnation,
        client: Incarnation,
        floor: Share,
    ) -> Share {
        let Some(kept) = self.kept.get_mut(&child) else {
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
