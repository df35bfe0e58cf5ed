//! Ends of a conversation that come from outside it.

use futures_util::stream::{FuturesUnordered, StreamExt};
use std::future::{Future, poll_fn};
use std::iter;
use std::pin::Pin;
use std::task::Poll;

/// Holds a conversation until it ends by itself, or until `end` completes. Returns the output of `end`, or `None` if the
/// conversation ended first.
///
/// A connection is woken for each of its requests. `end` consists of timers and signals, and is polled only if one of
/// these woke it.
pub(super) fn until<T>(
    end: impl Future<Output = T>,
    mut conversation: Pin<&mut impl Future<Output = ()>>,
) -> impl Future<Output = Option<T>> {
    // Boxed, since the set keeps room for one more.
    let mut end: FuturesUnordered<_> = iter::once(Box::pin(end)).collect();
    poll_fn(move |context| match conversation.as_mut().poll(context) {
        Poll::Ready(()) => Poll::Ready(None),
        Poll::Pending => end.poll_next_unpin(context),
    })
}
