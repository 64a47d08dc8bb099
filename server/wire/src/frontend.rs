//! Messages of clients.

use crate::ProtocolError;
use crate::reader::Reader;

/// Most bytes of a message.
pub const MESSAGE_BYTES_MAX: usize = 1 << 26;

/// A prepared statement or a portal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A prepared statement.
    Statement(String),
    /// A portal.
    Portal(String),
}

/// A message of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frontend {
    /// Statements as text.
    Query(String),
    /// A statement to prepare.
    Parse {
        /// Its name; empty for the one without a name.
        name: String,
        /// Its text.
        query: String,
        /// Numbers of the types of parameters; 0 for one that is not known.
        types: Vec<u32>,
    },
    /// Parameters of a prepared statement.
    Bind {
        /// The portal.
        portal: String,
        /// The statement.
        statement: String,
        /// Formats of parameters: one for each, one for all, or none for text.
        formats: Vec<i16>,
        /// The parameters; `None` for null.
        parameters: Vec<Option<Vec<u8>>>,
        /// Formats of the columns of the result, likewise.
        results: Vec<i16>,
    },
    /// A question for parameters and columns.
    Describe(Target),
    /// An execution with a limit of rows; 0: all.
    Execute(String, u32),
    /// The end of a statement or a portal.
    Close(Target),
    /// The end of a batch.
    Sync,
    /// A wish for the answers so far.
    Flush,
    /// Data of a COPY.
    CopyData(Vec<u8>),
    /// The end of these data.
    CopyDone,
    /// A failure of the client during a COPY.
    CopyFail(String),
    /// An answer to a question about the password.
    Password(Vec<u8>),
    /// The end of the connection.
    Terminate,
}

fn target(reader: &mut Reader<'_>) -> Result<Target, ProtocolError> {
    match reader.u8()? {
        b'S' => Ok(Target::Statement(reader.text()?)),
        b'P' => Ok(Target::Portal(reader.text()?)),
        other => Err(ProtocolError(format!("invalid target of a message: {other}"))),
    }
}

fn formats(reader: &mut Reader<'_>) -> Result<Vec<i16>, ProtocolError> {
    let count = reader.count(2)?;
    (0..count).map(|_| reader.i16()).collect()
}

impl Frontend {
    /// Reads a message of this type.
    pub fn decode(kind: u8, body: &[u8]) -> Result<Frontend, ProtocolError> {
        let mut reader = Reader::new(body);
        let message = match kind {
            b'Q' => Frontend::Query(reader.text()?),
            b'P' => {
                let (name, query) = (reader.text()?, reader.text()?);
                let count = reader.count(4)?;
                let types = (0..count).map(|_| Ok(reader.i32()?.cast_unsigned()));
                let types = types.collect::<Result<_, ProtocolError>>()?;
                Frontend::Parse { name, query, types }
            }
            b'B' => {
                let (portal, statement) = (reader.text()?, reader.text()?);
                let formats_in = formats(&mut reader)?;
                let count = reader.count(4)?;
                let mut parameters = Vec::with_capacity(count);
                for _ in 0..count {
                    parameters.push(match reader.i32()? {
                        -1 => None,
                        bytes => {
                            let bytes = usize::try_from(bytes);
                            let bytes = bytes.map_err(|_| ProtocolError("a negative length".to_owned()))?;
                            Some(reader.bytes(bytes)?.to_vec())
                        }
                    });
                }
                let results = formats(&mut reader)?;
                Frontend::Bind { portal, statement, formats: formats_in, parameters, results }
            }
            b'D' => Frontend::Describe(target(&mut reader)?),
            b'E' => Frontend::Execute(reader.text()?, u32::try_from(reader.i32()?).unwrap_or(0)),
            b'C' => Frontend::Close(target(&mut reader)?),
            b'S' => Frontend::Sync,
            b'H' => Frontend::Flush,
            b'd' => Frontend::CopyData(reader.rest().to_vec()),
            b'c' => Frontend::CopyDone,
            b'f' => Frontend::CopyFail(reader.text()?),
            b'p' => Frontend::Password(reader.rest().to_vec()),
            b'X' => Frontend::Terminate,
            b'F' => return Err(ProtocolError("function calls are not supported".to_owned())),
            other => return Err(ProtocolError(format!("invalid frontend message type {other}"))),
        };
        reader.end()?;
        Ok(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Startup;

    /// Random bytes, many of them small.
    fn bytes(state: &mut u64, length: usize) -> Vec<u8> {
        let mut next = || {
            *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *state >> 33
        };
        (0..length).map(|_| if next() % 3 == 0 { next() as u8 } else { (next() % 4) as u8 }).collect()
    }

    #[test]
    fn no_bytes_panic_or_take_more_memory_than_they_have() {
        let mut state = 1;
        for round in 0..20_000 {
            let body = bytes(&mut state, round % 64);
            for kind in *b"QPBDECSHdcfpXF\0" {
                if let Ok(Frontend::Bind { parameters, .. }) = Frontend::decode(kind, &body) {
                    assert!(parameters.len() <= body.len() / 4);
                }
            }
            _ = Startup::decode(&body);
        }
    }

    #[test]
    fn counts_are_checked_against_what_is_there() {
        // A Bind without names that claims 65,535 parameters.
        let body = [0, 0, 0, 0, 0xff, 0xff, 0, 0];
        assert!(Frontend::decode(b'B', &body).is_err());
        let negative = [0, 0, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xfe, 0, 0];
        assert_eq!(Frontend::decode(b'B', &negative), Err(ProtocolError("a negative length".to_owned())));
        let null = [0, 0, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0, 0];
        let Ok(Frontend::Bind { parameters, .. }) = Frontend::decode(b'B', &null) else { unreachable!() };
        assert_eq!(parameters, [None]);
    }

    #[test]
    fn messages_of_clients() {
        assert_eq!(Frontend::decode(b'Q', b"select 1\0"), Ok(Frontend::Query("select 1".to_owned())));
        assert!(Frontend::decode(b'Q', b"select 1\0x").is_err());
        assert!(Frontend::decode(b'Q', b"select 1").is_err());
        let parse = Frontend::decode(b'P', b"s\0select $1\0\0\x01\0\0\0\x17");
        let (name, query) = ("s".to_owned(), "select $1".to_owned());
        assert_eq!(parse, Ok(Frontend::Parse { name, query, types: vec![23] }));
        let session = Startup::decode(b"\0\x03\0\0user\0ada\0\0");
        assert_eq!(session, Ok(Startup::Session([("user".to_owned(), "ada".to_owned())].into())));
        assert_eq!(Startup::decode(&80_877_103_i32.to_be_bytes()), Ok(Startup::Tls));
        assert!(Startup::decode(b"\0\x02\0\0").is_err());
    }
}
