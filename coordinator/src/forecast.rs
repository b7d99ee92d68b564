//! The forecast network that the agents of a pool share: checked once, where it comes in, and kept as it came.

use meanfield_common::{digest::Digest, invalid::Invalid};
use meanfield_learner::{Error, forecast::Network};

use crate::view::ForecastView;

/// Longer words about where a network is from would only fill logs and views.
const LONGEST_PROVENANCE: usize = 1000;

/// A file that holds a forecast network of this version.
#[derive(Debug, Clone, PartialEq)]
pub struct Forecast {
    bytes: Vec<u8>,
    digest: Digest,
    provenance: String,
}

impl Forecast {
    /// Checks a file.
    ///
    /// # Errors
    /// Says what in it is not as it should be.
    pub fn new(bytes: Vec<u8>) -> Result<Self, Invalid> {
        let Network { provenance, .. } = Network::load(&bytes).map_err(|error| refused(&error))?;
        if provenance.chars().count() > LONGEST_PROVENANCE {
            let bound = format!("at most {LONGEST_PROVENANCE} characters long");
            return Err(Invalid::new("forecast.provenance", provenance, bound));
        }
        Ok(Self { digest: Digest::of(&bytes), provenance, bytes })
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

    /// How the network came to be, as the file says.
    #[must_use]
    pub fn provenance(&self) -> &str {
        &self.provenance
    }

    pub(crate) fn view(&self) -> ForecastView {
        ForecastView { digest: self.digest, bytes: self.bytes.len(), provenance: self.provenance.clone() }
    }
}

fn refused(error: &Error) -> Invalid {
    match error {
        Error::ForecastShape { found, expected } => Invalid::new("forecast.shape", found, expected),
        Error::TensorShape { name, expected, found } => {
            Invalid::new(format!("forecast.{name}"), format!("{found:?}"), format!("of shape {expected:?}"))
        }
        Error::NonFinite { what } => Invalid::new("forecast.parameters", what, "a finite number"),
        other => Invalid::new("forecast", other, "a network that `meanfield train --forecast` wrote"),
    }
}
