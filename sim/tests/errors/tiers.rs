//! Keys that only one tier has.

use super::*;

#[test]
fn what_only_the_network_tier_has_is_refused_in_the_kernel_tier() {
    instead(
        "[[budget]]",
        "[topology]\nold_nodes = 2\n\n[[budget]]",
        &expect!["topology.old_nodes: has no effect in the kernel tier: its log has one version"],
    );
    instead(
        "[[budget]]",
        "[topology]\nold_nodes = 4\n\n[[budget]]",
        &expect![[r#"
            topology.old_nodes: is 4: must be at most topology.nodes, 3
            topology.old_nodes: has no effect in the kernel tier: its log has one version"#]],
    );
    let also = |key: &str, verb: &str| {
        let second = "[[budget]]\nkey = \"all\"\nrate = \"1000/s\"\n\n[[clients]]";
        let text = WHOLE.replace("[[clients]]", second);
        text.replace("count = 3", &format!("count = 3\nalso = \"{key}\"\n{verb}"))
    };
    let verb = "verb = \"try_acquire\"";
    check(
        &also("all", verb),
        &expect!["clients[1].also: has no effect in the kernel tier: its callers need one budget"],
    );
    let of_network =
        |key: &str, verb: &str| also(key, verb).replace("[run]", "[run]\ntier = \"network\"");
    check(&of_network("all", verb), &expect!["it is well"]);
    check(
        &of_network("all", ""),
        &expect![[
            r#"clients[1].also = "all": needs verb = "try_acquire": no caller waits for two budgets"#
        ]],
    );
    check(
        &of_network("reads", verb),
        &expect![[r#"clients[1].also = "reads": must be a key of another budget than `key`"#]],
    );
    check(
        &of_network("unknown", verb),
        &expect![[
            r#"clients[1].also = "unknown": must be a key that one of the budgets names, which is a rate"#
        ]],
    );
}
