//! Reads the token file again when it has changed.

use super::Auth;
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
