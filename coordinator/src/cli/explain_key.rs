//! `aliquot explain-key`: the rule and the budget of a key that a face is asked for.

use super::connect::Connection;
use super::serve::load;
use super::{Failure, Out, show};
use crate::config::FaceFlags;
use aliquot_core::budget::Key;
use aliquot_faces::Face;
use aliquot_wire::Wire;
use aliquot_wire::admin::{GetUsage, Usage};
use serde_json::json;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
#[command(after_help = leaf!(
    "aliquot explain-key http tenant/42/reads",
    "aliquot explain-key redis rate:user7 --faces-rules 'redis:rate:* -> api/*'",
    "aliquot explain-key rlqs shop/name/api/user/alice    the bucket {name: api, user: alice} of the domain shop"
))]
pub(super) struct Args {
    /// Face: http, grpc, redis or rlqs
    face: Face,
    /// Key that the service sends to the face
    key: String,
    /// Configuration file (TOML) of the node or agent
    #[arg(long, value_name = "FILE", env = "ALIQUOT_CONFIG")]
    config: Option<PathBuf>,
    #[command(flatten)]
    flags: FaceFlags,
    #[command(flatten)]
    connection: Connection,
}

impl Args {
    pub(super) async fn run(self, out: Out) -> Result<(), Failure> {
        let (_, loaded) = load(self.config, self.flags.0, &FaceFlags::DEFAULTS);
        let loaded = loaded?;
        let rules = &loaded.config.faces.rules;
        let mapped = rules.budget_key(self.face, self.key.as_bytes());
        let mapped = mapped.map_err(|problem| {
            Failure::Refused(format!("{:?} has no budget: {problem}", self.key))
        })?;
        let key = Key::try_from(mapped.key.as_str());
        let key = key.map_err(|error| Failure::Refused(format!("the key {error}")))?;
        let get = GetUsage { key }.to_message();
        let usage: Usage = self
            .connection
            .read(async |mut admin| admin.get_usage(get.clone()).await)
            .await?;
        let rule = mapped.rule.unwrap_or("none: the key is used unchanged");
        let json = || {
            json!({
                "face": self.face.name(),
                "key": self.key,
                "rule": mapped.rule,
                "budget_key": mapped.key,
                "budget": usage.limit.key().to_string(),
                "limit": show::limit(&usage.limit),
            })
        };
        let text = || {
            format!(
                "{}\n  rule of the face: {rule}\n  key of the budget: {}\n  budget: {}, {}",
                self.key,
                mapped.key,
                usage.limit.key(),
                show::limit(&usage.limit)
            )
        };
        out.answer(json, text);
        Ok(())
    }
}
