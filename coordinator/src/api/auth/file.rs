//! The contents of the token file.

use super::role::Role;
use aliquot_core::budget::Key;
use aliquot_faces::Scope;
use std::path::{Path, PathBuf};

/// A token, with what its bearer may do.
pub(super) struct Token {
    pub(super) role: Role,
    /// Keys of budgets that it may ask for, at faces.
    pub(super) scope: Scope,
    pub(super) text: Vec<u8>,
}

/// Minimum number of characters of a token: 128 bits, if they are hexadecimal digits.
const TOKEN_MIN: usize = 32;

/// The token file cannot be used. Nothing was started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuthError {
    /// The file cannot be read.
    #[error("tokens: {} cannot be read: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        error: std::io::Error,
    },
    /// A line is not valid.
    #[error("tokens: {}:{line} {reason}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// Description of what is wrong with the line.
        reason: &'static str,
    },
}

/// Reads the file.
pub(super) fn read(path: &Path) -> Result<Vec<Token>, AuthError> {
    let text = std::fs::read_to_string(path).map_err(|error| AuthError::Unreadable {
        path: path.to_owned(),
        error,
    })?;
    let mut tokens: Vec<Token> = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        let text = text.trim();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let wrong = |reason| AuthError::Line {
            path: path.to_owned(),
            line,
            reason,
        };
        let expected = "must be `admin TOKEN`, `client TOKEN` or `client TOKEN PREFIX...`";
        let mut words = text.split_whitespace();
        let (Some(role), Some(token)) = (words.next(), words.next()) else {
            return Err(wrong(expected));
        };
        let prefixes: Vec<String> = words.map(str::to_owned).collect();
        let role = match role {
            "admin" if prefixes.is_empty() => Role::Admin,
            "client" => Role::Client,
            _ => return Err(wrong(expected)),
        };
        if !prefixes
            .iter()
            .all(|prefix| Key::try_from(prefix.as_str()).is_ok())
        {
            return Err(wrong(
                "has a prefix that is not a key: it must consist of whole segments, such as tenant/42",
            ));
        }
        let scope = Scope::of(prefixes);
        if token.len() < TOKEN_MIN || !token.chars().all(|c| c.is_ascii_graphic()) {
            return Err(wrong(
                "has a token that is not 32 or more printable characters: make one with `openssl rand -hex 32`",
            ));
        }
        if tokens.iter().any(|known| known.text == token.as_bytes()) {
            return Err(wrong("has the same token as another line"));
        }
        tokens.push(Token {
            role,
            scope,
            text: token.as_bytes().to_owned(),
        });
    }
    Ok(tokens)
}
