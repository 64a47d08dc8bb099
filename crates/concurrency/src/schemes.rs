//! The registry of schemes: the one list that the command line, campaigns, the library and tests
//! are written from. A new scheme is a module of this crate and one entry of this list, as `basic`
//! (programs that embed the engine are compiled with it) or `further` (if they ask for all).

use std::fmt;
use std::str::FromStr;

use platform::{Hardware, Platform};

use crate::scheme::Scheme;

/// Expands something for every scheme.
///
/// `for_each_scheme!(S => { check::<S>(); })` repeats the block, in which `S` names the scheme.
/// `for_each_scheme!(callback)` expands to `callback! { basic Silo, further TicToc, ... }`: the
/// names of types of this crate, each behind the attributes that document it, for a macro that
/// writes items.
#[macro_export]
macro_rules! for_each_scheme {
    (@list [$($callback:tt)+] $($argument:tt)*) => {
        $($callback)+! {
            $($argument)*
            /// Optimistic: reads take no locks and are validated at the commit. The faster one
            /// where collisions are rare.
            #[default]
            basic Silo,
            /// Optimistic: what a transaction read decides when it commits, so that fewer of those
            /// that only read give up. Its commits are in the order of real time from millisecond
            /// to millisecond only.
            further TicToc,
            /// Optimistic, with a private copy of each row: the rows that a transaction reads are
            /// those of the moment at which the attempt began. Which keys are there (absent
            /// keys, counts) it sees as it is when it reads: that this fits is known
            /// at the commit only, as under [`Silo`](Self::Silo).
            further Occ,
            /// As [`Silo`](Self::Silo), with old versions of rows, which cost memory and time:
            /// leave room below the memory limit, since changing and deleting rows needs some as
            /// well.
            basic Mvcc,
            /// Two-phase locking that gives up instead of waiting: collisions are noticed at once,
            /// and a transaction never sees a state that did not exist.
            basic NoWait,
            /// Two-phase locking in which the older transaction waits and the younger gives up.
            further WaitDie,
            /// Two-phase locking in which transactions wait, and deadlocks are found.
            further DlDetect,
            /// One lock a table: one transaction at a time uses it. The least work where few
            /// threads conflict.
            further Hstore,
        }
    };
    (@repeat [$name:ident => $body:block] $($(#[$attribute:meta])* $kind:ident $scheme:ident,)+) => {
        $({
            type $name = $crate::$scheme;
            $body
        })+
    };
    ($name:ident => $body:block) => {
        $crate::for_each_scheme! { @list [$crate::for_each_scheme] @repeat [$name => $body] }
    };
    ($callback:ident) => {
        $crate::for_each_scheme! { @list [$callback] }
    };
}

/// Code that is generic over schemes, to be run under one that is named at run time.
pub trait SchemeVisitor<P: Platform> {
    /// The result.
    type Output;

    /// True if it can visit all schemes; otherwise the basic ones alone ([`SchemeName::is_basic`]),
    /// and is not compiled for others.
    const ALL: bool = true;

    /// Runs under scheme `S`.
    fn visit<S: Scheme<P>>(self) -> Self::Output;
}

macro_rules! is_basic {
    (basic) => {
        true
    };
    (further) => {
        false
    };
}

macro_rules! registry {
    ($($(#[$attribute:meta])* $kind:ident $scheme:ident,)+) => {
        /// The concurrency control of a database. All are serializable, phantoms included.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum SchemeName {
            $($(#[$attribute])* $scheme,)+
        }

        impl SchemeName {
            /// All of them.
            pub const ALL: [SchemeName; [$(stringify!($scheme)),+].len()] = [$(SchemeName::$scheme),+];

            /// The name on the command line and in results.
            pub const fn name(self) -> &'static str {
                match self {
                    // The same on every platform.
                    $(SchemeName::$scheme => <crate::$scheme as Scheme<Hardware>>::NAME,)+
                }
            }

            /// Returns true if it locks rows or partitions in one of the ways of
            /// [`RowLock`](crate::RowLock).
            pub const fn locks_rows(self) -> bool {
                match self {
                    $(SchemeName::$scheme => <crate::$scheme as Scheme<Hardware>>::LOCKS_ROWS,)+
                }
            }

            /// Returns true if programs that embed the engine are compiled with it in any case.
            pub const fn is_basic(self) -> bool {
                match self {
                    $(SchemeName::$scheme => is_basic!($kind),)+
                }
            }

            /// Runs `visitor` under this scheme.
            ///
            /// # Panics
            /// The visitor is for basic schemes alone, and this is none.
            pub fn visit<P: Platform, V: SchemeVisitor<P>>(self, visitor: V) -> V::Output {
                match self {
                    // Known before code is made, so that none is for what is never visited.
                    $(SchemeName::$scheme => if const { V::ALL || SchemeName::$scheme.is_basic() } {
                        visitor.visit::<crate::$scheme>()
                    } else {
                        panic!("{self} is visited by what is not compiled for it")
                    },)+
                }
            }
        }
    };
}

for_each_scheme!(registry);

/// The scheme whose transactions can be branches, of which a worker has several open at a time
/// ([`terms::Mode::Branch`]).
pub type Branching = crate::Hstore;

const _: () = assert!(<Branching as Scheme<Hardware>>::BRANCHES);

impl fmt::Display for SchemeName {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.name())
    }
}

/// A text that names no scheme.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no scheme")]
pub struct UnknownScheme(String);

impl FromStr for SchemeName {
    type Err = UnknownScheme;

    fn from_str(text: &str) -> Result<Self, UnknownScheme> {
        let named = SchemeName::ALL.into_iter().find(|scheme| scheme.name() == text);
        named.ok_or_else(|| UnknownScheme(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_different_and_lead_back() {
        for (number, scheme) in SchemeName::ALL.into_iter().enumerate() {
            assert_eq!(scheme.name().parse(), Ok(scheme));
            assert!(SchemeName::ALL[..number].iter().all(|other| other.name() != scheme.name()));
        }
        assert_eq!("none".parse::<SchemeName>(), Err(UnknownScheme("none".into())));
        assert_eq!(SchemeName::default().name(), "silo");
    }

    #[test]
    fn names_and_types_are_listed_in_one_order() {
        struct Name;
        impl SchemeVisitor<Hardware> for Name {
            type Output = &'static str;
            fn visit<S: Scheme<Hardware>>(self) -> &'static str {
                S::NAME
            }
        }
        let mut names = Vec::new();
        for_each_scheme!(S => { names.push(<S as Scheme<Hardware>>::NAME); });
        let visited = SchemeName::ALL.map(|scheme| scheme.visit::<Hardware, _>(Name));
        assert_eq!(names, visited);
        assert_eq!(visited, SchemeName::ALL.map(SchemeName::name));
    }
}
