use super::super::pb::bucket_id::Entry;
use super::*;
use bytes::Bytes;

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn usage(user: Bytes, requests: u64) -> BucketQuotaUsage {
    let entry = Entry {
        key: Bytes::from_static(b"user"),
        value: user,
    };
    BucketQuotaUsage {
        bucket_id: Some(BucketId {
            bucket: vec![entry],
        }),
        num_requests_allowed: requests,
        ..BucketQuotaUsage::default()
    }
}

impl Book {
    fn row(&mut self, stream: u64, user: &str, requests: u64, now: Duration) {
        let usage = usage(Bytes::copy_from_slice(user.as_bytes()), requests);
        let place = |_: &BucketName| Place::Key("all".into());
        self.report(stream, &Bytes::from_static(b"shop"), usage, now, place);
    }

    fn row_uncovered(&mut self, stream: u64, user: &str, requests: u64) {
        let usage = usage(Bytes::copy_from_slice(user.as_bytes()), requests);
        let place = |_: &BucketName| Place::None(Assignment::Allow);
        let domain = Bytes::from_static(b"shop");
        self.report(stream, &domain, usage, Duration::ZERO, place);
    }
}

fn is_abandonment(action: &BucketAction) -> bool {
    matches!(action.bucket_action, Some(Action::AbandonAction(_)))
}

#[test]
fn a_budget_that_no_look_finds_is_denied_and_looked_at_again() {
    let mut book = Book::new(BUCKETS_MAX);
    let stream = book.open();
    book.row(stream, "a", 1, secs(1));
    for _ in 0..2 {
        assert_eq!(book.looks(9, secs(1)), ["all"]);
        assert_eq!(book.accounts["all"].pool.budget(), Budget::Awaited);
        book.learn("all", Budget::Awaited);
    }
    book.plan(secs(1), false);
    let actions = book.message(stream, secs(1)).bucket_action;
    assert_eq!(actions.len(), 1);
    let denied = Budget::Instead(Assignment::Deny);
    assert_eq!(book.accounts["all"].pool.budget(), denied);
    assert_eq!(book.looks(9, secs(2)), ["all"]);
    book.learn("all", Budget::Known { limit: 5_000_000 });
    assert!(book.accounts["all"].pool.is_fresh());
    // One look without an answer changes nothing that is known.
    book.learn("all", Budget::Awaited);
    let known = Budget::Known { limit: 5_000_000 };
    assert_eq!(book.accounts["all"].pool.budget(), known);
}

#[test]
fn a_bucket_shares_no_memory_with_its_report() {
    let mut book = Book::new(BUCKETS_MAX);
    let stream = book.open();
    let report = Bytes::from(vec![b'x'; 1 << 20]);
    let slice = |_: &BucketName| Place::Key("all".into());
    let domain = report.slice(0..4);
    book.report(
        stream,
        &domain,
        usage(report.slice(8..16), 1),
        secs(1),
        slice,
    );
    drop(domain);
    assert!(report.is_unique());
    assert_eq!((book.buckets(), book.names), (1, 16));
    book.end(stream, secs(1));
    assert_eq!((book.buckets(), book.names), (0, 0));
}

#[test]
fn a_bucket_beyond_the_bytes_of_all_names_is_denied() {
    let mut book = Book::new(BUCKETS_MAX);
    let stream = book.open();
    book.names = NAMES_MAX - 10;
    book.row(stream, "a", 1, secs(1));
    book.row(stream, "b", 1, secs(1));
    assert_eq!((book.buckets(), book.names), (1, NAMES_MAX - 1));
    let actions = book.message(stream, secs(1)).bucket_action;
    assert_eq!(actions.len(), 1);
    assert_eq!(book.streams[&stream].others_bytes, 0);
}

#[test]
fn idle_and_ended_buckets_count_until_they_are_gone() {
    let mut book = Book::new(BUCKETS_MAX);
    let stream = book.open();
    book.row(stream, "a", 1, secs(1));
    book.learn("all", Budget::Instead(Assignment::Deny));
    book.row(stream, "a", 0, secs(3));
    assert_eq!((book.buckets(), book.idle, book.names), (0, 1, 9));
    assert!(is_abandonment(
        &book.message(stream, secs(3)).bucket_action[0]
    ));
    assert_eq!((book.idle, book.names), (0, 0));
    book.row(stream, "a", 1, secs(4));
    book.end(stream, secs(4));
    assert_eq!(book.ended, 1);
    book.plan(secs(5), true);
    assert_eq!((book.ended, book.accounts()), (0, 0));
}

/// The data plane uses the assignment until it expires, if the stream ends before it is told.
#[test]
fn an_idle_bucket_is_charged_if_its_stream_ends_first() {
    let mut book = Book::new(BUCKETS_MAX);
    let stream = book.open();
    book.row(stream, "a", 10, secs(1));
    book.learn("all", Budget::Known { limit: 10_000_000 });
    let asked = Asked {
        tokens: 20,
        new: 20,
    };
    book.paid("all", asked, 20, secs(1));
    book.plan(secs(1), false);
    let charged = book.accounts["all"].pool.charged();
    assert!(charged > 0);
    book.row(stream, "a", 0, secs(3));
    assert_eq!((book.idle, book.accounts()), (1, 0));
    book.end(stream, secs(3));
    assert_eq!(book.accounts["all"].pool.charged(), charged);
    book.plan(secs(16), true);
    assert_eq!(book.accounts["all"].pool.charged(), charged);
    book.plan(secs(17), true);
    assert_eq!(book.accounts(), 0);
}

#[test]
fn an_uncovered_bucket_without_requests_is_abandoned() {
    let mut book = Book::new(BUCKETS_MAX);
    let stream = book.open();
    book.row_uncovered(stream, "a", 1);
    book.row_uncovered(stream, "a", 0);
    let actions = book.message(stream, secs(1)).bucket_action;
    let abandoned: Vec<bool> = actions.iter().map(is_abandonment).collect();
    assert_eq!(abandoned, [false, true]);
}

#[test]
fn renewals_have_a_part_of_each_message() {
    let mut book = Book::new(BUCKETS_MAX);
    let stream = book.open();
    book.row(stream, "a", 1, secs(1));
    book.learn("all", Budget::Instead(Assignment::Allow));
    book.plan(secs(1), true);
    for index in 0..ACTIONS_MAX {
        book.row_uncovered(stream, &index.to_string(), 1);
    }
    let actions = book.message(stream, secs(1)).bucket_action;
    assert_eq!(actions.len(), ACTIONS_MAX / 2 + 1);
    assert_eq!(
        actions.last().unwrap().bucket_id,
        usage("a".into(), 1).bucket_id
    );
}

/// Passes are not exactly as far from each other as plans are.
#[test]
fn a_plan_of_all_leaves_out_none() {
    let mut book = Book::new(BUCKETS_MAX);
    let stream = book.open();
    book.row(stream, "a", 1, secs(1));
    book.learn("all", Budget::Instead(Assignment::Allow));
    book.plan(secs(1), true);
    assert_eq!(book.message(stream, secs(1)).bucket_action.len(), 1);
    book.learn("all", Budget::Instead(Assignment::Deny));
    let early = secs(2) - Duration::from_millis(1);
    book.plan(early, true);
    assert_eq!(book.message(stream, early).bucket_action.len(), 1);
}

#[test]
fn buckets_of_more_budgets_than_there_is_room_for_are_denied_and_others_go_on() {
    let mut book = Book::new(2);
    let stream = book.open();
    let place = |name: &BucketName| Place::Key(name.key(b"shop"));
    let row = |book: &mut Book, user: &'static str, now| {
        let usage = usage(Bytes::from_static(user.as_bytes()), 1);
        book.report(stream, &Bytes::from_static(b"shop"), usage, now, place)
    };
    for user in ["a", "b", "c", "d"] {
        assert!(row(&mut book, user, secs(1)), "{user}");
    }
    assert_eq!((book.accounts(), book.buckets()), (2, 2));
    let denied = book.message(stream, secs(1)).bucket_action;
    let deny = action(&denied[0].bucket_id.clone().unwrap(), Assignment::Deny);
    assert_eq!((denied.len(), &denied[0]), (2, &deny));
    // Another stream joins a budget that has an account, and an account that is over makes room.
    let other = book.open();
    book.report(
        other,
        &Bytes::from_static(b"shop"),
        usage(Bytes::from_static(b"a"), 1),
        secs(1),
        place,
    );
    assert_eq!((book.accounts(), book.buckets()), (2, 3));
    book.end(stream, secs(2));
    book.plan(secs(2), true);
    assert_eq!(book.accounts(), 1);
}

#[test]
fn a_stream_has_a_maximum_of_buckets_and_leaves_room_for_others() {
    let mut book = Book::new(BUCKETS_MAX);
    let (flood, other) = (book.open(), book.open());
    for number in 0..STREAM_BUCKETS_MAX + 5 {
        book.row(flood, &number.to_string(), 1, secs(1));
    }
    assert_eq!(book.buckets(), STREAM_BUCKETS_MAX);
    assert_eq!(book.streams[&flood].others.len(), 5);
    book.row(other, "one", 1, secs(1));
    assert_eq!(book.buckets(), STREAM_BUCKETS_MAX + 1);
}

#[test]
fn names_of_buckets_that_are_not_remembered_have_one_bound_for_all_streams() {
    let mut book = Book::new(BUCKETS_MAX);
    let long = "x".repeat(STREAM_OTHERS_MAX - 100);
    let streams: Vec<u64> = (0..20).map(|_| book.open()).collect();
    for stream in &streams {
        // One stream has room for one such name.
        book.row_uncovered(*stream, &long, 1);
        book.row_uncovered(*stream, &long, 1);
        assert!(book.streams[stream].others.len() <= 1);
    }
    let answered = |book: &Book| {
        book.streams
            .values()
            .filter(|it| !it.others.is_empty())
            .count()
    };
    assert_eq!(answered(&book), 16);
    assert!(book.others <= OTHERS_MAX);
    book.message(streams[0], secs(1));
    book.end(streams[1], secs(1));
    book.row_uncovered(streams[18], &long, 1);
    assert_eq!(answered(&book), 15);
    for stream in streams {
        book.end(stream, secs(2));
    }
    assert_eq!(book.others, 0);
}
