//! The directory of a durable deployment of several instances: one directory below it for each
//! instance, and a file with the owners of the data. A process that has the directory open has all
//! of them.
//!
//! The file is text, `isles.deployment`, written as a whole, and renamed into place when all
//! instances are made: then an instance that is missing later has been lost, and is not made anew.
//!
//! ```text
//! isles deployment 1
//! instances 2
//! parts 0 1 0 1
//! checksum 0x0123abcd
//! ```
//!
//! `parts` has the instance of each part of the data, and `checksum` is the CRC32C of the lines
//! before.

use std::path::{Path, PathBuf};

use platform::files::{Access, Buffer, Existence, FileError, FileErrorKind, Files, Operation};

/// The file's name.
pub const FILE: &str = "isles.deployment";
/// Its name until all instances are made.
pub const NEW_FILE: &str = "isles.deployment.new";
const HEAD: &str = "isles deployment 1";

/// The division of data over instances, workers and parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataOwners {
    /// Instances.
    pub instances: usize,
    /// The instance of each part of the data.
    pub parts: Vec<u16>,
}

/// Why a directory is not that of a deployment, or not of this one.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// The files refuse.
    #[error(transparent)]
    File(#[from] FileError),
    /// There is no memory to read the file.
    #[error(transparent)]
    Memory(#[from] platform::OutOfMemory),
    /// The content of the file is none that this version writes.
    #[error("{}: damaged, or of another version; restore a backup", .0.display())]
    Damaged(PathBuf),
    /// There are files, and no deployment.
    #[error("{}: holds no deployment of several instances: name an empty or a new directory", .0.display())]
    NotADeployment(PathBuf),
    /// An instance that was there is not.
    #[error("{}: is missing from its deployment: bring it back, or restore a backup of the whole deployment", .0.display())]
    Missing(PathBuf),
    /// A process has the deployment open.
    #[error("{}: is open: a deployment is copied while it is closed", .0.display())]
    Open(PathBuf),
    /// The data are divided otherwise.
    #[error(
        "{}: holds a deployment of {} instances that divides {} parts of data otherwise: ask for that one, or name another directory",
        .path.display(), .found.instances, .found.parts.len()
    )]
    Other {
        /// The directory.
        path: PathBuf,
        /// The division that it holds.
        found: DataOwners,
    },
}

/// An opened and locked directory of a deployment.
pub struct DeploymentDirectory<P: Files> {
    path: PathBuf,
    /// Locked as long as this lives.
    directory: P::Directory,
    /// True if the deployment was there, with all of its instances.
    pub existed: bool,
}

impl<P: Files> DeploymentDirectory<P> {
    /// Opens the directory of a deployment, which is made if there is none: call
    /// [`Self::settle`] when all instances are made.
    ///
    /// # Errors
    /// [`DirectoryError`]: nothing is changed.
    pub fn open(c: P::Core, path: &Path, owners: &DataOwners) -> Result<Self, DirectoryError> {
        let directory = P::open_directory(c, path, true)?;
        let mut queue = P::queue(c, &directory)?;
        let existed = match read_file::<P>(c, &mut queue, path)? {
            Some(found) if found == *owners => true,
            Some(found) => return Err(DirectoryError::Other { path: path.to_path_buf(), found }),
            None => {
                write_file::<P>(c, &mut queue, path, owners)?;
                false
            }
        };
        Ok(DeploymentDirectory { path: path.to_path_buf(), directory, existed })
    }

    /// All instances are made: from now on each has to be there.
    ///
    /// # Errors
    /// The files refuse.
    pub fn settle(&self, c: P::Core) -> Result<(), DirectoryError> {
        if self.existed {
            return Ok(());
        }
        let mut queue = P::queue(c, &self.directory)?;
        for operation in
            [Operation::Rename { from: NEW_FILE.into(), to: FILE.into() }, Operation::FlushDirectory]
        {
            P::perform(c, &mut queue, operation).result?;
        }
        Ok(())
    }

    /// The directory of an instance.
    pub fn instance(&self, number: usize) -> PathBuf {
        instance(&self.path, number)
    }
}

/// The directory of an instance of the deployment at `path`.
pub fn instance(path: &Path, number: usize) -> PathBuf {
    path.join(format!("instance-{number}"))
}

/// The division in the directory at `path`, which no other process has open; `None` if it is not
/// that of a deployment.
///
/// # Errors
/// [`DirectoryError`].
pub fn read<P: Files>(c: P::Core, path: &Path) -> Result<Option<DataOwners>, DirectoryError> {
    let directory = P::open_directory(c, path, false)?;
    let mut queue = P::queue(c, &directory)?;
    match read_file::<P>(c, &mut queue, path) {
        Err(DirectoryError::NotADeployment(_)) => Ok(None),
        found => found,
    }
}

impl DataOwners {
    fn text(&self) -> String {
        let parts: Vec<String> = self.parts.iter().map(u16::to_string).collect();
        format!("{HEAD}\ninstances {}\nparts {}\n", self.instances, parts.join(" "))
    }

    /// A number that deployments which divide data otherwise have not, as far as 32 bits can
    /// distinguish them: the file's checksum.
    pub fn sum(&self) -> u32 {
        crc32c::crc32c(self.text().as_bytes())
    }

    fn encode(&self) -> String {
        format!("{}checksum {:#010x}\n", self.text(), self.sum())
    }

    fn decode(bytes: &[u8]) -> Option<DataOwners> {
        let text = str::from_utf8(bytes).ok()?;
        let mut lines = text.lines().skip(1);
        let instances = lines.next()?.strip_prefix("instances ")?.parse().ok()?;
        let parts = lines.next()?.strip_prefix("parts ")?.split(' ').map(|part| part.parse().ok());
        let owners = DataOwners { instances, parts: parts.collect::<Option<_>>()? };
        (owners.encode() == text).then_some(owners)
    }
}

/// `None` if there is no file at all.
fn read_file<P: Files>(
    c: P::Core,
    queue: &mut P::Queue,
    path: &Path,
) -> Result<Option<DataOwners>, DirectoryError> {
    let entries = P::perform(c, queue, Operation::List).into_entries()?;
    let Some(entry) = entries.iter().find(|entry| entry.name == FILE) else {
        // What is left of a deployment that was not made to its end: no process has had it.
        let is_begun = entries.iter().any(|entry| entry.name == NEW_FILE);
        let is_part = |name: &str| name == NEW_FILE || name.starts_with("instance-");
        return match entries.is_empty() || is_begun && entries.iter().all(|entry| is_part(&entry.name)) {
            true => Ok(None),
            false => Err(DirectoryError::NotADeployment(path.to_path_buf())),
        };
    };
    let open = Operation::Open { name: FILE.into(), existence: Existence::Old, access: Access::Cached };
    let file = P::perform(c, queue, open).into_file()?;
    let buffer = Buffer::new(c, None, entry.bytes as usize, FILE)?;
    let completion = P::perform(c, queue, Operation::Read { file, offset: 0, buffer });
    completion.bytes()?;
    let found = completion.buffers.first().and_then(|buffer| DataOwners::decode(buffer.bytes()));
    found.map(Some).ok_or_else(|| DirectoryError::Damaged(path.join(FILE)))
}

fn write_file<P: Files>(
    c: P::Core,
    queue: &mut P::Queue,
    path: &Path,
    owners: &DataOwners,
) -> Result<(), DirectoryError> {
    // What a crash left behind; mostly there is nothing.
    let _ = P::perform(c, queue, Operation::Remove { name: NEW_FILE.into() });
    let open = Operation::Open { name: NEW_FILE.into(), existence: Existence::New, access: Access::Cached };
    let file = P::perform(c, queue, open).into_file()?;
    let text = owners.encode();
    let mut buffer = Buffer::new(c, None, text.len(), FILE)?;
    if !buffer.append(c, text.as_bytes()) {
        return Err(FileError::new(path, "write", FileErrorKind::Full).into());
    }
    let write = Operation::Write { file: file.clone(), offset: 0, buffers: vec![buffer] };
    for operation in [write, Operation::Flush { file }, Operation::FlushDirectory] {
        P::perform(c, queue, operation).result?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_has_the_owners() {
        let owners = DataOwners { instances: 2, parts: vec![0, 1, 0, 1] };
        let text = owners.encode();
        assert!(text.starts_with("isles deployment 1\ninstances 2\nparts 0 1 0 1\nchecksum 0x"), "{text}");
        assert_eq!(DataOwners::decode(text.as_bytes()), Some(owners));
        for place in 0..text.len() {
            let mut damaged = text.clone().into_bytes();
            damaged[place] ^= 1;
            assert_eq!(DataOwners::decode(&damaged), None, "byte {place}");
        }
        assert_eq!(DataOwners::decode(&text.as_bytes()[..text.len() - 1]), None);
    }
}
