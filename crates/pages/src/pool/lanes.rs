//! Lanes: what pages are read ahead with, each a queue of the file with one read at a time. Some
//! for all workers: a worker takes those that it needs for a scan, and gives them back.

use platform::files::{Buffer, Files};
use storage::Latched;

use crate::files::channel::PageFile;

/// Lanes of all workers.
const LANES_MAX: usize = 16;

/// A read of pages that lie one behind the other in the file.
pub(super) struct Run<P: Files> {
    pub first: u64,
    /// For each page, the number of writes counted before; `None`: it was used.
    pub pages: Vec<Option<u64>>,
    /// The bytes that have come; `None`: they are under way.
    pub bytes: Option<Buffer<P>>,
    /// The worker's scan; 0: that of a worker that has given the lane back.
    pub scan: u64,
}

/// A queue with one read at a time.
pub(super) struct Lane<P: Files> {
    pub queue: P::Queue,
    pub run: Option<Run<P>>,
    pub buffer: Option<Buffer<P>>,
}

/// Lanes that no worker has.
pub(super) struct Lanes<P: Files> {
    idle: Vec<Lane<P>>,
    /// All that there are.
    made: usize,
}

impl<P: Files> Lanes<P> {
    /// None: they are made when they are needed.
    pub(super) fn new() -> Self {
        Lanes { idle: Vec::new(), made: 0 }
    }

    /// A lane for a worker, if there is one.
    pub(super) fn take(lanes: &Latched<P, Lanes<P>>, c: P::Core, file: &PageFile<P>) -> Option<Lane<P>> {
        let found = lanes.with(c, |lanes| match lanes.idle.pop() {
            None if lanes.made < LANES_MAX => {
                lanes.made += 1;
                None
            }
            found => Some(found),
        });
        match found {
            Some(found) => found,
            None => match file.queue(c) {
                Ok(queue) => Some(Lane { queue, run: None, buffer: None }),
                Err(_) => {
                    lanes.with(c, |lanes| lanes.made -= 1);
                    None
                }
            },
        }
    }

    /// Takes lanes back, with what is under way in them.
    pub(super) fn give_back(lanes: &Latched<P, Lanes<P>>, c: P::Core, back: &mut Vec<Lane<P>>) {
        back.iter_mut().filter_map(|lane| lane.run.as_mut()).for_each(|run| run.scan = 0);
        lanes.with(c, |lanes| lanes.idle.append(back));
    }
}

impl<P: Files> Run<P> {
    /// Which of its pages has this number, unless it was used.
    pub(super) fn place(&self, number: u64) -> Option<usize> {
        let place = number.checked_sub(self.first)? as usize;
        self.pages.get(place)?.map(|_| place)
    }
}

impl<P: Files> Lane<P> {
    /// Takes back what has come; with `waits`, waits for it. Whether nothing is under way.
    pub(super) fn land(&mut self, c: P::Core, waits: bool) -> bool {
        let Some(run) = self.run.as_mut().filter(|run| run.bytes.is_none()) else { return true };
        loop {
            if let Some(mut completion) = P::take(c, &mut self.queue) {
                let bytes = completion.bytes().unwrap_or(0) as usize;
                let Some(mut buffer) = completion.buffers.pop() else {
                    self.run = None;
                    return true;
                };
                // What the device refuses is read once more, by itself, and named then.
                buffer.set_len(bytes.min(buffer.capacity()));
                run.bytes = Some(buffer);
                return true;
            }
            if !waits || !P::wait(c, &mut self.queue, None) {
                return false;
            }
        }
    }

    /// Forgets what has come.
    pub(super) fn clear(&mut self) {
        let bytes = self.run.take().and_then(|run| run.bytes);
        if let Some(mut buffer) = bytes {
            buffer.set_len(0);
            self.buffer = Some(buffer);
        }
    }
}
