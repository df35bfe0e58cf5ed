//! The configuration of a node: one set of settings, by file, environment and flag.
//!
//! Every setting is defined once, in [`SETTINGS`], with its key in the file. Its
//! variable and its flag follow from the key. A flag overrides a variable, a
//! variable overrides the file, and the file overrides the default. The sources
//! are read once, into a [`Config`] that is valid. All errors are reported
//! together.
//!
//! ```
//! use aliquot_coordinator::config::{Config, Sources};
//!
//! let mut sources = Sources::default();
//! sources.file("node.toml", "lease = \"3s\"\nlisten = \"127.0.0.1:7001\"\n");
//! let loaded = Config::load(&sources)?;
//! assert_eq!(loaded.config.listen.port(), 7001);
//! assert_eq!(loaded.origin("lease").unwrap().to_string(), "node.toml:1");
//!
//! sources.file("node.toml", "leese = \"3s\"");
//! let problems = Config::load(&sources).unwrap_err();
//! assert!(problems.to_string().contains("did you mean \"lease\"?"));
//! # Ok::<(), aliquot_coordinator::config::Problems>(())
//! ```

mod address;
mod check;
mod flags;
mod pace;
mod problem;
mod read;
mod setting;
mod show;
mod skip;
mod source;
mod values;

pub use address::{Address, AddressError, FaceAddress, FaceAddressError};
pub use check::{LeaseTooShort, lease_needs};
pub use flags::{FaceFlags, Flags};
pub use problem::{Origin, Problem, Problems};
pub use setting::{SETTINGS, Setting, Shape};
pub use skip::{SkipEntry, SkipEntryError};
pub use source::Sources;
pub use values::{
    ClientCerts, ClientName, ClusterConfig, Config, ConnectionsConfig, FacesConfig, LogConfig,
    LogFormat, PaceConfig, Security, SessionConfig, TlsConfig,
};

pub(crate) use check::face_setting;

use source::Written;

/// A configuration, and the origin of each of its values.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// Warnings that do not stop the node, such as an unknown variable.
    pub warnings: Vec<String>,
    written: Written,
}

impl Config {
    /// Reads and checks the sources.
    ///
    /// # Errors
    ///
    /// [`Problems`], with every setting that is unknown, wrong, or contradicts another.
    pub fn load(sources: &Sources) -> Result<Loaded, Problems> {
        let mut problems = Problems::default();
        let written = Written::of(sources, &mut problems);
        let config = read::config(&written, &mut problems);
        if let Some(config) = &config {
            check::all(config, &written, &mut problems);
        }
        match config {
            Some(config) if problems.is_empty() => Ok(Loaded {
                config,
                warnings: sources.warnings(),
                written,
            }),
            _ => Err(problems),
        }
    }
}

impl LogFormat {
    /// Returns the format that the sources ask for, whatever is wrong with them otherwise.
    #[must_use]
    pub fn of(sources: &Sources) -> Self {
        let written = Written::of(sources, &mut Problems::default());
        let texts = written.get("log.format").map(|entry| &entry.texts);
        let text = texts.and_then(|texts| texts.first());
        text.and_then(|text| read::log_format(text))
            .unwrap_or(Self::Pretty)
    }
}

impl Loaded {
    /// Returns the origin of a setting's value; `None` if there is no such setting.
    #[must_use]
    pub fn origin(&self, key: &str) -> Option<&Origin> {
        Some(&self.written.get(key)?.origin)
    }
}
