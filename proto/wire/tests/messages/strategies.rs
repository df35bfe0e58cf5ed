//! Strategies for values of every kind that is sent.

mod budgets;
mod log;

pub(crate) use budgets::{budget, draft, field_error, key, labels, pattern};
pub(crate) use log::{command, snapshot};

use aliquot_core::allocate::{self, Headroom, Policy};
use aliquot_core::budget::{Enforcement, OnLeaseExpiry};
use aliquot_core::demand::DemandCurve;
use aliquot_core::edge::Vector;
use aliquot_core::message::{
    Answer, AnswerLine, BandDemand, FloorRelease, Heard, Intent, PeriodRest, Report, ReportLine,
    Terms, Verdict, WrittenLimit,
};
use aliquot_core::share::{Kind, Share};
use aliquot_core::unit::Band;
use aliquot_core::unit::{
    BudgetId, Drift, Edge, Incarnation, Number, PeriodId, Rate, Scale, Seq, Span, Term, Tokens,
    Weight,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

/// Numbers of every length on the wire, and often zero.
pub(crate) fn number() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), 0..1000_u64, any::<u64>()]
}

pub(crate) fn named<T: std::fmt::Debug>(name: fn(u64) -> T) -> impl Strategy<Value = T> {
    number().prop_map(name)
}

pub(crate) fn tokens() -> impl Strategy<Value = Tokens> {
    named(Tokens::from_grains)
}

pub(crate) fn span() -> impl Strategy<Value = Span> {
    named(Span::from_nanos)
}

pub(crate) fn incarnation() -> impl Strategy<Value = Incarnation> {
    named(Incarnation::new)
}

pub(crate) fn drift() -> impl Strategy<Value = Drift> {
    (0..=Drift::PPM_MAX).prop_map(|ppm| Drift::from_ppm(ppm).unwrap())
}

pub(crate) fn scale() -> impl Strategy<Value = Scale> {
    (0..=56_u32).prop_map(|power| Scale::try_from(1_u64 << power).unwrap())
}

pub(crate) fn edge() -> impl Strategy<Value = Edge> {
    (incarnation(), incarnation()).prop_map(|(parent, child)| Edge { parent, child })
}

pub(crate) fn vector() -> BoxedStrategy<Vector> {
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

pub(crate) fn heard() -> impl Strategy<Value = Heard> {
    (named(Term::new), named(Number::new)).prop_map(|(term, number)| Heard { term, number })
}

pub(crate) fn kind() -> impl Strategy<Value = Kind> {
    prop::sample::select(vec![Kind::Rate, Kind::Quota, Kind::Concurrency])
}

pub(crate) fn curve() -> impl Strategy<Value = DemandCurve> {
    let one = (0..1_u64 << 50, 1..=Weight::MAX);
    let one =
        one.prop_map(|(demand, weight)| DemandCurve::of(demand, Weight::new(weight).unwrap()));
    vec(one, 0..6).prop_map(|curves| {
        let sum = |sum: DemandCurve, curve| sum.plus(curve).unwrap();
        curves.iter().fold(DemandCurve::EMPTY, sum)
    })
}

pub(crate) fn band_demand() -> BoxedStrategy<BandDemand> {
    let band = (0..=Band::MAX).prop_map(|band| Band::new(band).unwrap());
    (band, curve())
        .prop_map(|(band, curve)| BandDemand { band, curve })
        .boxed()
}

prop_compose! {
    pub(crate) fn report_line()(
        budget in named(BudgetId::new), period in named(PeriodId::new), returned in vector(),
        demand in vec(band_demand(), 0..3), floor in share(), largest_wait in tokens(),
        admitted in tokens(), denied in tokens(),
    ) -> ReportLine {
        let tally = aliquot_core::message::Tally { admitted, denied };
        ReportLine { budget, period, returned, demand, floor, largest_wait, tally }
    }
}

prop_compose! {
    pub(crate) fn floor_release()(
        budget in named(BudgetId::new), former in edge(), floor in share(),
    ) -> FloorRelease {
        FloorRelease { budget, former, floor }
    }
}

prop_compose! {
    pub(crate) fn report()(
        edge in edge(), seq in named(Seq::new), basis in named(Seq::new), heard in heard(), seen in heard(), wall_ms in any::<i64>(),
        intent in prop::sample::select(vec![Intent::Stay, Intent::Leave]),
        lines in vec(report_line().boxed(), 0..4), floors in vec(floor_release().boxed(), 0..3),
    ) -> Report {
        Report { edge, seq, basis, heard, seen, wall_ms, intent, lines, floors }
    }
}

pub(crate) fn on_lease_expiry() -> BoxedStrategy<OnLeaseExpiry> {
    prop_oneof![
        Just(OnLeaseExpiry::Deny),
        Just(OnLeaseExpiry::Floor),
        Just(OnLeaseExpiry::Keep),
        share().prop_map(OnLeaseExpiry::Local),
        Just(OnLeaseExpiry::Open),
    ]
    .boxed()
}

fn dividing() -> impl Strategy<Value = allocate::Terms> {
    let policies = vec![
        Policy::MaxMin,
        Policy::Static,
        Policy::Equal,
        Policy::Proportional,
    ];
    let headrooms = vec![Headroom::ByWeight, Headroom::Kept];
    let both = (
        prop::sample::select(policies),
        prop::sample::select(headrooms),
    );
    both.prop_map(|(policy, headroom)| allocate::Terms { policy, headroom })
}

prop_compose! {
    pub(crate) fn terms()(
        kind in kind(), scale in scale(), on_lease_expiry in on_lease_expiry(),
        max_hold in span(), forget_after in span(), central_mode in any::<bool>(),
        largest in tokens(), rate in any::<u64>(),
        floor in share(), ceiling in option::of(share()), dividing in dividing(),
        written in option::of((any::<u64>(), 1..=u64::MAX)),
        enforcement in prop::sample::select(vec![Enforcement::Enforced, Enforcement::DryRun]),
    ) -> Terms {
        let written = written.map(|(tokens, nanos)| WrittenLimit { tokens, per: Span::from_nanos(nanos) });
        Terms { kind, scale, on_lease_expiry, max_hold, forget_after, floor, ceiling, dividing, central_mode, largest, rate: Rate::from_grains(rate), written, enforcement }
    }
}

prop_compose! {
    pub(crate) fn answer_line()(
        budget in named(BudgetId::new), period in named(PeriodId::new), given in vector(),
        target in vector(), terms in terms().boxed(), rest in option::of((span(), any::<bool>())),
    ) -> AnswerLine {
        AnswerLine { budget, period, given, target, terms, rest: rest.map(|(ends_in, exhausted)| PeriodRest { ends_in, exhausted }) }
    }
}

prop_compose! {
    pub(crate) fn answer()(
        edge in edge(), number in heard(), answers in named(Seq::new), taken in named(Seq::new), lease in span(),
        verdict in prop::sample::select(vec![Verdict::Open, Verdict::Closed]),
        lines in vec(answer_line().boxed(), 0..4),
    ) -> Answer {
        Answer { edge, number, answers, taken, lease, verdict, lines }
    }
}
