use super::*;
use crate::decider::testing::decider;
use crate::rls::rules::Reading;
use crate::rls::service::Rls;
use crate::rls::settings::Settings;
use aliquot_core::budget::BudgetDraft;
use futures_util::future::LocalBoxFuture;
use std::sync::{Arc, Mutex};

/// A cluster that remembers the keys of budgets, or fails.
#[derive(Clone, Debug, Default)]
struct Cluster {
    keys: Arc<Mutex<Vec<String>>>,
    down: Arc<Mutex<bool>>,
}

impl Budgets for Cluster {
    fn apply(&self, drafts: Vec<BudgetDraft>) -> LocalBoxFuture<'_, Result<(), String>> {
        Box::pin(async move {
            if *self.down.lock().unwrap() {
                return Err("no node".into());
            }
            *self.keys.lock().unwrap() = drafts.into_iter().map(|draft| draft.key).collect();
            Ok(())
        })
    }
}

fn rule(key: &str) -> String {
    format!(
        "domain: d\ndescriptors:\n  - {{ key: {key}, rate_limit: {{ unit: day, requests_per_unit: 5 }} }}\n"
    )
}

#[tokio::test]
async fn changed_files_are_loaded_once_and_bad_ones_change_nothing() {
    let temporary = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(temporary.path().join(name), text).unwrap();
    let (decider, _) = decider(8);
    let rls = Rls::new(decider, Settings::default());
    let directory = Directory {
        path: temporary.path().into(),
        ignore_dot_files: true,
    };
    let cluster = Cluster::default();
    let loader = Loader::new(rls.clone(), Reading::default(), cluster.clone());
    let mut reloader = Reloader::new(loader, directory);
    write("a.yaml", &rule("a"));
    write(".hidden.yaml", "bad");
    write("notes.txt", "bad");
    assert_eq!(reloader.load().await, Ok(true));
    assert_eq!(reloader.load().await, Ok(false));
    assert_eq!(*cluster.keys.lock().unwrap(), ["rls/d/a/*"]);

    write("a.yaml", &rule("''"));
    let problem = reloader.load().await.unwrap_err().to_string();
    assert!(
        problem
            .ends_with("a.yaml:3, descriptor \"d.\": key = \"\": must be a text that is not empty")
    );
    // It is logged once.
    assert_eq!(reloader.load().await, Ok(false));
    let shown = rls.rules().to_string();
    assert!(
        shown.starts_with(
            "d.a: unit=DAY requests_per_unit=5, shadow_mode: false, quota_mode: false ("
        )
    );

    // A cluster that is away is tried again.
    *cluster.down.lock().unwrap() = true;
    write("a.yaml", &rule("b"));
    let problem = NotLoaded::Budgets("no node".into());
    assert_eq!(reloader.load().await, Err(problem.clone()));
    assert_eq!(reloader.load().await, Err(problem));
    assert!(rls.rules().to_string().starts_with("d.a:"));
    *cluster.down.lock().unwrap() = false;
    assert_eq!(reloader.load().await, Ok(true));
    assert!(rls.rules().to_string().starts_with("d.b:"));

    fs::remove_dir_all(temporary.path()).unwrap();
    assert!(matches!(reloader.load().await, Err(NotLoaded::Unread(_))));
    assert!(rls.rules().to_string().starts_with("d.b:"));
    let stats = rls.stats().text();
    assert!(stats.contains("config_load_success: 2\n"), "{stats}");
    assert!(stats.contains("config_load_error: 4\n"), "{stats}");
}
