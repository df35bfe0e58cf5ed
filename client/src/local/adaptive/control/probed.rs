//! A limit beside the latency that calls have without a queue.

use super::super::log_mean::LogMean;
use super::failure_backoff::FailureBackoff;
use super::{Bounds, KEEP, Sample, is_used};
use std::time::Duration;

/// A limit that is halved for one block of calls now and then, to measure the latency without a queue.
#[derive(Clone, Debug)]
pub(super) struct Probed {
    backoff: FailureBackoff,
    block: Block,
    is_probing: bool,
    /// Mean logarithm of the latency in the last probe.
    base: f64,
    /// The limit at the last probe.
    probed_at: f64,
    /// Blocks since the last probe.
    blocks: u32,
}

impl Probed {
    /// Part of the limit that is in force during a probe.
    const PROBE: f64 = 0.5;
    /// Blocks from one probe to the next.
    const BLOCKS: u32 = 30;
    /// A limit below this part of that at the last probe is probed at once.
    const FALLEN: f64 = 0.6;

    pub(super) const fn new(bounds: Bounds) -> Self {
        Self {
            backoff: FailureBackoff::new(bounds),
            block: Block::after(0.0),
            is_probing: false,
            base: 0.0,
            probed_at: 0.0,
            // The first block tells nothing by itself, so the second one is a probe.
            blocks: Self::BLOCKS,
        }
    }

    /// Returns the limit in force.
    pub(super) fn limit(&self) -> u64 {
        let limit = self.backoff.limit;
        if self.is_probing {
            return self.backoff.bounds.clip(limit * Self::PROBE) as u64;
        }
        limit as u64
    }

    pub(super) fn add(&mut self, step: f64) {
        self.backoff.add(step);
    }

    /// Learns from a call. At the end of a block that was no probe, returns the latency without a queue as a
    /// part of the block's latency, at most one.
    pub(super) fn sample(&mut self, sample: &Sample) -> Option<f64> {
        let limit = self.limit() as f64;
        if sample.failed {
            if self.backoff.fail(sample, KEEP) {
                self.block = Block::after(limit);
            }
            return None;
        }
        if self.block.is_early() || !is_used(sample.in_flight as f64, limit) {
            return None;
        }
        let mean = self.block.add(sample.latency, limit)?;
        self.block = Block::after(limit);
        self.judge(limit, mean)
    }

    fn judge(&mut self, limit: f64, mean: f64) -> Option<f64> {
        if self.is_probing || limit <= self.backoff.bounds.least as f64 {
            self.base = mean;
            self.probed_at = self.backoff.limit;
            self.blocks = 0;
            let was_probing = std::mem::take(&mut self.is_probing);
            return if was_probing { None } else { Some(1.0) };
        }
        self.blocks += 1;
        if self.blocks > Self::BLOCKS || limit < Self::FALLEN * self.probed_at {
            self.is_probing = true;
            return None;
        }
        Some((self.base - mean).exp().min(1.0))
    }
}

/// Latencies of a block of calls.
#[derive(Clone, Debug)]
struct Block {
    /// Calls before it that may have begun under another limit.
    early: f64,
    logs: LogMean,
}

impl Block {
    /// Standard error of the mean, as a part of the latency, at which a block is complete.
    const ERROR: f64 = 0.04;
    const LEAST: f64 = 20.0;
    const MOST: f64 = 5_000.0;

    /// Returns a block that begins after this many calls.
    const fn after(early: f64) -> Self {
        let logs = LogMean::new();
        Self { early, logs }
    }

    /// Counts a call down if it comes before the block, and returns true.
    fn is_early(&mut self) -> bool {
        let is_early = self.early >= 1.0;
        self.early -= f64::from(u8::from(is_early));
        is_early
    }

    /// Adds a call. Returns the mean logarithm if the block is complete.
    fn add(&mut self, latency: Duration, limit: f64) -> Option<f64> {
        self.logs.add(latency);
        let calls = self.logs.calls();
        let is_precise = self.logs.error() <= Self::ERROR || calls >= Self::MOST;
        (is_precise && calls >= limit.max(Self::LEAST)).then_some(self.logs.mean())
    }
}
