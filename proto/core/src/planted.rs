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
    /// An incarnation is reclaimed with all of its books in one slice, however many they are.
    ReclaimedAtOnce,
    /// A round whose reclaims are applied in slices grants with the first slice.
    GrantedBeforeReclaimed,
    /// The leader proposes a reclaim without waiting a lease after it became ready.
    NoPatience,
    /// A node that joins again gets the incarnation it had.
    IncarnationReused,
    /// Replaying an entry applies it again.
    ApplyTwice,
    /// Capacity added by a raise arrives full.
    RaiseArrivesFull,
    /// A newcomer's first part waits behind small changes that are held back.
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
    /// A leader goes on proposing silences after a voter has answered that does not know them.
    LateVoterIgnored,
    /// A client that leaves keeps a grant that was on its way when it handed everything back.
    LateGrantKept,
    /// A closed edge leaves nothing booked: floors and permits in flight are freed with the rest.
    CloseFreesAll,
    /// Tokens that a closed edge had not reported are free again instead of spent.
    DeadEscrowFree,
    /// A period's stamp is applied whenever it comes, not only when it is greater.
    StampTwice,
    /// Returns are merged across the beginning of a period.
    StaleReturnCounts,
    /// A floor is released as often as it is asked for.
    FloorReleasedTwice,
    /// A closed edge waits for the present maximum hold, not for the greatest that a running permit may have.
    HoldForgotten,
    /// A holder takes answers that were meant for another edge.
    PairNotFenced,
    /// A holder takes grants but ignores targets.
    RecallIgnored,
    /// A parent renews children that do not echo its answers.
    EchoNotAsked,
    /// A parent renews children that miss their targets.
    SquattersRenewed,
    /// A barrier confirms reports that arrived after it had started.
    BarrierCoversLate,
    /// Of too many barriers under way, the oldest is given up for a new one.
    OldestBarrierGivenUp,
    /// A leader confirms before an entry of its own term is applied.
    ConfirmsBeforeReady,
    /// An incarnation whose reclaim was proposed is confirmed until the reclaim is applied.
    FencedConfirmed,
    /// The leader's patience counts from the report before the last confirmed one.
    PatienceLags,
    /// A node that is being removed is granted to.
    LeaverGranted,
    /// A budget is forgotten although part of it is booked.
    BookedForgotten,
    /// A key that is created again while its old budget is wound up gets new books, and is full.
    RebornOnNewBooks,
    /// An instance that was forgotten too early begins full all the same.
    RebornFull,
    /// A leader that is elected again continues with the pools of its last term.
    OldPoolKept,
    /// A node goes on being confirmed after its removal was applied.
    RemovedConfirmed,
    /// A wound-up budget ends as soon as it is clear, before it would be full again.
    EndedBeforeFull,
    /// A node gives back floors that a closed session's client may still use.
    LingeringFloorsReturned,
    /// A node is overdue for floors of its former clients, which it cannot return yet.
    FloorsOverdue,
    /// A young client is sent the whole lease of its node, not the short one after which its session is closed.
    YoungLeaseUntold,
    /// A client's lease is longer than what remains of its node's.
    ClientOutlivesNode,
    /// A part reclaimed from a silent client is full instead of empty.
    ReclaimCarriesTokens,
    /// A forked process goes on under the edge that it inherited.
    ForkKeepsEdge,
    /// A decision does not check the lease.
    LeaseUnchecked,
    /// A bucket that becomes a floor keeps the level it had.
    FloorUnclipped,
    /// Periods begin by the fastest wall clock.
    LeaderWallTrusted,
    /// A period that a leader sees for the first time, or that began late, has lasted for no time yet.
    PeriodBornYoung,
    /// A quota whose clocks were set back waits until they have caught up with its running period.
    SetBackWaits,
    /// A parent accepts a report by its child's incarnation alone, without checking its own.
    ReportNotFenced,
    /// A returned part is credited as soon as it is reported, and booked a round later.
    CreditedBeforeBooked,
    /// The part above a lowered limit counts as returned at once.
    LoweringForgets,
    /// A node does not report the largest waiting cost of its clients.
    WaitNotPassedOn,
    /// Reported returns stay valid in a ledger when a period begins.
    ReturnCrossesStamps,
    /// A node gives back permits that a closed session's client may still use.
    LingeringPermitsReturned,
    /// An incarnation that an inherited entry ended before the new leader became ready is still confirmed.
    InheritedReclaimMissed,
    /// Equal remainders are ordered by how their approximations were rounded.
    TiesByRounding,
    /// A level found from the near claimants is kept although others may have changed sides.
    FarRootTrusted,
    /// An idle instance of a template is forgotten as soon as it is clear, full or not.
    IdleEndedBeforeFull,
    /// An instance of a template that a client has asked for ends as soon as an idle one, although no report could have a
    /// claim on it yet.
    UnclaimedEndedSoon,
    /// A lapse is carried out after the answer that renews the lease, on the new counters.
    AnswerBeforeLapse,
    /// A jump of the node's clock frees what its clients still hold under leases.
    JumpEndsSessions,
    /// A jump of a client's clock ends its lease at the origin of the clock, so that whatever was used since
    /// then is missing from its next part.
    JumpEndsAtZero,
    /// A client goes on with a floor after a jump of its clock, which did not measure all of the floor's time.
    FloorOutlivesJump,
    /// The last share that a client keeps is merged with the grants of its next edge.
    KeptMerges,
    /// A client of policy `keep` forgets what it kept of its former edge as soon as the next edge grants something.
    FormerForgotten,
    /// A deleted quota's end is proposed in every round although its spent tokens forbid it.
    SpentEndedInVain,
    /// A quota's instance begins in a period that a forgotten one of its key was spent in.
    ForgottenPeriodAgain,
    /// A demand that moves among callers, and whose total stays, is no change of demand.
    MovesUnseen,
    /// A demand that falls by less than half is not reported, even when its line is due.
    SmallFallUnsaid,
    /// However many lines of reports are out of date by a little, all are updated once a second.
    UpdatesUnbounded,
    /// A floor that no session claims any more is not requested from the leader, and is recalled in vain.
    LastFloorUnasked,
    /// The estimate of a stream that ended falls as slowly as after a small change.
    EndedStreamLingers,
    /// The estimate rises more than a second after the last demand, for a tick.
    SilenceRaises,
    /// A request that waits for at most a moment counts in each tick in which it waits, and again when it is
    /// decided: clients whose callers ask once want more than they can use.
    WaitsCountedAgain,
    /// A repeated central request is decided again, and its cost is taken again.
    RepeatDecidedAgain,
    /// A client accepts a central reply after the end of the lease under which it was requested.
    LateVerdictHeeded,
    /// A forwarded request is forwarded again if the home has moved.
    ForwardedTwice,
    /// Permits of central decisions are freed as often as they are released.
    CentralReleasedTwice,
    /// Permits of central decisions are granted to clients too.
    KeptAndDealt,
    /// A node decides for sessions without a lease.
    LapsedSessionServed,
    /// A budget in central mode is divided all the same.
    SmallBudgetDealt,
    /// Small parts of clients that ask for decisions are dealt out all the same.
    SmallPartsDealt,
    /// A permit that the parent wants back is taken again as soon as it is released.
    RecalledPermitTaken,
    /// Permits in flight by central decisions do not count as divisible.
    CentralPermitsUncounted,
    /// Burst is moved from one large cost that waits to the next.
    LargeCostsChased,
    /// A central decision goes to the session that asks first, however much it had.
    FirstComeFirstServed,
    /// Tokens drawn before a limit was lowered count if it was raised again since.
    CutOutrun,
    /// A report leaves out the lines of the one before, although the parent may not have it.
    LeftOutUnheard,
    /// A parent takes reports that build on reports that it never took.
    BasisNotAsked,
    /// A parent sends a changed line in one answer only, echoed or not.
    ToldOnce,
    /// Tokens made before a change of rate count at the new rate.
    AccruesAtNewRate,
    /// A repeated grant is added again.
    GiftsAddUp,
    /// The total of returns is taken for the returns since the last report.
    ReturnsAddUp,
    /// A recalled part is reported as returned and still used.
    ReturnedNotLowered,
    /// The end of a claim is not reported.
    EndLeftOut,
    /// A restored state has forgotten which requests were carried out.
    RestoreForgetsRequests,
    /// A restored state issues incarnations again, from the one after the latest that is not over.
    RestoreForgetsIncarnations,
    /// A round has everything that is due, more than its readers accept.
    RoundUncut,
    /// A late message brings a budget back that has ended.
    EndForgotten,
    /// The maximum number of a template's keys is not enforced.
    KeysUncounted,
    /// A node acknowledges entries of the log before they are on its disk.
    EntriesUnsynced,
    /// A leader confirms reports without asking a quorum whether it still leads.
    BarrierUnasked,
    /// A received snapshot is written to disk and not loaded into the state.
    SnapshotUnread,
    /// A limiter's bucket does not check the end of the lease.
    LeaseUnreadByBucket,
    /// A limiter's bucket forgets what was taken when its rate changes.
    ChangeForgetsDebt,
    /// A part added to a limiter's bucket arrives full.
    PartArrivesFull,
    /// A part withdrawn from a limiter's bucket is reported as full.
    WithdrawnSaidFull,
    /// An answer that arrives without a lease does not count as seen.
    UnleasedUnseen,
    /// A returned part waits for the next tick although another child lacks it.
    ReturnsWait,
    /// A stream that has just begun is expected to continue for as long as an escrow lasts.
    AheadUnborne,
    /// The rest of a quota is divided at the end of its period as at any other time.
    EndNotSeen,
    /// A node that leads reports no more often than others.
    LeaderReportsSeldom,
    /// A leader calls a quota exhausted with its last grant although a part comes back to it.
    ComingBackIgnored,
    /// A parent learns of a quota's part that is nearly used with the next usual report.
    RunningOutUnsaid,
    /// An escrow is as large as the demand, however much of the quota that is.
    QuotaDealtWhole,
    /// The size of a cost that a quota denied is not reported.
    DeniedCostUnseen,
    /// A client reports its whole demand, whatever its bucket has saved.
    SavingsUnseen,
    /// A node grants its part of a quota's last period until it is given a part of the next one.
    PartOutlivesPeriod,
    /// A node does not pass on what it learned from other nodes.
    LearnedNotPassedOn,
    /// Headroom is divided again with every change, even if no child lacks anything.
    HeadroomRestless,
    /// A node gets burst by its rate alone, however many clients it has that want some.
    ClientsUncounted,
    /// Each newcomer takes a little from all of many clients that lack nothing.
    CrowdDividedAnew,
    /// Capacity that no child of many lacks is never divided once it is free.
    FreeNeverDivided,
    /// A plan grants more to a child whose floors exceed its part, as long as their return is on its way.
    FloorsOutlastParts,
    /// A node plans what its leader wants back only after all that its clients ask for.
    RecallPlannedLast,
    /// A child that was left out of a plan because it was silent, and lacks something, waits for all urgent plans.
    SkippedPlannedLast,
    /// A client leaves a node that is silent for a second, although its lease runs and the node may recover.
    SilenceIsDeath,
    /// Giving up another connection to the edge in use closes that edge.
    ClosingReportToOneInUse,
    /// A client switches nodes while its lease runs, and uses the old part beside the new one.
    BothPartsUsed,
    /// A restarted voter answers that no leader had ever called it.
    RestartForgetsCalls,
    /// The first voter's answer alone decides when earlier leaders confirmed last, without a quorum.
    FirstVoterTrusted,
    /// A leader waits a sixth less than a lease for what an earlier leader may have confirmed.
    EarlierPatienceShort,
    /// A leader keeps what the first quorum answered about earlier terms, even if later answers are better.
    FirstQuorumKept,
    /// A silent incarnation is confirmed before its silence has ended in the log.
    SilentConfirmed,
    /// The time of a silence that ended counts for the next one.
    SilenceOutlivesEnd,
    /// A client that holds permits is moved like any other.
    PermitsMoved,
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
