//! Sequences that once broke a machine, each reduced to its smallest form.

#[path = "corners/bounds.rs"]
mod bounds;
#[path = "corners/bytes.rs"]
mod bytes;
#[path = "corners/changes.rs"]
mod changes;
#[path = "corners/children.rs"]
mod children;
#[path = "corners/crowds.rs"]
mod crowds;
#[path = "corners/floors.rs"]
mod floors;
#[path = "corners/haste.rs"]
mod haste;
#[path = "corners/lapses.rs"]
mod lapses;
#[path = "corners/leader_host.rs"]
mod leader_host;
#[path = "corners/leaving.rs"]
mod leaving;
#[path = "corners/long.rs"]
mod long;
#[path = "corners/many.rs"]
mod many;
#[path = "corners/moves.rs"]
mod moves;
#[path = "corners/parents.rs"]
mod parents;
#[path = "corners/period_ends.rs"]
mod period_ends;
#[path = "corners/quotas.rs"]
mod quotas;
#[path = "corners/renewals.rs"]
mod renewals;
#[path = "corners/rounds.rs"]
mod rounds;
#[path = "corners/setup.rs"]
mod setup;
#[path = "corners/shares.rs"]
mod shares;
#[path = "corners/slices.rs"]
mod slices;
#[path = "corners/versions.rs"]
mod versions;
