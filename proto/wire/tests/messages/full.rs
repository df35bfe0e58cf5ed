//! A report and an answer of maximum length fit into a record.

use crate::strategies as any;
use aliquot_core::message::{Answer, Report, ReportLine};
use aliquot_wire::Wire;
use aliquot_wire::limits::{ANSWER_LINE_BYTES, FLOOR_BYTES, HEAD_BYTES, MESSAGE_BYTES_MAX};
use proptest::collection::vec;
use proptest::prelude::*;

/// Extra bytes of a message of a thousand equal elements over one of none, per element.
fn each<T: Wire>(none: &T, thousand: &T) -> usize {
    let bytes = thousand.to_bytes().len() - none.to_bytes().len();
    bytes.div_ceil(1_000)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Checks that the bytes that [`ReportLine::BYTES_MAX`] adds up are no fewer than a line takes.
    #[test]
    fn a_line_of_a_report_takes_no_more_than_it_says(
        none in any::report(), line in any::report_line(), bands in vec(any::band_demand(), 0..10),
        floor in any::floor_release(),
    ) {
        let none = Report { lines: Vec::new(), floors: Vec::new(), ..none };
        prop_assert!(none.to_bytes().len() <= HEAD_BYTES);
        let line = ReportLine { demand: bands, ..line };
        let lines = Report { lines: vec![line.clone(); 1_000], ..none.clone() };
        if 1_000 * line.bytes_max() < MESSAGE_BYTES_MAX {
            prop_assert!(each(&none, &lines) <= line.bytes_max());
        }
        let floors = Report { floors: vec![floor; 1_000], ..none.clone() };
        prop_assert!(each(&none, &floors) <= FLOOR_BYTES);
    }

    #[test]
    fn a_line_of_an_answer_takes_no_more_than_its_bound(
        none in any::answer(), line in any::answer_line(),
    ) {
        let none = Answer { lines: Vec::new(), ..none };
        prop_assert!(none.to_bytes().len() <= HEAD_BYTES);
        let lines = Answer { lines: vec![line; 1_000], ..none.clone() };
        prop_assert!(each(&none, &lines) <= ANSWER_LINE_BYTES);
    }
}
