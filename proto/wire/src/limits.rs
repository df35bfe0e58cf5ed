//! How much a message may hold.
//!
//! Every bound is far above what an honest sender needs and low enough that a
//! message at the bound costs its reader milliseconds and megabytes, not the
//! process.

use aliquot_core::budget::Key;
use aliquot_core::command::Changes;
use aliquot_core::holder::Holder;
use aliquot_core::message::{AnswerLine, ReportLine};
use aliquot_core::unit::Band;

/// The most bytes of a session's or a gossip message: what gRPC stacks accept
/// unless told otherwise, so that both ends agree without being configured.
pub const MESSAGE_BYTES_MAX: usize = 4 << 20;

/// The most bytes of a question, a release or a verdict: seven full numbers and an edge, thrice over.
pub const CENTRAL_BYTES_MAX: usize = 512;

/// The most lines of a report or an answer, and keys of a message. Nobody makes one
/// that has as many: [`ReportLine::LINES_MAX`] and [`AnswerLine::LINES_MAX`] are a quarter of it.
pub const LINES_MAX: usize = 16_384;

const _: () = assert!(LINES_MAX * 256 <= MESSAGE_BYTES_MAX);

/// A child or parent says no more lines in one message than the other end reads.
const _: () = assert!(ReportLine::LINES_MAX <= LINES_MAX && AnswerLine::LINES_MAX <= LINES_MAX);

/// The most bytes of the release of a floor with every number full.
pub const FLOOR_BYTES: usize = 74;

/// The most bytes of a line of an answer with every number full.
pub const ANSWER_LINE_BYTES: usize = 328;

/// The most bytes of what stands before the lines of a report or an answer, and of a record's head.
pub const HEAD_BYTES: usize = 256;

/// The longest report and the longest answer are records that are relayed.
const _: () = assert!(
    HEAD_BYTES + ReportLine::BYTES_MAX + Holder::FLOORS_MAX * FLOOR_BYTES <= RECORD_BYTES_MAX
        && HEAD_BYTES + AnswerLine::LINES_MAX * ANSWER_LINE_BYTES <= RECORD_BYTES_MAX
);

/// The most records of an exchange: a report of every life of a large cluster,
/// many times over.
pub const RECORDS_MAX: usize = 16_384;

/// The most entries of a digest. An entry of four full counters takes 42
/// bytes with its frame, so that a digest leaves room for records.
pub const DIGEST_MAX: usize = 65_536;

const _: () = assert!(DIGEST_MAX * 42 <= MESSAGE_BYTES_MAX);

/// The most bytes of a record: half a message, so that a full one still
/// travels beside others.
pub const RECORD_BYTES_MAX: usize = MESSAGE_BYTES_MAX / 2;

/// The most bands of a line: each band once.
pub const BANDS_MAX: usize = Band::MAX as usize + 1;

/// The most labels of a client.
pub const LABELS_MAX: usize = 32;

/// The most former edges that a client may name.
pub const FORMER_MAX: usize = 64;

/// The most elements of a list in a round that is read. What a leader makes is far
/// smaller, whatever it has to say: all lists together, and the grants of one budget to
/// all lives, fit into any one of them.
pub const CHANGES_MAX: usize = 65_536;

const _: () = assert!(Changes::ITEMS_MAX + MEMBERS_MAX <= CHANGES_MAX);

/// The most bytes of an entry of the log. A movement with every counter full
/// takes 104 bytes with its frame: two full lists of them fit.
pub const ENTRY_BYTES_MAX: usize = 16 << 20;

const _: () = assert!(2 * CHANGES_MAX * 104 <= ENTRY_BYTES_MAX);

/// The most bytes of a snapshot: some millions of booked edges.
pub const SNAPSHOT_BYTES_MAX: usize = 1 << 30;

/// The most bytes of a text that an operator wrote: several times a key, so
/// that the gate for budgets can refuse it by its field and quote it.
pub const TEXT_BYTES_MAX: usize = 1_024;

const _: () = assert!(Key::BYTES_MAX < TEXT_BYTES_MAX);

/// The most budgets of an operator's request, and elements of a page.
pub const PAGE_MAX: usize = 1_024;

/// The most keys whose budgets one entry makes.
pub const INSTANTIATE_MAX: usize = 1_024;

const _: () = assert!(INSTANTIATE_MAX * (Key::BYTES_MAX + 4) <= ENTRY_BYTES_MAX);

/// The most bytes of a node's address.
pub const ADDRESS_BYTES_MAX: usize = 256;

/// The most bytes of the name of a cluster.
pub const CLUSTER_BYTES_MAX: usize = 256;

/// The most members of a cluster, and peers that a node may be told of.
pub const MEMBERS_MAX: usize = 1_024;

/// The most bytes of an entry with its place.
pub const RAFT_ENTRY_BYTES_MAX: usize = ENTRY_BYTES_MAX + 64;

/// The most entries of one append.
pub const APPEND_ENTRIES_MAX: usize = 65_536;

/// The most bytes of one append: any entry fits, with what stands around it.
pub const APPEND_BYTES_MAX: usize = RAFT_ENTRY_BYTES_MAX + (1 << 20);

/// The most bytes of a piece of a snapshot.
pub const CHUNK_BYTES_MAX: usize = 4 << 20;

const _: () = assert!(CHUNK_BYTES_MAX + 1_024 <= APPEND_BYTES_MAX);
