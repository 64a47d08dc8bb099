//! Errors of discovery.

use std::path::PathBuf;

/// Reasons for which a machine cannot be discovered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DiscoverError {
    /// The root to read from is not a directory.
    #[error("{path}: not a directory to read a machine from")]
    NoRoot {
        /// The root of the request.
        path: PathBuf,
    },
    /// Neither sysfs nor `/proc/cpuinfo` names a single processor.
    #[error("{path}: no online processor in sys/devices/system/cpu or proc/cpuinfo")]
    NoProcessor {
        /// The root that was read.
        path: PathBuf,
    },
    /// Affinity and cpusets leave no processor, or no memory.
    #[error("{path}: affinity and cpusets allow none of the online {what}")]
    NothingAllowed {
        /// The root that was read.
        path: PathBuf,
        /// `processors` or `memories`.
        what: &'static str,
    },
    /// A file that decides about allowed processors is not readable as a list.
    #[error("{path}: `{text}` is not a list of numbers such as 0-3,8")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Content of the file.
        text: String,
    },
    /// The operating system refused to report this process's affinity.
    #[error("sched_getaffinity of this process: {0}")]
    Affinity(std::io::Error),
}
