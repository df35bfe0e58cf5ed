//! Marks: rare events that at least one seed must reach. A mark that no seed reaches shows a gap in the tests.
//!
//! A run counts them. An assertion `sometimes` requires that at least one seed hits a mark. Marks that
//! are followed by `kernel` need state that only the kernel tier can observe.

macro_rules! marks {
    (@is_of_kernel kernel) => {
        true
    };
    (@is_of_kernel) => {
        false
    };
    ($($name:ident $text:literal $says:literal $($kernel:ident)?,)+) => {
        /// An event whose occurrence is counted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Mark {
            $(#[doc = $says] $name,)+
        }

        impl Mark {
            /// Every mark.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// Returns the mark's name, as scenario files write it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)+ }
            }

            /// Returns a sentence that describes the event.
            #[must_use]
            pub const fn says(self) -> &'static str {
                match self { $(Self::$name => $says,)+ }
            }

            /// Returns true if only the kernel tier counts the mark.
            #[must_use]
            pub const fn is_of_kernel(self) -> bool {
                match self { $(Self::$name => marks!(@is_of_kernel $($kernel)?),)+ }
            }
        }
    };
}

marks! {
    LeaseBegan "lease-began" "A client's lease began.",
    ClientLapsed "client-lapsed" "A client's lease ended before it was renewed.",
    LapsedInPause "lapsed-in-pause" "A client's lease ended while its process did not run.",
    LapsedWhileCut "lapsed-while-cut" "A client's lease ended while it was cut off from its node.",
    NodeWithoutLease "node-without-lease" "A node that held tokens or permits had no lease.",
    NodeRejoined "node-rejoined" "A node's incarnation was closed, and the node joined again." kernel,
    NodeClockJumped "node-clock-jumped" "A node noticed that its wall clock had jumped ahead, and gave up its lease." kernel,
    ClientClockJumped "client-clock-jumped" "A client noticed that its wall clock had jumped ahead, and gave up its lease." kernel,
    LeaderDeposed "leader-deposed" "A leader learned that it had been replaced.",
    LeaderChanged "leader-changed" "Another node became the ready leader.",
    ReclaimProposed "reclaim-proposed" "A leader proposed to reclaim what a silent node holds.",
    ReclaimApplied "reclaim-applied" "A node's holding was reclaimed.",
    Stamped "stamped" "A quota's period began.",
    LimitChanged "limit-changed" "A limit was changed while it was in use.",
    KeyInstantiated "key-instantiated" "A template's key was used for the first time.",
    ReportRelayed "report-relayed" "A leader received a node's report through another node before it came directly." kernel,
    AnswerRelayed "answer-relayed" "A node received the leader's answer through another node." kernel,
    SessionResumed "session-resumed" "A client reconnected to its node and resumed its edge." kernel,
    SessionMoved "session-moved" "A client dropped its edge and opened one at another node.",
    SessionClosed "session-closed" "A node closed a client's edge." kernel,
    ClientAskedToMove "client-asked-to-move" "A node that was leaving asked a client to move to another node." kernel,
    ClientRedirected "client-redirected" "A node with more clients than others asked one to move to another node." kernel,
    NodeLeft "node-left" "A node that was leaving had returned everything that it held.",
    NodeSilent "node-silent" "A client received nothing from its node for so long that it tried another." kernel,
    NodeTrustedAgain "node-trusted-again" "A client heard its node again before another was of use." kernel,
    NodeGaveNoLease "node-gave-no-lease" "A client gave a node up that gave no lease." kernel,
    ConnectionReset "connection-reset" "A client's connection was reset.",
    CallerWaited "caller-waited" "A caller waited for its tokens.",
    CentralRequestSent "central-request-sent" "A client asked its node to decide." kernel,
    CentralRequestForwarded "central-request-forwarded" "A node forwarded a central request to the key's home." kernel,
    CentralRequestRepeated "central-request-repeated" "A client repeated a central request." kernel,
    CentralRequestVoid "central-request-void" "The lease under which a central request was sent ended." kernel,
    AdmittedCentrally "admitted-centrally" "A node admitted a request in central mode.",
    HomeMoved "home-moved" "A central request arrived at a node that was no longer the home." kernel,
    CentralAnswerLate "central-answer-late" "A central decision arrived when no caller waited for it." kernel,
    CentralPermitReturned "central-permit-returned" "A central permit arrived when no caller waited for it, and was returned." kernel,
    PermitOverrun "permit-overrun" "A permit was over before its caller was done.",
    AdmittedUnleased "admitted-unleased" "Something was admitted without a lease, by policy.",
    AdmittedByFloor "admitted-by-floor" "Something was admitted by a floor that outlives its lease.",
    EntriesTruncated "entries-truncated" "Uncommitted entries of a log were truncated." kernel,
    MessageCut "message-cut" "A message met a cut link.",
    MessageDuplicated "message-duplicated" "A message arrived twice.",
    MessageDelayed "message-delayed" "A message was held up.",
    FaultAtLeader "fault-at-leader" "A fault hit the ready leader.",
    NoQuorum "no-quorum" "Too many nodes were down or paused for a quorum.",
    AllUnleased "all-unleased" "No client had a lease.",
    Recovered "recovered" "Everything had recovered after the last fault.",
    FullUse "full-use" "Over a second the limit was used to 99 %.",
    CloneAdmitted "clone-admitted" "A clone of a client admitted something beside its original.",
    MessageOvertaken "message-overtaken" "A message was sent before another one of its link and arrived after it." kernel,
    MessageLost "message-lost" "A message was lost by chance.",
    MessageWaited "message-waited" "A message waited for a process that did not run." kernel,
    HostSlow "host-slow" "A host did late what it had to do." kernel,
    AnswerStale "answer-stale" "A grant arrived after its successor." kernel,
    AnswerOfFormerEdge "answer-of-former-edge" "An answer arrived for an edge that its client had left." kernel,
    AnswerOfFormerIncarnation "answer-of-former-incarnation" "A leader's answer arrived for a former incarnation of its node." kernel,
    AnswerTooLate "answer-too-late" "An answer came when the lease that it gave was over already." kernel,
    LeaseRenewedLate "lease-renewed-late" "A lease was renewed in its last quarter second." kernel,
    LeaseBeganAgain "lease-began-again" "A lapsed client was given a lease on the same edge again." kernel,
    Recalled "recalled" "A client was asked to return capacity." kernel,
    ReportStale "report-stale" "A client's report arrived after its successor, or twice." kernel,
    ReportOfFormerIncarnation "report-of-former-incarnation" "A client reported to a former incarnation of its node." kernel,
    ReportOfClosedEdge "report-of-closed-edge" "A client reported on an edge that its node had closed." kernel,
    NodeReportStale "node-report-stale" "A node's report arrived after its successor." kernel,
    ElectedAgain "elected-again" "The previous leader was elected again.",
    ElectionLost "election-lost" "A candidate started another election, because no candidate had won." kernel,
    AppendRefused "append-refused" "A follower refused an entry, because it lacked the entries before it." kernel,
    TwoReadyLeaders "two-ready-leaders" "Two nodes believed that they were the ready leader.",
    NoReadyLeader "no-ready-leader" "There was no ready leader for longer than a lease.",
    LeaderCutOff "leader-cut-off" "The ready leader did not reach a quorum.",
    LeaderCrashed "leader-crashed" "The ready leader crashed.",
    LeaderPaused "leader-paused" "The process of the ready leader was paused.",
    LeaderStoreBroken "leader-store-broken" "The disk of the ready leader refused to write.",
    LeadHandedOver "lead-handed-over" "A leader transferred its leadership to another node.",
    BarrierVoid "barrier-void" "A leader was deposed while it waited for a quorum's confirmation." kernel,
    RoundRefused "round-refused" "The log refused a round for good, because its leader was transferring the leadership." kernel,
    EntryInherited "entry-inherited" "A leader applied a round that an earlier leader had proposed." kernel,
    ReclaimInherited "reclaim-inherited" "A leader applied a reclaim that an earlier leader had proposed." kernel,
    ReclaimedWhileRunning "reclaimed-while-running" "The holding of a node was reclaimed while the node was running.",
    IncarnationBegan "incarnation-began" "A node began another incarnation.",
    NodeRestartedUnderLeases "node-restarted-under-leases" "A node restarted while clients still held leases of its former incarnation." kernel,
    LogReplayed "log-replayed" "A restarted node applied the last entries of its log again." kernel,
    AllNodesDown "all-nodes-down" "No node was up.",
    PausedPastLease "paused-past-lease" "A process did not run for longer than a lease.",
    SuspendedUnderLease "suspended-under-lease" "A machine was suspended while its client had a lease.",
    WallSteppedBack "wall-stepped-back" "A wall clock was set back.",
    MovementRefused "movement-refused" "The replicated book refused one movement of a round.",
    RequestRepeated "request-repeated" "An entry repeated a request that had already been applied.",
    PartFreed "part-freed" "Part of a budget was returned and became free.",
    InstanceEnded "instance-ended" "A budget's generation ended.",
    LimitLowered "limit-lowered" "A limit was lowered while it was in use.",
    BudgetDeleted "budget-deleted" "A budget was deleted while it was in use.",
    LimitRaised "limit-raised" "A limit was raised while it was in use.",
    AdmittedWithoutLeader "admitted-without-leader" "A request was admitted while there was no ready leader.",
    AdmittedWhileNodeDown "admitted-while-node-down" "A request was admitted under a lease whose node was down.",
    AdmittedWhileCut "admitted-while-cut" "A request was admitted while its client was cut off from its node.",
    AdmittedAtTheEnd "admitted-at-the-end" "A request was admitted in the last 50 ms of a lease.",
    AdmittedByOtherNode "admitted-by-other-node" "A request was admitted under a lease of a node other than the first that its client tries.",
    AdmittedByFormerFloor "admitted-by-former-floor" "A request was admitted by the floor of an edge that its client had dropped.",
    KeptShareUsed "kept-share-used" "A request was admitted without a lease, under the policy `keep`.",
    LocalPartUsed "local-part-used" "A request was admitted without a lease, under the policy `local`.",
    OpenUsed "open-used" "A request was admitted without a lease, under the policy `open`.",
    RefusedUnknownKey "refused-unknown-key" "A request was refused, because the node had not named the budget of its key yet." kernel,
    RefusedWithoutShare "refused-without-share" "A request was refused, because its client held no part of the budget." kernel,
    RefusedLapsed "refused-lapsed" "A request was refused, because the lease had ended." kernel,
    BucketEmpty "bucket-empty" "A request was refused, because the bucket was empty." kernel,
    CostAbovePart "cost-above-part" "A request was refused, because its cost is more than a part can hold." kernel,
    QuotaPartSpent "quota-part-spent" "A client had spent the part of a quota that it held." kernel,
    AllPermitsInUse "all-permits-in-use" "All permits of a client were in flight." kernel,
    QueueFull "queue-full" "A caller was refused, because too many callers waited before it." kernel,
    WaiterServed "waiter-served" "A waiting caller was served." kernel,
    RefusedCentrally "refused-centrally" "A node refused a request in central mode." kernel,
    CentralRequestsFull "central-requests-full" "A client had the maximum number of unanswered requests in central mode, and sent no more." kernel,
    LinkLostDuringRequest "link-lost-while-asking" "A connection was lost while a request in central mode was unanswered." kernel,
    ClientRestarted "client-restarted" "A client's process restarted.",
    RestartedUnderLease "restarted-under-lease" "A client's process ended while it had a lease, and restarted." kernel,
    DialRefused "dial-refused" "A client tried to connect to a node that refused at once." kernel,
    DialUnanswered "dial-unanswered" "A client tried to connect to a node that did not answer." kernel,
    OpenedLate "opened-late" "A node opened a session after its client had stopped waiting for it." kernel,
    FaultsAtOnce "faults-at-once" "Five faults were active at the same time.",
    EnvelopeTight "envelope-tight" "The worst window was within one token of its bound.",
    AheadOfIdeal "ahead-of-ideal" "The fleet had admitted more than one ideal bucket.",
}

/// Hit counts of all marks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks(Vec<u64>);

impl Marks {
    /// Counts a mark once.
    pub fn hit(&mut self, mark: Mark) {
        // The vector stays empty until the first hit.
        if self.0.is_empty() {
            self.0.resize(Mark::ALL.len(), 0);
        }
        self.0[mark as usize] += 1;
    }

    /// Counts a mark once if `happened`.
    pub fn hit_if(&mut self, happened: bool, mark: Mark) {
        if happened {
            self.hit(mark);
        }
    }

    /// Adds `times` to the count of a mark.
    pub fn hit_times(&mut self, mark: Mark, times: u64) {
        if times > 0 {
            self.hit(mark);
            self.0[mark as usize] += times - 1;
        }
    }

    /// Returns how often a mark was hit.
    #[must_use]
    pub fn count(&self, mark: Mark) -> u64 {
        self.0.get(mark as usize).copied().unwrap_or(0)
    }

    /// Adds the counts of another run.
    pub fn add(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (sum, more) in self.0.iter_mut().zip(&other.0) {
            *sum += more;
        }
    }

    /// Iterates over the marks that were never hit.
    pub fn unhit(&self) -> impl Iterator<Item = Mark> {
        let all = Mark::ALL.iter().copied();
        all.filter(|mark| self.count(*mark) == 0)
    }

    /// Returns the number of marks that were hit at least once.
    #[must_use]
    pub fn hit_count(&self) -> usize {
        self.0.iter().filter(|count| **count > 0).count()
    }
}
