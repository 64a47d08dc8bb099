//! Helpers of several tests of this crate.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

/// A directory that is removed after the test.
pub struct Scratch {
    pub path: PathBuf,
}

impl Scratch {
    pub fn new(name: &str) -> Scratch {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("isles-{name}-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a scratch directory");
        Scratch { path }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// A study of one finding over the runs `a` and `b`.
pub fn study(value: &str, accept: &str) -> crate::Study {
    let text = format!(
        "[[finding]]\nid = 'one'\nsource = '[S] Fig. 1'\nclaim = 'a < b & c'\npublished = 3\naccept = {accept}\n\
         value = '''{value}'''\n[finding.runs]\na = 'counter --cores 1'\nb = 'counter --cores 2'\n"
    );
    crate::Study::parse(&text).expect("the test wrote a good study")
}
