//! Certificates of a process, and authentication of its peers.
//!
//! An authority signs a certificate for the name of each process. A process has its own certificate
//! with the key, and the certificate of the authority. It accepts a peer under a name if the peer
//! has a certificate of this authority for this name and proves that it has the key. Both sides of
//! a connection authenticate. Only TLS 1.3 is used, without resumption, so every connection
//! authenticates anew.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};

use super::bytes::Bytes;
use super::error::{Fault, PeerError};
use super::secured::Secured;
use super::socket::fault_of;
use super::validity::{Day, Validity, last_moment};

/// Name of the file with the authority's certificate in a directory of [`Credentials`].
pub const AUTHORITY_FILE: &str = "authority.pem";

/// Returns the paths of the certificate and of the key of a name in a directory of [`Credentials`].
pub fn credential_files(directory: &Path, name: &str) -> [PathBuf; 2] {
    [directory.join(format!("{name}.pem")), directory.join(format!("{name}.key"))]
}

/// Error of loading credentials. It displays as one line.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// A file cannot be read, or has other content.
    #[error("{}: {problem}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The problem.
        problem: String,
    },
    /// The certificate, its key and the authority do not match.
    #[error("certificate of {name}: {problem}")]
    Unfit {
        /// The name.
        name: String,
        /// The problem.
        problem: String,
    },
    /// The certificate has expired.
    #[error("{}: expired, its last day was {}: isles certificates makes others", .0.path.display(), .0.last_day)]
    Expired(Validity),
    /// A name that no certificate can have.
    #[error("{0}: no name for a certificate: letters, digits, hyphens and dots")]
    Name(String),
}

/// The certificate of this process, and the authority that it trusts.
#[derive(Clone)]
pub struct Credentials {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
    expires: Option<Validity>,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_struct("Credentials").finish_non_exhaustive()
    }
}

/// Credentials, and the names that the instances of a deployment have to prove.
#[derive(Clone, Debug)]
pub struct Trust {
    credentials: Credentials,
    /// Name of each instance.
    names: Arc<[ServerName<'static>]>,
}

fn server_name(name: &str) -> Result<ServerName<'static>, CredentialsError> {
    ServerName::try_from(name.to_owned()).map_err(|_| CredentialsError::Name(name.to_owned()))
}

impl Credentials {
    /// Loads the credentials of a name from a directory with the files [`AUTHORITY_FILE`] and
    /// [`credential_files`].
    ///
    /// # Errors
    /// A file is missing, the files do not match, or the certificate has expired.
    pub fn of_directory(directory: &Path, name: &str) -> Result<Self, CredentialsError> {
        let failed = |path: &Path, problem: String| CredentialsError::File { path: path.to_owned(), problem };
        let read = |path: &Path| std::fs::read(path).map_err(|error| failed(path, error.to_string()));
        let own_name = server_name(name)?;
        let authority = directory.join(AUTHORITY_FILE);
        let [certificate, key] = credential_files(directory, name);
        let certificates = |path: &Path| {
            let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&read(path)?).collect();
            let read = read.map_err(|error| failed(path, error.to_string()))?;
            if read.is_empty() { Err(failed(path, "no certificate".to_owned())) } else { Ok(read) }
        };
        let chain = certificates(&certificate)?;
        let own =
            PrivateKeyDer::from_pem_slice(&read(&key)?).map_err(|error| failed(&key, error.to_string()))?;
        let (made, until) = Credentials::of(certificates(&authority)?, chain, own, &own_name)
            .map_err(|error| CredentialsError::Unfit { name: name.to_owned(), problem: error.to_string() })?;
        let expires = until.map(|until| Validity { path: certificate, last_day: Day::of(until) });
        match (expires, until) {
            (Some(expired), Some(until)) if until < UnixTime::now() => {
                Err(CredentialsError::Expired(expired))
            }
            (expires, _) => Ok(Credentials { expires, ..made }),
        }
    }

    /// Returns the certificate's last day, if it is known.
    pub fn expires(&self) -> Option<&Validity> {
        self.expires.as_ref()
    }

    /// Makes credentials of the authorities' certificates, the own certificate with its
    /// intermediates, and its key. Also returns the time at which the certificate expires.
    fn of(
        authorities: Vec<CertificateDer<'static>>,
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
        name: &ServerName<'_>,
    ) -> Result<(Self, Option<UnixTime>), rustls::Error> {
        let mut roots = RootCertStore::empty();
        authorities.into_iter().try_for_each(|authority| roots.add(authority))?;
        let (roots, provider) = (Arc::new(roots), Arc::new(ring::default_provider()));
        let unfit = |error: rustls::server::VerifierBuilderError| rustls::Error::General(error.to_string());
        let of_server =
            WebPkiServerVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider));
        let of_client = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&provider));
        let of_server = of_server.build().map_err(unfit)?;
        let until = last_moment(&*of_server, &chain, name);
        let versions = &[&rustls::version::TLS13];
        let mut client = ClientConfig::builder_with_provider(Arc::<CryptoProvider>::clone(&provider))
            .with_protocol_versions(versions)?
            .with_webpki_verifier(of_server)
            .with_client_auth_cert(chain.clone(), key.clone_key())?;
        client.resumption = Resumption::disabled();
        let mut server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)?
            .with_client_cert_verifier(of_client.build().map_err(unfit)?)
            .with_single_cert(chain, key)?;
        server.send_tls13_tickets = 0;
        Ok((Credentials { client: Arc::new(client), server: Arc::new(server), expires: None }, until))
    }

    /// Begins TLS as the client of the process with this name.
    pub(super) fn client_connection(
        &self,
        name: ServerName<'static>,
    ) -> Result<rustls::Connection, rustls::Error> {
        ClientConnection::new(Arc::clone(&self.client), name).map(rustls::Connection::from)
    }

    /// Begins TLS as the server.
    pub(super) fn server_connection(&self) -> Result<rustls::Connection, rustls::Error> {
        ServerConnection::new(Arc::clone(&self.server)).map(rustls::Connection::from)
    }

    /// Runs TLS over a connection that this process made to the process with this name.
    ///
    /// # Errors
    /// One side refuses the other one, or the connection is closed.
    pub fn secure_outgoing(&self, socket: TcpStream, name: &str) -> Result<Bytes, PeerError> {
        let name = server_name(name).map_err(|error| rustls::Error::General(error.to_string()));
        let mut bytes = Bytes::secured(socket, name.and_then(|name| self.client_connection(name)))?;
        bytes.receive_acceptance().map(|()| bytes)
    }

    /// Runs TLS over a connection that another process made. [`Bytes::check_name`] then checks its
    /// name.
    ///
    /// # Errors
    /// As [`Self::secure_outgoing`].
    pub fn secure_incoming(&self, socket: TcpStream) -> Result<Bytes, PeerError> {
        let mut bytes = Bytes::secured(socket, self.server_connection())?;
        bytes.send_acceptance().map(|()| bytes)
    }

    /// Adds the names of the instances of a deployment.
    ///
    /// # Errors
    /// A name is invalid.
    pub fn trust<'n>(self, names: impl IntoIterator<Item = &'n str>) -> Result<Trust, CredentialsError> {
        let names = names.into_iter().map(server_name).collect::<Result<_, _>>()?;
        Ok(Trust { credentials: self, names })
    }
}

impl Trust {
    /// Returns the name of an instance.
    fn name(&self, instance: u16) -> Option<&ServerName<'static>> {
        self.names.get(usize::from(instance))
    }

    /// Begins TLS as the client of an instance.
    pub(super) fn client_connection(&self, instance: u16) -> Result<rustls::Connection, rustls::Error> {
        let name = self.name(instance).cloned();
        self.credentials
            .client_connection(name.ok_or_else(|| rustls::Error::General("no such instance".to_owned()))?)
    }

    /// Begins TLS as the server.
    pub(super) fn server_connection(&self) -> Result<rustls::Connection, rustls::Error> {
        self.credentials.server_connection()
    }

    /// Checks that the other side's certificate is for this instance.
    pub(super) fn check(&self, secured: &Secured, instance: u16) -> Result<(), Fault> {
        let name = self.name(instance).ok_or_else(|| Fault::Unwanted("no such instance".to_owned()))?;
        secured.check_name(name).map_err(|error| fault_of(&error))
    }
}
