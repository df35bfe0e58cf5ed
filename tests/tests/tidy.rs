//! The tree keeps its own rules. Each rule's own test, which shows that it
//! can fail, is beside the rule.

use aliquot_tests::tidy::{
    Allowed, Finding, Tree, assert_none, banned, dead, floors, modules, pure, size, words,
};

#[track_caller]
fn holds(rule: impl Fn(&Tree) -> Vec<Finding>) {
    let tree = Tree::read().expect("the tree can be read");
    assert!(tree.has("proto/core/src/lib.rs"), "the tree was not read");
    assert_none(&rule(&tree));
}

#[track_caller]
fn holds_but_for(rule: impl Fn(&Tree, &Allowed) -> Vec<Finding>) {
    holds(|tree| {
        let list = tree.text(Allowed::PATH).expect("there is a list");
        rule(tree, &Allowed::parse(list).expect("the list can be read"))
    });
}

#[test]
fn crates_depend_only_on_floors_below() {
    holds(floors::crates_keep_to_their_floor);
}

#[test]
fn modules_import_only_from_floors_below() {
    holds(modules::modules_keep_to_their_floor);
}

#[test]
fn the_core_does_without_the_standard_library() {
    holds(pure::the_core_does_without_std);
}

#[test]
fn the_core_computes_in_integers() {
    holds(pure::the_core_has_no_floats);
}

#[test]
fn no_file_is_longer_than_two_ideas_less_one() {
    holds_but_for(size::files_are_short);
}

#[test]
fn no_function_is_longer_than_a_screen() {
    holds_but_for(size::functions_are_short);
}

#[test]
fn nobody_reads_a_clock_sleeps_prints_or_hashes_where_it_is_banned() {
    holds_but_for(banned::nothing_banned_is_called);
}

#[test]
fn silenced_lints_are_expected_with_a_reason() {
    holds(banned::lints_are_expected_not_allowed);
}

#[test]
fn every_source_file_is_compiled() {
    holds(dead::every_source_is_reached);
}

#[test]
fn every_document_can_be_found() {
    holds(dead::every_document_is_linked);
}

#[test]
fn no_link_between_documents_is_dead() {
    holds_but_for(dead::every_link_leads_somewhere);
}

#[test]
fn no_file_is_empty() {
    holds(dead::no_file_is_empty);
}

#[test]
fn the_map_names_every_crate_and_every_module_of_the_core() {
    holds(dead::the_map_names_every_part);
}

#[test]
fn no_notes_to_oneself_are_left() {
    holds(words::no_notes_are_left);
}

#[test]
fn the_tree_speaks_of_itself_alone() {
    holds(words::the_tree_speaks_of_itself);
}
