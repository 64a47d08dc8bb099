//! Messages to clients.

/// The state of a session, as a client is told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// No block.
    Idle,
    /// A block.
    Block,
    /// A block that has failed.
    Failed,
}

/// Fields of an error or a notice.
#[derive(Clone, Debug, Default)]
pub struct ErrorFields<'a> {
    /// ERROR, FATAL, WARNING, NOTICE.
    pub severity: &'a str,
    /// SQLSTATE.
    pub code: &'a str,
    /// Message.
    pub message: &'a str,
    /// More about the cause.
    pub detail: Option<&'a str>,
    /// Advice.
    pub hint: Option<&'a str>,
    /// The character of the statement, from 1 on.
    pub position: Option<usize>,
    /// The table of a constraint.
    pub table: Option<&'a str>,
    /// The constraint.
    pub constraint: Option<&'a str>,
}

/// Messages that were not sent yet.
#[derive(Debug, Default)]
pub struct Output {
    /// Their bytes.
    pub bytes: Vec<u8>,
}

impl Output {
    /// Appends a message whose body `write` appends.
    fn message(&mut self, kind: u8, write: impl FnOnce(&mut Vec<u8>)) {
        self.bytes.push(kind);
        let start = self.bytes.len();
        self.bytes.extend([0; 4]);
        write(&mut self.bytes);
        let length = (self.bytes.len() - start) as u32;
        self.bytes[start..start + 4].copy_from_slice(&length.to_be_bytes());
    }

    /// Appends AuthenticationOk.
    pub fn authentication_ok(&mut self) {
        self.message(b'R', |to| to.extend(0_i32.to_be_bytes()));
    }

    /// Appends the list of ways to authenticate (SASL).
    pub fn authentication_sasl(&mut self, mechanisms: &[&str]) {
        self.message(b'R', |to| {
            to.extend(10_i32.to_be_bytes());
            mechanisms.iter().for_each(|name| text(to, name));
            to.push(0);
        });
    }

    /// Appends a step of an authentication: 11 on the way, 12 at its end.
    pub fn authentication_step(&mut self, step: i32, data: &[u8]) {
        self.message(b'R', |to| {
            to.extend(step.to_be_bytes());
            to.extend(data);
        });
    }

    /// Appends ParameterStatus.
    pub fn parameter(&mut self, name: &str, value: &str) {
        self.message(b'S', |to| {
            text(to, name);
            text(to, value);
        });
    }

    /// Appends BackendKeyData.
    pub fn key(&mut self, process: i32, secret: i32) {
        self.message(b'K', |to| {
            to.extend(process.to_be_bytes());
            to.extend(secret.to_be_bytes());
        });
    }

    /// Appends ReadyForQuery.
    pub fn ready(&mut self, status: Status) {
        let status = match status {
            Status::Idle => b'I',
            Status::Block => b'T',
            Status::Failed => b'E',
        };
        self.message(b'Z', |to| to.push(status));
    }

    /// Appends a message without a body.
    fn bare(&mut self, kind: u8) {
        self.message(kind, |_| {});
    }

    /// Appends ParseComplete.
    pub fn parse_complete(&mut self) {
        self.bare(b'1');
    }

    /// Appends BindComplete.
    pub fn bind_complete(&mut self) {
        self.bare(b'2');
    }

    /// Appends CloseComplete.
    pub fn close_complete(&mut self) {
        self.bare(b'3');
    }

    /// Appends NoData.
    pub fn no_data(&mut self) {
        self.bare(b'n');
    }

    /// Appends EmptyQueryResponse.
    pub fn empty_query(&mut self) {
        self.bare(b'I');
    }

    /// Appends PortalSuspended.
    pub fn suspended(&mut self) {
        self.bare(b's');
    }

    /// Appends CommandComplete.
    pub fn complete(&mut self, tag: &str) {
        self.message(b'C', |to| text(to, tag));
    }

    /// Appends ParameterDescription.
    pub fn parameter_types(&mut self, types: &[u32]) {
        self.message(b't', |to| {
            to.extend((types.len() as u16).to_be_bytes());
            types.iter().for_each(|oid| to.extend(oid.to_be_bytes()));
        });
    }

    /// Appends a RowDescription of `count` columns, which `write` appends.
    pub fn columns(&mut self, count: usize, write: impl FnOnce(&mut Vec<u8>)) {
        self.message(b'T', |to| {
            to.extend((count as u16).to_be_bytes());
            write(to);
        });
    }

    /// Appends a DataRow of `count` columns, whose values `write` appends.
    pub fn row<E>(
        &mut self,
        count: usize,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        let start = self.bytes.len();
        let mut done = Ok(());
        self.message(b'D', |to| {
            to.extend((count as u16).to_be_bytes());
            done = write(to);
        });
        if done.is_err() {
            self.bytes.truncate(start);
        }
        done
    }

    /// Appends ErrorResponse, or NoticeResponse.
    pub fn error(&mut self, fields: &ErrorFields<'_>, is_notice: bool) {
        self.message(if is_notice { b'N' } else { b'E' }, |to| {
            let position = fields.position.map(|position| position.to_string());
            let all = [
                (b'S', Some(fields.severity)),
                (b'V', Some(fields.severity)),
                (b'C', Some(fields.code)),
                (b'M', Some(fields.message)),
                (b'D', fields.detail),
                (b'H', fields.hint),
                (b'P', position.as_deref()),
                (b't', fields.table),
                (b'n', fields.constraint),
            ];
            for (kind, value) in all {
                if let Some(value) = value {
                    to.push(kind);
                    text(to, value);
                }
            }
            to.push(0);
        });
    }

    /// Appends CopyInResponse or CopyOutResponse.
    pub fn copy(&mut self, is_in: bool, columns: usize, binary: bool) {
        self.message(if is_in { b'G' } else { b'H' }, |to| {
            to.push(u8::from(binary));
            to.extend((columns as u16).to_be_bytes());
            (0..columns).for_each(|_| to.extend(i16::from(binary).to_be_bytes()));
        });
    }

    /// Appends CopyData.
    pub fn copy_data(&mut self, data: &[u8]) {
        self.message(b'd', |to| to.extend(data));
    }

    /// Appends CopyDone.
    pub fn copy_done(&mut self) {
        self.bare(b'c');
    }
}

/// Appends a text with a zero behind it; zeros within it have no place.
pub(crate) fn text(to: &mut Vec<u8>, text: &str) {
    to.extend(text.bytes().filter(|byte| *byte != 0));
    to.push(0);
}

/// Appends a column of a RowDescription.
#[derive(Clone, Copy, Debug)]
pub struct Field<'a> {
    /// Its name.
    pub name: &'a str,
    /// Number of its table, and of the column in it.
    pub origin: (u32, i16),
    /// Number, bytes and modifier of its type.
    pub kind: (u32, i16, i32),
    /// True in binary form.
    pub binary: bool,
}

impl Field<'_> {
    /// Appends the column.
    pub fn write(&self, to: &mut Vec<u8>) {
        text(to, self.name);
        to.extend(self.origin.0.to_be_bytes());
        to.extend(self.origin.1.to_be_bytes());
        to.extend(self.kind.0.to_be_bytes());
        to.extend(self.kind.1.to_be_bytes());
        to.extend(self.kind.2.to_be_bytes());
        to.extend(i16::from(self.binary).to_be_bytes());
    }
}
