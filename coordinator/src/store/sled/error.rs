//! Errors of a store on sled, with instructions for the operator.

use crate::store::{START_ANEW, StoreError};
use std::fmt::Display;
use std::io;
use std::path::Path;

/// Instructions to the operator for a damaged directory.
pub(super) const WHAT_TO_DO: &str = START_ANEW;

/// Returns the error of a store without its watermark.
pub(super) fn unmarked(path: &Path) -> StoreError {
    StoreError::Damaged {
        what: format!("the store beside {}", path.display()),
        reason: format!(
            "that file is missing, so it is not known how much the store must contain; {WHAT_TO_DO}"
        ),
    }
}

pub(super) fn open_error(db_dir: &Path, error: sled::Error) -> StoreError {
    match error {
        sled::Error::Io(error) => path_error("opening", db_dir, &error),
        error => damaged(db_dir, &error.to_string()),
    }
}

pub(super) fn damaged(db_dir: &Path, reason: &str) -> StoreError {
    StoreError::Damaged {
        what: format!("the database {}", db_dir.display()),
        reason: format!("{reason}; {WHAT_TO_DO}"),
    }
}

pub(super) fn path_error(what: &str, path: &Path, error: &io::Error) -> StoreError {
    io_error(&format!("{what} {}", path.display()), error)
}

pub(super) fn io_error(what: &str, error: &dyn Display) -> StoreError {
    StoreError::Io {
        what: what.to_owned(),
        reason: error.to_string(),
    }
}
