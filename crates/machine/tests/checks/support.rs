//! Synthetic machines: trees of small files in the Linux kernel's formats.

// Tests write the files themselves.
#![allow(clippy::disallowed_methods)]

use std::path::Path;

use tempfile::TempDir;

/// A new directory, in memory if possible: thousands of small files on a disk take most of the
/// tests' time.
pub fn temporary_directory() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("temporary directory")
}

/// A root directory that a test fills.
pub struct Tree {
    place: TempDir,
}

impl Tree {
    /// An empty root.
    pub fn new() -> Self {
        Self { place: temporary_directory() }
    }

    /// The root.
    pub fn root(&self) -> &Path {
        self.place.path()
    }

    /// Writes one file.
    pub fn file(&self, path: &str, text: &str) -> &Self {
        let full = self.root().join(path);
        std::fs::create_dir_all(full.parent().expect("files have directories")).expect("directory");
        std::fs::write(full, format!("{text}\n")).expect("file");
        self
    }

    /// Removes a file or a directory with its content.
    pub fn remove(&self, path: &str) -> &Self {
        let full = self.root().join(path);
        if full.is_dir() { std::fs::remove_dir_all(full) } else { std::fs::remove_file(full) }
            .expect("removal");
        self
    }

    /// A processor: its package, core and the lists of its core's and its package's processors.
    pub fn processor(
        &self,
        number: u32,
        package: i32,
        core: u32,
        siblings: &str,
        package_list: &str,
    ) -> &Self {
        let topology = format!("sys/devices/system/cpu/cpu{number}/topology");
        self.file(&format!("{topology}/physical_package_id"), &package.to_string())
            .file(&format!("{topology}/core_id"), &core.to_string())
            .file(&format!("{topology}/core_cpus_list"), siblings)
            .file(&format!("{topology}/package_cpus_list"), package_list)
    }

    /// A cache of a processor.
    pub fn cache(&self, number: u32, index: u32, level: u32, size: &str, list: &str) -> &Self {
        let cache = format!("sys/devices/system/cpu/cpu{number}/cache/index{index}");
        self.file(&format!("{cache}/level"), &level.to_string())
            .file(&format!("{cache}/type"), if level == 1 { "Data" } else { "Unified" })
            .file(&format!("{cache}/size"), size)
            .file(&format!("{cache}/coherency_line_size"), "64")
            .file(&format!("{cache}/shared_cpu_list"), list)
    }

    /// A memory node of 1 GiB; `distance` may be empty for none.
    pub fn node(&self, number: u32, processors: &str, distance: &str) -> &Self {
        let node = format!("sys/devices/system/node/node{number}");
        self.file(&format!("{node}/cpulist"), processors)
            .file(&format!("{node}/meminfo"), &format!("Node {number} MemTotal:  1048576 kB"));
        if !distance.is_empty() {
            self.file(&format!("{node}/distance"), distance);
        }
        self
    }

    /// Two sockets of two cores with two threads each; threads of a core are N and N + 4; one node
    /// and one L3 for each socket.
    pub fn two_sockets() -> Self {
        let tree = Self::new();
        for number in 0..8 {
            let core = number % 4;
            let package = core / 2;
            let package_list = if package == 0 { "0-1,4-5" } else { "2-3,6-7" };
            let siblings = format!("{core},{}", core + 4);
            tree.processor(number, package as i32, core % 2, &siblings, package_list)
                .cache(number, 0, 1, "32K", &siblings)
                .cache(number, 2, 2, "1024K", &siblings)
                .cache(number, 3, 3, "16M", package_list);
        }
        tree.file("sys/devices/system/cpu/online", "0-7");
        tree.node(0, "0-1,4-5", "10 21").node(1, "2-3,6-7", "21 10");
        tree
    }
}
