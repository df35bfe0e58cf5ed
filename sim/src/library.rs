//! The scenarios that come with the program.

macro_rules! library {
    ($($name:literal)*) => {
        const ALL: &[(&str, &str)] = &[
            $(($name, include_str!(concat!("../scenarios/", $name, ".toml"))),)*
        ];
    };
}

library! {
    "calm"
    "leader-crash"
    "swarm"
}

/// Their names, in order.
pub fn names() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|(name, _)| *name)
}

/// A scenario's text.
#[must_use]
pub fn text(name: &str) -> Option<&'static str> {
    let found = ALL.iter().find(|(known, _)| *known == name);
    found.map(|(_, text)| *text)
}
