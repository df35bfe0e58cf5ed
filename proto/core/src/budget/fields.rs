//! Explanations of a budget's fields. Help and documents are made from this table.

/// Explanation of a field of a [`BudgetDraft`](super::BudgetDraft).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// Format of its value, and the kinds of budget that have it.
    pub read_as: &'static str,
    /// Its default; empty if it must be given, or has none.
    pub default: &'static str,
    /// Its meaning.
    pub meaning: &'static str,
}

/// All fields, in the order in which they are explained.
pub const FIELDS: [Field; 19] = [
    Field {
        name: "key",
        read_as: "a key, or a template with `*` for whole segments",
        default: "",
        meaning: "Which requests: `checkout/charge`, or `tenant/*/reads` for a limit of its own to each key.",
    },
    Field {
        name: "rate",
        read_as: "`1000/s`, `1.5k/s`, `90/min`, `1 per 10 days`; 0, or 1 per 10 days to 1T/s",
        default: "",
        meaning: "So many tokens per span. One of `rate`, `quota` and `concurrency` must be given.",
    },
    Field {
        name: "burst",
        read_as: "whole tokens, 0 to 2^56; with `rate`",
        default: "one second's worth, at least 1",
        meaning: "How many tokens may be saved, and so be spent at once.",
    },
    Field {
        name: "quota",
        read_as: "`50000 per day`, also minute, hour, week, month and year of the calendar; `1M per 36h` is fixed",
        default: "",
        meaning: "So many tokens in each period, all of them new at its beginning.",
    },
    Field {
        name: "offset",
        read_as: "`+05:30`; -14:00 to +14:00; with a calendar's `quota`",
        default: "+00:00",
        meaning: "The offset from UTC by which the calendar's days begin.",
    },
    Field {
        name: "zone",
        read_as: "`Europe/Berlin`, a name of the IANA time zone database; with a calendar's `quota`, without `offset`",
        default: "none",
        meaning: "The time zone by whose clock the calendar's days begin, with its summer time.",
    },
    Field {
        name: "align",
        read_as: "a span; with `quota`",
        default: "0s",
        meaning: "How much later each period begins.",
    },
    Field {
        name: "concurrency",
        read_as: "permits, 0 to 2^56",
        default: "",
        meaning: "So many requests in flight.",
    },
    Field {
        name: "max_hold",
        read_as: "a span, 1s to 24h; with `concurrency`",
        default: "60s",
        meaning: "How long a permit may be held before it is taken as lost.",
    },
    Field {
        name: "weights",
        read_as: "a list of `{ match: { label: glob }, weight: 1 to 1000000, band: 0 to 9 }`",
        default: "weight 1 for all",
        meaning: "Which clients get more where there is too little, by their labels; the first that matches applies.",
    },
    Field {
        name: "band",
        read_as: "0 to 9",
        default: "5",
        meaning: "Who is served first: a higher band has what it wants before a lower one gets any.",
    },
    Field {
        name: "floor",
        read_as: "`{ rate, burst }` of a rate, `{ permits }` of permits; not with `quota`",
        default: "none",
        meaning: "What each client session is sure of, and keeps where `on_lease_expiry` is `floor`.",
    },
    Field {
        name: "ceiling",
        read_as: "as `floor`",
        default: "none",
        meaning: "The most that each client session gets.",
    },
    Field {
        name: "on_lease_expiry",
        read_as: "`deny`, `floor`, `keep`, `open`, or `{ local: { rate, burst } }`",
        default: "deny",
        meaning: "What a client does that nobody could confirm for a lease: `deny` and `floor` keep the limit, `keep`, `local` and `open` go on beyond it.",
    },
    Field {
        name: "allocation",
        read_as: "`max_min`, `static`, `equal`, `proportional`",
        default: "max_min",
        meaning: "How it is divided: by what each wants, by weight alone, to all alike, or in proportion to what is wanted.",
    },
    Field {
        name: "forget_after",
        read_as: "a span, 1s to 30d",
        default: "10m",
        meaning: "How long the floor of a client that was lost stays set aside for it.",
    },
    Field {
        name: "headroom",
        read_as: "`yes`, `no`",
        default: "yes",
        meaning: "Whether what nobody wants just now is dealt out all the same, so that whoever begins to want it has some at once.",
    },
    Field {
        name: "max_keys",
        read_as: "1 to 10000000; with a template's `key`",
        default: "100000",
        meaning: "How many keys of a template there may be at a time; one more is refused.",
    },
    Field {
        name: "dry_run",
        read_as: "`yes`, `no`",
        default: "no",
        meaning: "Whether what would be refused is counted and admitted.",
    },
];
