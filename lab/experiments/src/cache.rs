//! Results of runs on disk.
//!
//! An entry is one file with the full key and the result, so that a collision of file names costs a
//! run and never gives a wrong result. Files appear by renaming: a reader sees a whole entry or
//! none. A damaged entry counts as missing, and the directory may be deleted at any time.

use std::io::{Error, Read};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

/// A directory of results, for one program.
#[derive(Clone, Debug)]
pub struct Cache {
    directory: PathBuf,
    program: String,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    key: String,
    result: Json,
}

impl Cache {
    /// The cache under `directory`, which is created, for the program identified by `program`: its
    /// version and the digest of its binary.
    ///
    /// # Errors
    /// The directory cannot be created.
    pub fn open(directory: &Path, program: &str) -> Result<Cache, Error> {
        std::fs::create_dir_all(directory)?;
        Ok(Cache { directory: directory.to_owned(), program: program.to_owned() })
    }

    /// The default directory: `isles` in the user's cache directory; `None` if the user has none.
    pub fn default_directory() -> Option<PathBuf> {
        let named = |variable: &str| std::env::var_os(variable).filter(|value| !value.is_empty());
        let base = named("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
        let base = base.or_else(|| named("HOME").map(|home| PathBuf::from(home).join(".cache")))?;
        Some(base.join("isles").join("runs"))
    }

    /// The stored result of the run identified by `identity`.
    pub fn get(&self, identity: &str) -> Option<Json> {
        let key = self.key(identity);
        let text = std::fs::read(self.file(&key)).ok()?;
        let entry: Entry = serde_json::from_slice(&text).ok()?;
        (entry.key == key).then_some(entry.result)
    }

    /// Stores a result.
    ///
    /// # Errors
    /// The entry cannot be written.
    pub fn put(&self, identity: &str, result: &Json) -> Result<(), Error> {
        let key = self.key(identity);
        let file = self.file(&key);
        let text = serde_json::to_vec(&Entry { key, result: result.clone() })?;
        // The process number separates two studies that store the same run.
        let unfinished = file.with_extension(format!("{}.part", std::process::id()));
        std::fs::write(&unfinished, text)?;
        std::fs::rename(&unfinished, &file)
    }

    fn key(&self, identity: &str) -> String {
        format!("{}\n{identity}", self.program)
    }

    fn file(&self, key: &str) -> PathBuf {
        self.directory.join(format!("{}.json", digest(key.as_bytes()).expect("memory can be read")))
    }
}

/// The digest of a file's contents, in hexadecimal.
///
/// # Errors
/// The file cannot be read.
pub fn digest_of_file(file: &Path) -> Result<String, Error> {
    digest(std::fs::File::open(file)?)
}

/// FNV-1a of 128 bits: sufficient against accidental collisions; the user's own directory needs no
/// protection against attacks.
fn digest(mut input: impl Read) -> Result<String, Error> {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let mut state = OFFSET;
    let mut buffer = vec![0; 1 << 16];
    loop {
        let count = input.read(&mut buffer)?;
        if count == 0 {
            return Ok(format!("{state:032x}"));
        }
        for byte in &buffer[..count] {
            state = (state ^ u128::from(*byte)).wrapping_mul(PRIME);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Scratch;

    #[test]
    fn digests_are_fnv() {
        assert_eq!(digest(&b""[..]).unwrap(), "6c62272e07bb014262b821756295c58d");
        assert_eq!(digest(&b"a"[..]).unwrap(), "d228cb696f1a8caf78912b704e4a8964");
    }

    #[test]
    fn results_come_back_for_the_same_program_and_run_only() {
        let scratch = Scratch::new("cache");
        let cache = Cache::open(&scratch.path, "1").unwrap();
        let result = serde_json::json!({"throughput": 5.5, "b": 1, "a": 2});
        assert_eq!(cache.get("run"), None);
        cache.put("run", &result).unwrap();
        assert_eq!(cache.get("run"), Some(result.clone()));
        assert_eq!(cache.get("other run"), None);
        assert_eq!(Cache::open(&scratch.path, "2").unwrap().get("run"), None);
        assert_eq!(Cache::open(&scratch.path, "1").unwrap().get("run"), Some(result));
    }

    #[test]
    fn a_damaged_or_foreign_entry_is_no_entry() {
        let scratch = Scratch::new("damage");
        let cache = Cache::open(&scratch.path, "1").unwrap();
        cache.put("run", &serde_json::json!(1)).unwrap();
        let file = cache.file(&cache.key("run"));
        std::fs::write(&file, "{\"key\":\"1\\nother\",\"result\":2}").unwrap();
        assert_eq!(cache.get("run"), None);
        std::fs::write(&file, "{\"key\":\"1\\nrun\",\"resu").unwrap();
        assert_eq!(cache.get("run"), None);
        cache.put("run", &serde_json::json!(3)).unwrap();
        assert_eq!(cache.get("run"), Some(serde_json::json!(3)));
    }
}
