//! What can go wrong in the learner, worded for the operator who has to mend it.

/// Any failure of this crate. Nothing in it panics on bad input; it ends up here.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting lies outside what the learner can work with.
    #[error("configuration: `{field}` is {value}, but must be {bound}")]
    Config {
        /// The field of [`crate::Config`].
        field: &'static str,
        /// The value found there.
        value: String,
        /// What it must satisfy.
        bound: &'static str,
    },

    /// There are no settings of this name.
    #[error("preset is {name:?}, but must be {known}")]
    Preset {
        /// The name given.
        name: String,
        /// The names that exist.
        known: String,
    },

    /// An input has another length than the configuration says.
    #[error("{what} has {found} values, but {expected} are expected")]
    Shape {
        /// Which input.
        what: &'static str,
        /// The length the configuration asks for.
        expected: usize,
        /// The length found.
        found: usize,
    },

    /// An input holds NaN or an infinity; refused at the edge, before it can reach the parameters.
    #[error("{what} is not finite")]
    NonFinite {
        /// Which input.
        what: &'static str,
    },

    /// Every action of one head is masked, so nothing can be chosen.
    #[error("every action of head {head} is masked")]
    MaskedHead {
        /// Index of the head.
        head: usize,
    },

    /// A recorded action does not exist, or its own mask forbids it.
    #[error("action {action} of head {head} is out of range or masked")]
    IllegalAction {
        /// Index of the head.
        head: usize,
        /// The action recorded for it.
        action: usize,
    },

    /// An update was asked for without any experience.
    #[error("the batch is empty")]
    EmptyBatch,

    /// Training ran away: a loss or a gradient stopped being a number. The parameters are those from before the update.
    #[error("the {term} is not finite in epoch {epoch}; the parameters were left as before the update")]
    Diverged {
        /// The loss term or gradient.
        term: &'static str,
        /// Epoch of the update, from 0.
        epoch: usize,
    },

    /// A checkpoint is shorter than its own header says.
    #[error("checkpoint is cut off: {found} bytes, but at least {expected} are needed")]
    CutOff {
        /// Bytes needed, as far as can be told.
        expected: usize,
        /// Bytes given.
        found: usize,
    },

    /// The bytes are no safetensors file, or not one of ours.
    #[error("not a checkpoint: {reason}")]
    NotACheckpoint {
        /// What was wrong.
        reason: String,
    },

    /// A forecast network is of another shape than this version's.
    #[error("the network's shape is {found}, but {expected} is needed")]
    ForecastShape {
        /// Shape in the file, in words.
        found: String,
        /// Shape of this version.
        expected: String,
    },

    /// The checkpoint holds networks only, and training cannot go on from there as if it had never stopped.
    #[error("the checkpoint holds networks, but no training state")]
    NoTrainingState,

    /// The checkpoint was written in a format that this version does not read.
    #[error("checkpoint format {found} is not supported (this version reads {supported})")]
    Version {
        /// Format of the file.
        found: u32,
        /// Format this version reads.
        supported: u32,
    },

    /// A tensor that the configuration asks for is not in the checkpoint.
    #[error("checkpoint has no tensor `{name}`")]
    MissingTensor {
        /// Its name.
        name: String,
    },

    /// A tensor has another shape than the configuration in the same checkpoint says.
    #[error("checkpoint tensor `{name}` has shape {found:?}, but the configuration needs {expected:?}")]
    TensorShape {
        /// Its name.
        name: String,
        /// Shape by the configuration.
        expected: Vec<usize>,
        /// Shape in the file.
        found: Vec<usize>,
    },

    /// A tensor holds another number type, or a value no trained network can have.
    #[error("checkpoint tensor `{name}` {reason}")]
    Tensor {
        /// Its name.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },

    /// The contents do not match the checksum that was stored with them.
    #[error("checkpoint is damaged: checksum {found}, but {expected} was stored")]
    Checksum {
        /// Stored in the file.
        expected: String,
        /// Computed from the contents.
        found: String,
    },

    /// LibTorch refused an operation.
    #[cfg(feature = "tch")]
    #[error("LibTorch: {reason}")]
    Torch {
        /// In its own words.
        reason: String,
    },
}
