//! Generations in a snapshot, read and written one by one.
//!
//! A snapshot has millions of them. Messages for all would take several times the memory of the state, and nearly
//! all generations of a template have the same budget, which is many times slower to convert than the rest. So
//! equal budgets are converted once in a row. A generation that is not as we write it makes the reader return
//! `None`: see [`crate::fields`].

use crate::fields::{Fields, Ordered, Value, numbers, share};
use crate::pb;
use crate::read::{self, Choice};
use aliquot_core::account::{Account, Lingering, Slot};
use aliquot_core::budget::{Budget, Key};
use aliquot_core::edge::{Counters, Vector};
use aliquot_core::share::{Kind, Share};
use aliquot_core::state::Generation;
use aliquot_core::unit::{BudgetId, Incarnation, PeriodId, RuleId, Span, Tokens};
use prost::Message;
use prost::encoding::{self, WireType, encode_key, encode_varint};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The field number of a snapshot's generations.
const BUDGETS: u32 = 10;

/// Adds the generations of a snapshot to `budgets`. Returns the bytes of everything else in it.
pub(super) fn read(bytes: &[u8], budgets: &mut Vec<(BudgetId, Generation)>) -> Option<Vec<u8>> {
    let mut former = None;
    let rest = Fields::apart(bytes, BUDGETS, |bytes| {
        budgets.push(generation(bytes, &mut former)?);
        Some(())
    })?;
    let ids = budgets.iter().map(|(id, _)| id.get());
    read::rising(ids, "budgets").ok()?;
    Some(rest)
}

/// The budget that was converted last, and its bytes.
type Former<'a> = Option<(&'a [u8], Arc<Budget>)>;

fn generation<'a>(bytes: &'a [u8], former: &mut Former<'a>) -> Option<(BudgetId, Generation)> {
    let (mut id, mut rule, mut winding, mut cut) = (0, 0, false, 0);
    let (mut key, mut budget, mut account) = (None, None, None);
    let mut fields = Ordered::of(bytes);
    while let Some((field, value)) = fields.next()? {
        match (field, value) {
            (1, Value::Number(number)) => id = number,
            (2, Value::Bytes(text)) => key = Some(str::from_utf8(text).ok()?),
            (3, Value::Number(number)) => rule = number,
            (4, Value::Bytes(bytes)) => budget = Some(self::budget(bytes, former)?),
            (5, Value::Bytes(bytes)) => account = Some(self::account(bytes)?),
            (6, Value::Number(number)) => winding = number != 0,
            (8, Value::Number(number)) => cut = number,
            _ => return None,
        }
    }
    let generation = Generation {
        key: Key::try_from(key?).ok()?,
        rule: RuleId::new(rule),
        budget: budget?,
        account: account?,
        cut,
        winding,
    };
    Some((BudgetId::new(id), generation))
}

fn budget<'a>(bytes: &'a [u8], former: &mut Former<'a>) -> Option<Arc<Budget>> {
    if let Some((known, budget)) = former
        && *known == bytes
    {
        return Some(Arc::clone(budget));
    }
    let message = pb::Budget::decode(bytes).ok()?;
    let budget = Arc::new(Budget::try_from(message).ok()?);
    *former = Some((bytes, Arc::clone(&budget)));
    Some(budget)
}

fn account(bytes: &[u8]) -> Option<Account> {
    let (mut kind, mut whole) = (0, Share::EMPTY);
    let (mut linger, mut period, mut spent) = (0, 0, 0);
    let (mut open, mut kept) = (BTreeMap::new(), Vec::new());
    let mut fields = Ordered::of(bytes);
    while let Some((field, value)) = fields.next()? {
        match (field, value) {
            (1, Value::Number(number)) => kind = i32::try_from(number).ok()?,
            (2, Value::Bytes(bytes)) => whole = share(bytes)?,
            (3, Value::Number(number)) => linger = number,
            (4, Value::Number(number)) => period = number,
            (5, Value::Number(number)) => spent = number,
            (6, Value::Bytes(bytes)) => {
                let (child, slot) = slot(bytes)?;
                let rises = open.last_key_value().is_none_or(|(last, _)| *last < child);
                rises.then(|| open.insert(child, slot))?;
                fields.again();
            }
            (7, Value::Bytes(bytes)) => {
                kept.push(pb::Kept::decode(bytes).ok()?);
                fields.again();
            }
            _ => return None,
        }
    }
    read::rising(kept.iter().map(|kept| kept.life), "kept").ok()?;
    let kept = kept.into_iter().map(super::account::read_kept);
    let kept: BTreeMap<Incarnation, Lingering> = kept.collect::<Result<_, _>>().ok()?;
    let empty = Account::new(Kind::of_number(kind)?, whole, Span::from_nanos(linger));
    empty.restore(
        PeriodId::new(period),
        Tokens::from_grains(spent),
        open,
        kept,
    )
}

fn slot(bytes: &[u8]) -> Option<(Incarnation, Slot)> {
    let (mut child, mut period, mut linger) = (0, 0, 0);
    let (mut given, mut returned) = (Vector::ZERO, Vector::ZERO);
    let mut fields = Ordered::of(bytes);
    while let Some((field, value)) = fields.next()? {
        match (field, value) {
            (1, Value::Number(number)) => child = number,
            (2, Value::Number(number)) => period = number,
            (3, Value::Bytes(bytes)) => given = Vector::from_array(numbers(bytes)?),
            (4, Value::Bytes(bytes)) => returned = Vector::from_array(numbers(bytes)?),
            (5, Value::Number(number)) => linger = number,
            _ => return None,
        }
    }
    let counters = Counters {
        period: PeriodId::new(period),
        given,
        returned,
    };
    let linger = Span::from_nanos(linger);
    Some((Incarnation::new(child), Slot { counters, linger }))
}

/// Writes generations, the same bytes as their messages would.
pub(super) fn write(budgets: &[(BudgetId, Generation)], bytes: &mut Vec<u8>) {
    let (mut one, mut former) = (Vec::new(), None);
    for (id, generation) in budgets {
        one.clear();
        write_one(*id, generation, &mut former, &mut one);
        element(BUDGETS, &one, bytes);
    }
}

/// Converts a generation to its message.
pub(super) fn message(id: BudgetId, generation: &Generation) -> pb::Generation {
    pb::Generation {
        id: id.get(),
        key: generation.key.to_string(),
        rule: generation.rule.get(),
        budget: Some(generation.budget.as_ref().into()),
        account: Some((&generation.account).into()),
        winding: generation.winding,
        cut: generation.cut,
    }
}

/// The budget that was written last, and its bytes.
type Written<'a> = Option<(&'a Arc<Budget>, Vec<u8>)>;

fn write_one<'a>(
    id: BudgetId,
    generation: &'a Generation,
    former: &mut Written<'a>,
    bytes: &mut Vec<u8>,
) {
    let number = |field, value: u64, bytes: &mut Vec<u8>| {
        if value != 0 {
            encoding::uint64::encode(field, &value, bytes);
        }
    };
    number(1, id.get(), bytes);
    element(2, generation.key.as_str().as_bytes(), bytes);
    number(3, generation.rule.get(), bytes);
    let budget = &generation.budget;
    let known = former
        .take()
        .filter(|(known, _)| Arc::ptr_eq(known, budget));
    let convert = || pb::Budget::from(budget.as_ref()).encode_to_vec();
    let (_, written) = former.insert(known.unwrap_or_else(|| (budget, convert())));
    element(4, written, bytes);
    encoding::message::encode(5, &pb::Account::from(&generation.account), bytes);
    if generation.winding {
        encoding::bool::encode(6, &true, bytes);
    }
    number(8, generation.cut, bytes);
}

/// Writes a field of bytes.
fn element(field: u32, value: &[u8], bytes: &mut Vec<u8>) {
    encode_key(field, WireType::LengthDelimited, bytes);
    encode_varint(value.len() as u64, bytes);
    bytes.extend_from_slice(value);
}
