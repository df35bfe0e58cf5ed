//! The rules of the tree. Each rule has its own test beside it, which shows that the
//! rule can fail.

use aliquot_tests::tidy::{
    Allowed, Finding, Tree, assert_none, atomics, banned, circles, counts, dead, floors, glossary,
    modules, openings, placement, pure, retired, signatures, size, words,
};
use std::env;
use std::fs;
use std::sync::LazyLock;

static TREE: LazyLock<Tree> = LazyLock::new(|| {
    let tree = Tree::read().expect("the tree can be read");
    assert!(tree.has("proto/core/src/lib.rs"), "the tree was not read");
    tree
});

/// The list. `UPDATE_TIDY=1` rewrites its counts first; their sum may rise only with
/// `UPDATE_TIDY=raise`, as it does when another word is retired.
static ALLOWED: LazyLock<Allowed> = LazyLock::new(|| {
    let text = match env::var("UPDATE_TIDY") {
        Ok(how) => {
            let text = counts::rewritten(&TREE, how == "raise");
            let text = text.unwrap_or_else(|error| panic!("the counts would rise: {error}"));
            fs::write(Tree::root().join(Allowed::PATH), &text).expect("the list can be written");
            text
        }
        Err(_) => TREE.text(Allowed::PATH).expect("there is a list").into(),
    };
    Allowed::parse(&text).expect("the list can be read")
});

#[track_caller]
fn holds(rule: impl Fn(&Tree) -> Vec<Finding>) {
    assert_none(&rule(&TREE));
}

#[track_caller]
fn holds_but_for(rule: impl Fn(&Tree, &Allowed) -> Vec<Finding>) {
    assert_none(&rule(&TREE, &ALLOWED));
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
fn files_import_in_no_circle() {
    holds(circles::files_import_in_no_circle);
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
fn no_file_is_too_long() {
    holds_but_for(size::files_are_short);
}

#[test]
fn no_function_is_longer_than_a_screen() {
    holds_but_for(size::functions_are_short);
}

#[test]
fn nothing_banned_is_called() {
    holds_but_for(banned::nothing_banned_is_called);
}

#[test]
fn every_test_is_live_or_ordinary() {
    holds(banned::live_tests_are_those_that_cargo_test_leaves_out);
}

#[test]
fn sources_hold_no_tests() {
    holds(placement::sources_hold_no_tests);
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
fn the_client_names_its_own_types() {
    holds(signatures::the_client_names_its_own_types);
}

#[test]
fn decisions_share_one_loop() {
    holds(atomics::decisions_share_one_loop);
}

#[test]
fn no_notes_are_left() {
    holds(words::no_notes_are_left);
}

#[test]
fn the_tree_speaks_of_itself_alone() {
    holds(words::the_tree_speaks_of_itself);
}

#[test]
fn no_retired_word_is_used() {
    holds_but_for(retired::no_retired_word_is_used);
}

#[test]
fn doc_comments_begin_with_a_verb_or_a_noun() {
    holds_but_for(openings::docs_begin_plainly);
}

#[test]
fn the_glossary_has_each_term_once_and_where_it_lives() {
    holds(glossary::terms_are_in_order);
}
