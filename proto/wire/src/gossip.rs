//! Reports and answers that any node relays.
//!
//! A [`Record`] is a head and a payload. The head has the name of the record (topic and
//! incarnation) and its version. Of two records with one name, the greater version replaces
//! the other, so records merge in any order, by maximum. Relays keep and forward
//! [`Sealed<Record>`]; a node reads the payload only if it is meant for it.
//! where they are its reader.

use crate::codec::{Wire, wire};
use crate::error::WireError;
use crate::limits::{
    ADDRESS_BYTES_MAX, DIGEST_MAX, MESSAGE_BYTES_MAX, RECORD_BYTES_MAX, RECORDS_MAX,
};
use crate::pb;
use crate::read;
use crate::sealed::Sealed;
use aliquot_core::message::{Answer, Heard, Report};
use aliquot_core::unit::{Incarnation, Number, Term};
use bytes::Bytes;

/// The topic of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Topic {
    /// The latest report of an incarnation, which repeats the lines that the leader may not know.
    Report,
    /// The leader's answer to the incarnation.
    Answer,
    /// The address at which the incarnation serves clients.
    Presence,
    /// A topic of a later version: kept and relayed unchanged.
    Other(OtherTopic),
}

/// The number of a topic that this version does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OtherTopic(u32);

impl Topic {
    /// Returns the topic of this number; every number is valid.
    #[must_use]
    pub const fn of_number(number: u32) -> Self {
        match number {
            1 => Self::Report,
            2 => Self::Answer,
            3 => Self::Presence,
            other => Self::Other(OtherTopic(other)),
        }
    }

    /// Returns the number of the topic.
    #[must_use]
    pub const fn number(self) -> u32 {
        match self {
            Self::Report => 1,
            Self::Answer => 2,
            Self::Presence => 3,
            Self::Other(OtherTopic(other)) => other,
        }
    }
}

/// The head of a record: its name and its version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Head {
    /// Its topic.
    pub topic: Topic,
    /// The incarnation that reports, or that is answered.
    pub incarnation: Incarnation,
    /// Its version: the seq of a report in term 0, or the number of an answer.
    pub version: Heard,
}

impl Head {
    /// Returns true if a record with this head replaces one with the other.
    #[must_use]
    pub fn replaces(&self, other: &Self) -> bool {
        (self.topic, self.incarnation) == (other.topic, other.incarnation)
            && self.version > other.version
    }
}

/// A message as its origin wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its name and version.
    pub head: Head,
    /// An encoded [`Report`], [`Answer`] or [`Presence`].
    pub payload: Bytes,
}

impl Record {
    /// Makes the record of a report.
    #[must_use]
    pub fn of_report(report: &Sealed<Report>) -> Self {
        Self {
            head: report_head(report.value()),
            payload: report.bytes().clone(),
        }
    }

    /// Makes the record of an answer.
    #[must_use]
    pub fn of_answer(answer: &Sealed<Answer>) -> Self {
        Self {
            head: answer_head(answer.value()),
            payload: answer.bytes().clone(),
        }
    }

    /// Makes the record of a presence.
    #[must_use]
    pub fn of_presence(presence: &Sealed<Presence>) -> Self {
        Self {
            head: presence_head(presence.value()),
            payload: presence.bytes().clone(),
        }
    }

    /// Returns the report in it.
    ///
    /// # Errors
    ///
    /// [`WireError`] if it has no report, or one that does not match its head: then the head and
    /// the payload were written by different nodes.
    pub fn report(&self) -> Result<Sealed<Report>, WireError> {
        self.payload(report_head)
    }

    /// Returns the answer in it.
    ///
    /// # Errors
    ///
    /// As [`Record::report`].
    pub fn answer(&self) -> Result<Sealed<Answer>, WireError> {
        self.payload(answer_head)
    }

    /// Returns the presence in it.
    ///
    /// # Errors
    ///
    /// As [`Record::report`].
    pub fn presence(&self) -> Result<Sealed<Presence>, WireError> {
        self.payload(presence_head)
    }

    fn payload<T: Wire>(&self, head: fn(&T) -> Head) -> Result<Sealed<T>, WireError> {
        let sealed = Sealed::open(self.payload.clone());
        let sealed = sealed.map_err(|error: WireError| error.within("Record.payload"))?;
        let actual = head(sealed.value());
        if actual == self.head {
            return Ok(sealed);
        }
        let (there, allowed) = (
            format!("{:?}", self.head),
            format!("the payload's, {actual:?}"),
        );
        Err(WireError::field("Record.head", there, allowed))
    }
}

fn report_head(report: &Report) -> Head {
    Head {
        topic: Topic::Report,
        incarnation: report.edge.child,
        version: Heard {
            term: Term::new(0),
            number: Number::new(report.seq.get()),
        },
    }
}

fn answer_head(answer: &Answer) -> Head {
    Head {
        topic: Topic::Answer,
        incarnation: answer.edge.child,
        version: answer.number,
    }
}

fn presence_head(presence: &Presence) -> Head {
    Head {
        topic: Topic::Presence,
        incarnation: presence.incarnation,
        version: Heard {
            term: Term::new(0),
            number: presence.number,
        },
    }
}

/// The address at which a node serves clients, and how many it serves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Presence {
    /// The node's incarnation.
    pub incarnation: Incarnation,
    /// Number of the presence record of this incarnation.
    pub number: Number,
    /// Its address for clients; empty while it takes none.
    pub address: String,
    /// Number of open sessions.
    pub sessions: u64,
}

/// One side of an exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GossipMessage {
    /// The sender's incarnation.
    pub sender: Incarnation,
    /// The records it has or, in a reply, lacks. At most [`DIGEST_MAX`].
    pub digest: Vec<Head>,
    /// Records, those with targets first. At most [`RECORDS_MAX`].
    pub records: Vec<Sealed<Record>>,
}

wire!(Record, Record, RECORD_BYTES_MAX);
wire!(Presence, Presence, RECORD_BYTES_MAX);
wire!(
    GossipMessage,
    GossipMessage,
    MESSAGE_BYTES_MAX,
    [(2, "digest", DIGEST_MAX), (3, "records", RECORDS_MAX)]
);

impl From<&Head> for pb::DigestEntry {
    fn from(head: &Head) -> Self {
        Self {
            topic: head.topic.number(),
            life: head.incarnation.get(),
            term: head.version.term.get(),
            number: head.version.number.get(),
        }
    }
}

impl From<pb::DigestEntry> for Head {
    fn from(entry: pb::DigestEntry) -> Self {
        Self {
            topic: Topic::of_number(entry.topic),
            incarnation: Incarnation::new(entry.life),
            version: Heard {
                term: Term::new(entry.term),
                number: Number::new(entry.number),
            },
        }
    }
}

impl From<&Record> for pb::Record {
    fn from(record: &Record) -> Self {
        Self {
            topic: record.head.topic.number(),
            life: record.head.incarnation.get(),
            term: record.head.version.term.get(),
            number: record.head.version.number.get(),
            payload: record.payload.clone(),
        }
    }
}

impl From<pb::Record> for Record {
    fn from(record: pb::Record) -> Self {
        let head = pb::DigestEntry {
            topic: record.topic,
            life: record.life,
            term: record.term,
            number: record.number,
        };
        Self {
            head: head.into(),
            payload: record.payload,
        }
    }
}

impl From<&GossipMessage> for pb::GossipMessage {
    fn from(message: &GossipMessage) -> Self {
        let records = message.records.iter();
        Self {
            sender: message.sender.get(),
            digest: message.digest.iter().map(Into::into).collect(),
            records: records.map(|record| record.bytes().clone()).collect(),
            // The streams at both ends set and answer it; it is not gossiped.
            echo: 0,
        }
    }
}

impl TryFrom<pb::GossipMessage> for GossipMessage {
    type Error = WireError;

    fn try_from(message: pb::GossipMessage) -> Result<Self, WireError> {
        read::at_most(message.records.len(), "records", RECORDS_MAX)?;
        Ok(Self {
            sender: Incarnation::new(message.sender),
            digest: read::list(message.digest, "digest", DIGEST_MAX)?,
            records: read::each(message.records, "records", Sealed::open)?,
        })
    }
}

impl From<&Presence> for pb::Presence {
    fn from(presence: &Presence) -> Self {
        Self {
            life: presence.incarnation.get(),
            number: presence.number.get(),
            address: presence.address.clone(),
            sessions: presence.sessions,
        }
    }
}

impl TryFrom<pb::Presence> for Presence {
    type Error = WireError;

    fn try_from(presence: pb::Presence) -> Result<Self, WireError> {
        read::at_most(presence.address.len(), "address", ADDRESS_BYTES_MAX)?;
        Ok(Self {
            incarnation: Incarnation::new(presence.life),
            number: Number::new(presence.number),
            address: presence.address,
            sessions: presence.sessions,
        })
    }
}
