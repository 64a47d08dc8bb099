//! Deployments in files that also contain the workload, and the addresses of instances on several
//! machines, for `isles deploy`. The file of a deployment alone is valid, too.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use secure_links::{Credentials, CredentialsError, Trust};
use serde::Deserialize;

use super::error::DeploymentError;
use super::file::malformed;
use super::value::{Deployment, Instance, MEMORY_BYTES_UNKNOWN, Partitioning, Transport, WorkerPlace};

/// A deployment and its workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunFile {
    /// The deployment.
    pub deployment: Deployment,
    /// The workload, as arguments of `isles bench`; empty if the file does not name it.
    pub run: String,
    /// The addresses of the command and of the instances on several machines; `None` if all are on
    /// this machine.
    pub machines: Option<Machines>,
    /// The directories of the instances' databases, each on the machine of its instance; empty if
    /// the file does not name them.
    pub paths: Vec<PathBuf>,
}

/// Addresses of a deployment on several machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machines {
    /// The address at which the command listens for instances.
    pub command: SocketAddr,
    /// The address at which each instance listens for others.
    pub addresses: Vec<SocketAddr>,
    /// The directory of certificates, as written in the file; `None`: no authentication.
    pub certificates: Option<PathBuf>,
    /// The name in the command's certificate.
    pub command_name: String,
    /// The name in the certificate of each instance.
    pub names: Vec<String>,
}

impl Machines {
    /// The credentials of the process of this instance, or of the command. The directory of
    /// certificates is relative to that of the file.
    ///
    /// # Errors
    /// Certificates are missing, or do not match.
    pub fn credentials(
        &self,
        file: &Path,
        instance: Option<usize>,
    ) -> Result<Option<Credentials>, CredentialsError> {
        let Some(directory) = &self.certificates else { return Ok(None) };
        let name = instance.map_or(&self.command_name, |instance| &self.names[instance]);
        let directory = file.parent().unwrap_or(Path::new("")).join(directory);
        Credentials::of_directory(&directory, name).map(Some)
    }

    /// The certificates that processes with these credentials accept from each other.
    pub(crate) fn trust(&self, credentials: Option<Credentials>) -> Result<Option<Trust>, CredentialsError> {
        let trust = |credentials: Credentials| credentials.trust(self.names.iter().map(String::as_str));
        credentials.map(trust).transpose()
    }
}

/// The file.
#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct File {
    run: String,
    command: Option<SocketAddr>,
    command_name: String,
    certificates: Option<PathBuf>,
    plain: bool,
    transport: Option<Transport>,
    partitioning: Partitioning,
    workers_per_thread: usize,
    memory_bytes_max: u64,
    instances: Vec<FileInstance>,
}

/// An instance of the file.
#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct FileInstance {
    address: Option<SocketAddr>,
    path: Option<PathBuf>,
    name: Option<String>,
    workers: Vec<WorkerPlace>,
}

impl Default for FileInstance {
    fn default() -> Self {
        let Instance { workers, .. } = Instance::default();
        FileInstance { address: None, path: None, name: None, workers }
    }
}

impl Default for File {
    fn default() -> Self {
        File {
            run: String::new(),
            command: None,
            command_name: "command".to_owned(),
            certificates: None,
            plain: false,
            transport: None,
            partitioning: Partitioning::default(),
            workers_per_thread: 1,
            memory_bytes_max: MEMORY_BYTES_UNKNOWN,
            instances: vec![FileInstance::default()],
        }
    }
}

impl RunFile {
    /// A fingerprint of the file: files with other contents have other fingerprints, up to
    /// collisions of 32 bits.
    pub fn fingerprint(&self) -> u32 {
        distributed::messages::fingerprint(std::iter::once(self))
    }

    /// The deployment of a file.
    ///
    /// # Errors
    /// [`DeploymentError::File`]: the file cannot be read, is no deployment, or describes an
    /// invalid one.
    pub fn from_file(path: &Path) -> Result<Self, DeploymentError> {
        let text = std::fs::read_to_string(path).map_err(|error| error.to_string());
        let deployed = text.and_then(|text| RunFile::from_toml(&text).map_err(|error| error.to_string()));
        deployed.map_err(|problem| DeploymentError::File { path: path.to_owned(), problem })
    }

    /// The deployment of a text.
    ///
    /// # Errors
    /// [`DeploymentError`]: the text is no deployment, or describes an invalid one.
    pub fn from_toml(text: &str) -> Result<Self, DeploymentError> {
        let file: File = toml::from_str(text).map_err(|error| malformed(text, &error))?;
        let machines = file.machines()?;
        let paths = file.paths(machines.is_none())?;
        let default = if machines.is_some() { Transport::Tcp } else { Transport::default() };
        let deployment = Deployment {
            transport: file.transport.unwrap_or(default),
            partitioning: file.partitioning,
            workers_per_thread: file.workers_per_thread,
            memory_bytes_max: file.memory_bytes_max,
            instances: file
                .instances
                .into_iter()
                .map(|one| Instance { machine: 0, workers: one.workers })
                .collect(),
        };
        if machines.is_none() {
            deployment.check()?;
        } else {
            deployment.check_apart()?;
        }
        if machines.is_some() && deployment.transport != Transport::Tcp {
            return Err(DeploymentError::NoNetwork(deployment.transport.name()));
        }
        Ok(RunFile { deployment, run: file.run, machines, paths })
    }
}

impl File {
    /// The directories, of all instances or of none. Those on one machine differ.
    fn paths(&self, on_one_machine: bool) -> Result<Vec<PathBuf>, DeploymentError> {
        let paths: Vec<PathBuf> = self.instances.iter().filter_map(|one| one.path.clone()).collect();
        if paths.is_empty() {
            return Ok(paths);
        }
        if let Some(missing) = self.instances.iter().position(|one| one.path.is_none()) {
            return Err(DeploymentError::NoPath(missing));
        }
        let is_twice = |path: &&PathBuf| paths.iter().filter(|other| other == path).count() > 1;
        match paths.iter().find(is_twice).filter(|_| on_one_machine) {
            Some(twice) => Err(DeploymentError::TwiceIn(twice.clone())),
            None => Ok(paths),
        }
    }

    /// The addresses, of all instances or of none.
    fn machines(&self) -> Result<Option<Machines>, DeploymentError> {
        let addresses: Vec<SocketAddr> = self.instances.iter().filter_map(|one| one.address).collect();
        let Some(command) = self.command.or(addresses.first().copied()) else { return Ok(None) };
        if self.command.is_none() {
            return Err(DeploymentError::NoCommand);
        }
        if let Some(missing) = self.instances.iter().position(|one| one.address.is_none()) {
            return Err(DeploymentError::NoAddress(missing));
        }
        let all = || addresses.iter().chain([&command]);
        let twice = all().find(|one| all().filter(|other| other == one).count() > 1).copied();
        match twice {
            Some(twice) => return Err(DeploymentError::TwiceAt(twice)),
            None => self.check_protection(all())?,
        }
        Ok(Some(Machines {
            command,
            addresses,
            certificates: self.certificates.clone(),
            command_name: self.command_name.clone(),
            names: self.names(),
        }))
    }

    /// The names of the instances in their certificates.
    fn names(&self) -> Vec<String> {
        let name = |(number, one): (usize, &FileInstance)| {
            one.name.clone().unwrap_or_else(|| format!("instance-{number}"))
        };
        self.instances.iter().enumerate().map(name).collect()
    }

    /// Checks that messages that leave this machine are encrypted, unless the file allows
    /// otherwise.
    fn check_protection<'a>(
        &self,
        mut all: impl Iterator<Item = &'a SocketAddr>,
    ) -> Result<(), DeploymentError> {
        if self.certificates.is_some() {
            return if self.plain { Err(DeploymentError::PlainAndCertificates) } else { Ok(()) };
        }
        let outside = all.find(|address| !address.ip().is_loopback()).filter(|_| !self.plain);
        outside.map_or(Ok(()), |address| Err(DeploymentError::Unprotected(*address)))
    }
}
