//! Parameters and training state as safetensors bytes, which other tools can open as well.
//!
//! Weights are stored the way PyTorch does, `[outputs, inputs]`, as `actor.0.weight`, `actor.0.bias` and so on; Adam's
//! moments under the same names behind `adam.mean.` and `adam.square.`. One entry of the file's metadata holds our own
//! header as JSON: format, configuration, training state and a checksum over all of it. It is one entry because several
//! would be written in random order, and the same learner should give the same bytes. A file without a checksum is
//! accepted, so that networks made elsewhere can be brought in.

use std::collections::HashMap;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use safetensors::tensor::{Dtype, SafeTensorError, SafeTensors, TensorView, serialize};
use serde::{Deserialize, Serialize};

use crate::actor_critic::{ActorCritic, finite};
use crate::config::Config;
use crate::error::Error;
use crate::network::{Layer, Mlp};
use crate::ppo::{Learner, Optimisers};

/// The format that this version writes and reads.
pub const FORMAT: u32 = 1;
/// Name of our entry in the file's metadata.
const ENTRY: &str = "meanfield";
/// Longer headers are not ours; a bound keeps damaged length fields from being believed.
const LONGEST_HEADER: u64 = 1 << 20;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    format: u32,
    config: Config,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    training: Option<Training>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    checksum: Option<String>,
}

/// What an exact resumption needs besides tensors. The 128-bit position is text, for readers without such integers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Training {
    actor_steps: u64,
    critic_steps: u64,
    seed: [u8; 32],
    stream: u64,
    position: String,
}

impl ActorCritic {
    /// The networks and their configuration, without training state.
    ///
    /// # Errors
    /// [`Error::NonFinite`] when a parameter is not a number; such a network is of no use to anybody.
    pub fn save(&self) -> Result<Vec<u8>, Error> {
        let mut tensors = Tensors::default();
        tensors.add_network(self)?;
        tensors.write(Header { format: FORMAT, config: self.config.clone(), training: None, checksum: None })
    }

    /// The networks in a checkpoint, with or without training state.
    ///
    /// # Errors
    /// Says what is wrong with the bytes; see [`Error`].
    pub fn load(bytes: &[u8]) -> Result<Self, Error> {
        let (file, header) = open(bytes)?;
        network(&file, header.config)
    }
}

impl Learner {
    /// Everything needed to go on training as if it had never stopped.
    ///
    /// # Errors
    /// [`Error::NonFinite`] when a parameter is not a number.
    pub fn save(&self) -> Result<Vec<u8>, Error> {
        let mut tensors = Tensors::default();
        tensors.add_network(&self.network)?;
        let Optimisers { actor, critic } = &self.optimisers;
        tensors.add("adam.mean.actor", &self.network.actor, &actor.mean)?;
        tensors.add("adam.square.actor", &self.network.actor, &actor.square)?;
        tensors.add("adam.mean.critic", &self.network.critic, &critic.mean)?;
        tensors.add("adam.square.critic", &self.network.critic, &critic.square)?;
        let training = Training {
            actor_steps: actor.steps,
            critic_steps: critic.steps,
            seed: self.rng.get_seed(),
            stream: self.rng.get_stream(),
            position: self.rng.get_word_pos().to_string(),
        };
        let config = self.network.config.clone();
        tensors.write(Header { format: FORMAT, config, training: Some(training), checksum: None })
    }

    /// Goes on from a checkpoint with training state. For one without, see [`Learner::from_network`].
    ///
    /// # Errors
    /// [`Error::NoTrainingState`] for networks alone; otherwise says what is wrong with the bytes, see [`Error`].
    pub fn load(bytes: &[u8]) -> Result<Self, Error> {
        let (file, header) = open(bytes)?;
        let network = network(&file, header.config)?;
        let training = header.training.ok_or(Error::NoTrainingState)?;
        let mut optimisers = Optimisers::new(&network);
        let Optimisers { actor, critic } = &mut optimisers;
        fill(&file, "adam.mean.actor", &network.actor, &mut actor.mean)?;
        fill(&file, "adam.square.actor", &network.actor, &mut actor.square)?;
        fill(&file, "adam.mean.critic", &network.critic, &mut critic.mean)?;
        fill(&file, "adam.square.critic", &network.critic, &mut critic.square)?;
        for (name, moments) in [("adam.square.actor", &actor.square), ("adam.square.critic", &critic.square)] {
            if moments.iter().any(|&moment| moment < 0.0) {
                return Err(Error::Tensor { name: name.to_owned(), reason: "holds a negative mean of squares" });
            }
        }
        actor.steps = training.actor_steps;
        critic.steps = training.critic_steps;
        let mut rng = ChaCha8Rng::from_seed(training.seed);
        rng.set_stream(training.stream);
        rng.set_word_pos(training.position.parse().map_err(|_| not_ours("its random position is no number"))?);
        Ok(Self::assemble(network, optimisers, rng))
    }
}

/// Tensors on their way into a file.
#[derive(Default)]
struct Tensors(Vec<(String, Vec<usize>, Vec<u8>)>);

impl Tensors {
    fn add_network(&mut self, network: &ActorCritic) -> Result<(), Error> {
        let (actor, critic) = network.parameters();
        self.add("actor", &network.actor, actor)?;
        self.add("critic", &network.critic, critic)
    }

    fn add(&mut self, prefix: &str, network: &Mlp, values: &[f32]) -> Result<(), Error> {
        finite("a parameter or optimiser moment", values)?;
        for (index, layer) in network.layers().iter().enumerate() {
            let weights = layer.weights(values);
            let bytes = (0..weights.len()).flat_map(|at| weights[stored_at(layer, at)].to_le_bytes()).collect();
            self.0.push((format!("{prefix}.{index}.weight"), vec![layer.outputs, layer.inputs], bytes));
            let bytes = layer.biases(values).iter().flat_map(|bias| bias.to_le_bytes()).collect();
            self.0.push((format!("{prefix}.{index}.bias"), vec![layer.outputs], bytes));
        }
        Ok(())
    }

    fn write(mut self, mut header: Header) -> Result<Vec<u8>, Error> {
        self.0.sort();
        let parts = self.0.iter().map(|(name, _, data)| (name.as_str(), data.as_slice()));
        header.checksum = Some(checksum(&json(&header)?, parts));
        let metadata = HashMap::from([(ENTRY.to_owned(), json(&header)?)]);
        let mut views = Vec::with_capacity(self.0.len());
        for (name, shape, data) in &self.0 {
            views.push((name, TensorView::new(Dtype::F32, shape.clone(), data).map_err(unwritable)?));
        }
        serialize(views, Some(metadata)).map_err(unwritable)
    }
}

fn unwritable(error: impl std::fmt::Display) -> Error {
    not_ours(&format!("it cannot be written: {error}"))
}

fn not_ours(reason: &str) -> Error {
    Error::NotACheckpoint { reason: reason.to_owned() }
}

fn json(header: &Header) -> Result<String, Error> {
    serde_json::to_string(header).map_err(|error| not_ours(&format!("its header cannot be written: {error}")))
}

/// Where the weight stored at `at` of an `[outputs, inputs]` matrix lies in our layout.
fn stored_at(layer: &Layer, at: usize) -> usize {
    if layer.rows_are_inputs() { at % layer.inputs * layer.outputs + at / layer.inputs } else { at }
}

fn open(bytes: &[u8]) -> Result<(SafeTensors<'_>, Header), Error> {
    let found = bytes.len();
    let (length, rest) = bytes.split_first_chunk::<8>().ok_or(Error::CutOff { expected: 8, found })?;
    let length = u64::from_le_bytes(*length);
    if length > LONGEST_HEADER {
        return Err(not_ours("it does not start like a safetensors file"));
    }
    if (rest.len() as u64) < length {
        return Err(Error::CutOff { expected: 8 + length as usize, found });
    }
    let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(|error| match error {
        SafeTensorError::MetadataIncompleteBuffer => {
            not_ours("it is cut off or has bytes left over: its data is not as long as its header says")
        }
        other => not_ours(&format!("it is no safetensors file: {other}")),
    })?;
    let text = metadata.metadata().as_ref().and_then(|entries| entries.get(ENTRY));
    let text = text.ok_or_else(|| not_ours("it is a safetensors file without our header"))?;

    // The format first: a later one may have fields that this version would call unknown.
    #[derive(Deserialize)]
    struct Format {
        format: u32,
    }
    let unreadable = |error: serde_json::Error| not_ours(&format!("its header cannot be read: {error}"));
    let Format { format } = serde_json::from_str(text).map_err(unreadable)?;
    if format != FORMAT {
        return Err(Error::Version { found: format, supported: FORMAT });
    }
    let header: Header = serde_json::from_str(text).map_err(unreadable)?;
    header.config.validate()?;

    let file = SafeTensors::deserialize(bytes).map_err(|error| not_ours(&error.to_string()))?;
    if let Some(expected) = &header.checksum {
        let mut tensors = file.tensors();
        tensors.sort_by(|(a, _), (b, _)| a.cmp(b));
        let without = text.replacen(&format!(",\"checksum\":\"{expected}\""), "", 1);
        let found = checksum(&without, tensors.iter().map(|(name, view)| (name.as_str(), view.data())));
        if found != *expected {
            return Err(Error::Checksum { expected: expected.clone(), found });
        }
    }
    Ok((file, header))
}

fn network(file: &SafeTensors<'_>, config: Config) -> Result<ActorCritic, Error> {
    let mut network = ActorCritic::zeros(config)?;
    let (mut actor, mut critic) = (network.actor.parameters().to_vec(), network.critic.parameters().to_vec());
    fill(file, "actor", &network.actor, &mut actor)?;
    fill(file, "critic", &network.critic, &mut critic)?;
    network.set_parameters(&actor, &critic)?;
    Ok(network)
}

/// Reads the tensors of one network into a vector of its layout.
fn fill(file: &SafeTensors<'_>, prefix: &str, network: &Mlp, values: &mut [f32]) -> Result<(), Error> {
    for (index, layer) in network.layers().iter().enumerate() {
        let (weights, biases) = layer.split_mut(values);
        let stored = tensor(file, format!("{prefix}.{index}.weight"), &[layer.outputs, layer.inputs])?;
        for (at, value) in stored.into_iter().enumerate() {
            weights[stored_at(layer, at)] = value;
        }
        let stored = tensor(file, format!("{prefix}.{index}.bias"), &[layer.outputs])?;
        biases.copy_from_slice(&stored);
    }
    Ok(())
}

fn tensor(file: &SafeTensors<'_>, name: String, shape: &[usize]) -> Result<Vec<f32>, Error> {
    let Ok(view) = file.tensor(&name) else {
        return Err(Error::MissingTensor { name });
    };
    if view.dtype() != Dtype::F32 {
        return Err(Error::Tensor { name, reason: "is not of 32-bit floating-point numbers" });
    }
    if view.shape() != shape {
        return Err(Error::TensorShape { name, expected: shape.to_vec(), found: view.shape().to_vec() });
    }
    let values: Vec<f32> = view.data().as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    if values.iter().any(|value| !value.is_finite()) {
        return Err(Error::Tensor { name, reason: "holds a value that is not finite" });
    }
    Ok(values)
}

/// FNV-1a over the header's text without its checksum, and the names and bytes of all tensors in order of their names. It guards
/// against damage, not against intent.
fn checksum<'a>(header: &str, tensors: impl Iterator<Item = (&'a str, &'a [u8])>) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |bytes: &[u8]| {
        for &byte in bytes {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    add(header.as_bytes());
    for (name, data) in tensors {
        add(name.as_bytes());
        add(data);
    }
    format!("{hash:016x}")
}
