//! The house style, held by reading the sources: what a machine can check, a machine checks.
//!
//! One test for each rule, which prints every breach as `file:line: what` and then fails. Each rule is a
//! function from sources to violations, and the tests beside it show that it finds a bad line and lets a
//! good one pass. To run it alone: `cargo test --test style`.

mod cycles;
mod graph;
mod layers;
mod lexer;
mod orderings;
mod paths;
mod places;
mod shape;
mod source;
mod statement;
mod tree;
mod words;

use tree::{assert_none, sources, texts};

#[test]
fn tree_read_has_a_library() {
    assert!(
        sources().iter().any(|source| source.path == "src/lib.rs"),
        "the sources are not where they were"
    );
}

#[test]
fn imports_between_layers_go_down() {
    assert_none("layers", &layers::violations(&sources()));
}

#[test]
fn modules_have_no_cycle() {
    assert_none("cycles of modules", &cycles::violations(&sources()));
}

#[test]
fn files_and_lines_are_short() {
    assert_none("sizes", &shape::size_violations(&sources()));
}

#[test]
fn functions_fit_on_a_screen() {
    assert_none("functions", &shape::function_violations(&sources()));
}

#[test]
fn letters_are_all_ascii() {
    assert_none("letters", &shape::ascii_violations(&sources()));
}

#[test]
fn files_begin_with_their_reason() {
    assert_none("heads of files", &shape::head_violations(&sources()));
}

#[test]
fn tests_tell_what_they_show() {
    assert_none("names of tests", &shape::test_name_violations(&sources()));
}

#[test]
fn orderings_cite_their_pairs() {
    assert_none("memory orderings", &orderings::violations(&sources()));
}

#[test]
fn outside_world_is_named_in_its_place() {
    let sources = sources();
    let mut found = places::name_violations(&sources);
    found.extend(places::thread_local_violations(&sources));
    assert_none("places of names", &found);
}

#[test]
fn unsafe_code_is_confined_and_argued() {
    assert_none("unsafe", &places::unsafe_violations(&sources()));
}

#[test]
fn code_has_no_way_around_the_checks() {
    assert_none("calls and attributes", &words::code_violations(&sources()));
}

#[test]
fn types_have_nouns_that_speak() {
    assert_none("nouns", &words::noun_violations(&sources()));
}

#[test]
fn comments_leave_no_work_open() {
    assert_none("marks", &words::mark_violations(&sources()));
}

#[test]
fn project_speaks_of_itself_alone() {
    assert_none("words", &words::text_violations(&texts()));
}
