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
            self.print(format_args!("{:#}", json()));
        } else {
            self.print(text().trim_end());
        }
    }

    /// Prints to standard output. It is no error if the reader has closed the pipe, as `head` does.
    pub(super) fn print(self, text: impl Display) {
        drop(writeln!(std::io::stdout(), "{text}"));
    }

    /// Prints an error to standard error.
    pub(super) fn complain(self, message: &str) {
        let message = if self.json {
            serde_json::json!({ "error": message }).to_string()
        } else {
            format!("aliquot: {message}")
        };
        drop(writeln!(std::io::stderr(), "{message}"));
    }
}
