//! `explain-format`: prints the table of the scenario format.

use crate::scenario::format::{Default, Key, SECTIONS};
use std::fmt::Write;

/// Returns a text that explains every section and key, with the allowed values.
pub(super) fn explained() -> String {
    let mut text = String::from(
        "A scenario is a TOML file. Spans have units (\"500ms\"), fractions are \"30%\" or 0.3, rates are \"400/s\".\n",
    );
    for section in SECTIONS {
        let _ = write!(text, "\n{}\n", section.heading);
        wrap(&mut text, "  ", section.says);
        for key in section.keys {
            explain(&mut text, key);
        }
    }
    text
}

fn explain(text: &mut String, key: &Key) {
    let default = match key.default {
        Default::Required => "required".to_owned(),
        Default::Nothing(means) => format!("default: {means}"),
        Default::Is(value) => format!("default: {value}"),
    };
    let _ = write!(
        text,
        "\n  {} = {}; {default}\n",
        key.name,
        key.shape.allowed()
    );
    wrap(text, "      ", key.says);
}

/// Appends a text, wrapped into lines of at most 100 characters.
fn wrap(text: &mut String, indent: &str, says: &str) {
    const WIDTH: usize = 100;
    let mut line = indent.to_owned();
    for word in says.split(' ') {
        if line.len() > indent.len() && line.chars().count() + 1 + word.chars().count() > WIDTH {
            let _ = writeln!(text, "{line}");
            line = indent.to_owned();
        }
        if line.len() > indent.len() {
            line.push(' ');
        }
        line.push_str(word);
    }
    let _ = writeln!(text, "{line}");
}
