//! The uses of one file of a crate by another, and the circles of files and of folders among them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::modules::{Crate, Names};

/// Names by which one file uses another: by the positions of both.
pub type Edges = BTreeMap<(usize, usize), BTreeSet<String>>;

/// The target of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Target {
    Module(Names),
    /// Something that this file defines.
    File(usize),
    /// Not of this crate.
    Elsewhere,
}

/// Longest chain of re-exports that is followed.
const REEXPORTS_MAX: usize = 16;

impl Crate {
    /// All uses of one file by another.
    ///
    /// A name counts as used where it is defined, however many modules re-export it, and declaring
    /// or re-exporting a module is no use of it.
    pub fn edges(&self) -> Edges {
        let mut edges = Edges::new();
        for (names, module) in &self.modules {
            let mut paths: Vec<Names> = module.paths.iter().cloned().collect();
            for (name, import) in &module.imports {
                if !import.public || module.words.contains(name) {
                    paths.push(import.path.clone());
                }
            }
            for glob in &module.globs {
                match self.resolve(names, glob, 0) {
                    Target::Module(from) => {
                        let from = &self.modules[&from];
                        let offered = from.defined.iter().chain(from.imports.keys());
                        let used = offered.filter(|name| module.words.contains(*name));
                        paths.extend(used.map(|name| [glob.as_slice(), std::slice::from_ref(name)].concat()));
                    }
                    // The variants of an enumeration.
                    Target::File(_) => paths.push(glob.clone()),
                    Target::Elsewhere => {}
                }
            }
            for path in paths {
                if let Target::File(file) = self.resolve(names, &path, 0)
                    && file != module.file
                {
                    edges.entry((module.file, file)).or_default().insert(path.join("::"));
                }
            }
        }
        edges
    }

    /// Where a path leads that stands in a module.
    fn resolve(&self, module: &Names, path: &[String], reexports: usize) -> Target {
        let mut here = module.clone();
        let mut rest = path;
        let mut anchored = false;
        while let Some((first, others)) = rest.split_first() {
            match first.as_str() {
                "crate" => here = Names::new(),
                "super" => _ = here.pop(),
                "self" => {}
                name => match self.find(&here, name, !others.is_empty(), reexports) {
                    Some(Target::Module(module)) => here = module,
                    Some(target) => return target,
                    None if anchored => return Target::File(self.modules[&here].file),
                    None => return Target::Elsewhere,
                },
            }
            anchored = true;
            rest = others;
        }
        Target::Module(here)
    }

    /// The target of a name in a module.
    fn find(&self, module: &Names, name: &str, has_more: bool, reexports: usize) -> Option<Target> {
        let known = self.modules.get(module)?;
        if known.defined.contains(name) && !(has_more && known.children.contains(name)) {
            return Some(Target::File(known.file));
        }
        if known.children.contains(name) {
            return Some(Target::Module([module.as_slice(), &[name.to_string()]].concat()));
        }
        if reexports == REEXPORTS_MAX {
            return None;
        }
        if let Some(import) = known.imports.get(name) {
            // `use name;` of another crate's name leads nowhere else.
            let itself = import.path.len() == 1 && import.path[0] == name;
            return Some(if itself {
                Target::Elsewhere
            } else {
                self.resolve(module, &import.path, reexports + 1)
            });
        }
        known.globs.iter().find_map(|glob| match self.resolve(module, glob, reexports + 1) {
            Target::Module(from) if from != *module => self.find(&from, name, has_more, reexports + 1),
            _ => None,
        })
    }

    /// Sets of files that all use one another, directly or through others, each as a text with all
    /// its edges.
    pub fn circles(&self) -> Vec<String> {
        let edges = self.edges();
        let uses = edges.keys().copied().collect();
        circles(&uses)
            .iter()
            .map(|circle| self.describe(&edges, |from, to| in_both(circle, from, to)))
            .collect()
    }

    /// The same of folders: sets of neighbours, folders with all that is in them and files beside
    /// them, that all use one another, each as a text with the uses of one file by another.
    pub fn circles_of_folders(&self) -> Vec<String> {
        let edges = self.edges();
        let mut levels: BTreeMap<PathBuf, BTreeSet<(PathBuf, PathBuf)>> = BTreeMap::new();
        for (from, to) in edges.keys() {
            if let Some((level, from, to)) = self.neighbours(*from, *to) {
                levels.entry(level).or_default().insert((from, to));
            }
        }
        let found = levels.iter().flat_map(|(level, uses)| {
            circles(uses).into_iter().map(|circle| {
                self.describe(&edges, |from, to| {
                    let neighbours = self.neighbours(from, to);
                    neighbours.is_some_and(|(at, from, to)| at == *level && in_both(&circle, from, to))
                })
            })
        });
        found.collect()
    }

    /// The folder that has both files somewhere below, and which parts of that folder have each;
    /// none for two files of the same folder.
    fn neighbours(&self, from: usize, to: usize) -> Option<(PathBuf, PathBuf, PathBuf)> {
        let [from, to] = [from, to].map(|file| self.files[file].as_path());
        let common = from.parent()?.ancestors().find(|folder| to.starts_with(folder))?;
        let part = |path: &Path| path.strip_prefix(common).ok()?.iter().next().map(PathBuf::from);
        let is_here = |path: &Path| path.parent() == Some(common);
        (!(is_here(from) && is_here(to))).then_some((common.to_owned(), part(from)?, part(to)?))
    }

    /// The uses that a circle consists of.
    fn describe(&self, edges: &Edges, is_inside: impl Fn(usize, usize) -> bool) -> String {
        let inside = edges.iter().filter(|((from, to), _)| is_inside(*from, *to));
        let lines = inside.map(|((from, to), names)| {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            format!(
                "{} uses {}: {}",
                self.files[*from].display(),
                self.files[*to].display(),
                names.join(", ")
            )
        });
        lines.collect::<Vec<_>>().join("\n  ")
    }
}

fn in_both<T: Ord>(circle: &BTreeSet<T>, from: T, to: T) -> bool {
    circle.contains(&from) && circle.contains(&to)
}

/// Sets of nodes that all lead to one another.
fn circles<T: Ord + Clone>(edges: &BTreeSet<(T, T)>) -> BTreeSet<BTreeSet<T>> {
    let nodes: BTreeSet<&T> = edges.iter().map(|(from, _)| from).collect();
    let reached: BTreeMap<&T, BTreeSet<&T>> = nodes.iter().map(|node| (*node, reach(edges, node))).collect();
    let circle = |node: &T| {
        let others =
            reached[node].iter().filter(|other| reached.get(*other).is_some_and(|from| from.contains(node)));
        others.map(|other| (*other).clone()).collect::<BTreeSet<T>>()
    };
    nodes.iter().map(|node| circle(node)).filter(|circle| !circle.is_empty()).collect()
}

/// All nodes that a node leads to, directly or through others.
fn reach<'e, T: Ord>(edges: &'e BTreeSet<(T, T)>, node: &'e T) -> BTreeSet<&'e T> {
    let mut reached = BTreeSet::new();
    let mut open = vec![node];
    while let Some(node) = open.pop() {
        let used = edges.iter().filter(|(from, _)| from == node).map(|(_, to)| to);
        open.extend(used.filter(|to| reached.insert(*to)));
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A crate with these files.
    fn read(files: &[(&str, &str)]) -> Crate {
        let text = |path: &Path| {
            let (_, text) = files.iter().find(|(name, _)| Path::new(name) == path)?;
            Some((*text).to_owned())
        };
        Crate::read(Path::new("lib.rs"), &text)
    }

    fn circles(files: &[(&str, &str)]) -> Vec<String> {
        read(files).circles()
    }

    #[test]
    fn folders_that_use_each_other_are_a_circle_though_their_files_are_none() {
        let low = ("low/mod.rs", "pub mod first; pub mod second;");
        let first = ("low/first.rs", "pub struct First;");
        let second = ("low/second.rs", "pub struct Second(crate::high::third::Third);");
        let high = ("high/mod.rs", "pub mod third;");
        let third = ("high/third.rs", "pub struct Third(crate::low::first::First);");
        let crate_of = |second| read(&[("lib.rs", "mod low; mod high;"), low, first, second, high, third]);
        let circle = crate_of(second);
        assert!(circle.circles().is_empty());
        let found = circle.circles_of_folders();
        assert_eq!(found.len(), 1);
        assert!(
            found[0].contains("low/second.rs uses high/third.rs: crate::high::third::Third"),
            "{found:?}"
        );
        assert!(found[0].contains("high/third.rs uses low/first.rs: crate::low::first::First"), "{found:?}");
        assert!(crate_of(("low/second.rs", "pub struct Second;")).circles_of_folders().is_empty());
    }

    #[test]
    fn a_folder_and_a_file_beside_it_that_use_each_other_are_a_circle() {
        let low = ("low/mod.rs", "pub mod first; pub mod second;");
        let first = ("low/first.rs", "pub struct First;");
        let second = ("low/second.rs", "use crate::beside::Beside; pub struct Second(Beside);");
        let beside = ("beside.rs", "pub struct Beside(crate::low::first::First);");
        let found = read(&[("lib.rs", "mod low; mod beside;"), low, first, second, beside]);
        assert!(found.circles().is_empty());
        assert_eq!(found.circles_of_folders().len(), 1);
    }

    #[test]
    fn the_name_of_another_crate_is_no_module() {
        let a = ("a.rs", "use ::b::Other; pub struct Thing(Other);");
        assert!(
            circles(&[("lib.rs", "mod a; mod b;"), a, ("b.rs", "pub struct Own(super::a::Thing);")])
                .is_empty()
        );
    }

    #[test]
    fn a_circle_through_a_reexport_is_caught() {
        let found = circles(&[
            ("lib.rs", "mod a; mod b; mod c; pub use a::Thing;"),
            ("a.rs", "pub struct Thing(crate::b::Other);"),
            ("b.rs", "use super::c; pub struct Other(c::Third);"),
            ("c.rs", "use crate::{Thing as Renamed, b}; pub struct Third(Box<Renamed>, std::fmt::Error);"),
        ]);
        let circle =
            "a.rs uses b.rs: crate::b::Other\n  b.rs uses c.rs: c::Third\n  c.rs uses a.rs: crate::Thing";
        assert_eq!(found.len(), 1);
        let mut lines: Vec<&str> = found[0].lines().map(str::trim).collect();
        lines.sort_unstable();
        assert_eq!(lines.join("\n  "), circle);
    }

    #[test]
    fn a_child_that_uses_its_parent_is_a_circle_if_the_parent_uses_it() {
        let child = ("room/child.rs", "pub fn get() -> super::Thing { super::Thing }");
        let uses = "mod child; pub struct Thing; fn get() { child::get(); }";
        assert_eq!(circles(&[("lib.rs", "mod room;"), ("room/mod.rs", uses), child]).len(), 1);
        assert_eq!(circles(&[("lib.rs", "mod room;"), ("room.rs", uses), child]).len(), 1);
        let shows = "mod child; pub use child::get; pub struct Thing;";
        assert!(circles(&[("lib.rs", "mod room;"), ("room.rs", shows), child]).is_empty());
    }

    #[test]
    fn two_circles_are_told_apart() {
        let found = circles(&[
            ("lib.rs", "mod a; mod b; mod c; mod d;"),
            ("a.rs", "pub enum Kind { One } use super::b::*; fn get(_: Other) {}"),
            ("b.rs", "pub struct Other; use crate::a::Kind::*;"),
            ("c.rs", "pub fn get() { crate::d::get(); crate::a::get(); }"),
            ("d.rs", "pub fn get() { inner::get() } mod inner { pub fn get() { super::super::c::get() } }"),
        ]);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found.iter().all(|circle| circle.lines().count() == 2), "{found:?}");
    }

    #[test]
    fn tests_comments_and_other_crates_make_no_circle() {
        let a = "
            //! See [`crate::b::Other`].
            pub struct Thing { #[cfg(test)] other: crate::b::Other, text: &'static str }
            const TEXT: &str = \"crate::b::Other\";
            #[cfg(test)]
            use crate::b::Other;
            #[cfg(test)]
            mod tests { use crate::b::Other; }
            #[test]
            fn works() { crate::b::work(); }
            fn get() { std::mem::drop(machine::b::Other) }
        ";
        let b = "use super::a::Thing; pub struct Other(Thing);";
        assert!(
            circles(&[("lib.rs", "mod a; mod b; #[cfg(test)] mod absent;"), ("a.rs", a), ("b.rs", b)])
                .is_empty()
        );
    }
}
