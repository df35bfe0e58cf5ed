//! The kinds of faults: the table by which the reader accepts them, and by which both tiers inject and end them.

/// The effect of a fault while it lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultEffect {
    /// Impairs links between `target` and `to`.
    Links(OnLinks),
    /// Delays everything that a host does.
    Slow,
    /// Affects each host by itself.
    Host(OnHost),
    /// Steps clocks, once or back and forth.
    StepClocks,
    Strobe,
    /// Closes connections.
    Reset,
    /// Requests a change of the leader, of the members or of a budget.
    TransferLead,
    Membership,
    ChangeBudget,
    DeleteBudget,
    /// Runs a copy of a client.
    CloneClient,
}

/// The effect of a fault on messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnLinks {
    Cut,
    /// Cuts one direction only.
    CutOneWay,
    /// Cuts, and loses the data in flight with its connections.
    Swallow,
    Delay,
    /// Loses data. TCP sends it again, so it is late; in the kernel tier, which models no TCP, a lost message is gone.
    Lose,
    /// Loses whole messages, in both tiers.
    LoseMessages,
    Duplicate,
    Reorder,
}

/// The effect of a fault on one host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnHost {
    /// The machine loses power.
    Crash,
    /// The process ends, and its machine refuses connections.
    Restart,
    /// The same, for clients only.
    RestartClient,
    Pause,
    /// Pauses; meanwhile the clock that counts suspended time runs on.
    Suspend,
    /// Pauses, and freezes all clocks.
    PauseMachine,
    ClockRate,
    BreakDisk,
    SlowDisk,
    /// A record on the disk differs from the one that was written.
    DamageDisk,
}

/// The end of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It is over at once: nothing is left to recover.
    AtOnce,
    /// It is over after this many nanoseconds.
    After(u64),
    /// It is over after the duration `for`, or when the safety phase ends.
    For,
    /// The same, but it is not cut short by the end of the safety phase: the host itself waits.
    ForByItself,
}

/// The keys of a fault that have an effect on some kinds only.
pub(crate) const KEYS: &[&str] = &[
    "for",
    "target",
    "to",
    "with_clients",
    "amount",
    "by",
    "ppm",
    "period",
    "clock",
    "change",
    "part",
    "set",
];

/// A kind of fault.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FaultKind {
    /// Name in scenario files.
    pub(crate) name: &'static str,
    pub(crate) effect: FaultEffect,
    pub(crate) end: End,
    /// Reason why the network tier cannot inject it.
    pub(crate) not_on_network: Option<&'static str>,
    /// If true, a hunt does not try it: Aliquot promises nothing under it, or it needs hosts that the scenario
    /// does not have.
    pub(crate) beyond: bool,
}

impl FaultKind {
    /// Returns the row of a kind.
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        ROWS.iter().find(|row| row.name == name)
    }

    /// Returns the keys that have an effect on this kind, of those that have none on others.
    pub(crate) fn keys(&self) -> Vec<&'static str> {
        let (links, host) = match self.effect {
            FaultEffect::Links(effect) => (Some(effect), None),
            FaultEffect::Host(effect) => (None, Some(effect)),
            _ => (None, None),
        };
        let effect = self.effect;
        let steps = matches!(effect, FaultEffect::StepClocks | FaultEffect::Strobe);
        let writes = matches!(
            effect,
            FaultEffect::ChangeBudget | FaultEffect::DeleteBudget
        );
        let directed = matches!(links, Some(OnLinks::CutOneWay | OnLinks::Swallow));
        let cuts = directed || links == Some(OnLinks::Cut);
        let late = matches!(links, Some(OnLinks::Delay | OnLinks::Reorder));
        let uses = |key: &&str| match *key {
            "for" => matches!(self.end, End::For | End::ForByItself),
            "target" => !writes,
            "to" => links.is_some(),
            "with_clients" => links.is_some() && !directed,
            "amount" => links.is_some() && !cuts,
            "by" => late || steps || effect == FaultEffect::Slow || host == Some(OnHost::SlowDisk),
            "ppm" => host == Some(OnHost::ClockRate),
            "period" => effect == FaultEffect::Strobe,
            "clock" => steps,
            "change" => effect == FaultEffect::Membership,
            "part" => host == Some(OnHost::DamageDisk),
            _ => writes,
        };
        KEYS.iter().copied().filter(uses).collect()
    }

    /// Returns the time for which messages may still be late after such a fault, which holds them up by `by`.
    pub(crate) const fn lag(&self, by: i64) -> u64 {
        match self.effect {
            FaultEffect::Links(OnLinks::Delay | OnLinks::Reorder)
            | FaultEffect::Slow
            | FaultEffect::Host(OnHost::SlowDisk) => by.unsigned_abs(),
            _ => 0,
        }
    }

    /// Returns the time for which a fault lasts that is written with the duration `lasts`.
    pub(crate) const fn duration(&self, lasts: u64) -> u64 {
        match self.end {
            End::AtOnce => 0,
            End::After(span) => span,
            End::For | End::ForByItself => lasts,
        }
    }
}

/// Makes the list of names, and the rows.
macro_rules! kinds {
    ($($name:literal: $effect:expr, $end:expr, $network:expr, $beyond:expr;)*) => {
        /// Every kind of fault.
        pub(crate) const FAULTS: &[&str] = &[$($name),*];

        const ROWS: &[FaultKind] = &[$(FaultKind {
            name: $name,
            effect: $effect,
            end: $end,
            not_on_network: $network,
            beyond: $beyond,
        },)*];
    };
}

kinds! {
    "partition": FaultEffect::Links(OnLinks::Cut), End::For, None, false;
    "one_way": FaultEffect::Links(OnLinks::CutOneWay), End::For, None, false;
    "delay": FaultEffect::Links(OnLinks::Delay), End::For, None, false;
    "loss": FaultEffect::Links(OnLinks::Lose), End::For, None, false;
    "message_loss": FaultEffect::Links(OnLinks::LoseMessages), End::For, None, false;
    "duplicate": FaultEffect::Links(OnLinks::Duplicate), End::For, None, false;
    "reorder": FaultEffect::Links(OnLinks::Reorder), End::For, Some("a connection keeps its order"), false;
    "blackhole": FaultEffect::Links(OnLinks::Swallow), End::For, None, false;
    "reset": FaultEffect::Reset, End::AtOnce, None, false;
    "crash": FaultEffect::Host(OnHost::Crash), End::For, None, false;
    "restart": FaultEffect::Host(OnHost::Restart), End::After(50_000_000), None, false;
    "pause": FaultEffect::Host(OnHost::Pause), End::ForByItself, None, false;
    "slow": FaultEffect::Slow, End::For, None, false;
    "clock_step": FaultEffect::StepClocks, End::AtOnce, None, false;
    "clock_rate": FaultEffect::Host(OnHost::ClockRate), End::For, None, false;
    "strobe": FaultEffect::Strobe, End::For, None, false;
    "suspend": FaultEffect::Host(OnHost::Suspend), End::ForByItself, None, false;
    "vm_pause": FaultEffect::Host(OnHost::PauseMachine), End::ForByItself, None, true;
    "leader_transfer": FaultEffect::TransferLead, End::AtOnce, None, false;
    "membership": FaultEffect::Membership, End::AtOnce, None, true;
    "budget_change": FaultEffect::ChangeBudget, End::AtOnce, None, false;
    "budget_delete": FaultEffect::DeleteBudget, End::For, None, false;
    "client_churn": FaultEffect::Host(OnHost::RestartClient), End::For, None, false;
    "clone_client": FaultEffect::CloneClient, End::For, Some("a running process cannot be copied"), true;
    "store_error": FaultEffect::Host(OnHost::BreakDisk), End::For, None, false;
    "slow_disk": FaultEffect::Host(OnHost::SlowDisk), End::For, None, false;
    "disk_damage": FaultEffect::Host(OnHost::DamageDisk), End::AtOnce, None, true;
}
