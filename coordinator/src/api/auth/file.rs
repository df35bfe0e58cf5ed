//! The token file: its contents, and reading it again when it has changed.

use super::{Auth, AuthError, Role};
use crate::timer;
use aliquot_client::debounce::{Debouncer, Last, Rules};
use std::fs::Metadata;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Interval at which the file is checked for changes.
const LOOK: Duration = Duration::from_secs(1);
/// Time without changes after which the file is read, because it may be written in several steps.
const QUIET: Duration = Duration::from_millis(300);
/// Maximum time after which the file is read even if it keeps changing.
const AT_LAST: Duration = Duration::from_secs(5);

/// Tokens with their roles.
pub(super) type Tokens = Vec<(Role, Vec<u8>)>;

/// Attributes that change when the file does: modification time, length and inode.
type Looks = Option<(Option<SystemTime>, u64, u64)>;

fn looks(path: &Path) -> Looks {
    let metadata: Metadata = std::fs::metadata(path).ok()?;
    #[cfg(unix)]
    let which = std::os::unix::fs::MetadataExt::ino(&metadata);
    #[cfg(not(unix))]
    let which = 0;
    Some((metadata.modified().ok(), metadata.len(), which))
}

/// Reads the file again when it has changed, until this future is dropped. If the file cannot be used,
/// the former tokens stay valid and an error is logged.
pub async fn keep_reading(auth: Arc<Auth>) {
    let Some(path) = auth.path().map(Path::to_owned) else {
        return;
    };
    let mut seen = looks(&path);
    let rules = Rules::quiet(QUIET).at_most_every(AT_LAST);
    let reload = Debouncer::spawn(rules, move |Last(()): Last<()>| {
        match auth.reload() {
            Ok(count) => tracing::info!(tokens = count, "the token file was read again"),
            Err(error) => {
                tracing::error!(%error, "the token file was not read again; the former tokens stay valid")
            }
        }
        std::future::ready(())
    });
    loop {
        timer::sleep(LOOK).await;
        let now = looks(&path);
        if now != seen {
            seen = now;
            // This queue is never full, because only the last item is kept. It is closed when this
            // future is dropped.
            let _taken = reload.push(()).await;
        }
    }
}

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
        if token.len() < Auth::TOKEN_MIN || !token.chars().all(|c| c.is_ascii_graphic()) {
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
