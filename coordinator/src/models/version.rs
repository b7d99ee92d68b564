//! One version of a base model: checked once, where it comes in, and kept as it came.

use meanfield_common::{digest::Digest, identity::AgentId, invalid::Invalid};
use meanfield_learner::{ActorCritic, Error as LearnerError};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The largest file: a hundred times a network of the usual size.
pub const MOST_BYTES: usize = 4 << 20;

/// Where a version is from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Provenance {
    /// When it was made, in milliseconds since 1970.
    pub made_unix_ms: u64,
    /// How.
    #[serde(flatten)]
    pub source: Source,
}

/// How a version was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "source", rename_all = "snake_case")]
#[schema(as = ModelSource)]
pub enum Source {
    /// An operator uploaded it.
    Upload,
    /// It is an average of what agents have learnt.
    Average {
        /// The version that it starts from.
        parent: u64,
        /// How much of the way to the agents it goes.
        rate: f64,
        /// The share of them that was left out at each end.
        trim: f64,
        /// Who contributed, and the mean reward that each reported.
        #[schema(value_type = Vec<(uuid::Uuid, f64)>)]
        agents: Vec<(AgentId, f64)>,
    },
}

/// A network as a file, with what it is known by.
#[derive(Debug, Clone, PartialEq)]
pub struct Version {
    pub(super) network: ActorCritic,
    bytes: Vec<u8>,
    digest: Digest,
    provenance: Provenance,
}

impl Version {
    /// Checks a file.
    ///
    /// # Errors
    /// Says what in it is not as it should be.
    pub fn new(bytes: Vec<u8>, provenance: Provenance) -> Result<Self, Invalid> {
        let network = network(&bytes)?;
        Ok(Self { network, digest: Digest::of(&bytes), bytes, provenance })
    }

    pub(super) fn of(network: ActorCritic, provenance: Provenance) -> Result<Self, Invalid> {
        let bytes = network.save().map_err(|error| refused(&error))?;
        Ok(Self { network, digest: Digest::of(&bytes), bytes, provenance })
    }

    /// The file.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// What it is known by.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Where it is from.
    #[must_use]
    pub fn provenance(&self) -> &Provenance {
        &self.provenance
    }
}

/// The network in a file.
pub(crate) fn network(bytes: &[u8]) -> Result<ActorCritic, Invalid> {
    ActorCritic::load(bytes).map_err(|error| refused(&error))
}

pub(super) fn refused(error: &LearnerError) -> Invalid {
    match error {
        LearnerError::TensorShape { name, expected, found } => {
            Invalid::new(format!("model.{name}"), format!("{found:?}"), format!("of shape {expected:?}"))
        }
        LearnerError::Tensor { name, reason } => {
            Invalid::new(format!("model.{name}"), format!("a tensor that {reason}"), "of finite 32-bit numbers")
        }
        LearnerError::NonFinite { what } => Invalid::new("model.parameters", what, "a finite number"),
        other => Invalid::new("model", other, "a checkpoint that `meanfield train` wrote"),
    }
}
