use super::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;

const PATIENCE: Duration = Duration::from_secs(10);

#[tokio::test(start_paused = true)]
async fn a_write_fails_if_the_reader_takes_nothing_in_time() {
    let (ours, theirs) = tokio::io::duplex(16);
    let mut ours = SlowReaderGuard::new(ours, Some(PATIENCE));
    let begun = Instant::now();
    let error = ours.write_all(&[0; 64]).await.unwrap_err();
    assert_eq!(
        (error.kind(), begun.elapsed()),
        (io::ErrorKind::TimedOut, PATIENCE)
    );
    drop(theirs);
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_takes_a_little_in_time_is_waited_for() {
    let (ours, mut theirs) = tokio::io::duplex(16);
    let mut ours = SlowReaderGuard::new(ours, Some(PATIENCE));
    let reader = tokio::spawn(async move {
        let mut bytes = [0; 16];
        for _ in 0..4 {
            tokio::time::sleep(PATIENCE - Duration::from_secs(1)).await;
            theirs.read_exact(&mut bytes).await.unwrap();
        }
    });
    ours.write_all(&[0; 64]).await.unwrap();
    reader.await.unwrap();
}
