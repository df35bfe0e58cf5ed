//! Decisions on several keys at once, in rounds, so that their memory is fetched in parallel.

use super::Keyed;
use super::name::by_words;
use crate::limiter::refused::Refused;
use aliquot_core::unit::Tick;

impl Keyed {
    /// Number of keys in one round.
    const BATCH: usize = 16;

    /// Takes tokens of several keys of class 0, each on its own, and writes the answer for `asked[i]` to
    /// `answers[i]`. If one slice is shorter, the rest of the other is ignored.
    ///
    /// One clock reading serves all keys, and their memory is fetched in parallel. A key may be charged
    /// before others that precede it. A key that occurs twice is charged in order, unless another thread adds
    /// that key at the same time.
    pub fn try_each(&self, asked: &[(&str, u64)], answers: &mut [Result<(), Refused>]) {
        self.try_each_at(asked, answers, self.clock.now());
    }

    /// [`Keyed::try_each`] at `now`, a reading of the store's clock.
    pub fn try_each_at(
        &self,
        asked: &[(&str, u64)],
        answers: &mut [Result<(), Refused>],
        now: Tick,
    ) {
        for (asked, answers) in asked
            .chunks(Self::BATCH)
            .zip(answers.chunks_mut(Self::BATCH))
        {
            self.try_few_at(asked, answers, now);
        }
    }

    #[inline(always)]
    fn try_few_at(&self, asked: &[(&str, u64)], answers: &mut [Result<(), Refused>], now: Tick) {
        let mut hashes = [0; Self::BATCH];
        for (hash, (key, _)) in hashes.iter_mut().zip(asked) {
            *hash = by_words!(key, W => self.table.maker().name::<W>(0, key).hash);
            self.table.home(*hash).fetch_tags();
        }
        let mut lines = [None; Self::BATCH];
        for (line, &hash) in lines.iter_mut().zip(&hashes).take(asked.len()) {
            *line = self.table.fetch_at_home(hash);
        }
        // A few in a hundred keys are not in their first group, or are new. They come last, so that their
        // memory arrives in the meantime.
        let mut away = 0_u32;
        for (at, ((key, n), answer)) in asked.iter().zip(answers.iter_mut()).enumerate() {
            match lines[at] {
                Some(line) => {
                    *answer = by_words!(key, W => self.ask_at::<W>(line, key, *n, now));
                }
                None => away |= 1 << at,
            }
        }
        if away != 0 {
            self.try_away(asked, answers, &hashes, away, now);
        }
    }

    /// Decides on the keys that are not in their first group.
    #[inline(never)]
    fn try_away(
        &self,
        asked: &[(&str, u64)],
        answers: &mut [Result<(), Refused>],
        hashes: &[u64; Self::BATCH],
        away: u32,
        now: Tick,
    ) {
        let those = || (0..asked.len()).filter(|at| away >> at & 1 == 1);
        let mut lines = [None; Self::BATCH];
        for at in those() {
            lines[at] = self.table.fetch_away(hashes[at]);
        }
        for at in those() {
            let (key, n) = asked[at];
            answers[at] = match lines[at] {
                Some(line) => by_words!(key, W => self.ask_at::<W>(line, key, n, now)),
                None => self.ask_all(0, key, n, now),
            };
        }
    }
}
