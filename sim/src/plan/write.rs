//! Writes a seed's plan as a scenario of its own.
//!
//! All values drawn for the plan become explicit. Only messages and arrivals are still drawn at random.

use super::Plan;
use crate::scenario::kinds::{FaultKind, KEYS};
use crate::scenario::{Fault, Group, LOAD_KEYS, Scenario, Shape, Target, Verb};
use aliquot_core::unit::Span;
use toml::{Table, Value};

fn span(nanos: u64) -> Value {
    Value::String(Span::from_nanos(nanos).to_string())
}

fn shift(nanos: i64) -> Value {
    let sign = if nanos < 0 { "-" } else { "" };
    Value::String(format!("{sign}{}", Span::from_nanos(nanos.unsigned_abs())))
}

/// Writes a rate as a whole number of requests per 1,000,000 s, which keeps six decimals.
fn rate(per_second: f64) -> Value {
    Value::String(format!("{} per 1000000s", (per_second * 1e6).round()))
}

fn targets(targets: &[Target]) -> Value {
    Value::Array(
        targets
            .iter()
            .map(|target| Value::String(target.to_string()))
            .collect(),
    )
}

/// Writes a fault as a table.
#[must_use]
pub fn fault(fault: &Fault) -> Table {
    let mut table = Table::new();
    let mut put = |name: &str, value: Value| drop(table.insert(name.to_owned(), value));
    put("kind", Value::String(fault.kind.to_owned()));
    put("at", span(fault.at));
    put("for", span(fault.lasts));
    if !fault.target.is_empty() {
        put("target", targets(&fault.target));
    }
    if !fault.to.is_empty() {
        put("to", targets(&fault.to));
    }
    put("with_clients", Value::Boolean(fault.with_clients));
    put("amount", Value::Float(fault.amount));
    put("by", shift(fault.by));
    put("ppm", Value::Float(fault.ppm as f64));
    put("period", span(fault.period));
    put(
        "clock",
        Value::String(if fault.wall { "wall" } else { "boot" }.to_owned()),
    );
    put("change", Value::String(fault.change.name().to_owned()));
    put("part", Value::String(fault.part.name().to_owned()));
    if !fault.set.is_empty() {
        put("set", Value::Table(fault.set.clone()));
    }
    let used = FaultKind::named(fault.kind).map(FaultKind::keys);
    for name in KEYS {
        if used.as_ref().is_some_and(|used| !used.contains(name)) {
            table.remove(*name);
        }
    }
    table
}

/// Writes a group's load into its table.
fn load(table: &mut Table, group: &Group) {
    // The keys of the original's shape and loop have no effect on others.
    if !matches!(group.shape, Shape::Trace(_)) {
        LOAD_KEYS.iter().for_each(|name| drop(table.remove(*name)));
    }
    for name in ["flows", "waiting", "verb"] {
        table.remove(name);
    }
    let mut put = |name: &str, value: Value| drop(table.insert(name.to_owned(), value));
    let word = |text: &str| Value::String(text.to_owned());
    put("name", word(&group.name));
    if let Some(key) = &group.key {
        put("key", word(key));
    }
    if let Some(keys) = &group.keys {
        put("keys", Value::Integer(keys.count as i64));
        put("skew", word(&keys.skew));
    }
    put("count", Value::Integer(group.count as i64));
    put("times", Value::Float(group.times));
    put(
        "arrivals",
        word(if group.in_step { "constant" } else { "poisson" }),
    );
    put("verb", word(group.verb.word()));
    match group.flows {
        Some(flows) => {
            put("loop", word("closed"));
            put("flows", Value::Integer(flows as i64));
        }
        None => {
            put("loop", word("open"));
            if group.verb == Verb::Acquire {
                put("waiting", Value::Integer(group.waiting as i64));
            }
        }
    }
    for (name, value) in shape(&group.shape) {
        put(name, value);
    }
}

/// Returns the keys of a load's shape. A trace keeps the keys of the original file.
fn shape(shape: &Shape) -> Vec<(&'static str, Value)> {
    let (word, keys) = match shape {
        Shape::Constant => ("constant", vec![]),
        Shape::Ramp { to, at, over } => ("ramp", moves(*to, *at, Some(*over))),
        Shape::Step { to, at } => ("step", moves(*to, *at, None)),
        Shape::Spike { to, at, over } => ("spike", moves(*to, *at, Some(*over))),
        Shape::FlashCrowd { to, at, over } => ("flash_crowd", moves(*to, *at, Some(*over))),
        Shape::Sine { swing, over } => ("sine", swings(*swing, *over)),
        Shape::Walk { swing, over } => ("walk", swings(*swing, *over)),
        Shape::Pareto { alpha } => ("pareto", vec![("alpha", Value::Float(*alpha))]),
        Shape::OnOff { on, off, at } => {
            let keys = vec![("on", span(*on)), ("off", span(*off)), ("at", span(*at))];
            ("on_off", keys)
        }
        Shape::Trace(_) | Shape::Arrivals(_) => return Vec::new(),
    };
    let word = ("shape", Value::String(word.to_owned()));
    std::iter::once(word).chain(keys).collect()
}

fn moves(to: f64, at: u64, over: Option<u64>) -> Vec<(&'static str, Value)> {
    let mut keys = vec![("to", rate(to)), ("at", span(at))];
    keys.extend(over.map(|over| ("over", span(over))));
    keys
}

fn swings(swing: f64, over: u64) -> Vec<(&'static str, Value)> {
    vec![("swing", Value::Float(swing)), ("over", span(over))]
}

/// Writes the plan as a scenario. If `asserts` is set, it keeps the assertions of the original.
#[must_use]
pub fn plan(original: &Scenario, plan: &Plan, asserts: bool) -> String {
    let mut root: Table = original.text.parse().unwrap_or_default();
    root.remove("swarm");
    if !asserts {
        root.remove("assert");
    }
    let drawn = &plan.scenario;
    let section = |root: &mut Table, name: &str| {
        let entry = root.remove(name);
        entry
            .and_then(|value| value.try_into::<Table>().ok())
            .unwrap_or_default()
    };
    let mut run = section(&mut root, "run");
    run.insert("duration".into(), span(drawn.run.duration));
    run.insert("heal".into(), span(plan.heal()));
    run.insert("seeds".into(), Value::Integer(plan.seed as i64));
    root.insert("run".into(), Value::Table(run));
    let mut topology = section(&mut root, "topology");
    topology.insert("nodes".into(), Value::Integer(drawn.topology.nodes as i64));
    root.insert("topology".into(), Value::Table(topology));
    if let Some(Value::Array(written)) = root.get_mut("clients") {
        let names = original.clients.iter().map(|group| &group.name);
        let tables = std::mem::take(written).into_iter().zip(names);
        for (mut table, name) in tables {
            let kept = drawn.clients.iter().find(|group| group.name == *name);
            if let (Some(group), Value::Table(table)) = (kept, &mut table) {
                load(table, group);
            }
            written.extend(kept.map(|_| table));
        }
    }
    if let Some(Value::Array(written)) = root.get_mut("budget") {
        let kept = |key: &str| drawn.budgets.iter().any(|(draft, _)| draft.key == key);
        written.retain(|table| table.get("key").and_then(Value::as_str).is_none_or(kept));
    }
    let faults: Vec<Value> = plan
        .faults
        .iter()
        .map(|of| Value::Table(fault(of)))
        .collect();
    root.insert("fault".into(), Value::Array(faults));
    toml::to_string(&root).unwrap_or_default()
}
