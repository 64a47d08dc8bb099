//! [`Uuid`]: the column type `uuid`, and `uuid::Uuid` of the crate `uuid` (feature `uuid`).

use std::fmt;
use std::str::FromStr;

use crate::foreign::like;
use crate::key::{Key, KeySink};
use crate::row::Value;
use crate::value_error::{ValueError, debug_as_text, serialize_as};
use crate::value_type::ValueType;

const EXAMPLE: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8";
/// Hexadecimal digits of the groups between hyphens.
const GROUPS: [usize; 5] = [8, 4, 4, 4, 12];

/// A universally unique identifier: 16 bytes, in the order of their text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid {
    number: u128,
}

impl Uuid {
    /// Returns the identifier of this number, whose highest byte comes first.
    pub const fn from_u128(number: u128) -> Uuid {
        Uuid { number }
    }

    /// Returns the number.
    pub const fn as_u128(self) -> u128 {
        self.number
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = format!("{:032x}", self.number);
        let mut rest = &*digits;
        for (number, length) in GROUPS.into_iter().enumerate() {
            let (group, others) = rest.split_at(length);
            write!(to, "{}{group}", if number > 0 { "-" } else { "" })?;
            rest = others;
        }
        Ok(())
    }
}

/// Reads digits of either case, with all hyphens or without any.
impl FromStr for Uuid {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let groups: Vec<usize> = text.split('-').map(str::len).collect();
        let digits: String = text.split('-').collect();
        let is_form = groups == GROUPS || groups == [32];
        let is_number = is_form && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        let number = u128::from_str_radix(&digits, 16).ok().filter(|_| is_number);
        number.map(Uuid::from_u128).ok_or_else(|| ValueError::form(text, "uuid", EXAMPLE))
    }
}

debug_as_text!(Uuid);

serialize_as! {
    () Uuid as u128: |id: &Uuid| id.number, |number| Ok::<_, ValueError>(Uuid { number });
}

like! {
    Uuid as u128, ValueType::Uuid => Uuid::as_u128, Uuid::from_u128;
}

#[cfg(feature = "uuid")]
like! {
    ::uuid::Uuid as u128, ValueType::Uuid => |id: ::uuid::Uuid| id.as_u128(), ::uuid::Uuid::from_u128;
}

#[cfg(feature = "uuid")]
impl From<::uuid::Uuid> for Uuid {
    fn from(id: ::uuid::Uuid) -> Self {
        Uuid::from_u128(id.as_u128())
    }
}

#[cfg(feature = "uuid")]
impl From<Uuid> for ::uuid::Uuid {
    fn from(id: Uuid) -> Self {
        ::uuid::Uuid::from_u128(id.as_u128())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::key::KeyBuffer;

    #[test]
    fn texts_are_identifiers() {
        let id = Uuid::from_u128(0x67e55044_10b1_426f_9247_bb680e5fe0c8);
        assert_eq!(id.to_string(), EXAMPLE);
        for text in [EXAMPLE, "67E55044-10B1-426F-9247-BB680E5FE0C8", "67e5504410b1426f9247bb680e5fe0c8"] {
            assert_eq!(text.parse(), Ok(id));
        }
        for text in
            ["", "67e55044", "67e5504410b1-426f-9247-bb680e5fe0c8", "+7e5504410b1426f9247bb680e5fe0c8"]
        {
            assert!(text.parse::<Uuid>().is_err(), "{text}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 256 }))]
        #[test]
        fn identifiers_sort_as_their_texts(a: u128, b: u128) {
            let [left, right] = [a, b].map(Uuid::from_u128);
            prop_assert_eq!(left.to_string().parse(), Ok(left));
            prop_assert_eq!(left.cmp(&right), left.to_string().cmp(&right.to_string()));
            prop_assert_eq!(KeyBuffer::of(&left).cmp(&KeyBuffer::of(&right)), left.cmp(&right));
        }
    }
}
