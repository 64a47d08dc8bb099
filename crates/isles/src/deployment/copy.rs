//! Copies of the directory of a deployment, which has to be closed.
//!
//! Copies of the instances of an open deployment would be made at different moments: one copy might
//! contain a branch of a transaction that another copy lacks. A deployment is therefore copied
//! while it is closed, and locked during the copy.
// A copy is made by the calling thread.
#![allow(clippy::disallowed_methods)]

use std::fs;
use std::path::{Path, PathBuf};

use distributed::{DataOwners, DeploymentDirectory, DirectoryError, directory};
use platform::Hardware;
use platform::files::{FileError, FileErrorKind, Files};

use crate::backup::{Backup, copy_directory, make_empty};
use crate::error::{Error, Result};

/// Copies the directory of a closed deployment to a new or empty directory, and verifies the copy.
/// Returns a summary for each instance.
///
/// Errors: [`Error::Backup`]; the copy is removed again.
///
/// ```
/// use isles::{Deployment, Division, NoProcedure};
///
/// # let scratch = std::env::temp_dir().join(format!("isles-doc-deployed-{}", std::process::id()));
/// # let (data, copy) = (scratch.join("data"), scratch.join("copy"));
/// # std::fs::create_dir_all(&scratch).expect("a directory");
/// let two = Division { instances: 2, workers: 2, parts: 2 };
/// Deployment::at(&data, two).open::<NoProcedure>(())?.close()?;
/// assert_eq!(isles::copy_deployment(&data, &copy)?.len(), 2);
/// Deployment::at(&copy, two).open::<NoProcedure>(())?.close()?;
/// # let _ = std::fs::remove_dir_all(&scratch);
/// # Ok::<(), isles::Error>(())
/// ```
pub fn copy_deployment(from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<Vec<Backup>> {
    let (from, to) = (from.as_ref(), to.as_ref());
    let (owners, locks) = lock(from).map_err(Error::backup)?;
    let made = make_empty(from, to)?;
    let copied = copy(from, to, &owners);
    drop(locks);
    if copied.is_err() {
        for instance in 0..owners.instances {
            // The first error counts.
            let _ = fs::remove_dir_all(directory::instance(to, instance));
        }
        let _ = fs::remove_file(to.join(directory::NEW_FILE));
        if made {
            let _ = fs::remove_dir(to);
        }
    }
    copied
}

/// Locks of the deployment and of its instances, held until this value is dropped.
type Locks = (DeploymentDirectory<Hardware>, Vec<<Hardware as Files>::Directory>);

/// Locks a deployment with all of its instances.
fn lock(from: &Path) -> Result<(DataOwners, Locks), DirectoryError> {
    let c = Hardware::core();
    let in_use = |path: &Path| {
        let path = path.to_path_buf();
        move |error: FileError| match error.kind {
            FileErrorKind::InUse => DirectoryError::Open(path),
            _ => DirectoryError::File(error),
        }
    };
    let of_deployment = |error| match error {
        DirectoryError::File(error) => in_use(from)(error),
        other => other,
    };
    let owners = directory::read::<Hardware>(c, from).map_err(of_deployment)?;
    let owners = owners.ok_or_else(|| DirectoryError::NotADeployment(from.to_path_buf()))?;
    let locked = DeploymentDirectory::open(c, from, &owners).map_err(of_deployment)?;
    let instances: Vec<PathBuf> = (0..owners.instances).map(|number| locked.instance(number)).collect();
    if let Some(path) = missing(&instances) {
        return Err(DirectoryError::Missing(path.clone()));
    }
    let locks = instances.iter().map(|path| Hardware::open_directory(c, path, false).map_err(in_use(path)));
    let locks = locks.collect::<Result<_, _>>()?;
    Ok((owners, (locked, locks)))
}

fn copy(from: &Path, to: &Path, owners: &DataOwners) -> Result<Vec<Backup>> {
    let c = Hardware::core();
    let new = DeploymentDirectory::<Hardware>::open(c, to, owners).map_err(Error::backup)?;
    let copies = (0..owners.instances)
        .map(|number| copy_directory(directory::instance(from, number), new.instance(number)))
        .collect::<Result<_>>()?;
    // Before this call the copy cannot be opened as a deployment.
    new.settle(c).map_err(Error::backup)?;
    Ok(copies)
}

/// Returns the first of these directories of instances that holds no database.
pub(super) fn missing(instances: &[PathBuf]) -> Option<&PathBuf> {
    instances.iter().find(|path| !path.join(redo_log::MANIFEST).exists() && !pages::holds_pages(path))
}
