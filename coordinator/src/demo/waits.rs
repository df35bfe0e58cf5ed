//! Time for which the demo's processes waited for a processor.
//!
//! A thread without work is woken at once even by a busy machine, so it does not tell how slow threads with work are.
//! Linux counts for each thread how long it ran, and how long it waited although it could have run
//! (`/proc/PID/task/TID/schedstat`). Nothing is known on other systems.

use aliquot_core::unit::{Span, Tick};
use std::collections::BTreeMap;
use std::fs;

/// Times that all threads of some processes together ran and waited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Times {
    ran: u64,
    waited: u64,
}

/// Times of all threads between two looks, with the time of the later look, in the order of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waits(Vec<(Tick, Times)>);

impl Waits {
    /// Returns the waits of looks at these times, each with the time that all threads ran and the time that they
    /// waited since the look before.
    #[must_use]
    pub fn new(looks: impl IntoIterator<Item = (Tick, Span, Span)>) -> Self {
        let times = looks.into_iter().map(|(at, ran, waited)| {
            let (ran, waited) = (ran.nanos(), waited.nanos());
            (at, Times { ran, waited })
        });
        Self(times.collect())
    }

    /// Returns for how long the threads waited for each second that they ran, by the looks in `[from, to)`. Returns
    /// `None` if they did not run, or if the system does not tell.
    #[must_use]
    pub fn for_each_second(&self, from: Tick, to: Tick) -> Option<Span> {
        let looks = self.0.iter().filter(|(at, _)| from <= *at && *at < to);
        let sum = |of: fn(&Times) -> u64| {
            looks
                .clone()
                .map(|(_, times)| u128::from(of(times)))
                .sum::<u128>()
        };
        let (ran, waited) = (sum(|times| times.ran), sum(|times| times.waited));
        let each = waited.saturating_mul(1_000_000_000).checked_div(ran)?;
        Some(Span::from_nanos(u64::try_from(each).unwrap_or(u64::MAX)))
    }
}

/// The threads of processes, as they were at the last look.
#[derive(Debug, Default)]
pub(super) struct WaitWatch {
    last: BTreeMap<(u32, u32), Times>,
    begun: bool,
    waits: Waits,
}

impl WaitWatch {
    /// Looks at the threads of these processes. The first look only begins: what they did before does not count.
    pub(super) fn look(&mut self, now: Tick, processes: impl IntoIterator<Item = u32>) {
        let mut since = Times::default();
        for process in processes {
            for (thread, times) in threads(process) {
                let last = self
                    .last
                    .insert((process, thread), times)
                    .unwrap_or_default();
                since.ran += times.ran.saturating_sub(last.ran);
                since.waited += times.waited.saturating_sub(last.waited);
            }
        }
        if self.begun {
            self.waits.0.push((now, since));
        }
        self.begun = true;
    }

    /// Returns the waits of all looks.
    pub(super) fn end(self) -> Waits {
        self.waits
    }
}

/// Returns the times of each thread of a process: nothing if it is gone, or if the system does not tell.
fn threads(process: u32) -> Vec<(u32, Times)> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{process}/task")) else {
        return Vec::new();
    };
    let tasks = tasks.filter_map(|task| {
        let task = task.ok()?;
        let thread = task.file_name().to_str()?.parse().ok()?;
        let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
        Some((thread, parse(&text)?))
    });
    tasks.collect()
}

/// Reads the first two of the numbers of a line: nanoseconds of running and of waiting.
fn parse(schedstat: &str) -> Option<Times> {
    let mut numbers = schedstat.split_ascii_whitespace();
    let mut next = || numbers.next()?.parse().ok();
    let (ran, waited) = (next()?, next()?);
    Some(Times { ran, waited })
}

#[cfg(test)]
#[path = "../../tests/unit/demo/waits.rs"]
mod tests;
