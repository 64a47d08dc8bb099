//! The modules of a crate: what each of them defines, imports and names. What is for tests only is
//! left out.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::tokens::tokens;

/// Names on the way to a module or an item.
pub type Names = Vec<String>;

/// `use path as name`.
pub struct Import {
    /// As the source has it.
    pub path: Names,
    /// Other modules may import the name from here.
    pub public: bool,
}

/// One module, which is a file or a part of a file.
#[derive(Default)]
pub struct Module {
    /// Position of its file.
    pub file: usize,
    pub children: BTreeSet<String>,
    pub defined: BTreeSet<String>,
    pub imports: BTreeMap<String, Import>,
    /// `use path::*`.
    pub globs: Vec<Names>,
    /// Paths of several names outside of `use`.
    pub paths: BTreeSet<Names>,
    /// All names outside of `use`.
    pub words: BTreeSet<String>,
}

/// A crate.
#[derive(Default)]
pub struct Crate {
    /// By their names from the root, which has none.
    pub modules: BTreeMap<Names, Module>,
    /// By position, relative to the folder of the root's file.
    pub files: Vec<PathBuf>,
}

impl Crate {
    /// Reads the root's file, the modules that it declares, and those that they declare. `text`
    /// reads a file.
    pub fn read(root: &Path, text: &dyn Fn(&Path) -> Option<String>) -> Crate {
        let folder = root.parent().unwrap_or(Path::new(""));
        let mut found = Crate::default();
        let mut open = vec![(Names::new(), vec![root.to_path_buf()])];
        while let Some((module, places)) = open.pop() {
            let file = places.iter().find_map(|path| Some((path, text(path)?)));
            let Some((path, text)) = file else { panic!("none of {places:?} exists") };
            let number = found.files.len();
            found.files.push(path.strip_prefix(folder).unwrap_or(path).to_path_buf());
            let mut reader = Reader {
                tokens: &tokens(&text),
                at: 0,
                file: number,
                modules: &mut found.modules,
                declared: Vec::new(),
            };
            reader.module(module);
            for child in reader.declared {
                let place: PathBuf = std::iter::once(folder).chain(child.iter().map(Path::new)).collect();
                open.push((child, vec![place.with_extension("rs"), place.join("mod.rs")]));
            }
        }
        found
    }
}

/// Reads the tokens of one file.
struct Reader<'a> {
    tokens: &'a [String],
    at: usize,
    file: usize,
    modules: &'a mut BTreeMap<Names, Module>,
    /// Modules that have files of their own.
    declared: Vec<Names>,
}

impl Reader<'_> {
    fn token(&self, ahead: usize) -> &str {
        self.tokens.get(self.at + ahead).map_or("", String::as_str)
    }

    fn name(&self, ahead: usize) -> Option<String> {
        let token = self.token(ahead);
        token.starts_with(|sign: char| sign.is_alphabetic() || sign == '_').then(|| token.to_string())
    }

    /// Reads up to the brace that ends the module, or to the end of the file.
    fn module(&mut self, names: Names) {
        let mut module = Module { file: self.file, ..Module::default() };
        let mut depth = 0;
        let mut public = false;
        while self.at < self.tokens.len() {
            match self.token(0) {
                "#" => {
                    if self.is_for_tests() {
                        self.skip_item();
                    }
                    continue;
                }
                "}" if depth == 0 => break,
                "}" => depth -= 1,
                "{" => depth += 1,
                "pub" => public = true,
                ";" => public = false,
                "use" => {
                    self.at += 1;
                    self.import(&mut module, Names::new(), public);
                    public = false;
                    continue;
                }
                "mod" if self.token(2) == ";" || self.token(2) == "{" => {
                    self.submodule(&mut module, &names);
                    public = false;
                    continue;
                }
                "fn" | "struct" | "enum" | "trait" | "type" | "const" | "static" | "union" => {
                    public = false;
                    module.defined.extend(self.name(1).filter(|_| depth == 0));
                }
                "macro_rules" => module.defined.extend(self.name(2)),
                _ => self.path(&mut module),
            }
            self.at += 1;
        }
        self.modules.insert(names, module);
    }

    /// `mod name;` or `mod name { .. }`.
    fn submodule(&mut self, module: &mut Module, names: &Names) {
        let Some(name) = self.name(1) else { unreachable!("`mod` has a name") };
        module.children.insert(name.clone());
        let child = [names.as_slice(), &[name]].concat();
        let has_a_file = self.token(2) == ";";
        self.at += 3;
        if has_a_file {
            self.declared.push(child);
        } else {
            self.module(child);
            self.at += 1;
        }
    }

    /// One path of names, which stays the current token but for its last name.
    fn path(&mut self, module: &mut Module) {
        let follows_a_path = self.at > 0 && self.tokens[self.at - 1] == "::";
        let Some(first) = self.name(0) else { return };
        module.words.insert(first.clone());
        if follows_a_path {
            return;
        }
        let mut path = vec![first];
        while self.token(1) == "::" {
            let Some(name) = self.name(2) else { break };
            path.push(name);
            self.at += 2;
        }
        if path.len() > 1 {
            module.paths.insert(path);
        }
    }

    /// The tree of a `use`, after what its names begin with.
    fn import(&mut self, module: &mut Module, before: Names, public: bool) {
        let mut path = before;
        loop {
            match self.token(0) {
                "{" => {
                    self.at += 1;
                    while self.at < self.tokens.len() && self.token(0) != "}" {
                        self.import(module, path.clone(), public);
                        self.at += usize::from(self.token(0) == ",");
                    }
                    self.at += 1;
                    return;
                }
                "*" => {
                    self.at += 1;
                    module.globs.push(path);
                    return;
                }
                "::" => {
                    // `::name` is a crate, whatever the module has of that name.
                    if path.is_empty() {
                        path.push("::".to_owned());
                    }
                    self.at += 1;
                }
                "as" => {
                    let alias = self.token(1).to_string();
                    self.at += 2;
                    module.imports.insert(alias, Import { path, public });
                    return;
                }
                _ => match self.name(0) {
                    Some(name) => {
                        // `a::{self}` is `a`.
                        if name != "self" || path.is_empty() {
                            path.push(name);
                        }
                        self.at += 1;
                    }
                    None => {
                        let Some(name) = path.last().cloned() else { return };
                        module.imports.insert(name, Import { path, public });
                        return;
                    }
                },
            }
        }
    }

    /// Reads an attribute; whether what it stands at is compiled for tests only.
    fn is_for_tests(&mut self) -> bool {
        let begin = self.at;
        self.at += if self.token(1) == "!" { 2 } else { 1 };
        self.skip_brackets();
        let text = self.tokens[begin..self.at].concat();
        text.starts_with("#[cfg(test") || text.starts_with("#[cfg(all(test") || text == "#[test]"
    }

    /// From an opening bracket to after the one that closes it.
    fn skip_brackets(&mut self) {
        let mut depth = 0;
        while self.at < self.tokens.len() {
            match self.token(0) {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth -= 1,
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return;
            }
        }
    }

    /// From after an attribute to after the item, statement, field or variant that it stands at.
    fn skip_item(&mut self) {
        const ITEMS: [&str; 16] = [
            "pub",
            "fn",
            "mod",
            "use",
            "impl",
            "struct",
            "enum",
            "trait",
            "const",
            "static",
            "type",
            "unsafe",
            "async",
            "extern",
            "let",
            "macro_rules",
        ];
        while self.token(0) == "#" {
            self.is_for_tests();
        }
        let is_item = ITEMS.contains(&self.token(0));
        while self.at < self.tokens.len() {
            match self.token(0) {
                "{" => return self.skip_brackets(),
                "(" | "[" => self.skip_brackets(),
                "}" => return,
                ";" => {
                    self.at += 1;
                    return;
                }
                "," if !is_item => {
                    self.at += 1;
                    return;
                }
                _ => self.at += 1,
            }
        }
    }
}
