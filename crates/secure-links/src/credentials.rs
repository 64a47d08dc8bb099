//! Who a process is, and whom it believes.
//!
//! An authority has signed a certificate for the name of each process. A process has its own
//! certificate with its key, and the authority's certificate; it believes another process to be the
//! one of a name if that has a certificate of this authority for this name, and its key. Both sides
//! of a connection prove it. TLS 1.3 alone, without resumption: each connection proves it anew.

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

/// The file of the authority's certificate in a directory of [`Credentials`].
pub const AUTHORITY_FILE: &str = "authority.pem";

/// The files of the certificate and of the key of a name in a directory of [`Credentials`].
pub fn credential_files(directory: &Path, name: &str) -> [PathBuf; 2] {
    [directory.join(format!("{name}.pem")), directory.join(format!("{name}.key"))]
}

/// Why there are no credentials. Displays as one line.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// A file that cannot be read, or has something else in it.
    #[error("{}: {problem}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The certificate, its key and the authority do not fit together.
    #[error("certificate of {name}: {problem}")]
    Unfit {
        /// The name.
        name: String,
        /// What does not fit.
        problem: String,
    },
    /// The certificate counts no more.
    #[error("{}: expired, its last day was {}: isles certificates makes others", .0.path.display(), .0.last_day)]
    Expired(Validity),
    /// A name that no certificate can have.
    #[error("{0}: no name for a certificate: letters, digits, hyphens and dots")]
    Name(String),
}

/// Who this process is, and whom it believes.
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
    /// By instance.
    names: Arc<[ServerName<'static>]>,
}

fn server_name(name: &str) -> Result<ServerName<'static>, CredentialsError> {
    ServerName::try_from(name.to_owned()).map_err(|_| CredentialsError::Name(name.to_owned()))
}

impl Credentials {
    /// Those of a name, in a directory with the files [`AUTHORITY_FILE`] and [`credential_files`].
    ///
    /// # Errors
    /// A file is missing, they do not fit together, or the certificate has expired.
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
        let (made, until) = Credentials::of(certificates(&authority)?, (chain, own), &own_name)
            .map_err(|error| CredentialsError::Unfit { name: name.to_owned(), problem: error.to_string() })?;
        let expires = until.map(|until| Validity { path: certificate, last_day: Day::of(until) });
        match (expires, until) {
            (Some(expired), Some(until)) if until < UnixTime::now() => {
                Err(CredentialsError::Expired(expired))
            }
            (expires, _) => Ok(Credentials { expires, ..made }),
        }
    }

    /// The certificate's last day, if it is known.
    pub fn expires(&self) -> Option<&Validity> {
        self.expires.as_ref()
    }

    /// These: of the authorities, and the certificate with those between it and an authority, and
    /// its key. Also the last moment at which the certificate counts for this name.
    fn of(
        authorities: Vec<CertificateDer<'static>>,
        (chain, key): (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>),
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

    /// What the side that connects says to the one of this name.
    pub(super) fn asking(&self, name: ServerName<'static>) -> Result<rustls::Connection, rustls::Error> {
        ClientConnection::new(Arc::clone(&self.client), name).map(rustls::Connection::from)
    }

    /// What the side that listens says.
    pub(super) fn answering(&self) -> Result<rustls::Connection, rustls::Error> {
        ServerConnection::new(Arc::clone(&self.server)).map(rustls::Connection::from)
    }

    /// Secures a connection that was made to the process of this name.
    ///
    /// # Errors
    /// One of the two sides does not believe the other one, or it is gone.
    pub fn ask(&self, socket: TcpStream, name: &str) -> Result<Bytes, PeerError> {
        let name = server_name(name).map_err(|error| rustls::Error::General(error.to_string()));
        let mut asking = Bytes::secured(socket, name.and_then(|name| self.asking(name)))?;
        asking.hear_belief().map(|()| asking)
    }

    /// Secures a connection that another process has made. Who that is, [`Bytes::check_name`] says.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub fn answer(&self, socket: TcpStream) -> Result<Bytes, PeerError> {
        let mut answering = Bytes::secured(socket, self.answering())?;
        answering.say_belief().map(|()| answering)
    }

    /// Together with the names of the instances.
    ///
    /// # Errors
    /// One is no name.
    pub fn trust<'n>(self, names: impl IntoIterator<Item = &'n str>) -> Result<Trust, CredentialsError> {
        let names = names.into_iter().map(server_name).collect::<Result<_, _>>()?;
        Ok(Trust { credentials: self, names })
    }
}

impl Trust {
    /// The name of an instance.
    fn name(&self, instance: u16) -> Option<&ServerName<'static>> {
        self.names.get(usize::from(instance))
    }

    /// What the side says that connects to an instance.
    pub(super) fn asking(&self, instance: u16) -> Result<rustls::Connection, rustls::Error> {
        let name = self.name(instance).cloned();
        self.credentials.asking(name.ok_or_else(|| rustls::Error::General("no such instance".to_owned()))?)
    }

    /// What the side that listens says.
    pub(super) fn answering(&self) -> Result<rustls::Connection, rustls::Error> {
        self.credentials.answering()
    }

    /// Whether the other side is this instance.
    pub(super) fn check(&self, secured: &Secured, instance: u16) -> Result<(), Fault> {
        let name = self.name(instance).ok_or_else(|| Fault::Unwanted("no such instance".to_owned()))?;
        secured.check_name(name).map_err(|error| fault_of(&error))
    }
}
