//! `aliquot demo`: a whole cluster under real load on one machine. One of its nodes is killed, and a
//! verdict is computed from all decisions.
//!
//! | module | contents |
//! |---|---|
//! | [`plan`] | the budgets and the load of a run |
//! | [`supervisor`] | child processes that never outlive the run |
//! | [`via`] | the ways in which services ask for a decision |
//! | [`cluster`], [`hosts`], [`fleet`] | the coordinators, the faces and the services, as seen by the demo |
//! | [`rules`] | the limits as rules of Envoy's rate limit service |
//! | [`service`] | one service, which runs in a process of its own |
//! | [`load`], [`replay`] | schedule of the requests, and sending them |
//! | [`machine`] | how late the machine is with what is due |
//! | [`record`] | record of each decision, written by the services |
//! | [`verdict`] | evaluation of all records |
//! | [`table`], [`report`] | display during the run, and the report after it |

pub mod cluster;
pub mod error;
pub mod fleet;
pub mod hosts;
pub mod load;
pub mod machine;
pub mod plan;
pub mod record;
pub mod replay;
pub mod report;
pub mod rules;
mod runner;
pub mod service;
pub mod supervisor;
pub mod table;
pub mod verdict;
pub mod via;
pub mod waits;

pub use error::DemoError;
pub use plan::{Afterwards, DemoPlan, Fault, Kill};
pub use report::Report;
pub use table::{Device, Screen};
pub use via::Via;

use crate::clock::SharedClock;
use runner::Runner;
use std::future::Future;
use verdict::Ruling;

/// Runs a demo and shows it on `screen`. It ends early when `interrupted` resolves. `on_report` is called
/// with the report once there is one.
///
/// This must be awaited on a thread that lives until it is done, preferably the main one: the child
/// processes are tied to the thread that starts them.
///
/// # Errors
///
/// [`DemoError`] if there is no verdict. Whatever the outcome, all processes are gone when this returns
/// or is dropped.
pub async fn run(
    plan: DemoPlan,
    clock: SharedClock,
    screen: Screen,
    interrupted: impl Future<Output = ()>,
    on_report: impl FnOnce(&Report),
) -> Result<Report, DemoError> {
    tokio::pin!(interrupted);
    let afterwards = plan.afterwards;
    let prepared = plan.prepare()?;
    let mut runner = Runner::new(plan, clock, screen)?;
    let outcome = tokio::select! {
        outcome = runner.run(prepared) => outcome,
        () = &mut interrupted => Err(DemoError::Interrupted),
    };
    match &outcome {
        Ok(report) => {
            on_report(report);
            if afterwards == Afterwards::Keep {
                runner.say_how_to_talk();
                interrupted.await;
            }
            if report.verdict.outcome != Ruling::Pass {
                runner.keep_files();
            }
        }
        Err(DemoError::Interrupted) => {}
        Err(_) => runner.keep_files(),
    }
    runner.stop().await;
    outcome
}
