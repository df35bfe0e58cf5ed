//! Output of commands.

use std::fmt::Display;
use std::io::Write;

/// Prints answers and errors, as text or as JSON.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Out {
    pub(super) json: bool,
}

impl Out {
    /// Prints `json` if `--json` was given, and `text` otherwise.
    pub(super) fn answer(
        self,
        json: impl FnOnce() -> serde_json::Value,
        text: impl FnOnce() -> String,
    ) {
        if self.json {
            self.say(format_args!("{:#}", json()));
        } else {
            self.say(text().trim_end());
        }
    }

    /// Prints to standard output. It is no error if the reader has closed the pipe, as `head` does.
    pub(super) fn say(self, text: impl Display) {
        drop(writeln!(std::io::stdout(), "{text}"));
    }

    /// Prints an error to standard error.
    pub(super) fn complain(self, said: &str) {
        let said = if self.json {
            serde_json::json!({ "error": said }).to_string()
        } else {
            format!("aliquot: {said}")
        };
        drop(writeln!(std::io::stderr(), "{said}"));
    }
}
