//! TLS: certificate, key and authorities in PEM files, which may be replaced while the coordinator runs.

use std::{
    fmt, fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use parking_lot::RwLock;
use rustls::{
    RootCertStore, ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::WebPkiClientVerifier,
};

/// How often the files are looked at.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Where the certificate and its key are, and whose certificates clients may show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    /// The certificate, with those between it and the authority behind it.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The authorities of clients' certificates; without them, clients are not asked for any.
    pub client_authorities: Option<PathBuf>,
    /// Whether a client may also show none.
    pub clients: Clients,
}

/// What is asked of clients where there are authorities for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Clients {
    /// Who shows no certificate is not let in.
    #[default]
    Required,
    /// Who shows none is let in; a bad one is refused.
    Optional,
}

/// Why TLS cannot be set up. None repeats what is in a file.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read.
    #[error("{path:?}: {reason}")]
    Io {
        /// Which file.
        path: PathBuf,
        /// Why.
        reason: io::Error,
    },
    /// A file does not hold what it should.
    #[error("{path:?} holds no {wanted} in PEM")]
    Missing {
        /// Which file.
        path: PathBuf,
        /// What it should hold.
        wanted: &'static str,
    },
    /// What they hold cannot be used, for example since the key is another certificate's.
    #[error("{path:?} cannot be used: {reason}")]
    Unusable {
        /// Which file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

impl Files {
    fn load(&self) -> Result<Arc<ServerConfig>, Error> {
        let unusable = |path: &Path, reason: &dyn fmt::Display| Error::Unusable {
            path: path.to_owned(),
            reason: reason.to_string(),
        };
        let provider = Arc::new(ring::default_provider());
        let chain = certificates(&self.certificate)?;
        let bytes = read(&self.key)?;
        let missing = |_| Error::Missing { path: self.key.clone(), wanted: "private key" };
        let key = PrivateKeyDer::from_pem_slice(&bytes).map_err(missing)?;
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| unusable(&self.certificate, &error))?;
        let builder = match &self.client_authorities {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let mut authorities = RootCertStore::empty();
                for authority in certificates(path)? {
                    authorities.add(authority).map_err(|error| unusable(path, &error))?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(authorities), provider);
                let verifier = match self.clients {
                    Clients::Required => verifier,
                    Clients::Optional => verifier.allow_unauthenticated(),
                };
                builder.with_client_cert_verifier(verifier.build().map_err(|error| unusable(path, &error))?)
            }
        };
        let mut config = builder.with_single_cert(chain, key).map_err(|error| unusable(&self.certificate, &error))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    /// What tells one version of the files from another, without reading them.
    fn stamps(&self) -> Vec<Option<Stamp>> {
        let paths = [Some(&self.certificate), Some(&self.key), self.client_authorities.as_ref()];
        paths.into_iter().flatten().map(|path| Stamp::of(path)).collect()
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    fs::read(path).map_err(|reason| Error::Io { path: path.to_owned(), reason })
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let bytes = read(path)?;
    let missing = || Error::Missing { path: path.to_owned(), wanted: "certificate" };
    let found: Vec<_> = CertificateDer::pem_slice_iter(&bytes).collect::<Result<_, _>>().map_err(|_| missing())?;
    if found.is_empty() { Err(missing()) } else { Ok(found) }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Stamp {
    file: u64,
    size: u64,
    seconds: i64,
    nanoseconds: i64,
}

impl Stamp {
    fn of(path: &Path) -> Option<Self> {
        // Links are followed: Kubernetes replaces a secret's files by turning a link.
        let found = fs::metadata(path).ok()?;
        let (file, size) = (found.ino(), found.size());
        Some(Self { file, size, seconds: found.mtime(), nanoseconds: found.mtime_nsec() })
    }
}

/// Whether files can be used.
///
/// # Errors
/// If they cannot.
pub fn check(files: &Files) -> Result<(), Error> {
    Current::load(files.clone()).map(drop)
}

/// The configuration of the latest files that were good.
pub(crate) struct Current {
    files: Files,
    config: RwLock<(Arc<ServerConfig>, Vec<Option<Stamp>>)>,
}

/// What came of a look at the files.
#[derive(Debug)]
pub(crate) enum Look {
    Same,
    Replaced,
    /// They changed and cannot be used: what was there before stays.
    Bad(Error),
}

impl Current {
    pub(crate) fn load(files: Files) -> Result<Self, Error> {
        // Before reading them: what changes while they are read is seen by the next look.
        let stamps = files.stamps();
        let config = files.load()?;
        if let Some(mode) = fs::metadata(&files.key).ok().map(|found| found.mode() & 0o777).filter(|mode| mode & 7 != 0)
        {
            tracing::warn!(path = ?files.key, mode = format!("{mode:o}"), "everybody on this machine can use the key");
        }
        Ok(Self { files, config: RwLock::new((config, stamps)) })
    }

    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config.read().0)
    }

    /// Takes new files, if they changed and are good. Blocks on the disk.
    pub(crate) fn look(&self) -> Look {
        let stamps = self.files.stamps();
        if self.config.read().1 == stamps {
            return Look::Same;
        }
        let loaded = self.files.load();
        let mut current = self.config.write();
        // Bad files too are looked at once only, until they change again.
        current.1 = stamps;
        match loaded {
            Ok(config) => {
                current.0 = config;
                Look::Replaced
            }
            Err(error) => Look::Bad(error),
        }
    }
}
