//! Names of the keys that sessions ask about, and the budgets that are requested for them.

use super::context::{Context, entry};
use super::counts::Counts;
use super::inbox::Control;
use super::wanted::Wanted;
use crate::session::{Caller, Name, Registry};
use aliquot_core::budget::Key;
use aliquot_core::command::Command;
use aliquot_core::state::State;
use aliquot_core::unit::{Incarnation, Span, Tick};
use aliquot_wire::session::{Interned, KeyRefusal, NodeMessage};
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

/// Work on the keys of sessions that is still to be done.
#[derive(Debug, Default)]
pub(super) struct KeyNames {
    wanted: Wanted,
    /// Keys that sessions asked about and that were not looked up yet.
    unresolved: VecDeque<(Caller, Vec<Key>)>,
    unresolved_keys: usize,
    stale: StaleKeys,
    /// Time until which changed names are sent to no session.
    quiet: Tick,
}

/// Keys whose names may have changed with the entries that were applied.
#[derive(Debug, Default)]
struct StaleKeys {
    keys: BTreeSet<Key>,
    /// Position of the sweep over all keys: after a key, or `Some(None)` at the start.
    sweep: Option<Option<Key>>,
    /// Set if another sweep must follow this one.
    again: bool,
}

impl StaleKeys {
    fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.sweep.is_none()
    }

    /// Marks one key whose name may have changed. When thousands of keys are created at once, this
    /// avoids one sweep over all keys for each of them.
    fn key(&mut self, key: &Key) {
        self.keys.insert(key.clone());
    }

    /// Takes the next `most` of the keys that were marked one by one.
    fn take(&mut self, most: usize) -> BTreeSet<Key> {
        let rest = match self.keys.iter().nth(most).cloned() {
            Some(next) => self.keys.split_off(&next),
            None => BTreeSet::new(),
        };
        std::mem::replace(&mut self.keys, rest)
    }

    /// Marks all keys. They are swept a part at a time.
    fn all(&mut self) {
        match self.sweep {
            Some(Some(_)) => self.again = true,
            Some(None) => {}
            None => self.sweep = Some(None),
        }
    }

    /// Records how far the sweep came. `None` means that it reached the end.
    fn swept(&mut self, last: Option<Key>) {
        self.sweep = match last {
            Some(last) => Some(Some(last)),
            None => std::mem::take(&mut self.again).then_some(None),
        };
    }
}

/// Maximum number of keys that are looked up, and of changed names that are sent, in one turn of the loop. With a
/// million keys, each takes up to 25 microseconds.
const KEYS_A_TURN: usize = 256;

/// Time that it takes to send one session a name, the transport included. The pause after a refresh
/// is this time for each notified session: long after many, and unnoticeable after one.
const NAMES: Span = Span::from_nanos(50_000);

/// Maximum time for which a leader that takes new keys is looked for.
const TRY_FOR: Duration = Duration::from_secs(2);

/// Returns the budget id of a key, as far as this replica knows.
fn name(state: &State, key: &Key) -> Name {
    let rule = state.rule_of(key);
    match state.budget_of(key) {
        Some(id) if state.budget(id).is_some_and(|of| !of.winding) => Ok(id),
        Some(_) if rule.is_some() => Err(KeyRefusal::NotYet),
        _ => match rule {
            Some((rule, _)) if state.is_full(rule) => Err(KeyRefusal::TooManyInstances),
            Some(_) => Err(KeyRefusal::NotYet),
            None => Err(KeyRefusal::NoRule),
        },
    }
}

impl KeyNames {
    /// Maximum number of keys that wait to be looked up: about a quarter of a second of work. Above it,
    /// no more session events are read.
    const UNRESOLVED_MAX: usize = 1 << 18;

    /// Returns true if no key waits for a budget or a name.
    pub(super) fn is_empty(&self) -> bool {
        self.wanted.is_empty() && self.stale.is_empty() && self.unresolved.is_empty()
    }

    /// Returns true if there are keys that can be looked up at once.
    pub(super) fn is_behind(&self) -> bool {
        !self.unresolved.is_empty()
    }

    /// Returns true if sessions may ask about more keys.
    pub(super) const fn has_room(&self) -> bool {
        self.unresolved_keys < Self::UNRESOLVED_MAX
    }

    /// Returns the number of keys whose budgets were requested and do not exist yet.
    pub(super) fn waiting(&self) -> usize {
        self.wanted.len()
    }

    /// Marks one key whose name may have changed.
    pub(super) fn changed(&mut self, key: &Key) {
        self.stale.key(key);
    }

    /// Marks all keys.
    pub(super) fn all_changed(&mut self) {
        self.stale.all();
    }

    /// Returns the names of keys, and requests the budgets that do not exist yet. Beyond `KEYS_A_TURN`
    /// keys, the rest is looked up in later turns.
    pub(super) fn names(
        &mut self,
        caller: Caller,
        mut keys: Vec<Key>,
        registry: &mut Registry,
        state: &State,
        counts: &mut Counts,
    ) -> Vec<Interned> {
        if keys.len() > KEYS_A_TURN {
            let rest = keys.split_off(KEYS_A_TURN);
            self.unresolved_keys += rest.len();
            self.unresolved.push_back((caller, rest));
        }
        let mut names = Vec::with_capacity(keys.len());
        for key in keys {
            let client = caller.edge.child;
            let Ok(interned) = registry.intern(client, key, |key| name(state, key)) else {
                // The session's edge was closed meanwhile.
                break;
            };
            let waits = interned.budget == Err(KeyRefusal::NotYet);
            if waits && !self.wanted.want(&interned.key) {
                counts.keys_shed += 1;
            }
            names.push(interned);
        }
        names
    }

    /// Tells a session the names of keys.
    pub(super) fn tell(
        &mut self,
        caller: Caller,
        keys: Vec<Key>,
        registry: &mut Registry,
        state: &State,
        counts: &mut Counts,
    ) {
        let names = self.names(caller, keys, registry, state, counts);
        registry.send(caller.edge.child, NodeMessage::Interned(names));
    }

    /// Looks up the next keys that sessions asked about.
    pub(super) fn tell_more(
        &mut self,
        registry: &mut Registry,
        state: &State,
        counts: &mut Counts,
    ) {
        let Some((caller, keys)) = self.unresolved.pop_front() else {
            return;
        };
        self.unresolved_keys -= keys.len();
        if registry.is_current(&caller) {
            self.tell(caller, keys, registry, state, counts);
        }
    }

    /// Tells sessions of names that entries may have changed. After a few, the next refresh follows at
    /// once. After many there is a pause, and changes that come meanwhile are sent together.
    pub(super) fn refresh(&mut self, registry: &mut Registry, state: &State, now: Tick) {
        if self.stale.is_empty() || now < self.quiet {
            return;
        }
        let keys = self.stale.take(KEYS_A_TURN);
        let mut sent = registry.refresh_keys(keys.iter(), |key| name(state, key));
        if let Some(after) = self.stale.sweep.take() {
            let after = after.as_ref();
            let (more, last) = registry.refresh_after(after, KEYS_A_TURN, |key| name(state, key));
            self.stale.swept(last);
            sent += more;
        }
        let sent = u64::try_from(sent).unwrap_or(u64::MAX);
        self.quiet = now.after(NAMES.times_or_max(sent));
    }

    /// Requests the budgets that clients wait for, many at once. `creator` is the incarnation of this
    /// node.
    pub(super) fn request_budgets(
        &mut self,
        creator: Option<Incarnation>,
        state: &State,
        context: &mut Context,
    ) {
        let Some(raft) = &context.raft else { return };
        let waits = |key: &Key| name(state, key) == Err(KeyRefusal::NotYet);
        while let Some(batch) = self.wanted.take(context.now, waits) {
            let number = batch.number;
            let command = Command::Instantiate {
                keys: batch.keys.iter().map(ToString::to_string).collect(),
                creator,
            };
            let entry = match entry(command) {
                Ok(entry) => entry,
                Err(error) => {
                    tracing::error!(%error, "new keys were not proposed: the command cannot be decoded");
                    self.wanted.landed(number, context.now, &mut context.rng);
                    continue;
                }
            };
            let proposed = raft.propose_anywhere(entry, TRY_FOR);
            let control = context.control.clone();
            tokio::spawn(async move {
                if let Err(error) = proposed.await {
                    tracing::debug!(%error, "new keys were not taken yet");
                }
                // If the actor is gone, no batch is waited for.
                let _ = control.send(Control::Instantiated { batch: number });
            });
        }
    }

    /// Records that the proposal of a batch of new keys has ended.
    pub(super) fn landed(&mut self, batch: u64, context: &mut Context) {
        self.wanted.landed(batch, context.now, &mut context.rng);
    }
}

#[cfg(test)]
#[path = "../../tests/unit/node/key_names.rs"]
mod tests;
