//! A budget's terms in the units that people write, read field by field from a draft.

use super::claim::WeightRule;
use super::draft::{BudgetDraft, ExpiryDraft, WeightDraft, Written};
use super::error::{Gate, choice};
use super::grammar;
use super::key::KeyPattern;
use super::limit::{self, Limit};
use super::part::Part;
use super::policy::{self, Enforcement, OnLeaseExpiry};
use crate::allocate::{Headroom, Policy};
use crate::unit::Band;
use crate::unit::{Span, Weight};
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

/// All terms that an operator may set, each valid by itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Terms {
    pub(super) key: KeyPattern,
    pub(super) limit: Limit,
    pub(super) weights: Vec<WeightRule>,
    pub(super) band: Band,
    pub(super) floor: Option<Part>,
    pub(super) ceiling: Option<Part>,
    pub(super) on_lease_expiry: OnLeaseExpiry<Part>,
    pub(super) allocation: Policy,
    pub(super) forget_after: Span,
    pub(super) headroom: Headroom,
    /// Maximum number of keys of a template at a time.
    pub(super) max_keys: u64,
    /// Set if the last segment of a key names its limit, up to `limit`.
    #[cfg_attr(feature = "serde", serde(default))]
    pub(super) named_limits: bool,
    pub(super) enforcement: Enforcement,
}

/// Default of the time for which a reclaimed floor stays booked: longer than most restarts and network
/// faults.
const FORGET_AFTER_DEFAULT: Span = Span::from_secs(600);
const FORGET_AFTER_MAX: Span = Span::from_secs(30 * 86_400);

/// Default of the maximum number of keys of a template. Each key costs the nodes memory, and its first use an
/// entry of the log. A client that makes up keys must not exhaust these.
const MAX_KEYS_DEFAULT: u64 = 100_000;
const MAX_KEYS_MOST: u64 = 10_000_000;

const EXPIRY_WORDS: [(&str, OnLeaseExpiry<Part>); 4] = [
    ("deny", OnLeaseExpiry::Deny),
    ("floor", OnLeaseExpiry::Floor),
    ("keep", OnLeaseExpiry::Keep),
    ("open", OnLeaseExpiry::Open),
];

impl Terms {
    /// Reads the valid fields and refuses the others. A refused field gets its default here; the gate then
    /// returns no budget.
    pub(super) fn read(draft: &BudgetDraft, gate: &mut Gate) -> Option<Self> {
        let key = KeyPattern::try_from(draft.key.as_str());
        if let Err(error) = &key {
            gate.refuse("key", &draft.key, key_error(&error.to_string()));
        }
        let limit = Limit::read(draft, gate);
        let band = read_band("band", draft.band.as_ref(), gate);
        let weights = read_weights(&draft.weights, gate);
        let allocation = draft.allocation.as_ref();
        let allocation = gate.word("allocation", allocation, &policy::POLICIES);
        let forget = draft.forget_after.as_ref();
        let forget = limit::read_span("forget_after", forget, FORGET_AFTER_MAX, gate);
        let headroom = gate.word("headroom", draft.headroom.as_ref(), &policy::HEADROOMS);
        let max_keys = read_max_keys(draft, key.as_ref().ok(), gate);
        let named_limits = read_named_limits(draft, key.as_ref().ok(), gate);
        let enforcement = gate.word("dry_run", draft.dry_run.as_ref(), &Enforcement::WORDS);
        let on_lease_expiry = read_expiry(draft, limit.as_ref(), gate);
        // Without a limit, the meaning of a part is unknown.
        let limit = limit?;
        let floor = Part::read("floor", draft.floor.as_ref(), &limit, gate);
        let ceiling = Part::read("ceiling", draft.ceiling.as_ref(), &limit, gate);
        Some(Self {
            key: key.ok()?,
            limit,
            weights,
            band: band.unwrap_or_default(),
            floor,
            ceiling,
            on_lease_expiry,
            allocation: allocation.unwrap_or_default(),
            forget_after: forget.unwrap_or(FORGET_AFTER_DEFAULT),
            headroom: headroom.unwrap_or_default(),
            max_keys: max_keys.unwrap_or(MAX_KEYS_DEFAULT),
            named_limits,
            enforcement: enforcement.unwrap_or_default(),
        })
    }

    /// Returns the draft that reads as these terms, with nothing left to a default.
    pub(super) fn write(&self) -> BudgetDraft {
        let mut draft = BudgetDraft {
            key: self.key.to_string(),
            weights: self.weights.iter().map(write_weight).collect(),
            band: Some(u64::from(self.band.get()).into()),
            floor: self.floor.as_ref().map(Part::write),
            ceiling: self.ceiling.as_ref().map(Part::write),
            on_lease_expiry: Some(match &self.on_lease_expiry {
                OnLeaseExpiry::Local(part) => ExpiryDraft::Local {
                    local: part.write(),
                },
                other => ExpiryDraft::Word(policy::word(&EXPIRY_WORDS, *other).into()),
            }),
            allocation: Some(policy::word(&policy::POLICIES, self.allocation).into()),
            forget_after: Some(self.forget_after.to_string().into()),
            headroom: Some(policy::word(&policy::HEADROOMS, self.headroom).into()),
            max_keys: self.key.is_template().then(|| self.max_keys.into()),
            named_limits: self.named_limits.then(|| "yes".into()),
            dry_run: Some(policy::word(&Enforcement::WORDS, self.enforcement).into()),
            ..BudgetDraft::default()
        };
        self.limit.write(&mut draft);
        draft
    }
}

/// A key's error begins with "must"; a field's is put after "must be".
fn key_error(error: &str) -> alloc::string::String {
    let rest = error.strip_prefix("must ").unwrap_or(error);
    format!("a key of segments such as checkout/charge or tenant/*/reads: it must {rest}")
}

fn read_expiry(draft: &BudgetDraft, limit: Option<&Limit>, gate: &mut Gate) -> OnLeaseExpiry<Part> {
    const FIELD: &str = "on_lease_expiry";
    match &draft.on_lease_expiry {
        None => OnLeaseExpiry::Deny,
        Some(ExpiryDraft::Local { local }) => {
            let field = format!("{FIELD}.local");
            let part = limit.and_then(|limit| Part::read(&field, Some(local), limit, gate));
            part.map_or(OnLeaseExpiry::Deny, OnLeaseExpiry::Local)
        }
        Some(ExpiryDraft::Word(word)) => {
            let known = EXPIRY_WORDS.iter().find(|(name, _)| *name == word.trim());
            let names = EXPIRY_WORDS.iter().map(|(name, _)| *name);
            match known {
                Some((_, OnLeaseExpiry::Floor)) if draft.floor.is_none() => {
                    let allowed = "another policy, or be used together with a floor";
                    gate.refuse(FIELD, word, allowed);
                }
                None => {
                    let allowed = choice(word, names);
                    gate.refuse(FIELD, word, format!("{{ local = … }} or {allowed}"));
                }
                Some(_) => {}
            }
            known.map_or(OnLeaseExpiry::Deny, |(_, policy)| *policy)
        }
    }
}

fn read_band(field: &str, written: Option<&Written>, gate: &mut Gate) -> Option<Band> {
    let band = |text: &str| Band::new(u8::try_from(grammar::whole(text)?).ok()?).ok();
    let allowed = "a whole number from 0 to 9 (the higher is served first)";
    gate.read(field, written, band, allowed)
}

fn read_max_keys(draft: &BudgetDraft, key: Option<&KeyPattern>, gate: &mut Gate) -> Option<u64> {
    const FIELD: &str = "max_keys";
    let written = draft.max_keys.as_ref();
    if key.is_some_and(|key| !key.is_template()) {
        gate.only_with(FIELD, written, "a template, such as tenant/*/reads");
        return None;
    }
    let keys = |text: &str| {
        let keys = grammar::whole(text)?;
        (1..=MAX_KEYS_MOST).contains(&keys).then_some(keys)
    };
    gate.read(FIELD, written, keys, "a whole number from 1 to 10000000")
}

/// Reads the source of a template's limits. A part of a limit that is not known yet has no meaning, so
/// neither floors nor ceilings nor local parts go with named limits.
fn read_named_limits(draft: &BudgetDraft, key: Option<&KeyPattern>, gate: &mut Gate) -> bool {
    const FIELD: &str = "named_limits";
    const WITHOUT: &str = "left out: it belongs to a budget without named_limits";
    let written = draft.named_limits.as_ref();
    if gate.word(FIELD, written, &policy::NAMED_LIMITS) != Some(true) {
        return false;
    }
    if draft.rate.is_none() {
        gate.only_with(FIELD, written, "a rate");
    }
    let names = |key: &KeyPattern| key.segments().next_back() == Some(KeyPattern::ANY);
    if key.is_some_and(|key| !names(key)) {
        let with = "a key whose last segment is *, which names the limit, such as api/*/*";
        gate.only_with(FIELD, written, with);
    }
    for (field, part) in [("floor", &draft.floor), ("ceiling", &draft.ceiling)] {
        if part.is_some() {
            gate.refuse(field, "", WITHOUT);
        }
    }
    if matches!(draft.on_lease_expiry, Some(ExpiryDraft::Local { .. })) {
        gate.refuse("on_lease_expiry.local", "", WITHOUT);
    }
    true
}

fn read_weights(drafts: &[WeightDraft], gate: &mut Gate) -> Vec<WeightRule> {
    if drafts.len() > WeightRule::RULES_MAX {
        let allowed = format!("at most {} rules", WeightRule::RULES_MAX);
        gate.refuse("weights", &format!("{} rules", drafts.len()), allowed);
        return Vec::new();
    }
    let numbered = (0_usize..).zip(drafts);
    let rules =
        numbered.map(|(index, draft)| read_weight(&format!("weights[{index}]"), draft, gate));
    rules.collect()
}

fn read_weight(field: &str, draft: &WeightDraft, gate: &mut Gate) -> WeightRule {
    let weight = |text: &str| Weight::new(u32::try_from(grammar::whole(text)?).ok()?).ok();
    let allowed = "a whole number from 1 to 1000000";
    let weight = gate.read(
        &format!("{field}.weight"),
        draft.weight.as_ref(),
        weight,
        allowed,
    );
    let band = read_band(&format!("{field}.band"), draft.band.as_ref(), gate);
    let count = draft.labels.len();
    if count > WeightRule::LABELS_MAX {
        let allowed = format!("at most {} labels", WeightRule::LABELS_MAX);
        gate.refuse(
            &format!("{field}.match"),
            &format!("{count} labels"),
            allowed,
        );
    }
    for text in draft.labels.iter().flat_map(|(name, glob)| [name, glob]) {
        if text.len() > WeightRule::BYTES_MAX {
            let allowed = format!("at most {} bytes", WeightRule::BYTES_MAX);
            gate.refuse(&format!("{field}.match"), text, allowed);
        }
    }
    WeightRule {
        labels: draft.labels.clone(),
        weight: weight.unwrap_or_default(),
        band,
    }
}

fn write_weight(rule: &WeightRule) -> WeightDraft {
    WeightDraft {
        labels: rule.labels.clone(),
        weight: Some(u64::from(rule.weight.get()).into()),
        band: rule.band.map(|band| u64::from(band.get()).into()),
    }
}
