//! Marks: things that must happen somewhere, or the simulator shows less than
//! it seems to. A run counts them; an assertion may want one (`sometimes`).

macro_rules! marks {
    ($($name:ident $text:literal $says:literal,)+) => {
        /// Something worth knowing that it happened.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Mark {
            $(#[doc = $says] $name,)+
        }

        impl Mark {
            /// Every mark.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// Its name, as files write it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)+ }
            }

            /// What happened.
            #[must_use]
            pub const fn says(self) -> &'static str {
                match self { $(Self::$name => $says,)+ }
            }
        }
    };
}

marks! {
    LeaseBegan "lease-began" "A client's lease began.",
    ClientLapsed "client-lapsed" "A client's lease ended before it was renewed.",
    LapsedInPause "lapsed-in-pause" "A client's lease ended while its process did not run.",
    LapsedWhileCut "lapsed-while-cut" "A client's lease ended while it was cut off from its node.",
    NodeWithoutLease "node-without-lease" "A node that held something had no lease.",
    NodeRejoined "node-rejoined" "A node's life was closed, and it had to join again.",
    NodeClockJumped "node-clock-jumped" "A node saw its wall clock run ahead, and gave its lease up.",
    ClientClockJumped "client-clock-jumped" "A client saw its wall clock run ahead, and gave its lease up.",
    LeaderDeposed "leader-deposed" "A leader learned that it leads no more.",
    LeaderChanged "leader-changed" "Another node came to office.",
    ReclaimProposed "reclaim-proposed" "A leader proposed to reclaim what a silent node holds.",
    ReclaimApplied "reclaim-applied" "A node's holding was reclaimed.",
    Stamped "stamped" "A quota's period began.",
    LimitChanged "limit-changed" "A limit was changed while it was in use.",
    KeyInstantiated "key-instantiated" "A template's key was used for the first time.",
    ReportRelayed "report-relayed" "A leader heard of a node through another one first.",
    AnswerRelayed "answer-relayed" "A node got the leader's answer through another one.",
    SessionResumed "session-resumed" "A client came back to its node, and to its edge.",
    SessionMoved "session-moved" "A client dropped its edge and went on at another node.",
    SessionClosed "session-closed" "A node closed a client's edge.",
    ClientAskedToMove "client-asked-to-move" "A node that leaves asked a client to go.",
    NodeLeft "node-left" "A node had handed everything back.",
    NodeSilent "node-silent" "A client gave a node up that said nothing.",
    NodeGaveNoLease "node-gave-no-lease" "A client gave a node up that gave no lease.",
    ConnectionReset "connection-reset" "A client's connection was reset.",
    CallerWaited "caller-waited" "A caller waited for its tokens.",
    NodeAsked "node-asked" "A client asked its node to decide.",
    QuestionPassedOn "question-passed-on" "A node passed a question on to the key's home.",
    QuestionRepeated "question-repeated" "A client repeated a question.",
    QuestionVoid "question-void" "The lease ended that a question was asked under.",
    AdmittedCentrally "admitted-centrally" "A node admitted in a client's stead.",
    HomeMoved "home-moved" "A question came to a node that was the home no more.",
    VerdictLate "verdict-late" "A verdict came to nobody.",
    VerdictUndone "verdict-undone" "A permit came to nobody, and went back.",
    PermitCut "permit-cut" "A permit was over before its caller was done.",
    AdmittedUnleased "admitted-unleased" "Something was admitted without a lease, by policy.",
    AdmittedByFloor "admitted-by-floor" "Something was admitted by a floor that outlives its lease.",
    LogConflict "log-conflict" "Entries of a log were thrown away.",
    MessageCut "message-cut" "A message met a cut link.",
    MessageTwice "message-twice" "A message arrived twice.",
    MessageLate "message-late" "A message was held up.",
    StruckLeader "struck-leader" "A fault struck the node in office.",
    NoQuorum "no-quorum" "So many nodes were down or paused that no quorum was left.",
    AllUnleased "all-unleased" "No client had a lease.",
    Recovered "recovered" "Everything had recovered after the last fault.",
    FullUse "full-use" "Over a second the limit was used to 99 %.",
    ForkedAlive "forked-alive" "A clone of a client admitted something beside its original.",
}

/// How often each mark was hit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marks([u64; Mark::ALL.len()]);

impl Default for Marks {
    fn default() -> Self {
        Self([0; Mark::ALL.len()])
    }
}

impl Marks {
    /// It happened.
    pub const fn hit(&mut self, mark: Mark) {
        self.0[mark as usize] += 1;
    }

    /// It happened so often more.
    pub const fn hit_times(&mut self, mark: Mark, times: u64) {
        self.0[mark as usize] += times;
    }

    /// How often it did.
    #[must_use]
    pub const fn count(&self, mark: Mark) -> u64 {
        self.0[mark as usize]
    }

    /// Those of another run are added.
    pub fn add(&mut self, other: &Self) {
        for (sum, more) in self.0.iter_mut().zip(other.0) {
            *sum += more;
        }
    }

    /// How many marks were hit at all.
    #[must_use]
    pub fn hit_count(&self) -> usize {
        self.0.iter().filter(|count| **count > 0).count()
    }
}
