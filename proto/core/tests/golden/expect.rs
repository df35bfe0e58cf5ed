//! Expectations that no invariant states as a number.

use super::script::Done;
use super::stage::Stage;
use aliquot_core::share::Kind;

/// Checks `expect c1 rate >= 90`: of a client `rate`, `burst`, `level`, `permits` or `lease` (ms); of a node
/// `lease`, `rate`, `burst` or `floor`; of the book `free`.
pub(super) fn expect(stage: &mut Stage, words: &[&str]) -> Done {
    let [who, what, relation, bound] = words else {
        return Err("expect who what relation bound".into());
    };
    let bound: u64 = bound.parse().map_err(|_| "no number")?;
    let value = value(stage, who, what).ok_or("nothing to expect of")?;
    let holds = match *relation {
        ">=" => value >= bound,
        "<=" => value <= bound,
        "=" => value == bound,
        _ => return Err("no relation".into()),
    };
    stage.say(match holds {
        true => format!("so it is: {value}"),
        false => format!("BROKEN: {who} {what} is {value}"),
    });
    Ok(())
}

fn value(stage: &mut Stage, who: &str, what: &str) -> Option<u64> {
    let id = stage.budget?;
    let (scale, kind) = stage.scale_of(id)?;
    let whole = |grains: u64| grains / scale.grains_per_token();
    let now = stage.now;
    if let Some(process) = stage.clients.get(who) {
        let tick = process.clock.at(now);
        let (_, allotment) = process.client.allotments().find(|(of, _)| *of == id)?;
        let share = allotment.share_at(tick);
        let holder = process.client.holder();
        return Some(match what {
            "rate" => whole(share.rate.grains()),
            "burst" => whole(share.burst.grains()),
            "level" => whole(share.tokens.grains()),
            "permits" => allotment.permits().held().grains(),
            "waits" => u64::from(process.wants.is_some()),
            "lease" => holder.map_or(0, |holder| {
                holder.lease().until().since(tick).nanos() / super::stage::MILLI
            }),
            _ => return None,
        });
    }
    if who == "book" {
        let host = stage.hosts.get(&stage.lead)?;
        let free = host.state.budget(id)?.account.free();
        return Some(match kind {
            Kind::Rate => whole(free.rate.grains()),
            Kind::Quota => whole(free.tokens.grains()),
            Kind::Concurrency => free.burst.grains(),
        });
    }
    let host = stage.hosts.get(who)?;
    let node = host.node.as_ref()?;
    let holding = node.holder().holding(id);
    Some(match what {
        "rate" => whole(holding.rate.grains()),
        "burst" => whole(holding.burst.grains()),
        "floor" => whole(holding.floor_rate.grains()),
        "lease" => {
            let tick = host.clock.at(now);
            let until = node.holder().lease().until();
            until.since(tick).nanos() / super::stage::MILLI
        }
        _ => return None,
    })
}
