//! A forecast network as safetensors bytes: one flat tensor, and in the metadata what it must fit and where it is from.

use std::collections::HashMap;

use safetensors::tensor::{Dtype, SafeTensors, TensorView, serialize};
use serde::{Deserialize, Serialize};

use super::{FEATURES, HIDDEN, HORIZONS, LEVELS, Network, OUTPUTS};
use crate::{actor_critic::finite, config::Activation, error::Error, network::Mlp};

/// Name of our entry in the file's metadata, and of the tensor.
const ENTRY: &str = "meanfield-forecast";
const TENSOR: &str = "parameters";
/// More bytes than this are no forecast network.
pub const MOST_BYTES: usize = 1 << 20;

/// What a file says about itself.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    format: u32,
    features: usize,
    hidden: Vec<usize>,
    horizons: Vec<usize>,
    levels: Vec<f64>,
    provenance: String,
}

impl Header {
    fn of(provenance: &str) -> Self {
        Self {
            format: 1,
            features: FEATURES,
            hidden: HIDDEN.to_vec(),
            horizons: HORIZONS.to_vec(),
            levels: LEVELS.to_vec(),
            provenance: provenance.to_owned(),
        }
    }

    /// Everything but where it is from.
    fn shape(&self) -> String {
        format!(
            "format {}, {} features, hidden {:?}, horizons {:?}, levels {:?}",
            self.format, self.features, self.hidden, self.horizons, self.levels
        )
    }
}

fn not_ours(reason: impl std::fmt::Display) -> Error {
    Error::NotACheckpoint { reason: reason.to_string() }
}

impl Network {
    /// As bytes.
    ///
    /// # Errors
    /// [`Error::NonFinite`] when a parameter is not a number.
    pub fn save(&self) -> Result<Vec<u8>, Error> {
        finite("a parameter", self.mlp.parameters())?;
        let data: Vec<u8> = self.mlp.parameters().iter().flat_map(|value| value.to_le_bytes()).collect();
        let view = TensorView::new(Dtype::F32, vec![self.mlp.parameters().len()], &data).map_err(not_ours)?;
        let header = serde_json::to_string(&Header::of(&self.provenance)).map_err(not_ours)?;
        serialize([(TENSOR, view)], Some(HashMap::from([(ENTRY.to_owned(), header)]))).map_err(not_ours)
    }

    /// From bytes.
    ///
    /// # Errors
    /// Says what is wrong with the bytes; one of another shape is refused with both shapes.
    pub fn load(bytes: &[u8]) -> Result<Self, Error> {
        if bytes.len() > MOST_BYTES {
            return Err(not_ours(format!("{} bytes, but a forecast network has at most {MOST_BYTES}", bytes.len())));
        }
        let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(not_ours)?;
        let entry = metadata.metadata().as_ref().and_then(|entries| entries.get(ENTRY));
        let entry = entry.ok_or_else(|| not_ours("it holds no forecast network"))?;
        let header: Header = serde_json::from_str(entry).map_err(not_ours)?;
        let ours = Header::of(&header.provenance);
        if header != ours {
            return Err(Error::ForecastShape { found: header.shape(), expected: ours.shape() });
        }
        let file = SafeTensors::deserialize(bytes).map_err(not_ours)?;
        let tensor = file.tensor(TENSOR).map_err(|_| Error::MissingTensor { name: TENSOR.to_owned() })?;
        let mut mlp = Mlp::zeros(FEATURES, &HIDDEN, OUTPUTS, Activation::Tanh);
        let expected = vec![mlp.parameters().len()];
        if tensor.dtype() != Dtype::F32 {
            return Err(Error::Tensor { name: TENSOR.to_owned(), reason: "holds no 32-bit floats" });
        }
        if tensor.shape() != expected {
            let found = tensor.shape().to_vec();
            return Err(Error::TensorShape { name: TENSOR.to_owned(), expected, found });
        }
        for (parameter, bytes) in mlp.parameters_mut().iter_mut().zip(tensor.data().chunks_exact(4)) {
            *parameter = f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
        finite("a parameter", mlp.parameters())?;
        Ok(Self { mlp, provenance: header.provenance })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_saved_is_loaded_and_damage_is_refused() {
        let network = Network { provenance: "made in a test".to_owned(), ..Network::new(3) };
        let bytes = network.save().unwrap();
        assert!(bytes.len() < MOST_BYTES);
        assert_eq!(Network::load(&bytes).unwrap(), network);
        for cut in [0, 7, 100, bytes.len() - 1] {
            assert!(Network::load(&bytes[..cut]).is_err(), "{cut}");
        }
        let other = String::from_utf8_lossy(&bytes).find("\\\"features\\\":28").unwrap();
        let mut wrong = bytes.clone();
        wrong[other + 13..other + 15].copy_from_slice(b"27");
        let error = Network::load(&wrong).unwrap_err().to_string();
        assert!(error.contains("27 features") && error.contains("28 features"), "{error}");
    }
}
