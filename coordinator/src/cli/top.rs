//! `aliquot top`: the busiest keys, live.

use super::connect::Connection;
use super::number::whole;
use super::{Failure, Out, cluster, show};
use crate::terminal::lines as terminal_lines;
use aliquot_core::share::Kind;
use aliquot_wire::Wire;
use aliquot_wire::admin::{BusyKey, BusyKeys, TopKeys};
use crossterm::event::{self, Event, KeyCode, KeyModifiers};
use crossterm::{cursor, execute, queue, terminal};
use serde_json::json;
use std::io::{IsTerminal, Write};
use std::time::Duration;
use tokio::sync::mpsc;

const EXAMPLES: &str = "\
DEMAND is what callers ask for per second; ADMITTED and DENIED are what they get. USE is the part of the limit that \
is in use, at most 100%: for a rate the demand, for a quota the tokens spent, for concurrency the permits held. \
Press q to quit.

Examples:
  aliquot top -n 40 --every 1s
  aliquot top --once --json | jq '.keys[] | select(.use > 0.9) | .key'";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Number of keys to show
    #[arg(short = 'n', long, default_value_t = 20, value_parser = whole::<u32>(1..=1_024))]
    keys: u32,
    /// Number of the busiest keys to skip
    #[arg(long, default_value_t = 0, value_parser = whole::<u32>(0..=u32::MAX.into()))]
    skip: u32,
    /// Interval at which the table is refreshed
    #[arg(long, value_name = "SPAN", default_value = "1s", value_parser = interval)]
    every: Duration,
    /// Print the table once and exit; implied by --json, and if standard output is not a terminal
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    connection: Connection,
}

fn interval(text: &str) -> Result<Duration, String> {
    let span = aliquot_core::budget::grammar::span(text);
    let span = span.map(|span| Duration::from_nanos(span.nanos()));
    let allowed = Duration::from_millis(100)..=Duration::from_secs(3_600);
    span.filter(|span| allowed.contains(span))
        .ok_or_else(|| "must be a span from 100ms to 1h, such as 500ms".to_owned())
}

impl Args {
    pub(super) async fn run(mut self, out: Out) -> Result<(), Failure> {
        let live = !self.once && !out.json && std::io::stdout().is_terminal();
        if !live {
            let busy = self.ask().await?;
            out.answer(|| to_json(&busy), || to_text(&busy));
            return Ok(());
        }
        // Closed when this function returns, so that an error message stays visible.
        let mut screen = Screen::enter();
        let mut ticks = tokio::time::interval(self.every);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut knows_members = false;
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = screen.quit() => return Ok(()),
                _ = tokio::signal::ctrl_c() => return Ok(()),
            }
            // If no node can be reached for a moment, `top` shows that and goes on.
            let busy = tokio::select! {
                busy = self.ask() => busy,
                () = screen.quit() => return Ok(()),
            };
            // The table goes on if the node that was named is gone.
            if busy.is_ok()
                && !knows_members
                && let Ok(connection) = cluster::with_members(&self.connection).await
            {
                self.connection = connection;
                knows_members = true;
            }
            let page = match busy {
                Ok(busy) => to_text(&busy),
                Err(Failure::Unreachable(why)) => why,
                Err(failure) => return Err(failure),
            };
            let size = terminal::size().unwrap_or((80, 24));
            if draw(std::io::stdout().lock(), size, &page).is_err() {
                return Ok(());
            }
        }
    }

    async fn ask(&self) -> Result<BusyKeys, Failure> {
        let (skip, limit) = (self.skip, self.keys);
        let top = TopKeys { skip, limit }.to_message();
        self.connection
            .read(async |mut admin| admin.top_keys(top).await)
            .await
    }
}

/// The alternate screen of the terminal. Dropping it restores what was shown before.
struct Screen {
    keys: mpsc::UnboundedReceiver<()>,
}

impl Screen {
    fn enter() -> Self {
        let (quit, keys) = mpsc::unbounded_channel();
        let mut out = std::io::stdout();
        // A terminal without an alternate screen still shows the table.
        let _ = execute!(out, terminal::EnterAlternateScreen, cursor::Hide);
        if std::io::stdin().is_terminal() && terminal::enable_raw_mode().is_ok() {
            // This thread blocks in `read` until the process ends.
            std::thread::spawn(move || {
                while let Ok(event) = event::read() {
                    if is_quit(&event) && quit.send(()).is_err() {
                        return;
                    }
                }
            });
        }
        Self { keys }
    }

    /// Resolves when the user presses a key to quit.
    async fn quit(&mut self) {
        if self.keys.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // If the terminal is gone, there is nothing to restore.
        let _ = terminal::disable_raw_mode();
        let _ = execute!(
            std::io::stdout(),
            cursor::Show,
            terminal::LeaveAlternateScreen
        );
    }
}

/// True for `q`, Escape and Ctrl-C. In raw mode Ctrl-C is a key event, not a signal.
fn is_quit(event: &Event) -> bool {
    let Event::Key(key) = event else { return false };
    match key.code {
        KeyCode::Char('q') | KeyCode::Esc => true,
        KeyCode::Char('c') => key.modifiers.contains(KeyModifiers::CONTROL),
        _ => false,
    }
}

/// Draws over the previous page, without clearing the screen first, to avoid flicker.
fn draw(mut screen: impl Write, (columns, rows): (u16, u16), page: &str) -> std::io::Result<()> {
    queue!(screen, cursor::MoveTo(0, 0))?;
    for line in terminal_lines(page, columns, rows) {
        write!(screen, "{line}")?;
        // Behind a full line the cursor still stands on its last character, which this would clear.
        if line.chars().count() < usize::from(columns) {
            queue!(screen, terminal::Clear(terminal::ClearType::UntilNewLine))?;
        }
        write!(screen, "\r\n")?;
    }
    queue!(screen, terminal::Clear(terminal::ClearType::FromCursorDown))?;
    screen.flush()
}

/// Returns the part of the limit that is asked for, spent or held, in thousandths: all of it at most, since callers may
/// ask for more than there is, and a limit may be lowered below what is spent or held.
fn used(key: &BusyKey) -> u128 {
    let (usage, whole) = (&key.usage, key.usage.limit.whole());
    let (used, of) = match usage.limit.kind() {
        Kind::Rate => (usage.demand, whole.rate.grains()),
        Kind::Quota => (usage.spent.grains(), whole.tokens.grains()),
        Kind::Concurrency => (usage.held.burst.grains(), whole.burst.grains()),
    };
    (u128::from(used) * 1_000 / u128::from(of.max(1))).min(1_000)
}

fn to_text(busy: &BusyKeys) -> String {
    let rows = busy.keys.iter().map(|key| {
        let usage = &key.usage;
        let flow = |milli: Option<u64>| {
            milli.map_or_else(|| "-".to_owned(), |milli| show::decimal(milli.into()))
        };
        [
            usage.key.to_string(),
            show::limit(&usage.limit),
            format!("{}%", used(key) / 10),
            show::decimal(show::milli(usage.demand, &usage.limit)),
            flow(key.admitted_milli),
            flow(key.denied_milli),
            key.holders.to_string(),
        ]
    });
    let head = [
        "KEY", "LIMIT", "USE", "DEMAND", "ADMITTED", "DENIED", "HOLDERS",
    ];
    let shown = busy.keys.len();
    format!(
        "{}\n\n{shown} of {} keys",
        show::table(head, rows),
        busy.total
    )
}

fn to_json(busy: &BusyKeys) -> serde_json::Value {
    let flow = |milli: Option<u64>| milli.map(|milli| show::number(milli.into()));
    let keys = busy.keys.iter().map(|key| {
        let mut shown = show::usage_json(&key.usage);
        shown["use"] = show::number(used(key));
        shown["admitted_per_s"] = flow(key.admitted_milli).into();
        shown["denied_per_s"] = flow(key.denied_milli).into();
        shown["holders"] = key.holders.into();
        shown
    });
    json!({ "keys": keys.collect::<Vec<_>>(), "total": busy.total })
}

#[cfg(test)]
#[path = "../../tests/unit/cli/top.rs"]
mod tests;
