//! The textbook rules of allocation, with every division written out and every order sorted, as a reference.

use super::band;
use aliquot_core::allocate::Claimant;
use aliquot_core::demand::WEIGHT_ONE;
use aliquot_core::share::apportion;

/// Textbook water-filling: by rising `d/w`, each claimant gets the lesser of its demand and its part of the
/// rest.
pub(crate) fn naive_plain(capacity: u64, claimants: &[(u64, u64)]) -> Vec<u64> {
    let mut order: Vec<usize> = (0..claimants.len()).collect();
    let wide = |a: u64, b: u64| u128::from(a) * u128::from(b);
    order.sort_by(|&i, &j| {
        wide(claimants[i].0, claimants[j].1).cmp(&wide(claimants[j].0, claimants[i].1))
    });
    let mut parts = vec![0; claimants.len()];
    let mut left = capacity;
    let mut open: u64 = claimants.iter().map(|&(_, weight)| weight).sum();
    for (met, &i) in order.iter().enumerate() {
        let (demand, weight) = claimants[i];
        if wide(demand, open) > wide(left, weight) {
            let mut rest = order[met..].to_vec();
            rest.sort();
            let weights: Vec<u64> = rest.iter().map(|&i| claimants[i].1).collect();
            for (&i, part) in rest.iter().zip(apportion(left, &weights)) {
                parts[i] = part;
            }
            return parts;
        }
        parts[i] = demand;
        left -= demand;
        open -= weight;
    }
    parts
}

/// One claimant of the naive rule with floors, ceilings and several segments.
struct Naive {
    segments: Vec<(i128, i128)>,
    floor: i128,
    ceiling: i128,
}

impl Naive {
    /// Returns the amount that it takes beyond its floor at level `num/den`, times `den`.
    fn beyond(&self, (num, den): (i128, i128)) -> i128 {
        let takes: i128 = self
            .segments
            .iter()
            .map(|&(d, w)| (d * den).min(w * num))
            .sum();
        (takes.min(self.ceiling * den) - self.floor * den).max(0)
    }
}

/// Finds the level of the module's formula by trying every line between two bends.
fn naive_level(capacity: i128, all: &[Naive]) -> Option<(i128, i128)> {
    let sum = |level| all.iter().map(|one| one.beyond(level)).sum::<i128>();
    let far = 1 << 60;
    if sum((far, 1)) <= capacity {
        return None;
    }
    let mut bends = vec![(0, 1), (far, 1)];
    for one in all {
        let mut ends = one.segments.clone();
        ends.sort_by(|a, b| (a.0 * b.1).cmp(&(b.0 * a.1)));
        bends.extend(&ends);
        let (mut met, mut open) = (0, ends.iter().map(|end| end.1).sum::<i128>());
        for (demand, weight) in ends {
            bends.extend([one.floor, one.ceiling].map(|amount| ((amount - met).max(0), open)));
            met += demand;
            open -= weight;
        }
    }
    bends.retain(|bend| bend.1 > 0);
    bends.sort_by(|a, b| (a.0 * b.1).cmp(&(b.0 * a.1)));
    let upper = bends
        .iter()
        .position(|&bend| sum(bend) > capacity * bend.1)
        .unwrap();
    let ((n0, d0), (n1, d1)) = (bends[upper - 1], bends[upper]);
    // Linear from (λ₀, s₀) to (λ₁, s₁): λ = λ₀ + (C − s₀)·(λ₁ − λ₀)/(s₁ − s₀).
    let (s0, s1) = (sum((n0, d0)), sum((n1, d1)));
    let (rise, run) = (s1 * d0 - s0 * d1, n1 * d0 - n0 * d1);
    let num = n0 * rise + (capacity * d0 - s0) * run;
    let common = gcd(num, rise * d0);
    Some((num / common, rise * d0 / common))
}

fn gcd(a: i128, b: i128) -> i128 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Divides by the whole rule, naively, without headroom.
pub(crate) fn naive(capacity: u64, claimants: &[Claimant]) -> Vec<u64> {
    let most = |claimant: &Claimant| claimant.ceiling.unwrap_or(1 << 40);
    let floors: Vec<u64> = claimants.iter().map(|c| c.floor.min(most(c))).collect();
    let mut parts = match floors.iter().sum::<u64>() <= capacity {
        true => floors.clone(),
        false => apportion(capacity, &floors),
    };
    let mut rooms: Vec<(u64, u64)> = floors.into_iter().zip(claimants.iter().map(most)).collect();
    for band in [2, 1, 0].map(band) {
        let left = capacity - parts.iter().sum::<u64>();
        if left == 0 {
            break;
        }
        let mut members = Vec::new();
        for (index, claimant) in claimants.iter().enumerate() {
            if let Some((_, curve)) = claimant.demand.iter().find(|(of, _)| *of == band) {
                members.push((index, curve));
            }
        }
        let scale = i128::from(WEIGHT_ONE);
        let mut all: Vec<Naive> = members
            .iter()
            .map(|&(index, curve)| Naive {
                segments: curve
                    .segments()
                    .iter()
                    .map(|s| (s.demand.into(), i128::from(s.weight) / scale))
                    .collect(),
                floor: rooms[index].0.into(),
                ceiling: rooms[index].1.min(curve.total()).into(),
            })
            .collect();
        let more = naive_units(left, &mut all, |member| parts[members[member].0] == 0);
        for (&(index, curve), more) in members.iter().zip(more) {
            parts[index] += more;
            let used = curve.total().min(rooms[index].1);
            rooms[index].0 = rooms[index].0.saturating_sub(used);
            rooms[index].1 -= used;
        }
    }
    parts
}

/// Divides one band in whole units, the first one to each claimant that has nothing.
fn naive_units(capacity: u64, all: &mut [Naive], empty: impl Fn(usize) -> bool) -> Vec<u64> {
    let capacity = i128::from(capacity);
    let needy: Vec<bool> = all
        .iter()
        .enumerate()
        .map(|(i, one)| empty(i) && one.ceiling > one.floor)
        .collect();
    let count = needy.iter().filter(|&&needy| needy).count() as i128;
    let mut parts = vec![0_i128; all.len()];
    let mut left = capacity;
    if count > capacity {
        let mut order: Vec<usize> = (0..all.len()).filter(|&i| needy[i]).collect();
        let weight = |i: &usize| all[*i].segments.iter().map(|s| s.1).sum::<i128>();
        order.sort_by_key(|i| -weight(i));
        for &i in order.iter().take(capacity as usize) {
            parts[i] = 1;
        }
        return parts.into_iter().map(|part| part as u64).collect();
    }
    for (i, one) in all.iter_mut().enumerate() {
        if needy[i] {
            one.floor += 1;
            parts[i] = 1;
            left -= 1;
        }
    }
    match naive_level(left, all) {
        None => {
            for (part, one) in parts.iter_mut().zip(all.iter()) {
                *part += (one.ceiling - one.floor).max(0);
            }
        }
        Some((num, den)) => {
            let beyond: Vec<i128> = all.iter().map(|one| one.beyond((num, den))).collect();
            left -= beyond.iter().map(|beyond| beyond / den).sum::<i128>();
            let mut order: Vec<usize> = (0..all.len()).collect();
            order.sort_by_key(|&i| -(beyond[i] % den));
            for (rank, &i) in order.iter().enumerate() {
                parts[i] += beyond[i] / den + i128::from((rank as i128) < left);
            }
        }
    }
    parts.into_iter().map(|part| part as u64).collect()
}
