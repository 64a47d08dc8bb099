//! The first message of a connection, which has no type.

use std::collections::BTreeMap;

use crate::ProtocolError;
use crate::reader::Reader;

/// Most bytes of the first message.
pub const STARTUP_BYTES_MAX: usize = 10_000;
const SSL: i32 = 80_877_103;
const GSS: i32 = 80_877_104;
const CANCEL: i32 = 80_877_102;

/// The first message of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Startup {
    /// A session with these parameters.
    Session(BTreeMap<String, String>),
    /// A question for TLS.
    Tls,
    /// A question for encryption by GSSAPI.
    Gss,
    /// The end of the statement of another connection: its number and its secret.
    Cancel(i32, i32),
}

impl Startup {
    /// Reads the message behind its length.
    pub fn decode(body: &[u8]) -> Result<Startup, ProtocolError> {
        let mut reader = Reader::new(body);
        match reader.i32()? {
            SSL => Ok(Startup::Tls),
            GSS => Ok(Startup::Gss),
            CANCEL => {
                let cancel = Startup::Cancel(reader.i32()?, reader.i32()?);
                reader.end().map(|()| cancel)
            }
            version if version >> 16 == 3 => {
                let mut parameters = BTreeMap::new();
                loop {
                    let name = reader.text()?;
                    if name.is_empty() {
                        return reader.end().map(|()| Startup::Session(parameters));
                    }
                    parameters.insert(name, reader.text()?);
                }
            }
            version => {
                let (major, minor) = (version >> 16, version & 0xffff);
                Err(ProtocolError(format!(
                    "unsupported frontend protocol {major}.{minor}: server supports 3.0"
                )))
            }
        }
    }
}
