//! The file of pages, and a worker's way to it. A worker waits for its own operations; in the
//! virtual machine that takes virtual time.
//!
//! Writes and reads use a buffer of the worker: the frame is copied, so that a page is sealed and
//! verified outside of memory that others read, and files need no access to frames.

use std::path::{Path, PathBuf};

use platform::files::{
    Access, BLOCK_BYTES, Buffer, Completion, Existence, FileError, FileErrorKind, Files, Operation,
};

use crate::error::PagedError;
use crate::files::head;
use crate::files::life::{self, Life};
use crate::lsn::Lsn;
use crate::page::{self, PageFault};

/// Bytes from one page of `page_bytes` bytes to the next.
pub(crate) fn stride(page_bytes: usize) -> usize {
    page_bytes.next_multiple_of(BLOCK_BYTES)
}

/// Attributes that the pages of a database have in common.
pub(crate) struct PageFileAttributes {
    pub page_bytes: usize,
    /// Identity of the database.
    pub identity: u64,
    /// The lives that the database has had, ascending: what the log does not have between two of
    /// them no page has.
    pub lives: Vec<Life>,
}

/// A page to be read, in the version that it has at least.
#[derive(Clone, Copy)]
pub(crate) struct WantedPage {
    pub number: u64,
    /// The page has all changes up to here in the log.
    pub oldest: Lsn,
}

/// An open file of pages.
pub(crate) struct PageFile<P: Files> {
    directory: P::Directory,
    file: P::File,
    path: PathBuf,
    about: PageFileAttributes,
    /// Its length when it was opened.
    bytes: u64,
    /// Pages that have changed stay in memory.
    pub is_only_read: bool,
}

impl<P: Files> PageFile<P> {
    /// Makes the file of a new database, or opens that of an old one.
    pub(crate) fn open(
        c: P::Core,
        path: &Path,
        directory: P::Directory,
        existence: Existence,
        about: PageFileAttributes,
    ) -> Result<Self, PagedError> {
        let mut queue = P::queue(c, &directory)?;
        // Pages of less than a block cannot go past the operating system's cache.
        let is_direct = about.page_bytes.is_multiple_of(BLOCK_BYTES);
        let access = if is_direct { Access::Direct } else { Access::Cached };
        let open = Operation::Open { name: head::NAME.to_owned(), existence, access };
        let file = P::perform(c, &mut queue, open).into_file()?;
        if existence == Existence::New {
            head::write::<P>(c, &mut queue, file.clone(), about.identity)?;
            P::perform(c, &mut queue, Operation::FlushDirectory).result?;
        }
        let bytes = P::perform(c, &mut queue, Operation::Size { file: file.clone() }).bytes()?;
        Ok(PageFile { directory, file, path: path.to_path_buf(), about, bytes, is_only_read: false })
    }

    /// The error of a page that lay behind the end of the file when that was opened, and was not
    /// written since.
    pub(crate) fn beyond(&self, number: u64) -> Option<PagedError> {
        if self.offset(number) < self.bytes {
            return None;
        }
        Some(PagedError::Page { number, path: self.path.clone(), fault: PageFault::Short })
    }

    /// Completes the bytes of a page for the file.
    pub(crate) fn seal(&self, bytes: &mut [u8]) {
        page::seal(bytes, self.about.identity);
    }

    /// A queue for operations in the directory.
    pub(crate) fn queue(&self, c: P::Core) -> Result<P::Queue, FileError> {
        P::queue(c, &self.directory)
    }

    /// The file, for operations.
    pub(crate) fn handle(&self) -> P::File {
        self.file.clone()
    }

    /// Offset of a page: in blocks of its own, so that no write harms another page.
    pub(crate) fn offset(&self, number: u64) -> u64 {
        number * self.stride() as u64
    }

    /// Bytes from one page to the next.
    pub(crate) fn stride(&self) -> usize {
        stride(self.about.page_bytes)
    }

    /// Fills a frame with the bytes of a page, once they have been verified: the page has the
    /// wanted version, and no changes that the log has lost.
    pub(crate) fn fill(
        &self,
        c: P::Core,
        wanted: WantedPage,
        bytes: &[u8],
        frame: &[P::Word],
    ) -> Result<(), PagedError> {
        let WantedPage { number, oldest } = wanted;
        let PageFileAttributes { page_bytes, identity, lives } = &self.about;
        let bytes = &bytes[..bytes.len().min(*page_bytes)];
        let verified = page::verify(bytes, *page_bytes, *identity, number, oldest);
        let verified = verified.and_then(|lsn| match life::is_lost(lives, lsn) {
            true => Err(PageFault::Ahead),
            false => Ok(()),
        });
        verified.map_err(|fault| PagedError::Page { number, path: self.path.clone(), fault })?;
        P::touch(c, bytes.as_ptr(), *page_bytes, platform::Intent::Read);
        P::write_words(c, frame, bytemuck::cast_slice(bytes));
        Ok(())
    }
}

/// A worker's queue and buffer, made when they are first needed.
pub(crate) struct Channel<P: Files> {
    queue: Option<P::Queue>,
    buffer: Option<Buffer<P>>,
}

impl<P: Files> Channel<P> {
    pub(crate) fn new() -> Self {
        Channel { queue: None, buffer: None }
    }

    fn perform(
        &mut self,
        c: P::Core,
        file: &PageFile<P>,
        operation: impl FnOnce(P::File, Buffer<P>) -> Operation<P>,
        fill: impl FnOnce(&mut Buffer<P>),
    ) -> Result<Completion<P>, PagedError> {
        if self.queue.is_none() {
            self.queue = Some(P::queue(c, &file.directory)?);
        }
        let mut buffer = match self.buffer.take() {
            Some(buffer) => buffer,
            None => Buffer::new(c, None, file.about.page_bytes, "page on its way")?,
        };
        fill(&mut buffer);
        let queue = self.queue.as_mut().expect("made above");
        Ok(P::perform(c, queue, operation(file.file.clone(), buffer)))
    }

    /// Writes a page, sealed, from its frame.
    pub(crate) fn write(
        &mut self,
        c: P::Core,
        file: &PageFile<P>,
        number: u64,
        frame: &[P::Word],
    ) -> Result<(), PagedError> {
        let offset = file.offset(number);
        let write = |of, buffer| Operation::Write { file: of, offset, buffers: vec![buffer] };
        let completion = self.perform(c, file, write, |buffer| {
            let bytes = buffer.writable(c, 0, file.about.page_bytes);
            P::read_words(c, frame, bytemuck::cast_slice_mut(bytes));
            file.seal(bytes);
            buffer.set_len(file.about.page_bytes);
        })?;
        self.buffer = completion.buffers.into_iter().next();
        completion.result.map(drop).map_err(PagedError::from)
    }

    /// Reads a page into a frame, once it has been verified.
    pub(crate) fn read(
        &mut self,
        c: P::Core,
        file: &PageFile<P>,
        wanted: WantedPage,
        frame: &[P::Word],
    ) -> Result<(), PagedError> {
        let offset = file.offset(wanted.number);
        let read = |of, buffer| Operation::Read { file: of, offset, buffer };
        let mut completion = self.perform(c, file, read, |buffer| buffer.set_len(0))?;
        let bytes = completion.bytes()? as usize;
        let Some(buffer) = completion.buffers.pop() else {
            return Err(FileError::new(&file.path, "read", FileErrorKind::Stopped).into());
        };
        let buffer = self.buffer.insert(buffer);
        buffer.set_len(bytes.min(file.about.page_bytes));
        file.fill(c, wanted, buffer.bytes(), frame)
    }
}
