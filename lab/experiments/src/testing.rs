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
    crate::Study::parse(&text, crate::Size::Normal).expect("the test wrote a good study")
}

/// A study of one figure with the series `a` and `b`; `y` has the keys of its vertical axis but for
/// the label.
pub fn figure(values: &str, y: &str) -> crate::Study {
    let text = format!(
        "[[figure]]\nid = 'curves'\nsource = '[S] Fig. 2'\nabout = 'a < b'\n\
         x = {{ label = 'x & y', values = {values} }}\ny = {{ label = 'thousand a second', {y} }}\n\
         run = 'counter --cores {{x}}'\n[figure.series]\na = '--seed 1'\nb = '--seed 2'\n"
    );
    crate::Study::parse(&text, crate::Size::Normal).expect("the test wrote a good study")
}

/// A run that can be executed.
pub fn ready(arguments: &[String]) -> crate::Resolution {
    crate::Resolution::Ready { identity: arguments.join(" "), native: false }
}
