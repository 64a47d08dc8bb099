//! Values of the program that are sent between instances.
//!
//! Code of the program serializes and deserializes these values, and that code may fail or panic. A
//! message therefore contains them as bytes. Sender and receiver convert the bytes at a place where
//! a failure ends one transaction and not the link.

use std::fmt;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};

use serde::de::{DeserializeOwned, Error as _, Visitor};
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A value of the program, or its serialized form.
#[derive(Debug)]
pub(super) enum WireValue<T> {
    Value(T),
    Bytes(Vec<u8>),
}

/// The bytes are not a value of the expected type.
#[derive(Debug)]
pub(super) struct Unreadable;

impl<T: Serialize> Serialize for WireValue<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            WireValue::Bytes(bytes) => to.serialize_bytes(bytes),
            WireValue::Value(value) => {
                let written = catch_unwind(AssertUnwindSafe(|| postcard::to_allocvec(value)));
                let written = written.map_err(|_| S::Error::custom("it panicked"))?;
                to.serialize_bytes(&written.map_err(S::Error::custom)?)
            }
        }
    }
}

impl<'de, T> Deserialize<'de> for WireValue<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Bytes<T>(PhantomData<T>);

        impl<T> Visitor<'_> for Bytes<T> {
            type Value = WireValue<T>;

            fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                to.write_str("bytes")
            }

            fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<WireValue<T>, E> {
                Ok(WireValue::Bytes(bytes.to_vec()))
            }
        }

        from.deserialize_bytes(Bytes(PhantomData)).map_err(D::Error::custom)
    }
}

impl<T: DeserializeOwned> WireValue<T> {
    /// Returns the value.
    pub(super) fn open(self) -> Result<T, Unreadable> {
        match self {
            WireValue::Value(value) => Ok(value),
            WireValue::Bytes(bytes) => read(&bytes),
        }
    }

    /// Calls `run` with the value.
    pub(super) fn with<R>(&self, run: impl FnOnce(&T) -> R) -> Result<R, Unreadable> {
        match self {
            WireValue::Value(value) => Ok(run(value)),
            WireValue::Bytes(bytes) => read(bytes).map(|value| run(&value)),
        }
    }
}

fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Unreadable> {
    let read = catch_unwind(AssertUnwindSafe(|| postcard::from_bytes(bytes)));
    read.map_err(|_| Unreadable)?.map_err(|_| Unreadable)
}
