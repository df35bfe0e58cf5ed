//! Several keys at once, in rounds, so that no fetch waits for the end of another one's.

use super::Keyed;
use super::name::by_words;
use crate::refused::Refused;
use aliquot_core::unit::Tick;

impl Keyed {
    /// How many keys are worked on at once, so that their memory is fetched together.
    const BATCH: usize = 16;

    /// Takes `n` for each of these keys, of class 0, each on its own, and writes the answers
    /// into `answers`, as many as there are of both. One clock reading serves all, and the
    /// memory of several keys is fetched at once. A key may be charged before others that stand before it; one that
    /// is there twice is charged in that order, unless another thread brings that key meanwhile.
    pub fn try_each(&self, asked: &[(&str, u64)], answers: &mut [Result<(), Refused>]) {
        self.try_each_at(asked, answers, self.clock.now());
    }

    /// [`Keyed::try_each`] at a reading of its clock.
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
        // A few in a hundred are not at home, or new: those come last, so that what they wait for comes meanwhile.
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

    /// The same for those that are not at home.
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
