//! `aliquot demo`: a whole cluster under real load on one machine, one of its
//! nodes killed, and a verdict computed from every decision.
//!
//! | module | what it is |
//! |---|---|
//! | [`plan`] | what a run is to be: its budgets and its load |
//! | [`supervisor`] | processes that never outlive the run |
//! | [`cluster`], [`fleet`] | the coordinators and the services, from outside |
//! | [`service`] | one service, from inside |
//! | [`load`], [`replay`] | which request is due when, and how it is sent |
//! | [`record`] | what a service writes down of each decision |
//! | [`verdict`] | what all that shows |
//! | [`table`], [`report`] | what is shown meanwhile, and what is left |

pub mod cluster;
pub mod error;
pub mod fleet;
pub mod load;
pub mod plan;
pub mod record;
pub mod replay;
pub mod report;
pub mod service;
mod stage;
pub mod supervisor;
pub mod table;
pub mod verdict;

pub use error::DemoError;
pub use plan::{Afterwards, Fault, Kill, Plan};
pub use report::Report;
pub use table::{Device, Screen};

use crate::clock::SharedClock;
use stage::Stage;
use std::future::Future;
use verdict::Ruling;

/// Runs a demo and shows it on `screen`; `interrupted` resolves when somebody
/// wants it to end. `told` is given the report as soon as there is one.
///
/// It must be awaited on a thread that lives until it is done, the main one at
/// best: its processes are tied to the thread that starts them.
///
/// # Errors
///
/// [`DemoError`] if there is no verdict. Whatever the outcome, all processes
/// are gone when this returns, or is dropped.
pub async fn run(
    plan: Plan,
    clock: SharedClock,
    screen: Screen,
    interrupted: impl Future<Output = ()>,
    told: impl FnOnce(&Report),
) -> Result<Report, DemoError> {
    tokio::pin!(interrupted);
    let afterwards = plan.afterwards;
    let prepared = plan.prepare()?;
    let mut stage = Stage::new(plan, clock, screen)?;
    let outcome = tokio::select! {
        outcome = stage.run(prepared) => outcome,
        () = &mut interrupted => Err(DemoError::Interrupted),
    };
    match &outcome {
        Ok(report) => {
            told(report);
            if afterwards == Afterwards::Keep {
                stage.say_how_to_talk();
                interrupted.await;
            }
            if report.verdict.outcome != Ruling::Pass {
                stage.keep_files();
            }
        }
        Err(DemoError::Interrupted) => {}
        Err(_) => stage.keep_files(),
    }
    stage.stop().await;
    outcome
}
