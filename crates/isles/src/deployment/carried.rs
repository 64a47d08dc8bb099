//! Values of the program on their way between instances.
//!
//! A program's values are made into bytes, and bytes into values, by code of the program, which may
//! refuse or panic. So what travels is bytes, which a message only carries: whoever sends and
//! whoever receives opens them where one transaction fails, and no link.

use std::fmt;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};

use serde::de::{DeserializeOwned, Error as _, Visitor};
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A value of the program: as it is, or as it travels.
#[derive(Debug)]
pub(super) enum Carried<T> {
    Value(T),
    Bytes(Vec<u8>),
}

/// A value that has travelled, and is not one of its type.
#[derive(Debug)]
pub(super) struct Unreadable;

impl<T: Serialize> Serialize for Carried<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Carried::Bytes(bytes) => to.serialize_bytes(bytes),
            Carried::Value(value) => {
                let written = catch_unwind(AssertUnwindSafe(|| postcard::to_allocvec(value)));
                let written = written.map_err(|_| S::Error::custom("it panicked"))?;
                to.serialize_bytes(&written.map_err(S::Error::custom)?)
            }
        }
    }
}

impl<'de, T> Deserialize<'de> for Carried<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Bytes<T>(PhantomData<T>);

        impl<T> Visitor<'_> for Bytes<T> {
            type Value = Carried<T>;

            fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                to.write_str("bytes")
            }

            fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<Carried<T>, E> {
                Ok(Carried::Bytes(bytes.to_vec()))
            }
        }

        from.deserialize_bytes(Bytes(PhantomData)).map_err(D::Error::custom)
    }
}

impl<T: DeserializeOwned> Carried<T> {
    /// The value.
    pub(super) fn open(self) -> Result<T, Unreadable> {
        match self {
            Carried::Value(value) => Ok(value),
            Carried::Bytes(bytes) => read(&bytes),
        }
    }

    /// Has `run` see the value.
    pub(super) fn with<R>(&self, run: impl FnOnce(&T) -> R) -> Result<R, Unreadable> {
        match self {
            Carried::Value(value) => Ok(run(value)),
            Carried::Bytes(bytes) => read(bytes).map(|value| run(&value)),
        }
    }
}

fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Unreadable> {
    let read = catch_unwind(AssertUnwindSafe(|| postcard::from_bytes(bytes)));
    read.map_err(|_| Unreadable)?.map_err(|_| Unreadable)
}
