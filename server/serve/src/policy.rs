//! Rules for connections: the command line and the file of the configuration say them, and a reload
//! may change them.

use std::io::{Error, ErrorKind};
use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::arguments::Arguments;

/// Rules for connections.
#[derive(Clone)]
pub struct Policy {
    /// True if connections from other machines need no password.
    pub trust: bool,
    /// True if connections from this machine need a password too.
    pub require_password: bool,
    /// True if connections from other machines need TLS.
    pub require_tls: bool,
    /// Most sessions.
    pub connections_max: usize,
    /// Certificate and key.
    pub tls: Option<Arc<ServerConfig>>,
}

impl Policy {
    /// Reads the rules; a certificate is read from its file.
    pub fn of(arguments: &Arguments) -> Result<Policy, Error> {
        let tls = match (&arguments.certificate, &arguments.key) {
            (Some(certificate), Some(key)) => Some(tls_config(certificate, key)?),
            (None, None) if arguments.require_tls => {
                return Err(Error::other("--require-tls needs --certificate and --key"));
            }
            (None, None) => None,
            _ => return Err(Error::other("--certificate and --key go together")),
        };
        Ok(Policy {
            trust: arguments.trust,
            require_password: arguments.require_password,
            require_tls: arguments.require_tls,
            connections_max: arguments.connections,
            tls,
        })
    }
}

fn tls_config(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, Error> {
    let named = |path: &Path, error: &dyn std::fmt::Display| {
        Error::new(ErrorKind::InvalidInput, format!("{}: {error}", path.display()))
    };
    let chain = CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let chain = chain.map_err(|error| named(certificate, &error))?;
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| named(key, &error))?;
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(rustls::DEFAULT_VERSIONS)
        .map_err(|error| named(certificate, &error))?;
    let config = builder.with_no_client_auth().with_single_cert(chain, private);
    config.map(Arc::new).map_err(|error| named(certificate, &error))
}
