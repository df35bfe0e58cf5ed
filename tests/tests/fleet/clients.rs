//! Clients that are killed or closed, and limits that are lowered while clients hold shares.

use crate::support::{LEASE, alone, ask_for, millis, only_at, setup, together};
use aliquot_client::clock::Span;
use aliquot_client::{Client, Limiter, Reason};
use aliquot_coordinator::demo::supervisor::ReservedPort;
use aliquot_tests::fleet::{Fleet, Load, Offer, Record, SOON, get, hold, now, until};
use rustix::process::Signal;
use std::process::Command;
use std::time::Duration;

const FLOORED: &str = "{ key: shared, rate: 1000/s, burst: 200, \
                       floor: { rate: 20/s, burst: 4 }, on_lease_expiry: floor }";

/// Time until capacity is free again: one lease, one second, and an allowance for a machine that runs all tests
/// at once.
const FREED_WITHIN: Duration =
    millis(LEASE.nanos() / 1_000_000 + 1_000).saturating_add(BUSY_MACHINE);
const BUSY_MACHINE: Duration = millis(2_000);

/// Asks for more than the limit until the held rate is as wanted.
async fn until_holds(
    what: &str,
    within: Duration,
    limiter: &Limiter,
    record: &mut Record,
    wanted: impl Fn(u64) -> bool,
) {
    until(what, within, async || {
        record.also(&ask_for(limiter, millis(40)).await);
        wanted(limiter.peek().rate).then_some(())
    })
    .await;
}

async fn start(budget: &str) -> (Fleet, Client, Limiter) {
    let fleet = setup().start().await;
    fleet.apply(budget).await;
    let client = Client::connect(fleet.addresses()).unwrap();
    let limiter = client.limiter("shared").unwrap();
    (fleet, client, limiter)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_client_frees_all_but_its_floor_after_one_lease() {
    let _machine = together().await;
    let (fleet, _client, limiter) = start(FLOORED).await;
    let mut record = Record::default();
    let service = fleet.service("shared", 900);
    until_holds("both hold a share", SOON, &limiter, &mut record, |rate| {
        (300..700).contains(&rate) && !service.admitted().is_empty()
    })
    .await;
    record.also(&service.kill().await);
    // Everything is free but the floor of the client, which may still run somewhere.
    let all_but_floor = 978..=980;
    until_holds(
        "the rest is free",
        FREED_WITHIN,
        &limiter,
        &mut record,
        |rate| all_but_floor.contains(&rate),
    )
    .await;
    hold(millis(1_500), async || {
        record.also(&ask_for(&limiter, millis(40)).await);
        let rate = limiter.peek().rate;
        assert!(rate <= 980, "{rate}/s, and 20/s may be used elsewhere");
    })
    .await;
    record.keeps_to("1000/s", 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_closes_frees_everything_at_once() {
    let _machine = together().await;
    let (fleet, _client, limiter) = start(FLOORED).await;
    let other = Client::connect(fleet.addresses()).unwrap();
    let also = other.limiter("shared").unwrap();
    let mut record = Record::default();
    until_holds("both hold a share", SOON, &limiter, &mut record, |rate| {
        for _ in 0..40 {
            // Its admissions are recorded below; here it only creates demand.
            let _ = also.try_acquire(10_000);
        }
        (300..700).contains(&rate) && also.peek().rate > 300
    })
    .await;
    assert!(other.close().await, "the node takes it back");
    let at_once = millis(LEASE.nanos() / 1_000_000 / 2);
    until_holds("all is free", at_once, &limiter, &mut record, |rate| {
        rate >= 998
    })
    .await;
    record.keeps_to("1000/s", 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lowered_limit_binds_within_one_lease() {
    let _machine = alone().await;
    let (fleet, _client, _) = start("{ key: shared, rate: 1000/s, burst: 200 }").await;
    let offer = Offer {
        key: "shared".to_owned(),
        clients: 4,
        per_second: 500,
    };
    let load = Load::begin(&fleet.addresses(), &offer);
    until("the load is served", SOON, async || {
        (load.admitted() > 1_500).then_some(())
    })
    .await;
    fleet.apply("{ key: shared, rate: 200/s, burst: 40 }").await;
    let lowered = now();
    let settled = lowered.after(LEASE).after(Span::from_secs(1));
    let mut before = None;
    until("two seconds of it are admitted", SOON, async || {
        if now() < settled {
            return None;
        }
        let before = *before.get_or_insert_with(|| load.admitted());
        (load.admitted() >= before + 2 * 200).then_some(())
    })
    .await;
    let end = now();
    let record = load.end().await;
    record.keeps_to_lowered((1_000, 200), (200, 40), lowered, LEASE);
    let since = record.between(settled, end);
    let most = 200 * end.since(settled).nanos() / 1_000_000_000;
    assert!(
        since.admitted as u64 >= most * 9 / 10,
        "{since:?} of {most}"
    );
}

/// Another client has its share by the time that it wakes up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_was_stopped_for_longer_than_its_lease_admits_nothing_on_it() {
    let _machine = together().await;
    let (fleet, _client, limiter) = start("{ key: shared, rate: 1000/s, burst: 200 }").await;
    let mut record = Record::default();
    let service = fleet.service("shared", 900);
    until_holds("both hold a share", SOON, &limiter, &mut record, |rate| {
        (300..700).contains(&rate) && !service.admitted().is_empty()
    })
    .await;
    service.signal(Signal::STOP);
    until_holds(
        "the rest is free",
        FREED_WITHIN,
        &limiter,
        &mut record,
        |rate| rate >= 998,
    )
    .await;
    let before = service.admitted().len();
    service.signal(Signal::CONT);
    until_holds(
        "both hold a share again",
        SOON,
        &limiter,
        &mut record,
        |rate| rate < 700 && service.admitted().len() > before + 100,
    )
    .await;
    record.also(&service.kill().await);
    record.keeps_to("1000/s", 200);
}

/// A caller that invents keys fills one template, but neither the memory nor the log.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_template_takes_no_more_keys_than_it_may_have() {
    let _machine = together().await;
    let (fleet, client, _) = start("{ key: tenant/*, rate: 1000/s, max_keys: 3 }").await;
    let limiter = |tenant: usize| client.limiter(&format!("tenant/{tenant}")).unwrap();
    let admits = async |tenant: usize| {
        let limiter = limiter(tenant);
        until("its key is served", SOON, async || {
            limiter.acquire(1).await.ok()
        })
        .await;
    };
    for tenant in 0..3 {
        admits(tenant).await;
    }
    let fourth = limiter(3);
    until("the fourth is refused for good", SOON, async || {
        let refused = fourth.acquire(1).await.unwrap_err();
        (refused.reason == Reason::MaxKeys).then_some(())
    })
    .await;
    let node = &fleet.nodes()[0];
    until("the figure is at the maximum", SOON, async || {
        (node.figure("aliquot_budgets").await? == 3.0).then_some(())
    })
    .await;
    until("the nodes hold parts of all three", SOON, async || {
        let mut held = 0.0;
        for node in fleet.nodes() {
            held += node.figure("aliquot_budgets_held").await?;
        }
        (held >= 3.0).then_some(())
    })
    .await;
    admits(0).await;
    fleet
        .apply("{ key: tenant/*, rate: 1000/s, max_keys: 4 }")
        .await;
    admits(3).await;
}

/// An operator who finds a key held asks which clients hold it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_clients_that_hold_a_key_are_shown_with_their_parts() {
    let _machine = together().await;
    let fleet = setup().start().await;
    fleet.apply(FLOORED).await;
    let client = |service: &str| {
        let client = Client::builder().addresses(fleet.addresses());
        client.label("service", service).connect().unwrap()
    };
    let (busy, idle) = (client("busy"), client("idle"));
    let (limiter, other) = (
        busy.limiter("shared").unwrap(),
        idle.limiter("elsewhere").unwrap(),
    );
    let mut record = Record::default();
    until_holds("one has it all", SOON, &limiter, &mut record, |rate| {
        rate >= 998
    })
    .await;
    assert_eq!(other.peek().rate, 0);
    let shown = until("one client is shown", SOON, async || {
        record.also(&ask_for(&limiter, millis(40)).await);
        let holders = fleet
            .cli(&["budget", "holders", "shared", "--clients"])
            .await;
        let clients = holders.json["clients"].as_array()?.clone();
        (clients.len() == 1).then(|| clients[0].clone())
    })
    .await;
    assert_eq!(shown["labels"]["service"], "busy", "{shown}");
    assert!(
        shown["held"]["rate_per_s"].as_f64() >= Some(998.0),
        "{shown}"
    );
    assert!(
        shown["address"].as_str().unwrap().starts_with("127.0.0.1:"),
        "{shown}"
    );
    record.keeps_to("1000/s", 200);
}

/// A process that is killed when it is dropped.
struct Killed(std::process::Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The shell blocks of the README under "Use it", with free ports instead of its own.
struct Readme {
    blocks: Vec<String>,
    ports: Vec<(String, ReservedPort)>,
    dir: tempfile::TempDir,
}

impl Readme {
    fn read() -> Self {
        let text = include_str!("../../../README.md");
        let (_, text) = text.split_once("\n## Use it\n").unwrap();
        let (text, _) = text.split_once("\n## ").unwrap();
        let blocks = text.split("```sh\n").skip(1);
        let blocks = blocks.map(|rest| rest.split("```").next().unwrap().to_owned());
        let ports = (7_001..=7_003).chain(7_101..=7_103).chain(7_201..=7_203);
        let ports = ports.map(|port| {
            let free = ReservedPort::reserve().unwrap();
            (format!("127.0.0.1:{port}"), free)
        });
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(
            env!("CARGO_BIN_EXE_aliquot-under-test"),
            dir.path().join("aliquot"),
        )
        .unwrap();
        Self {
            blocks: blocks.collect(),
            ports: ports.collect(),
            dir,
        }
    }

    /// Returns the block that has these words.
    fn block(&self, words: &str) -> &str {
        let mut blocks = self.blocks.iter().filter(|block| block.contains(words));
        let (found, second) = (blocks.next(), blocks.next());
        assert_eq!(second, None, "{words}");
        found.unwrap_or_else(|| panic!("the README has no block with {words}"))
    }

    fn shell(&self, script: &str) -> Command {
        let mut script = script.to_owned();
        for (port, free) in &self.ports {
            script = script.replace(port, &free.address().to_string());
        }
        let mut command = Command::new("sh");
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("ALIQUOT_")) {
            command.env_remove(name);
        }
        let path = std::env::var("PATH").unwrap();
        command
            .args(["-ec", &script])
            .current_dir(self.dir.path())
            .env("PATH", format!("{}:{path}", self.dir.path().display()))
            // The default of the program is the port of the README.
            .env("ALIQUOT_ENDPOINTS", self.ports[0].1.address().to_string());
        command
    }

    /// Runs a script to its end, and returns what it prints.
    fn run(&self, script: &str) -> String {
        let output = self.shell(script).output().unwrap();
        let (printed, said) = (output.stdout, output.stderr);
        let [printed, said] = [printed, said].map(|bytes| String::from_utf8(bytes).unwrap());
        assert!(output.status.success(), "{script}\n{printed}\n{said}");
        printed
    }
}

/// Runs the commands of a newcomer as they stand, but for the ports.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_commands_of_the_readme_work() {
    let _machine = together().await;
    let readme = Readme::read();
    let serve = readme.block("aliquot serve --listen");
    let mut nodes = Vec::new();
    for number in 1..=3 {
        // "Run the same with" these ports and another directory.
        let mut script = format!("exec {serve}");
        for (flag, port) in [
            ("--listen", 70),
            ("--peer-listen", 71),
            ("--metrics-listen", 72),
        ] {
            let own = format!("{flag} 127.0.0.1:{port}01");
            assert!(script.contains(&own), "{own} in {script}");
            script = script.replace(&own, &format!("{flag} 127.0.0.1:{port}0{number}"));
        }
        script = script.replace("node-1", &format!("node-{number}"));
        let log = std::fs::File::create(readme.dir.path().join(format!("log-{number}")));
        let node = readme.shell(&script).stderr(log.unwrap()).spawn();
        nodes.push(Killed(node.unwrap()));
    }
    for (_, metrics) in &readme.ports[6..] {
        until("a node is ready", SOON, async || {
            let answer = get(&metrics.address().to_string(), "/readyz").await;
            matches!(answer, Some((200, _))).then_some(())
        })
        .await;
    }
    let steps = readme.block("aliquot budget apply");
    let printed = readme.run(steps);
    assert!(printed.contains("tenant/42/reads"), "{printed}");
    let check = steps
        .lines()
        .find(|line| line.starts_with("aliquot check "));
    let (_, key) = check.unwrap().rsplit_once(' ').unwrap();
    let top = steps.lines().find(|line| line.starts_with("aliquot top"));
    let top = readme.run(&format!("{} --json", top.unwrap()));
    let top: serde_json::Value = serde_json::from_str(&top).unwrap();
    let keys = top["keys"].as_array().unwrap();
    assert!(keys.iter().any(|shown| shown["key"] == key), "{top}");
}

/// Two clients at two nodes want more than the limit. The demand of one moves between its callers back and forth, and
/// its total stays: with five callers that want the same it gets five of six parts, and with one that wants nearly all
/// about half.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_share_follows_a_demand_that_moves_among_callers() {
    const MOVES: usize = 10;
    let _machine = alone().await;
    let fleet = setup().start().await;
    fleet.apply("{ key: shared, rate: 600/s, burst: 60 }").await;
    let clients = [0, 1].map(|node| only_at(&fleet.nodes()[node].client));
    let limiters = clients
        .each_ref()
        .map(|client| client.limiter("shared").unwrap());
    let (even, uneven) = ([200; 5], [960, 10, 10, 10, 10]);
    limiters[0].set_callers(&even);
    let asking = limiters.clone().map(|limiter| {
        tokio::spawn(async move {
            loop {
                ask_for(&limiter, millis(1_000)).await;
            }
        })
    });
    let other = &limiters[1];
    until("five callers get five of six parts", SOON, async || {
        (other.peek().rate <= 130).then_some(())
    })
    .await;
    let mut took = Vec::new();
    for turn in 0..MOVES {
        // The report of the former state is over.
        tokio::time::sleep(millis(1_500)).await;
        let (callers, wanted) = match turn % 2 {
            0 => (&uneven, 250..=400),
            _ => (&even, 0..=130),
        };
        let begun = now();
        limiters[0].set_callers(callers);
        let moved = async {
            while !wanted.contains(&other.peek().rate) {
                tokio::time::sleep(millis(1)).await;
            }
        };
        let moved = tokio::time::timeout(SOON, moved).await;
        assert!(
            moved.is_ok(),
            "{turn}: {}/s of {wanted:?}",
            other.peek().rate
        );
        took.push(now().since(begun).nanos() / 1_000_000);
    }
    println!("milliseconds until the share moved: {took:?}");
    asking.iter().for_each(tokio::task::JoinHandle::abort);
}
