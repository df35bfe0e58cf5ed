//! Processes that are started, asked to end, and killed: `.ci/run` runs these with the live tests.

use super::*;
use rustix::process::test_kill_process;

fn shell(dir: &TempDir) -> Supervisor {
    let first = vec![OsString::from("-c")];
    Supervisor::new(dir.path().to_owned(), "/bin/sh".into(), first)
}

fn script(text: &str) -> [OsString; 1] {
    [text.into()]
}

/// Waits for `condition`, at most 10 s.
async fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    for _ in 0..1_000 {
        if condition() {
            return;
        }
        sleep(Duration::from_millis(10)).await;
    }
    panic!("never: {what}");
}

fn is_alive(id: u32) -> bool {
    let pid = i32::try_from(id).ok().and_then(Pid::from_raw).unwrap();
    // A zombie has ended, although it was not waited for yet.
    let status = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    test_kill_process(pid).is_ok() && !status.contains(") Z ")
}

#[tokio::test]
#[ignore = "live: it starts and kills processes"]
async fn a_child_ends_when_it_is_asked_to_and_is_killed_when_it_will_not() {
    let dir = TempDir::new().unwrap();
    let mut supervisor = shell(&dir);
    supervisor
        .start("node-1", &script("exec sleep 600"))
        .unwrap();
    supervisor
        .start("service-1", &script("exec sleep 600"))
        .unwrap();
    let ids = ["node-1", "service-1"].map(|name| supervisor.id(name).unwrap());
    assert_eq!(supervisor.stop("service").await, Vec::<String>::new());
    assert!(is_alive(ids[0]) && !is_alive(ids[1]));
    supervisor.check().unwrap();
    supervisor.kill("node-1").await.unwrap();
    assert!(!is_alive(ids[0]));
    let unknown = supervisor.kill("node-1").await.unwrap_err();
    assert_eq!(unknown.to_string(), "there is no process named node-1");
}

#[tokio::test]
#[ignore = "live: it starts and kills processes"]
async fn dropping_the_supervisor_kills_children_and_grandchildren() {
    let dir = TempDir::new().unwrap();
    let mut supervisor = shell(&dir);
    let both = script("sleep 600 & echo $!; wait");
    supervisor.start("node-1", &both).unwrap();
    let log = supervisor.log_of("node-1");
    let grandchild = || std::fs::read_to_string(&log).unwrap().trim().parse().ok();
    wait_for("the grandchild starts", || grandchild().is_some()).await;
    let ids = [supervisor.id("node-1").unwrap(), grandchild().unwrap()];
    drop(supervisor);
    wait_for("both are gone", || !ids.iter().any(|id| is_alive(*id))).await;
}

#[tokio::test]
#[ignore = "live: it starts and kills processes"]
async fn a_child_that_ends_by_itself_is_reported_with_the_end_of_its_log() {
    let dir = TempDir::new().unwrap();
    let mut supervisor = shell(&dir);
    let fails = script("echo the port is taken >&2; exit 3");
    supervisor.start("node-1", &fails).unwrap();
    let mut error = None;
    wait_for("it ends", || {
        error = supervisor.check().err();
        error.is_some()
    })
    .await;
    let text = error.unwrap().to_string();
    assert!(
        text.starts_with("node-1 ended by itself (exit status: 3)"),
        "{text}"
    );
    assert!(text.ends_with("the port is taken"), "{text}");
    supervisor.check().unwrap();
}

#[tokio::test]
#[ignore = "live: it starts and kills processes"]
async fn a_program_that_is_not_there_is_an_error() {
    let dir = TempDir::new().unwrap();
    let missing = dir.path().join("missing");
    let mut supervisor = Supervisor::new(dir.path().to_owned(), missing, Vec::new());
    let error = supervisor.start("node-1", &[]).unwrap_err().to_string();
    assert!(error.starts_with("node-1 could not be started"), "{error}");
}
