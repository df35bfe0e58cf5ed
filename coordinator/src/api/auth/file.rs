//! The contents of the token file.

use super::role::Role;
use std::path::{Path, PathBuf};

/// Tokens with their roles.
pub(super) type Tokens = Vec<(Role, Vec<u8>)>;

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
pub(super) fn read(path: &Path) -> Result<Tokens, AuthError> {
    let text = std::fs::read_to_string(path).map_err(|error| AuthError::Unreadable {
        path: path.to_owned(),
        error,
    })?;
    let mut tokens = Tokens::new();
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
        let expected = "must be `admin TOKEN` or `client TOKEN`";
        let (role, token) = text
            .split_once(char::is_whitespace)
            .ok_or_else(|| wrong(expected))?;
        let role = match role {
            "admin" => Role::Admin,
            "client" => Role::Client,
            _ => return Err(wrong(expected)),
        };
        let token = token.trim();
        if token.len() < TOKEN_MIN || !token.chars().all(|c| c.is_ascii_graphic()) {
            return Err(wrong(
                "has a token that is not 32 or more printable characters: make one with `openssl rand -hex 32`",
            ));
        }
        if tokens.iter().any(|(_, known)| known == token.as_bytes()) {
            return Err(wrong("has a token that stands in another line, too"));
        }
        tokens.push((role, token.as_bytes().to_owned()));
    }
    Ok(tokens)
}
