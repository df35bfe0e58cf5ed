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
pub const FIELDS: [Field; 20] = [
    Field {
        name: "key",
        read_as: "a key, or a template with `*` for whole segments",
        default: "",
        meaning: "The key whose requests are limited, such as `checkout/charge`, or a template such as \
                  `tenant/*/reads`, which gives each matching key a limit of its own.",
    },
    Field {
        name: "rate",
        read_as: "`1000/s`, `1.5k/s`, `90/min`, `1 per 10 days`; 0, or 1 per 10 days to 1T/s",
        default: "",
        meaning: "Tokens per span. One of `rate`, `quota` and `concurrency` must be given.",
    },
    Field {
        name: "burst",
        read_as: "a whole number of tokens, 0 to 2^56; only with `rate`",
        default: "one second's worth, at least 1",
        meaning: "Maximum number of tokens that can accumulate, and so be spent at once.",
    },
    Field {
        name: "quota",
        read_as: "`50000 per day`, or per minute, hour, week, month or year of the calendar, or per fixed span, \
                  such as `1M per 36h`",
        default: "",
        meaning: "Tokens in each period. A period begins with all of them; unspent tokens are not carried over.",
    },
    Field {
        name: "offset",
        read_as: "`+05:30`; -14:00 to +14:00; with a calendar's `quota`",
        default: "+00:00",
        meaning: "Offset from UTC of the clock by which the calendar's days begin.",
    },
    Field {
        name: "zone",
        read_as: "`Europe/Berlin`, a name of the IANA time zone database; with a calendar's `quota`, without `offset`",
        default: "none",
        meaning: "Time zone in which the calendar's days begin; its summer time is taken into account.",
    },
    Field {
        name: "align",
        read_as: "a span; with `quota`",
        default: "0s",
        meaning: "Time by which the beginning of each period is delayed.",
    },
    Field {
        name: "concurrency",
        read_as: "permits, 0 to 2^56",
        default: "",
        meaning: "Maximum number of requests in flight.",
    },
    Field {
        name: "max_hold",
        read_as: "a span, 1s to 24h; with `concurrency`",
        default: "60s",
        meaning: "Time after which a permit that was not released counts as lost.",
    },
    Field {
        name: "weights",
        read_as: "a list of `{ match: { label: glob }, weight: 1 to 1000000, band: 0 to 9 }`",
        default: "weight 1 for all",
        meaning: "Weights and bands of clients, by their labels, for dividing the limit when demand exceeds it. The \
                  first rule that matches applies.",
    },
    Field {
        name: "band",
        read_as: "0 to 9",
        default: "5",
        meaning: "Priority: the demand of a higher band is met before a lower band gets more than its floors.",
    },
    Field {
        name: "floor",
        read_as: "`{ rate, burst }` with `rate`, `{ permits }` with `concurrency`; not with `quota`",
        default: "none",
        meaning: "Minimum part that each client session is guaranteed. With `on_lease_expiry: floor` it keeps this \
                  part after its lease has ended.",
    },
    Field {
        name: "ceiling",
        read_as: "as `floor`",
        default: "none",
        meaning: "Maximum part of each client session.",
    },
    Field {
        name: "on_lease_expiry",
        read_as: "`deny`, `floor`, `keep`, `open`, or `{ local: { rate, burst } }`",
        default: "deny",
        meaning: "Policy of a client whose lease has ended. With `deny` and `floor` the limit still holds; with \
                  `keep`, `local` and `open` the client continues, and the limit may be exceeded.",
    },
    Field {
        name: "allocation",
        read_as: "`max_min`, `static`, `equal`, `proportional`",
        default: "max_min",
        meaning: "Rule of division: by demand, by weight alone, in equal parts, or in proportion to demand.",
    },
    Field {
        name: "forget_after",
        read_as: "a span, 1s to 30d",
        default: "10m",
        meaning: "Time for which the floor of a lost client stays reserved for it.",
    },
    Field {
        name: "headroom",
        read_as: "`yes`, `no`",
        default: "yes",
        meaning: "With `yes`, capacity beyond all demand is distributed as well, so that a client whose demand \
                  begins has tokens at once.",
    },
    Field {
        name: "max_keys",
        read_as: "1 to 10000000; with a template's `key`",
        default: "100000",
        meaning: "Maximum number of keys of a template in use at a time; any further key is refused.",
    },
    Field {
        name: "named_limits",
        read_as: "`yes`, `no`; with `rate`, a template's `key` that ends in `*`, and neither `floor` nor `ceiling`",
        default: "no",
        meaning: "With `yes`, the last segment of a key names the limit of that key, such as `30-per-1m-burst-15`, up to `rate` and `burst`.",
    },
    Field {
        name: "dry_run",
        read_as: "`yes`, `no`",
        default: "no",
        meaning: "With `yes`, requests that would be refused are counted and admitted.",
    },
];
