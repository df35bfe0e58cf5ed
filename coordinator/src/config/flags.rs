//! The flags of `aliquot serve`, built from the table of settings.

use super::setting::{SETTINGS, Setting, Shape};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use std::collections::BTreeMap;

/// Settings that were given by flag, as text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flags(BTreeMap<&'static str, Vec<String>>);

impl Flags {
    pub(super) fn get(&self, key: &str) -> Option<&Vec<String>> {
        self.0.get(key)
    }

    /// Gives a setting a text, as its flag would. Returns `false` if there is no such setting.
    #[must_use]
    pub fn add(&mut self, key: &str, text: &str) -> bool {
        let Some(setting) = super::setting::setting(key) else {
            return false;
        };
        let texts = self.0.entry(setting.key).or_default();
        texts.push(text.to_owned());
        true
    }
}

impl FromArgMatches for Flags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut flags = Self::default();
        flags.update_from_arg_matches(matches)?;
        Ok(flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for setting in SETTINGS {
            if let Ok(Some(texts)) = matches.try_get_many::<String>(setting.key) {
                self.0.insert(setting.key, texts.cloned().collect());
            }
        }
        Ok(())
    }
}

impl Args for Flags {
    fn augment_args(command: Command) -> Command {
        SETTINGS.iter().fold(command, |command, setting| {
            command.arg(arg(setting, setting.default))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// Settings of the faces that were given by flag: those of a node that an agent has, too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaceFlags(pub Flags);

impl FaceFlags {
    /// Defaults that differ from those of a node: several agents may run on one host.
    pub const DEFAULTS: [(&'static str, &'static str); 1] = [("metrics_listen", "off")];

    fn has(setting: &Setting) -> bool {
        let group = setting.key.split('.').next();
        matches!(group, Some("faces" | "log" | "tokens" | "insecure"))
            || matches!(
                setting.key,
                "connections.faces" | "connections.metrics" | "metrics_listen" | "metrics_open"
            )
    }

    fn arg(setting: &'static Setting) -> Arg {
        let own = Self::DEFAULTS.iter().find(|(key, _)| *key == setting.key);
        let default = own.map_or(setting.default, |(_, default)| default);
        arg(setting, default)
    }
}

impl FromArgMatches for FaceFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Flags::from_arg_matches(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.0.update_from_arg_matches(matches)
    }
}

impl Args for FaceFlags {
    fn augment_args(command: Command) -> Command {
        let settings = SETTINGS.iter().filter(|setting| Self::has(setting));
        settings.fold(command, |command, setting| command.arg(Self::arg(setting)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

fn arg(setting: &'static Setting, default: &str) -> Arg {
    let default = match default {
        "" => String::new(),
        default => format!(" [default: {default}]"),
    };
    let help = format!("{}{default} [env: {}]", setting.help, setting.variable());
    let arg = Arg::new(setting.key)
        .long(setting.flag())
        .value_name(setting.value)
        .help_heading("Settings (each also by file and variable)")
        .help(help);
    match setting.shape {
        Shape::One => arg.action(ArgAction::Set),
        Shape::List => arg.action(ArgAction::Append),
        Shape::Flag => arg
            .action(ArgAction::Set)
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true"),
    }
}
