//! Settings of `meanfield ctl tokens`.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Subcommand, ValueEnum};
use meanfield_common::{
    identity::{AgentName, PoolName},
    invalid::Invalid,
};
use meanfield_coordinator::access::{Pattern, Role, TokenId};

use crate::{
    args::{count, duration},
    ctl::args::{Access, Terms},
};

#[derive(Debug, Subcommand)]
pub enum TokensCommand {
    /// Make a token. Its text is shown now and never again.
    Create(Create),
    /// List tokens, without their secrets.
    List(List),
    /// Show a token, without its secret.
    Show(OfToken),
    /// Revoke a token: no request with it is taken any more.
    Revoke(Revoke),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RoleName {
    /// Be an agent, within one pool.
    Agent,
    /// Look at everything but tokens.
    Reader,
    /// What readers may, and change what agents do.
    Operator,
    /// Everything.
    Admin,
}

impl From<RoleName> for Role {
    fn from(name: RoleName) -> Self {
        match name {
            RoleName::Agent => Self::Agent,
            RoleName::Reader => Self::Reader,
            RoleName::Operator => Self::Operator,
            RoleName::Admin => Self::Admin,
        }
    }
}

#[derive(Debug, Args)]
pub struct Create {
    /// Who or what it is for, in the form of agents' names.
    #[arg(value_name = "NAME")]
    pub name: AgentName,
    /// What it allows.
    #[arg(long, value_enum)]
    pub role: RoleName,
    /// The pool of an agent's token.
    #[arg(long, value_name = "NAME")]
    pub pool: Option<PoolName>,
    /// The names that an agent's token may be used for, such as `shop/*` [default: all of the pool].
    #[arg(long, value_name = "PATTERN")]
    pub agents: Option<Pattern>,
    /// When it expires, such as 90days [default: never].
    #[arg(long, value_parser = duration, value_name = "TIME")]
    pub expires_in: Option<Duration>,
    /// Requests a second [default: as configured for its role].
    #[arg(long, value_name = "REQUESTS")]
    pub rate: Option<u32>,
    /// Write the token's text to this new file, for its owner only, instead of showing it.
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    #[command(flatten)]
    pub terms: Terms,
}

#[derive(Debug, Args)]
pub struct List {
    /// Only tokens of this role.
    #[arg(long, value_enum)]
    pub role: Option<RoleName>,
    /// Only agents' tokens of this pool, also if it is not there any more.
    #[arg(long, value_name = "NAME")]
    pub pool: Option<PoolName>,
    /// Only tokens whose names begin so.
    #[arg(long, value_name = "TEXT")]
    pub prefix: Option<String>,
    /// How many at most [default: all].
    #[arg(long, value_name = "COUNT", value_parser = count)]
    pub limit: Option<usize>,
    #[command(flatten)]
    pub access: Access,
}

/// A token.
#[derive(Debug, Args)]
pub struct OfToken {
    /// Its id, as `list` has it, or the token itself.
    #[arg(value_name = "ID", value_parser = token_id)]
    pub id: TokenId,
    #[command(flatten)]
    pub access: Access,
}

#[derive(Debug, Args)]
pub struct Revoke {
    /// Its id, as `list` has it, or the token itself.
    #[arg(value_name = "ID", value_parser = token_id)]
    pub id: TokenId,
    #[command(flatten)]
    pub terms: Terms,
}

/// The id of a token: what is between the underscores of one that is given whole.
fn token_id(text: &str) -> Result<TokenId, Invalid> {
    let id = text.strip_prefix("mf_").and_then(|rest| rest.split('_').next());
    id.unwrap_or(text).trim().parse()
}
