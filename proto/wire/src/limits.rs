//! Maximum sizes of messages.
//!
//! Every bound is far above the needs of an honest sender. It is low enough that a message
//! at the bound costs its reader milliseconds and megabytes, and does not bring the process
//! down.

use aliquot_core::budget::Key;
use aliquot_core::command::Changes;
use aliquot_core::holder::Holder;
use aliquot_core::message::{AnswerLine, ReportLine};
use aliquot_core::unit::Band;

/// Maximum size of a message of a session or of gossip: the default limit of gRPC stacks, so
/// that both ends agree without configuration.
pub const MESSAGE_BYTES_MAX: usize = 4 << 20;

/// Maximum size of a request, a release or a reply of a central decision: three times seven full numbers and an edge.
pub const CENTRAL_BYTES_MAX: usize = 512;

/// Maximum number of lines of a report or an answer, and of keys of a message. Senders stay below it:
/// [`ReportLine::LINES_MAX`] and [`AnswerLine::LINES_MAX`] are a quarter of it.
pub const LINES_MAX: usize = 16_384;

const _: () = assert!(LINES_MAX * 256 <= MESSAGE_BYTES_MAX);

/// A sender puts no more lines into one message than its reader accepts.
const _: () = assert!(ReportLine::LINES_MAX <= LINES_MAX && AnswerLine::LINES_MAX <= LINES_MAX);

/// Maximum size of the release of a floor: every number is full.
pub const FLOOR_BYTES: usize = 74;

/// Maximum size of a line of an answer: every number is full.
pub const ANSWER_LINE_BYTES: usize = 328;

/// Maximum size of the fields before the lines of a report or an answer, and of a record's head.
pub const HEAD_BYTES: usize = 256;

/// The longest report and the longest answer fit into records for relaying.
const _: () = assert!(
    HEAD_BYTES + ReportLine::BYTES_MAX + Holder::FLOORS_MAX * FLOOR_BYTES <= RECORD_BYTES_MAX
        && HEAD_BYTES + AnswerLine::LINES_MAX * ANSWER_LINE_BYTES <= RECORD_BYTES_MAX
);

/// Maximum number of records of an exchange: several times a report of every incarnation of
/// a large cluster.
pub const RECORDS_MAX: usize = 16_384;

/// Maximum number of entries of a digest. An entry of four full counters takes 42
/// bytes with its frame, so that a digest leaves room for records.
pub const DIGEST_MAX: usize = 65_536;

const _: () = assert!(DIGEST_MAX * 42 <= MESSAGE_BYTES_MAX);

/// Maximum size of a record: half a message, so that a full one still
/// fits beside others.
pub const RECORD_BYTES_MAX: usize = MESSAGE_BYTES_MAX / 2;

/// Maximum number of bands of a line: each band once.
pub const BANDS_MAX: usize = Band::MAX as usize + 1;

/// Maximum number of labels of a client.
pub const LABELS_MAX: usize = 32;

/// Maximum number of former edges that a client may name.
pub const FORMER_MAX: usize = 64;

/// Maximum number of elements of a list in a round. The rounds of a leader are always far
/// smaller: all lists together, and the grants of one budget to all incarnations, fit into
/// one of them.
pub const CHANGES_MAX: usize = 65_536;

const _: () = assert!(Changes::ITEMS_MAX + MEMBERS_MAX <= CHANGES_MAX);

/// Maximum size of an entry of the log. A movement with every counter full
/// takes 104 bytes with its frame: two full lists of them fit.
pub const ENTRY_BYTES_MAX: usize = 16 << 20;

const _: () = assert!(2 * CHANGES_MAX * 104 <= ENTRY_BYTES_MAX);

/// Maximum size of a snapshot: some millions of booked edges.
pub const SNAPSHOT_BYTES_MAX: usize = 1 << 30;

/// Maximum size of a text that an operator wrote: several times a key, so that the budget
/// parser can refuse it by its field and quote it.
pub const TEXT_BYTES_MAX: usize = 1_024;

const _: () = assert!(Key::BYTES_MAX < TEXT_BYTES_MAX);

/// Maximum number of budgets of an operator's request, and of elements of a page.
pub const PAGE_MAX: usize = 1_024;

/// Maximum number of keys whose budgets one entry makes.
pub const INSTANTIATE_MAX: usize = 1_024;

const _: () = assert!(INSTANTIATE_MAX * (Key::BYTES_MAX + 4) <= ENTRY_BYTES_MAX);

/// Maximum size of a node's address.
pub const ADDRESS_BYTES_MAX: usize = 256;

/// Maximum size of the name of a cluster.
pub const CLUSTER_BYTES_MAX: usize = 256;

/// Maximum number of members of a cluster, and of peers in a node's configuration.
pub const MEMBERS_MAX: usize = 1_024;

/// Maximum size of an entry with its position.
pub const RAFT_ENTRY_BYTES_MAX: usize = ENTRY_BYTES_MAX + 64;

/// Maximum number of entries of one append.
pub const APPEND_ENTRIES_MAX: usize = 65_536;

/// Maximum size of one append: any entry fits, with the fields around it.
pub const APPEND_BYTES_MAX: usize = RAFT_ENTRY_BYTES_MAX + (1 << 20);

/// Maximum size of a chunk of a snapshot.
pub const CHUNK_BYTES_MAX: usize = 4 << 20;

const _: () = assert!(CHUNK_BYTES_MAX + 1_024 <= APPEND_BYTES_MAX);
