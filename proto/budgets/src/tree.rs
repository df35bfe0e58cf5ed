//! A document of a file as a tree in which every value knows its line.

use serde::de::{DeserializeOwned, Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Number, Value};
use serde_saphyr::{NonFiniteFloatPolicy, Options};
use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;

/// A value as it stands in a file, with the line that it begins in.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The line, counted from 1.
    pub line: u64,
    /// The text of a truth value, or of a number that is not a whole one of 64 bits, as it is written.
    pub written: Option<Box<str>>,
    /// The value.
    pub value: Shape<Self>,
}

/// A table, a list, or what is neither.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape<N> {
    /// Fields with their names, in the order of the file.
    Table(Vec<(String, N)>),
    /// A list.
    List(Vec<N>),
    /// A text, a number, a truth value, or nothing.
    Leaf(Value),
}

/// Reason why a YAML text was not read.
#[derive(Debug, thiserror::Error)]
pub enum YamlError {
    /// It is not YAML.
    #[error("is not YAML: {}", .0.trim_end())]
    NotYaml(String),
    /// It grows too much by anchors, aliases or merges.
    #[error("grows too much by anchors, aliases or merges: {}", .0.trim_end())]
    TooLarge(String),
}

impl Node {
    /// All documents of a YAML stream but the empty ones.
    ///
    /// # Errors
    ///
    /// [`YamlError`]: nothing is read of a text of which a part cannot be read.
    pub fn of_yaml(text: &str) -> Result<Vec<Self>, YamlError> {
        let mut options = yaml_options(text);
        // Such a value is wrong in every field, and is told with the field's name.
        options.non_finite_float_policy = NonFiniteFloatPolicy::AsString;
        let documents: Vec<Yaml> = read_yaml(text, options)?;
        let source = Source { text, breaks: &[] };
        let placed = |document: Yaml| document.placed(&source);
        Ok(documents.into_iter().map(placed).collect())
    }

    /// A TOML document.
    pub(crate) fn of_toml(text: &str) -> Result<Self, String> {
        let document: Toml = toml::from_str(text).map_err(|error| error.to_string())?;
        let breaks: Vec<usize> = text.match_indices('\n').map(|(at, _)| at).collect();
        let source = Source {
            text,
            breaks: &breaks,
        };
        Ok(document.placed(&source))
    }

    /// Replaces each number that is not a whole one of 64 bits by its text, so that an error quotes what is written.
    pub(crate) fn keep_fractions_as_text(&mut self) {
        match &mut self.value {
            Shape::Leaf(value) if is_fraction(value) => {
                let text = self.written.take();
                *value = text.map_or_else(|| value.to_string(), String::from).into();
            }
            Shape::Leaf(_) => {}
            Shape::List(list) => list.iter_mut().for_each(Self::keep_fractions_as_text),
            Shape::Table(table) => {
                let nodes = table.iter_mut().map(|(_, node)| node);
                nodes.for_each(Self::keep_fractions_as_text);
            }
        }
    }

    /// The value without its places.
    #[must_use]
    pub fn into_value(self) -> Value {
        match self.value {
            Shape::Leaf(value) => value,
            Shape::List(list) => list.into_iter().map(Self::into_value).collect(),
            Shape::Table(table) => {
                let fields = table.into_iter();
                Value::Object(
                    fields
                        .map(|(name, node)| (name, node.into_value()))
                        .collect(),
                )
            }
        }
    }
}

/// Reads all documents of a YAML stream but the empty ones as values of a type. Fields of type [`String`] keep numbers
/// and truth values as they are written.
///
/// # Errors
///
/// [`YamlError`]: the text is not YAML, or a document has another shape than the type.
pub fn documents_of_yaml<T: DeserializeOwned>(text: &str) -> Result<Vec<T>, YamlError> {
    read_yaml(text, yaml_options(text))
}

fn read_yaml<T: DeserializeOwned>(text: &str, options: Options) -> Result<Vec<T>, YamlError> {
    let documents = serde_saphyr::from_multiple_with_options(text, options);
    documents.map_err(|error| {
        // Advice for authors of programs.
        let advice = ", set DuplicateKeyPolicy in Options if acceptable";
        let text = error.to_string().replace(advice, "");
        match text.contains("budget breached") {
            true => YamlError::TooLarge(text.replace("budget breached", "too large")),
            false => YamlError::NotYaml(text),
        }
    })
}

/// Returns the parser's bounds on what a text may grow to, in proportion to the text: a file of a million budgets that
/// merge one default is read, and a small one cannot grow without end.
fn yaml_options(text: &str) -> Options {
    // A budget that merges a default of all fields takes sixteen times its text at most. Without merges, each event
    // but the ends of blocks and a few at the beginning takes a byte.
    let most = text.len().saturating_mul(GROWTH_MAX).saturating_add(1_024);
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_reader_input_bytes: None,
            max_events: most,
            max_nodes: most,
            max_documents: most,
            max_anchors: most,
            max_aliases: most,
            max_merge_keys: most,
            max_recorded_anchor_events: most,
            max_recorded_anchor_bytes: most,
            enforce_alias_anchor_ratio: false,
            max_total_scalar_bytes: most,
            max_total_comment_bytes: text.len(),
        },
    }
}

/// Maximum growth of a YAML text by anchors, aliases and merges.
const GROWTH_MAX: usize = 16;

/// A text that values are read from.
struct Source<'t> {
    text: &'t str,
    /// Bytes of the line breaks, if the parser tells no lines.
    breaks: &'t [usize],
}

impl Source<'_> {
    fn line(&self, byte: usize) -> u64 {
        self.breaks.partition_point(|at| *at < byte) as u64 + 1
    }
}

/// A value with the place that a parser gives it.
trait Placed: Sized {
    fn placed(self, source: &Source<'_>) -> Node;
}

#[derive(Deserialize)]
#[serde(transparent)]
struct Yaml(serde_saphyr::Spanned<Shape<Self>>);

#[derive(Deserialize)]
#[serde(transparent)]
struct Toml(toml::Spanned<Shape<Self>>);

impl Placed for Yaml {
    fn placed(self, source: &Source<'_>) -> Node {
        let (line, span) = (self.0.referenced.line(), self.0.defined.span());
        let bytes = (|| {
            let begin = usize::try_from(span.byte_offset()?).ok()?;
            let length = usize::try_from(span.byte_len()?).ok()?;
            Some(begin..begin.checked_add(length)?)
        })();
        placed(self.0.value, line, bytes, source)
    }
}

impl Placed for Toml {
    fn placed(self, source: &Source<'_>) -> Node {
        let bytes = self.0.span();
        let line = source.line(bytes.start);
        placed(self.0.into_inner(), line, Some(bytes), source)
    }
}

/// Returns a value with the place of each part.
fn placed<N: Placed>(
    shape: Shape<N>,
    line: u64,
    bytes: Option<Range<usize>>,
    source: &Source<'_>,
) -> Node {
    let written = match &shape {
        Shape::Leaf(value) if value.is_boolean() || is_fraction(value) => {
            let text = bytes.and_then(|bytes| source.text.get(bytes));
            text.map(|text| text.trim().into())
        }
        _ => None,
    };
    let value = match shape {
        Shape::Leaf(value) => Shape::Leaf(value),
        Shape::List(list) => {
            let nodes = list.into_iter().map(|node| node.placed(source));
            Shape::List(nodes.collect())
        }
        Shape::Table(table) => {
            let fields = table.into_iter();
            let fields = fields.map(|(name, node)| (name, node.placed(source)));
            Shape::Table(fields.collect())
        }
    };
    Node {
        line,
        written,
        value,
    }
}

/// Returns true for a number that is not a whole one of 64 bits.
fn is_fraction(value: &Value) -> bool {
    value.as_number().is_some_and(Number::is_f64)
}

impl<'de, N: DeserializeOwned> Deserialize<'de> for Shape<N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Any(PhantomData))
    }
}

/// Takes whatever stands there.
struct Any<N>(PhantomData<N>);

impl<N> Any<N> {
    const fn leaf<E>(value: Value) -> Result<Shape<N>, E> {
        Ok(Shape::Leaf(value))
    }
}

impl<'de, N: DeserializeOwned> Visitor<'de> for Any<N> {
    type Value = Shape<N>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table, a list, a text, a number, or true or false")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(Shape::Table(fields))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut list = Vec::new();
        while let Some(element) = seq.next_element()? {
            list.push(element);
        }
        Ok(Shape::List(list))
    }

    fn visit_some<D: Deserializer<'de>>(self, value: D) -> Result<Self::Value, D::Error> {
        value.deserialize_any(self)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, value: D) -> Result<Self::Value, D::Error> {
        value.deserialize_any(self)
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Self::leaf(Value::Null)
    }

    fn visit_none<E: Error>(self) -> Result<Self::Value, E> {
        Self::leaf(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Self::Value, E> {
        Self::leaf(Value::Bool(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Self::Value, E> {
        Self::leaf(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
        Self::leaf(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Self::Value, E> {
        // JSON has no such number, and nothing must not be read instead.
        let text = || Value::String(value.to_string().to_lowercase());
        Self::leaf(Number::from_f64(value).map_or_else(text, Value::Number))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Self::Value, E> {
        Self::leaf(value.into())
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Self::Value, E> {
        Self::leaf(value.into())
    }
}
