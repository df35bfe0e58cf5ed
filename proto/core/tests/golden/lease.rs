//! The whole transition table of a lease.

use aliquot_core::lease::{LeaseEvent, LeaseState};
use expect_test::expect;

#[test]
fn a_lease_moves_by_this_table_and_nothing_else() {
    use LeaseEvent::{Close, Expire, Open, Renew};
    use LeaseState::{Closed, Held, Lapsed, None};
    let mut table = String::from("         Renew    Expire   Close    Open\n");
    for state in [None, Held, Lapsed, Closed] {
        let row: Vec<String> = [Renew, Expire, Close, Open]
            .map(|event| format!("{:<8}", format!("{:?}", state.after(event))))
            .into();
        let line = format!("{:<8} {}", format!("{state:?}"), row.join(" "));
        table.push_str(line.trim_end());
        table.push('\n');
    }
    expect![[r#"
                 Renew    Expire   Close    Open
        None     Held     None     Closed   None
        Held     Held     Lapsed   Closed   None
        Lapsed   Held     Lapsed   Closed   None
        Closed   Closed   Closed   Closed   None
    "#]]
    .assert_eq(&table);
}
