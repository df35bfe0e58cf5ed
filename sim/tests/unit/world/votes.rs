use super::*;

/// Delivers messages until no log has any left to send.
fn talk(logs: &mut [Log], now: u64) {
    loop {
        let mut said = false;
        for from in 0..logs.len() {
            for (to, message) in std::mem::take(&mut logs[from].out) {
                said = true;
                // The third log does not exist and never answers.
                if let Some(log) = logs.get_mut(to) {
                    log.handle(from, &message, now);
                }
            }
        }
        if !said {
            return;
        }
    }
}

/// The first log has the best entries. The second has been a candidate once more, in a term of which no
/// other log has heard. The third is down, so both others are needed for a quorum.
#[test]
fn the_best_log_wins_though_another_has_a_higher_term() {
    let mut logs = [0, 1].map(|me| Log::new(me, 3, 20));
    for log in &mut logs {
        log.term = 5;
    }
    logs[0].entries.push(Entry {
        term: 5,
        command: None,
    });
    logs[1].term = 6;
    for round in 1..10_u64 {
        let now = round * 100;
        let patient = (round % 2) as usize;
        logs[patient].heard = now;
        logs[1 - patient].tick(now, 20);
        talk(&mut logs, now);
        if logs[0].is_leader() {
            return;
        }
    }
    panic!("no node leads: {logs:?}");
}
