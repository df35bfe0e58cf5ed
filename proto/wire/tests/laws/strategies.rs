//! Values of every kind that travels.

use aliquot_core::account::{Account, Kept, Slot};
use aliquot_core::budget::{
    Band, Budget, BudgetDraft, ExpiryDraft, FieldError, Key, KeyPattern, Labels, OnLeaseExpiry,
    PartDraft, WeightDraft, Written,
};
use aliquot_core::command::{Changes, Command, Ending, Movement};
use aliquot_core::demand::DemandCurve;
use aliquot_core::edge::{Counters, Vector};
use aliquot_core::message::{
    Answer, AnswerLine, BandDemand, FloorRelease, Heard, Intent, Report, ReportLine, Terms, Verdict,
};
use aliquot_core::share::{Kind, Share};
use aliquot_core::state::{Generation, Member, Phase, Rule, Snapshot};
use aliquot_core::unit::{
    BudgetId, Drift, Edge, Incarnation, NodeId, Number, PeriodId, Rate, RequestId, Round, RuleId,
    Scale, Seq, Span, Term, Tokens, Weight,
};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Numbers of every length on the wire, and often zero.
pub(crate) fn number() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), 0..1000_u64, any::<u64>()]
}

pub(crate) fn named<T: std::fmt::Debug>(name: fn(u64) -> T) -> impl Strategy<Value = T> {
    number().prop_map(name)
}

fn tokens() -> impl Strategy<Value = Tokens> {
    named(Tokens::from_grains)
}

pub(crate) fn span() -> impl Strategy<Value = Span> {
    named(Span::from_nanos)
}

fn life() -> impl Strategy<Value = Incarnation> {
    named(Incarnation::new)
}

pub(crate) fn drift() -> impl Strategy<Value = Drift> {
    (0..=Drift::PPM_MAX).prop_map(|ppm| Drift::from_ppm(ppm).unwrap())
}

fn scale() -> impl Strategy<Value = Scale> {
    (0..=56_u32).prop_map(|power| Scale::try_from(1_u64 << power).unwrap())
}

pub(crate) fn edge() -> impl Strategy<Value = Edge> {
    (life(), life()).prop_map(|(parent, child)| Edge { parent, child })
}

fn vector() -> BoxedStrategy<Vector> {
    prop::array::uniform6(number())
        .prop_map(Vector::from_array)
        .boxed()
}

pub(crate) fn share() -> BoxedStrategy<Share> {
    (named(Rate::from_grains), tokens(), tokens())
        .prop_map(|(rate, burst, tokens)| Share {
            rate,
            burst,
            tokens,
        })
        .boxed()
}

fn heard() -> impl Strategy<Value = Heard> {
    (named(Term::new), named(Number::new)).prop_map(|(term, number)| Heard { term, number })
}

fn kind() -> impl Strategy<Value = Kind> {
    prop::sample::select(vec![Kind::Rate, Kind::Quota, Kind::Concurrency])
}

fn curve() -> impl Strategy<Value = DemandCurve> {
    let one = (0..1_u64 << 50, 1..=Weight::MAX);
    let one =
        one.prop_map(|(demand, weight)| DemandCurve::of(demand, Weight::new(weight).unwrap()));
    vec(one, 0..6).prop_map(|curves| {
        let sum = |sum: DemandCurve, curve| sum.plus(curve).unwrap();
        curves.iter().fold(DemandCurve::EMPTY, sum)
    })
}

fn band_demand() -> BoxedStrategy<BandDemand> {
    let band = (0..=Band::MAX).prop_map(|band| Band::new(band).unwrap());
    (band, curve())
        .prop_map(|(band, curve)| BandDemand { band, curve })
        .boxed()
}

prop_compose! {
    fn report_line()(
        budget in named(BudgetId::new), period in named(PeriodId::new), returned in vector(),
        demand in vec(band_demand(), 0..3), floor in share(), largest_wait in tokens(),
    ) -> ReportLine {
        ReportLine { budget, period, returned, demand, floor, largest_wait }
    }
}

prop_compose! {
    fn floor_release()(
        budget in named(BudgetId::new), former in edge(), floor in share(),
    ) -> FloorRelease {
        FloorRelease { budget, former, floor }
    }
}

prop_compose! {
    pub(crate) fn report()(
        edge in edge(), seq in named(Seq::new), heard in heard(), wall_ms in any::<i64>(),
        intent in prop::sample::select(vec![Intent::Stay, Intent::Leave]),
        lines in vec(report_line().boxed(), 0..4), floors in vec(floor_release().boxed(), 0..3),
    ) -> Report {
        Report { edge, seq, heard, wall_ms, intent, lines, floors }
    }
}

fn on_lease_expiry() -> BoxedStrategy<OnLeaseExpiry> {
    prop_oneof![
        Just(OnLeaseExpiry::Deny),
        Just(OnLeaseExpiry::Floor),
        Just(OnLeaseExpiry::Keep),
        share().prop_map(OnLeaseExpiry::Local),
        Just(OnLeaseExpiry::Open),
    ]
    .boxed()
}

prop_compose! {
    fn terms()(
        kind in kind(), scale in scale(), on_lease_expiry in on_lease_expiry(),
        max_hold in span(), forget_after in span(),
    ) -> Terms {
        Terms { kind, scale, on_lease_expiry, max_hold, forget_after }
    }
}

prop_compose! {
    fn answer_line()(
        budget in named(BudgetId::new), period in named(PeriodId::new), given in vector(),
        target in vector(), terms in terms().boxed(),
    ) -> AnswerLine {
        AnswerLine { budget, period, given, target, terms }
    }
}

prop_compose! {
    pub(crate) fn answer()(
        edge in edge(), number in heard(), answers in named(Seq::new), lease in span(),
        verdict in prop::sample::select(vec![Verdict::Open, Verdict::Closed]),
        lines in vec(answer_line().boxed(), 0..4),
    ) -> Answer {
        Answer { edge, number, answers, lease, verdict, lines }
    }
}

pub(crate) fn key() -> impl Strategy<Value = Key> {
    "[a-z0-9]{1,6}(/[a-z0-9]{1,6}){0,3}".prop_map(|text| Key::try_from(text).unwrap())
}

pub(crate) fn pattern() -> impl Strategy<Value = KeyPattern> {
    "[a-z]{1,6}(/([a-z]{1,6}|\\*)){0,4}".prop_map(|text| KeyPattern::try_from(text).unwrap())
}

pub(crate) fn labels() -> impl Strategy<Value = Labels> {
    btree_map("[a-z]{0,8}", "\\PC{0,12}", 0..4)
}

fn written() -> BoxedStrategy<Written> {
    prop_oneof![
        any::<bool>().prop_map(Written::Flag),
        number().prop_map(Written::Whole),
        any::<i64>().prop_map(Written::Signed),
        "\\PC{0,20}".prop_map(Written::Text),
    ]
    .boxed()
}

fn part_draft() -> BoxedStrategy<PartDraft> {
    let written = || option::of(written());
    (written(), written(), written())
        .prop_map(|(rate, burst, permits)| PartDraft {
            rate,
            burst,
            permits,
        })
        .boxed()
}

fn weight_draft() -> BoxedStrategy<WeightDraft> {
    let rule = (labels(), option::of(written()), option::of(written()));
    rule.prop_map(|(labels, weight, band)| WeightDraft {
        labels,
        weight,
        band,
    })
    .boxed()
}

prop_compose! {
    /// Anything that may be written, right or wrong.
    pub(crate) fn draft()(
        key in "\\PC{0,20}",
        one in prop::array::uniform7(option::of(written())),
        two in prop::array::uniform5(option::of(written())),
        weights in vec(weight_draft(), 0..3),
        floor in option::of(part_draft()), ceiling in option::of(part_draft()),
        on_lease_expiry in option::of(prop_oneof![
            "\\PC{0,20}".prop_map(ExpiryDraft::Word),
            part_draft().prop_map(|local| ExpiryDraft::Local { local }),
        ]),
    ) -> BudgetDraft {
        let [rate, burst, quota, offset, align, concurrency, max_hold] = one;
        let [band, allocation, forget_after, headroom, dry_run] = two;
        BudgetDraft {
            key, rate, burst, quota, offset, align, concurrency, max_hold, weights, band, floor,
            ceiling, on_lease_expiry, allocation, forget_after, headroom, dry_run,
        }
    }
}

fn limited() -> BoxedStrategy<BudgetDraft> {
    let text = |text: String| Some(Written::Text(text));
    let span = prop::sample::select(vec!["minute", "day", "month", "36h"]);
    prop_oneof![
        (1..1_000_000_u64, option::of(1..1_000_000_u64)).prop_map(move |(rate, burst)| {
            BudgetDraft {
                rate: text(format!("{rate}/s")),
                burst: burst.map(Written::Whole),
                floor: Some(PartDraft {
                    rate: text("1/s".into()),
                    burst: Some(Written::Whole(1)),
                    permits: None,
                }),
                on_lease_expiry: Some(ExpiryDraft::Word("floor".into())),
                ..BudgetDraft::default()
            }
        }),
        (1..1_u64 << 50, span).prop_map(move |(tokens, span)| BudgetDraft {
            quota: text(format!("{tokens} per {span}")),
            ..BudgetDraft::default()
        }),
        (1..1_000_000_u64, 1..86_400_u64).prop_map(move |(permits, hold)| BudgetDraft {
            concurrency: Some(Written::Whole(permits)),
            max_hold: text(format!("{hold}s")),
            ..BudgetDraft::default()
        }),
    ]
    .boxed()
}

/// A budget, in its own scale or in that of an earlier form of it.
pub(crate) fn budget() -> BoxedStrategy<Budget> {
    let rest = (
        pattern(),
        labels(),
        1..=Weight::MAX,
        0..=9_u64,
        1..1_000_u64,
    );
    let budget = (limited(), rest).prop_map(|(draft, (key, labels, weight, band, forget))| {
        let draft = BudgetDraft {
            key: key.to_string(),
            weights: vec![WeightDraft {
                labels,
                weight: Some(Written::Whole(weight.into())),
                band: None,
            }],
            band: Some(Written::Whole(band)),
            forget_after: Some(Written::Text(format!("{forget}s"))),
            ..draft
        };
        draft.validate().unwrap()
    });
    (budget, 1..8_u64)
        .prop_map(|(budget, coarser)| {
            let grains = budget.scale().grains_per_token() / coarser;
            let scale = Scale::try_from(grains.max(1)).unwrap();
            Budget::restore(&budget.to_draft(), scale).unwrap_or(budget)
        })
        .boxed()
}

fn movement() -> BoxedStrategy<Movement> {
    let movement = (life(), named(BudgetId::new), named(PeriodId::new), vector());
    movement
        .prop_map(|(child, budget, period, total)| Movement {
            child,
            budget,
            period,
            total,
        })
        .boxed()
}

prop_compose! {
    fn changes()(
        round in named(Round::new),
        stamps in vec((named(BudgetId::new), named(PeriodId::new)), 0..3),
        releases in vec(movement(), 0..3), floors in vec(floor_release().boxed(), 0..3),
        reclaims in vec(life(), 0..3),
        forgets in vec((named(BudgetId::new), life()), 0..3),
        grants in vec(movement(), 0..3),
        endings in vec((named(BudgetId::new), any::<bool>()), 0..3),
    ) -> Changes {
        let ending = |(budget, full)| Ending { budget, full };
        let endings = endings.into_iter().map(ending).collect();
        Changes { round, stamps, releases, floors, reclaims, forgets, grants, endings }
    }
}

pub(crate) fn command() -> BoxedStrategy<Command> {
    let request = || named(RequestId::new);
    prop_oneof![
        (named(NodeId::new), request()).prop_map(|(node, request)| Command::Join { node, request }),
        named(NodeId::new).prop_map(|node| Command::Remove { node }),
        (drift(), span()).prop_map(|(drift, lease)| Command::Configure { drift, lease }),
        (request(), budget(), option::of(life())).prop_map(|(request, budget, creator)| {
            Command::PutRule {
                request,
                budget,
                creator,
            }
        }),
        (request(), named(RuleId::new))
            .prop_map(|(request, rule)| Command::DeleteRule { request, rule }),
        ("\\PC{0,20}", option::of(life()))
            .prop_map(|(key, creator)| Command::Instantiate { key, creator }),
        changes().boxed().prop_map(Command::Round),
        (request(), named(BudgetId::new), named(PeriodId::new)).prop_map(
            |(request, budget, period)| Command::ResetPeriod {
                request,
                budget,
                period,
            }
        ),
    ]
    .boxed()
}

/// Vectors of which any few add up.
fn modest() -> BoxedStrategy<Vector> {
    prop::array::uniform6(0..1_u64 << 57)
        .prop_map(Vector::from_array)
        .boxed()
}

fn slot() -> BoxedStrategy<Slot> {
    let counters = (named(PeriodId::new), modest(), modest());
    (counters, span())
        .prop_map(|((period, given, returned), linger)| Slot {
            counters: Counters {
                period,
                given,
                returned,
            },
            linger,
        })
        .boxed()
}

fn kept() -> BoxedStrategy<Kept> {
    (modest(), span(), btree_set(life(), 0..3))
        .prop_map(|(holding, linger, released)| Kept {
            holding,
            linger,
            released,
        })
        .boxed()
}

fn account() -> BoxedStrategy<Account> {
    let head = (kind(), share(), span(), named(PeriodId::new), tokens());
    let edges = (
        btree_map(life(), slot(), 0..4),
        btree_map(life(), kept(), 0..3),
    );
    (head, edges)
        .prop_map(|((kind, whole, linger, period, spent), (open, mut kept))| {
            kept.retain(|life, _| !open.contains_key(life));
            let empty = Account::new(kind, whole, linger);
            empty.restore(period, spent, open, kept).unwrap()
        })
        .boxed()
}

fn generation() -> BoxedStrategy<Generation> {
    let names = (key(), named(RuleId::new), any::<bool>());
    (names, budget(), account())
        .prop_map(|((key, rule, winding), budget, account)| Generation {
            key,
            rule,
            budget,
            account,
            winding,
        })
        .boxed()
}

fn member() -> impl Strategy<Value = Member> {
    let phase = prop::sample::select(vec![Phase::Live, Phase::Leaving]);
    (named(NodeId::new), phase).prop_map(|(node, phase)| Member { node, phase })
}

/// A list in the order of its names, each once.
fn listed<K: Ord, V>(map: BTreeMap<K, V>) -> Vec<(K, V)> {
    map.into_iter().collect()
}

prop_compose! {
    pub(crate) fn snapshot()(
        applied in number(), drift in drift(), lease in span(),
        next in (life(), named(BudgetId::new), named(RuleId::new)),
        members in btree_map(life(), member(), 0..3),
        removed in btree_set(named(NodeId::new), 0..3),
        rules in btree_map(named(RuleId::new), (budget(), any::<bool>()), 0..3),
        budgets in btree_map(named(BudgetId::new), generation(), 0..3),
        requests in vec(named(RequestId::new), 0..5),
    ) -> Snapshot {
        let rules = listed(rules).into_iter();
        let rules = rules.map(|(id, (budget, cold))| (id, Rule { budget, cold })).collect();
        Snapshot {
            applied, drift, lease, rules, requests,
            next_incarnation: next.0, next_budget: next.1, next_rule: next.2,
            members: listed(members), removed: removed.into_iter().collect(),
            budgets: listed(budgets),
        }
    }
}

pub(crate) fn field_error() -> impl Strategy<Value = FieldError> {
    let error = ("[a-z]{1,9}", "\\PC{0,9}", "\\PC{0,9}");
    error.prop_map(|(field, value, allowed)| FieldError {
        field,
        value,
        allowed,
    })
}
