//! The stage as text.

use super::stage::{MILLI, Stage};
use aliquot_core::client::Mode;
use aliquot_core::command::{Changes, Command};
use aliquot_core::edge::Vector;
use aliquot_core::share::{Kind, Share};
use aliquot_core::state::Effect;
use aliquot_core::unit::{BudgetId, Edge, Incarnation, Scale, Span};

/// Returns tokens, with one decimal if they are not whole.
pub(super) fn amount(grains: u64, scale: Scale) -> String {
    let per = u128::from(scale.grains_per_token());
    let tenths = u128::from(grains) * 10 / per;
    match tenths % 10 {
        0 => format!("{}", tenths / 10),
        digit => format!("{}.{digit}", tenths / 10),
    }
}

pub(super) fn share(share: Share, scale: Scale, kind: Kind) -> String {
    let burst = amount(share.burst.grains(), scale);
    match kind {
        Kind::Rate => format!("{}/s, burst {burst}", amount(share.rate.grains(), scale)),
        Kind::Quota => format!("{} tokens", amount(share.tokens.grains(), scale)),
        Kind::Concurrency => format!("{} permits", share.burst.grains()),
    }
}

pub(super) fn held(vector: Vector, scale: Scale, kind: Kind) -> String {
    let mut text = share(vector.share(), scale, kind);
    if !vector.floor_rate.is_zero() {
        let floor = amount(vector.floor_rate.grains(), scale);
        text.push_str(&format!(" (floor {floor}/s)"));
    }
    text
}

pub(super) fn millis(span: Span) -> String {
    format!("{} ms", span.nanos() / MILLI)
}

pub(super) fn effect(stage: &Stage, effect: &Effect) -> Option<String> {
    let named = |incarnation: &Incarnation| stage.name_of(*incarnation);
    Some(match effect {
        Effect::Joined {
            node, incarnation, ..
        } => format!("{node} lives as {incarnation}"),
        Effect::Leaving(incarnation) => format!("{} is leaving", named(incarnation)),
        Effect::Created {
            budget,
            granted: Some(incarnation),
        } => format!("{budget} begins, full, at {}", named(incarnation)),
        Effect::Created { budget, .. } => format!("{budget} begins, empty"),
        Effect::Changed(budget) => format!("{budget} is changed"),
        Effect::Ended(budget) => format!("{budget} ends"),
        Effect::Stamped(budget, period) => format!("{budget}: period {period} begins"),
        Effect::Silenced(incarnation, Some(silence)) => {
            let lasted = millis(silence.lasted);
            format!("{} has been silent for {lasted}", named(incarnation))
        }
        Effect::Silenced(incarnation, None) => format!("{} is heard again", named(incarnation)),
        Effect::Reclaimed(incarnation) => format!("{} is reclaimed", named(incarnation)),
        Effect::MovementRefused(budget, incarnation, why) => {
            format!("refused: {budget} {}: {why}", named(incarnation))
        }
        Effect::Refused(_, errors) => format!("refused: {errors:?}"),
        _ => return None,
    })
}

pub(super) fn command(stage: &Stage, command: &Command) -> String {
    match command {
        Command::Round(changes) => round(stage, changes),
        Command::Remove { node } => format!("remove {node}"),
        other => format!("{other:?}"),
    }
}

fn round(stage: &Stage, changes: &Changes) -> String {
    let mut parts = Vec::new();
    let mut list = |word: &str, names: Vec<String>| {
        if !names.is_empty() {
            parts.push(format!("{word} {}", names.join(" ")));
        }
    };
    let incarnations = |of: &[aliquot_core::command::Movement]| {
        of.iter()
            .map(|movement| stage.name_of(movement.child))
            .collect()
    };
    list(
        "stamp",
        changes.stamps.iter().map(|(_, p)| p.to_string()).collect(),
    );
    list("release", incarnations(&changes.releases));
    let named = |incarnation: &Incarnation| stage.name_of(*incarnation);
    let silences = changes.silences.iter().map(|silence| &silence.child);
    list("silence", silences.map(named).collect());
    list("reclaim", changes.reclaims.iter().map(named).collect());
    list(
        "forget",
        changes
            .forgets
            .iter()
            .map(|(_, incarnation)| named(incarnation))
            .collect(),
    );
    list("grant", incarnations(&changes.grants));
    parts.join("; ")
}

impl Stage {
    /// Returns `n2(i5)`: the node of an incarnation, if it is known.
    pub(super) fn name_of(&self, incarnation: Incarnation) -> String {
        match self.home_of(incarnation) {
            Some(name) => format!("{name}({incarnation})"),
            None => incarnation.to_string(),
        }
    }

    pub(super) fn home_of(&self, incarnation: Incarnation) -> Option<String> {
        let mut hosts = self.hosts.iter();
        let incarnations =
            |host: &super::stage::Host| host.node.as_ref().map(|node| node.incarnation());
        hosts.find_map(|(name, host)| {
            (incarnations(host) == Some(incarnation)).then(|| name.clone())
        })
    }

    pub(super) fn client_of(&self, edge: Edge) -> Option<String> {
        let mut clients = self.clients.iter();
        clients
            .find_map(|(name, process)| (process.client.edge() == Some(edge)).then(|| name.clone()))
    }

    pub(super) fn scale_of(&self, id: BudgetId) -> Option<(Scale, Kind)> {
        let key = self.key_of(id)?;
        let watch = self.judge.watches.get(&key)?;
        Some((watch.scale, watch.kind))
    }

    /// Prints the leases that ended or began since the last call.
    pub(super) fn watch_leases(&mut self) {
        let now = self.now;
        let mut news = Vec::new();
        for (name, host) in &mut self.hosts {
            let tick = host.clock.at(now);
            let leased = host.node.as_ref().is_some_and(|node| node.is_leased(tick));
            if leased != host.leased {
                let lapsed = if leased {
                    "has a lease"
                } else {
                    "has no lease"
                };
                news.push(format!("{name} {lapsed}"));
                host.leased = leased;
            }
        }
        for (name, process) in &mut self.clients {
            let leased = process.client.is_leased(process.clock.at(now));
            if leased != process.leased {
                let lapsed = if leased {
                    "has a lease"
                } else {
                    "has no lease"
                };
                news.push(format!("{name} {lapsed}"));
                process.leased = leased;
            }
        }
        for line in news {
            self.say(line);
        }
    }

    pub(super) fn report_clients(&mut self) {
        let mut lines = Vec::new();
        for (name, process) in &mut self.clients {
            if process.admitted + process.denied > 0 && process.load.is_some() {
                let why = match process.denied {
                    0 => String::new(),
                    denied => format!(", denied {denied}: {}", process.reason),
                };
                lines.push(format!("{name} admitted {}{why}", process.admitted));
            }
            (process.admitted, process.denied) = (0, 0);
        }
        for line in lines {
            self.say(line);
        }
    }

    /// Prints the parts of all holders.
    pub(super) fn show(&mut self) {
        let Some(id) = self.budget else { return };
        let Some((scale, kind)) = self.scale_of(id) else {
            return;
        };
        let mut lines = Vec::new();
        if let Some(generation) = self
            .hosts
            .get(&self.lead)
            .and_then(|host| host.state.budget(id))
        {
            let account = &generation.account;
            let mut parts = vec![format!("book: free {}", share(account.free(), scale, kind))];
            for (incarnation, slot) in account.open() {
                let of = held(slot.counters.holding(kind), scale, kind);
                parts.push(format!("{} {of}", self.name_of(incarnation)));
            }
            for (incarnation, kept) in account.kept() {
                parts.push(format!(
                    "kept of {incarnation} {}",
                    held(kept.holding, scale, kind)
                ));
            }
            if kind == Kind::Quota {
                let spent = amount(account.spent().grains(), scale);
                parts.push(format!("spent {spent} in {}", account.period()));
            }
            lines.push(parts.join(" | "));
        }
        for (name, host) in &self.hosts {
            let Some(node) = &host.node else { continue };
            let tick = host.clock.at(self.now);
            let rest = millis(node.holder().lease().until().since(tick));
            let holding = held(node.holder().holding(id), scale, kind);
            lines.push(format!("{name}: lease {rest}, holds {holding}"));
        }
        for (name, process) in &self.clients {
            let tick = process.clock.at(self.now);
            let client = &process.client;
            let rest = client
                .holder()
                .map_or(Span::ZERO, |holder| holder.lease().until().since(tick));
            let mut text = format!("{name}: lease {}", millis(rest));
            for (_, of) in client.allotments().filter(|(of, _)| *of == id) {
                let level = of.share_at(tick);
                text.push_str(&match kind {
                    Kind::Rate => format!(
                        ", {}, level {}",
                        share(level, scale, kind),
                        amount(level.tokens.grains(), scale)
                    ),
                    Kind::Quota => String::new(),
                    Kind::Concurrency => format!(
                        ", {} permits, {} in flight",
                        of.permits().held().grains(),
                        of.permits().in_flight()
                    ),
                });
                if matches!(of.mode(), Mode::Floor(_)) {
                    text.push_str(", on its floor");
                }
            }
            lines.push(text);
        }
        for line in lines {
            self.say(line);
        }
    }
}
