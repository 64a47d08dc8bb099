//! The branches that a session has open.

/// The open branches of a session, by their numbers.
pub(crate) struct OpenBranches<T> {
    all: Vec<Option<T>>,
    /// Numbers of those that have ended.
    free: Vec<usize>,
}

impl<T> OpenBranches<T> {
    /// None.
    pub(crate) fn new() -> Self {
        OpenBranches { all: Vec::new(), free: Vec::new() }
    }

    /// Opens a branch; its number.
    pub(crate) fn add(&mut self, branch: T) -> usize {
        match self.free.pop() {
            Some(number) => {
                self.all[number] = Some(branch);
                number
            }
            None => {
                self.all.push(Some(branch));
                self.all.len() - 1
            }
        }
    }

    /// A branch, which is [put back](Self::put_back).
    pub(crate) fn take(&mut self, number: usize) -> T {
        self.all[number].take().expect("a branch is open until it ends")
    }

    /// It stays open.
    pub(crate) fn put_back(&mut self, number: usize, branch: T) {
        self.all[number] = Some(branch);
    }

    /// A branch, which ends.
    pub(crate) fn remove(&mut self, number: usize) -> T {
        self.free.push(number);
        self.take(number)
    }
}
