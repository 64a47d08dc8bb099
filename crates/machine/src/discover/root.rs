//! Small kernel files under a root directory.

use std::path::{Path, PathBuf};

use super::error::DiscoverError;
use crate::cpu_set::CpuSet;

/// The directory that replaces `/`.
pub(super) struct Root {
    path: PathBuf,
}

impl Root {
    pub(super) fn open(path: &Path) -> Result<Self, DiscoverError> {
        if !path.is_dir() {
            return Err(DiscoverError::NoRoot { path: path.to_owned() });
        }
        Ok(Self { path: path.to_owned() })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The file's path, for error messages.
    pub(super) fn full(&self, relative: &str) -> PathBuf {
        self.path.join(relative.trim_start_matches('/'))
    }

    /// The text of a file up to its first NUL byte (some kernels leave one at the end), trimmed;
    /// `None` if the file is missing or empty.
    pub(super) fn text(&self, relative: &str) -> Option<String> {
        let bytes = std::fs::read(self.full(relative)).ok()?;
        let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
        let text = String::from_utf8_lossy(&bytes[..end]).trim().to_owned();
        (!text.is_empty()).then_some(text)
    }

    /// A non-negative number; kernels print -1 for "unknown".
    pub(super) fn number(&self, relative: &str) -> Option<u32> {
        self.text(relative)?.parse().ok()
    }

    /// A set of processors given as a mask in `stem` or as a list in `list`; `None` if both are
    /// missing or empty.
    pub(super) fn set(&self, stem: &str, list: &str) -> Option<CpuSet> {
        self.possibly_empty_set(stem, list).filter(|set| !set.is_empty())
    }

    /// Like [`Root::set`], but an empty mask is a set as well.
    pub(super) fn possibly_empty_set(&self, stem: &str, list: &str) -> Option<CpuSet> {
        let mask = self.text(stem).and_then(|text| CpuSet::parse_mask(&text));
        mask.or_else(|| CpuSet::parse_list(&self.text(list)?))
    }

    /// A list that decides about allowed processors: an invalid list is an error, a missing or
    /// empty one is not.
    pub(super) fn strict_list(&self, relative: &str) -> Result<Option<CpuSet>, DiscoverError> {
        let Some(text) = self.text(relative) else { return Ok(None) };
        match CpuSet::parse_list(&text) {
            Some(set) => Ok(Some(set)),
            None => Err(DiscoverError::Malformed { path: self.full(relative), text }),
        }
    }

    pub(super) fn exists(&self, relative: &str) -> bool {
        self.full(relative).exists()
    }

    /// Names of the entries of a directory, sorted.
    pub(super) fn names(&self, directory: &str) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.full(directory)) else { return Vec::new() };
        let mut names: Vec<String> =
            entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    /// The numbers N of the entries `prefixN` of a directory, ascending.
    pub(super) fn numbered(&self, directory: &str, prefix: &str) -> Vec<u32> {
        let names = self.names(directory);
        let digits = names.iter().filter_map(|name| name.strip_prefix(prefix));
        let mut numbers: Vec<u32> = digits.filter_map(|digits| digits.parse().ok()).collect();
        numbers.sort_unstable();
        numbers
    }
}
