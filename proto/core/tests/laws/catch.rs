//! Checks that a law catches a planted bug.

use aliquot_core::planted::{self, Bug};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{
    Config, FileFailurePersistence, RngAlgorithm, TestCaseResult, TestRng, TestRunner,
};

/// Keeps cases that failed once, and tries them first.
pub(crate) fn config() -> Config {
    Config {
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource(
            "proptest-regressions",
        ))),
        ..Config::default()
    }
}

/// Requires that a law rejects one of the random cases, of a fixed seed, while `bug` is switched on, and
/// accepts that case without it.
#[track_caller]
pub(crate) fn catches<S: Strategy>(bug: Bug, strategy: S, law: impl Fn(S::Value) -> TestCaseResult)
where
    S::Value: Clone,
{
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let caught = (0..5_000).find(|_| {
        let Ok(case) = strategy.new_tree(&mut runner) else {
            return false;
        };
        let case = case.current();
        let rejected = planted::with(Some(bug), || law(case.clone())).is_err();
        assert!(
            !rejected || law(case).is_ok(),
            "rejected without {bug:?}, too"
        );
        rejected
    });
    assert!(caught.is_some(), "nothing noticed {bug:?}");
    eprintln!("{bug:?}: caught in case {caught:?}");
}
