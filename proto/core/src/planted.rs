//! Bugs planted on purpose, to test the tests.
//!
//! Each is a small edit that could pass a review. In an ordinary build, [`is`] is the constant `false` and
//! the wrong branch is removed. Under the feature `planted`, which only tests turn on, one bug at a time can
//! be switched on for the current thread.

/// Declares the list once: the enum, the table of all bugs, and their descriptions.
macro_rules! bugs {
    ($($(#[doc = $story:literal])+ $name:ident,)+) => {
        /// A bug that can be planted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Bug {
            $($(#[doc = $story])+ $name,)+
        }

        impl Bug {
            /// Every bug, in the order of the table.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// Returns a description of the bug in one line.
            #[must_use]
            pub const fn story(self) -> &'static str {
                match self {
                    $(Self::$name => concat!($($story,)+),)+
                }
            }
        }
    };
}

bugs! {
    /// Each new grant starts with a full level instead of the tokens it carries.
    GrantStartsFull,
    /// The child counts its lease from when the grant arrived, not from when the report left.
    LeaseFromReceipt,
    /// The child's lease is as long as the parent's patience: no margin for drift.
    NoDriftMargin,
    /// The remainder of a split is dealt out twice.
    RemainderTwice,
    /// A clock that steps back moves the bucket's last instant back with it.
    ElapsedAfterStepBack,
    /// The leader proposes a reclaim without waiting a lease in office.
    NoPatience,
    /// A node that joins again gets the incarnation it had.
    IncarnationReused,
    /// Replaying an entry applies it again.
    ApplyTwice,
    /// Capacity added by a raise arrives full.
    RaiseArrivesFull,
    /// A newcomer waits until those who hold the capacity change by more than a little.
    NewcomerHeldBack,
    /// Bands are served from low to high.
    BandsReversed,
    /// A claimant's floor comes on top of its part.
    FloorOnTop,
    /// Compression joins demands where a chord belongs.
    ChordAbove,
    /// The last level is kept as long as it hands out no more than there is.
    OldLevelTrusted,
    /// A bucket's supply is rounded up to the grain.
    SupplyRoundsUp,
    /// A cancelled reservation gets all its tokens back, whatever was reserved after it.
    CancelRefundsAll,
    /// Capacity withdrawn from a bucket carries a full level, whatever was in it.
    WithdrawLeavesFull,
    /// A full bucket keeps the part of a grain that is under way.
    FullKeepsFraction,
    /// A template's `*` is tried before the literal segment beside it.
    TemplateFirst,
    /// Every fourth year is a leap year, centuries too.
    CenturyLeap,
    /// A local clock ahead of UTC is taken for one behind it.
    OffsetSign,
    /// The latest confirmation sets the end of the lease, even if an earlier one reaches further.
    ShortGrantWins,
    /// A return that arrives after its edge was closed is credited all the same.
    LateReturnCredited,
    /// A closed edge leaves nothing booked: floors and permits in flight are freed with the rest.
    CloseFreesAll,
    /// What a dead holder had not reported is free again instead of spent.
    DeadEscrowFree,
    /// A period's stamp is applied whenever it comes, not only when it is greater.
    StampTwice,
    /// Returns are merged across a period's stamp.
    StaleReturnCounts,
    /// A floor is released as often as it is asked for.
    FloorReleasedTwice,
    /// A closed edge waits by the maximum hold of now, not by the greatest that a running permit may carry.
    HoldForgotten,
    /// A holder takes answers that were meant for another pair of lives.
    PairNotFenced,
    /// A holder takes gifts but never sees what is wanted back.
    RecallIgnored,
    /// A parent renews children that do not echo what it says.
    EchoNotAsked,
    /// A parent renews children that let targets pass.
    SquattersRenewed,
    /// A barrier confirms reports that arrived after it had started.
    BarrierCoversLate,
    /// Of too many barriers under way, the oldest is given up for a new one.
    OldestBarrierGivenUp,
    /// A leader confirms before an entry of its own term is applied.
    ConfirmsBeforeOffice,
    /// A life whose reclaim was proposed is confirmed until the reclaim is applied.
    DoomedConfirmed,
    /// The leader's patience counts from the report before the last confirmed one.
    PatienceLags,
    /// A node that is being removed is granted to.
    LeaverGranted,
    /// A budget is forgotten although part of it is booked.
    BookedForgotten,
    /// A key that is created again while its old budget is wound up gets new books, and is full.
    RebornOnNewBooks,
    /// An instance that was forgotten too early is born full all the same.
    RebornFull,
    /// A leader that comes back to office goes on with the pool of its last term.
    OldPoolKept,
    /// A node goes on being confirmed while its removal is under way.
    RemovedConfirmed,
    /// A wound-up budget ends as soon as it is clear, before it would be full again.
    EndedBeforeFull,
    /// A node gives back floors that a closed session's client may still use.
    GhostFloorsReturned,
    /// A client's lease is longer than what remains of its node's.
    ClientOutlivesNode,
    /// What is reclaimed of a silent client comes back full instead of empty.
    ReclaimCarriesTokens,
    /// A forked process goes on under the edge that it inherited.
    ForkKeepsEdge,
    /// A decision does not look at the lease.
    LeaseUnchecked,
    /// A bucket that becomes a floor keeps the level it had.
    FloorUnclipped,
    /// Periods begin by the fastest wall clock.
    LeaderWallTrusted,
    /// A parent takes a report by its child's number alone, whatever life of its own it was meant for.
    ReportNotFenced,
    /// What came back is credited as soon as it is reported, and booked a round later.
    CreditedBeforeBooked,
    /// What a lowered limit takes away counts as returned at once.
    LoweringForgets,
    /// A node does not pass on the largest cost that waits below it.
    WaitNotPassedOn,
    /// What a ledger heard returned is not void when a period begins.
    ReturnCrossesStamps,
    /// A node gives back permits that a closed session's client may still run.
    GhostPermitsReturned,
    /// A life that an inherited entry ended before the new leader took office is confirmed on.
    InheritedReclaimMissed,
    /// Equal remainders are told apart by how their approximations were rounded.
    TiesByRounding,
    /// A level that was found by looking at few is kept though others might have changed sides.
    FarRootTrusted,
    /// An idle instance of a template is forgotten as soon as it is clear, full or not.
    IdleEndedBeforeFull,
    /// A lapse is carried out after the answer that renews the lease, on the new counters.
    AnswerBeforeLapse,
    /// A jump of the node's clock frees what its clients still hold under leases.
    JumpEndsSessions,
    /// The last share that a client kept goes on beside what its next edge gives.
    KeptMerges,
    /// A deleted quota's end is proposed in every round though its spent tokens forbid it.
    SpentEndedInVain,
    /// A quota's instance begins in a period that a forgotten one of its key was spent in.
    ForgottenPeriodAgain,
    /// A floor that no session claims any more is not asked for, and so recalled in vain.
    LastFloorUnasked,
    /// A stream that ended is forgotten as slowly as a wobble.
    EndedStreamLingers,
    /// A central question that is repeated is decided again, and takes again.
    RepeatDecidedAgain,
    /// A client heeds a central verdict after the lease that it asked under.
    LateVerdictHeeded,
    /// A question that was forwarded is forwarded again where the home has moved.
    ForwardedTwice,
    /// Permits that were given out centrally are freed as often as they are released.
    CentralReleasedTwice,
    /// Permits that are out centrally are dealt to clients all the same.
    KeptAndDealt,
    /// A node decides for sessions whose lease it no longer promises.
    LapsedSessionServed,
    /// A budget too small to divide is dealt in single tokens all the same.
    SmallBudgetDealt,
    /// Tokens drawn before a limit was lowered count if it was raised again since.
    CutOutrun,
    /// A report leaves out what the one before said, whether the parent got that or not.
    LeftOutUnheard,
    /// A parent takes reports that build on what it never took.
    BasisNotAsked,
    /// A parent that looks only at what changed says it in one answer, echoed or not.
    ToldOnce,
    /// What a bucket made since it was last looked at counts at the rate that it is being given.
    AccruesAtNewRate,
    /// A gift that is said again is taken again.
    GiftsAddUp,
    /// What was returned in all is taken for what was returned since.
    ReturnsAddUp,
    /// What is asked back is said to be returned, and goes on being used.
    ReturnedNotLowered,
    /// That nothing is wanted any more is not said.
    EndLeftOut,
    /// A restored state has forgotten which requests were carried out.
    RestoreForgetsRequests,
    /// A restored state issues lives anew after the latest that is not over.
    RestoreForgetsLives,
    /// A round carries all that is due, more than its readers accept.
    RoundUncut,
    /// A late message brings a budget back that has ended.
    EndForgotten,
    /// A template has as many keys as are asked for.
    KeysUncounted,
    /// A node says that it has entries of the log before they are on its disk.
    EntriesUnsynced,
    /// A leader asks no quorum whether it still leads.
    BarrierUnasked,
    /// A snapshot that a node is sent is put on its disk and not into its state.
    SnapshotUnread,
    /// A limiter's bucket does not look at the end of the lease.
    LeaseUnreadByBucket,
    /// A limiter's bucket that is given another rate forgets what was taken of it.
    ChangeForgetsDebt,
    /// What a limiter's bucket is given arrives full.
    PartArrivesFull,
    /// What is taken out of a limiter's bucket is said to be full.
    WithdrawnSaidFull,
    /// An answer that comes without a lease is not taken for a sign that its child hears.
    UnleasedUnseen,
    /// What comes back waits for the next tick, though somebody lacks it.
    ReturnsWait,
    /// A stream that has just begun is thought to go on for as long as an escrow lasts.
    AheadUnborne,
    /// What is left of a quota is dealt at the end of its period as at any other time.
    EndNotSeen,
    /// A client asks for all that it wants, whatever it has saved.
    SavingsUnseen,
    /// A node deals what it had of a quota in the period before as long as it is given nothing of the next.
    PartOutlivesPeriod,
    /// What a node learned of others it tells to nobody.
    LearnedNotPassedOn,
    /// Headroom is dealt anew with every change, whoever lacks anything or nobody.
    HeadroomRestless,
    /// A client leaves a node that says nothing for a second, though its lease runs and it may be heard again.
    SilenceIsDeath,
    /// Whoever gives up another connection to the edge in use closes that edge.
    FarewellToOneInUse,
    /// A client goes over while its lease runs, and uses what it held beside what it is given there.
    BothPartsUsed,
}

#[cfg(feature = "planted")]
mod switch {
    use super::Bug;
    use core::cell::Cell;

    std::thread_local! {
        static ACTIVE: Cell<Option<Bug>> = const { Cell::new(None) };
    }

    /// Switches `bug` on for this thread while `run` runs.
    pub fn with<T>(bug: Option<Bug>, run: impl FnOnce() -> T) -> T {
        struct Restore(Option<Bug>);
        impl Drop for Restore {
            fn drop(&mut self) {
                ACTIVE.with(|active| active.set(self.0));
            }
        }
        let _restore = Restore(ACTIVE.with(|active| active.replace(bug)));
        run()
    }

    /// Returns true if `bug` is switched on for this thread.
    #[must_use]
    pub fn is(bug: Bug) -> bool {
        ACTIVE.with(|active| active.get() == Some(bug))
    }

    /// Returns true if any bug is switched on for this thread. Debug assertions are skipped then, so that the
    /// tests have to find the bug.
    #[must_use]
    pub fn any() -> bool {
        ACTIVE.with(|active| active.get().is_some())
    }
}

#[cfg(feature = "planted")]
pub use switch::{any, is, with};

/// Returns true if any bug is switched on: never, in a build without planted bugs.
#[cfg(not(feature = "planted"))]
#[must_use]
#[inline(always)]
pub const fn any() -> bool {
    false
}

/// Returns true if `bug` is switched on: never, in a build without planted bugs.
#[cfg(not(feature = "planted"))]
#[must_use]
#[inline(always)]
pub const fn is(_bug: Bug) -> bool {
    false
}
