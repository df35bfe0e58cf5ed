//! Draws what happened to leases, holdings and leaders in a seed.

use super::plot::{Line, Plot};
use crate::timeline::Timeline;

/// Begin and end of the part of a page that [`draw`] writes, by which another page finds it.
const PART: (&str, &str) = ("<section id=\"events\">\n", "</section>\n");

/// Draws clients without a lease, holdings of former processes, reclaims, and leaders.
pub(super) fn draw(body: &mut String, timeline: &Timeline, nodes: usize) {
    body.push_str(PART.0);
    unleased(body, timeline);
    lingering(body, timeline, nodes);
    leaders(body, timeline, nodes);
    body.push_str(PART.1);
}

/// Returns that part of the page of a seed.
#[must_use]
pub fn part_of(html: &str) -> Option<&str> {
    let begin = html.find(PART.0)?;
    let end = begin + html[begin..].find(PART.1)?;
    Some(&html[begin + PART.0.len()..end])
}

fn unleased(body: &mut String, timeline: &Timeline) {
    let mut plot = Plot::of("Clients without a lease", "clients", timeline);
    let mut points = vec![(0.0, 0.0)];
    for (at, clients) in &timeline.unleased {
        let at = *at as f64 / 1e9;
        let before = points.last().map_or(0.0, |(_, before)| *before);
        points.extend([(at, before), (at, f64::from(*clients))]);
    }
    let last = points.last().map_or(0.0, |(_, last)| *last);
    points.push((timeline.ends.1 as f64 / 1e9, last));
    plot.line(Line::new("without a lease", 1, points));
    plot.draw(body);
}

/// Draws for each node the times at which something was booked to a former process of it, and the reclaims.
fn lingering(body: &mut String, timeline: &Timeline, nodes: usize) {
    if timeline.lingering.is_empty() && timeline.reclaims.is_empty() {
        body.push_str(
            "<p>Nothing was booked to a former process, and nothing was reclaimed.</p>\n",
        );
        return;
    }
    let title = "Lingering holdings and reclaims";
    let unit = "lingering: a holding that is still booked to a process of the node that has ended; reclaim: it is taken back";
    let mut plot = Plot::of(title, unit, timeline);
    let end = timeline.ends.1;
    let seconds = |nanos: u64| nanos as f64 / 1e9;
    for node in 0..nodes {
        let mut spans: Vec<(f64, f64)> = Vec::new();
        for (index, (from, lingering)) in timeline.lingering.iter().enumerate() {
            if lingering.contains(&node) {
                let to = timeline.lingering.get(index + 1).map_or(end, |next| next.0);
                spans.push((seconds(*from), seconds(to)));
            }
        }
        plot.lane(&format!("lingering n{}", node + 1), spans);
    }
    for node in 0..nodes {
        let reclaims = timeline.reclaims.iter().filter(|(_, of)| *of == node);
        let spans: Vec<(f64, f64)> = reclaims
            .map(|(at, _)| (seconds(*at), seconds(*at) + seconds(end) / 300.0))
            .collect();
        if !spans.is_empty() {
            plot.lane(&format!("reclaim n{}", node + 1), spans);
        }
    }
    plot.draw(body);
}

fn leaders(body: &mut String, timeline: &Timeline, nodes: usize) {
    let mut plot = Plot::of("Ready leaders", "node", timeline);
    let end = timeline.ends.1 as f64 / 1e9;
    for node in 0..nodes {
        let mut lane = Vec::new();
        for (index, (from, who)) in timeline.ready_leaders.iter().enumerate() {
            if *who == node {
                let until = timeline
                    .ready_leaders
                    .get(index + 1)
                    .map_or(end, |(next, _)| *next as f64 / 1e9);
                lane.push((*from as f64 / 1e9, until));
            }
        }
        plot.lane(&format!("n{}", node + 1), lane);
    }
    plot.draw(body);
}
