//! https to a coordinator, whose authorities are named.

use std::{io, sync::Arc};

use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};

/// Whom to believe, under which name, and what to show. Clones share it.
#[derive(Debug, Clone)]
pub struct Tls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Tls {
    /// Believes whoever has a certificate of `authorities` (PEM) for `host`, and shows the certificate and key in `identity`
    /// (PEM) if there is one.
    ///
    /// # Errors
    /// If one of them is not what it should be. A key is not repeated.
    pub fn new(host: &str, authorities: &[u8], identity: Option<&[u8]>) -> io::Result<Self> {
        let bad = |what: &'static str| io::Error::new(io::ErrorKind::InvalidInput, what);
        let mut roots = RootCertStore::empty();
        for authority in CertificateDer::pem_slice_iter(authorities) {
            roots.add(authority.map_err(io::Error::other)?).map_err(io::Error::other)?;
        }
        if roots.is_empty() {
            return Err(bad("there is no certificate of an authority"));
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.map_err(io::Error::other)?.with_root_certificates(roots);
        let config = match identity {
            Some(pem) => {
                let unreadable = || bad("there is no certificate with its private key");
                let own: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
                let key = PrivateKeyDer::from_pem_slice(pem).map_err(|_| unreadable())?;
                config.with_client_auth_cert(own.map_err(|_| unreadable())?, key).map_err(|_| unreadable())?
            }
            None => config.with_no_client_auth(),
        };
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        Ok(Self { config: Arc::new(config), name })
    }

    pub(crate) async fn connect(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        TlsConnector::from(Arc::clone(&self.config)).connect(self.name.clone(), stream).await
    }
}
