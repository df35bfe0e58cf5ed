//! Books in a snapshot.

use crate::common::{or_nothing, share, vector};
use crate::error::WireError;
use crate::pb;
use crate::read;
use aliquot_core::account::{Account, Lingering, Slot};
use aliquot_core::edge::Counters;
use aliquot_core::unit::{Incarnation, PeriodId, Span, Tokens};

impl From<&Account> for pb::Account {
    fn from(account: &Account) -> Self {
        let open = account.open().map(|(incarnation, slot)| pb::Slot {
            life: incarnation.get(),
            period: slot.counters.period.get(),
            given: vector(&slot.counters.given),
            returned: vector(&slot.counters.returned),
            linger_ns: slot.linger.nanos(),
        });
        let kept = account.kept().map(|(incarnation, kept)| pb::Kept {
            life: incarnation.get(),
            holding: vector(&kept.holding),
            linger_ns: kept.linger.nanos(),
            released: kept
                .released
                .iter()
                .copied()
                .map(Incarnation::get)
                .collect(),
        });
        Self {
            kind: pb::Kind::from(account.kind()).into(),
            whole: share(&account.whole()),
            linger_ns: account.linger().nanos(),
            period: account.period().get(),
            spent: account.spent().grains(),
            open: open.collect(),
            kept: kept.collect(),
        }
    }
}

impl TryFrom<pb::Account> for Account {
    type Error = WireError;

    fn try_from(account: pb::Account) -> Result<Self, WireError> {
        read::rising(account.open.iter().map(|slot| slot.life), "open")?;
        read::rising(account.kept.iter().map(|kept| kept.life), "kept")?;
        let kind = read::chosen(account.kind, "kind")?;
        let linger = Span::from_nanos(account.linger_ns);
        let empty = Self::new(kind, or_nothing(account.whole), linger);
        let open = account.open.into_iter().map(read_slot).collect();
        let kept = read::each(account.kept, "kept", read_kept)?;
        let restored = empty.restore(
            PeriodId::new(account.period),
            Tokens::from_grains(account.spent),
            open,
            kept.into_iter().collect(),
        );
        restored.ok_or_else(|| {
            let allowed =
                "such that no incarnation is in both, and all holdings add up within 2^62";
            WireError::field("open and kept", "a contradiction", allowed)
        })
    }
}

fn read_slot(slot: pb::Slot) -> (Incarnation, Slot) {
    let counters = Counters {
        period: PeriodId::new(slot.period),
        given: or_nothing(slot.given),
        returned: or_nothing(slot.returned),
    };
    let linger = Span::from_nanos(slot.linger_ns);
    (Incarnation::new(slot.life), Slot { counters, linger })
}

pub(super) fn read_kept(kept: pb::Kept) -> Result<(Incarnation, Lingering), WireError> {
    read::rising(kept.released.iter(), "released")?;
    let released = kept.released.into_iter().map(Incarnation::new);
    let read = Lingering {
        holding: or_nothing(kept.holding),
        linger: Span::from_nanos(kept.linger_ns),
        released: released.collect(),
    };
    Ok((Incarnation::new(kept.life), read))
}
