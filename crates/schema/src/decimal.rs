//! Exact decimal numbers: [`Decimal`], whose scale is known at run time, and [`Numeric`], the
//! column type `numeric(p, s)`.
//!
//! A number is an integer of up to 38 digits and a scale, the number of its digits behind the
//! point. A column stores the integer alone: in 8 bytes up to 18 digits, else in 16.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use crate::key::{Key, KeySink};
use crate::row::Value;
use crate::value_error::{ValueError, debug_as_text, serialize_as};
use crate::value_type::{DIGITS_MAX, SHORT_DIGITS_MAX, ValueType};

const EXAMPLE: &str = "-1234.50";
const LIMITS: &str = "at most 38 digits are possible, with those behind the point";

/// Returns the power of ten. Pre: the exponent is at most 38.
pub(crate) const fn power(exponent: u8) -> i128 {
    10_i128.pow(exponent as u32)
}

/// An exact decimal number of up to 38 digits. Numbers compare by their value: 1.5 equals 1.50.
#[derive(Clone, Copy)]
pub struct Decimal {
    digits: i128,
    scale: u8,
}

impl Decimal {
    /// Zero.
    pub const ZERO: Decimal = Decimal { digits: 0, scale: 0 };

    /// Returns the number `digits` / 10^`scale`.
    ///
    /// # Errors
    /// It has more than 38 digits.
    pub fn new(digits: i128, scale: u8) -> Result<Decimal, ValueError> {
        let fits = digits.unsigned_abs() < power(DIGITS_MAX).unsigned_abs() && scale <= DIGITS_MAX;
        let fail =
            || ValueError::limits(format_args!("{digits} with scale {scale}"), "decimal number", LIMITS);
        fits.then_some(Decimal { digits, scale }).ok_or_else(fail)
    }

    /// Returns all digits as an integer.
    pub fn digits(self) -> i128 {
        self.digits
    }

    /// Returns the number of digits behind the point.
    pub fn scale(self) -> u8 {
        self.scale
    }

    /// Returns the same number with another scale; `None` if it has more digits behind the point,
    /// or more than 38 in all.
    pub fn with_scale(self, scale: u8) -> Option<Decimal> {
        let Decimal { digits, scale: own } = self;
        let digits = match scale.checked_sub(own) {
            Some(more) if more <= DIGITS_MAX => digits.checked_mul(power(more))?,
            Some(_) => return None,
            None if digits % power(own - scale) == 0 => digits / power(own - scale),
            None => return None,
        };
        Decimal::new(digits, scale).ok()
    }

    /// Returns the nearest number with at most this scale; of two that are equally near the one
    /// further from zero, as in PostgreSQL.
    #[must_use]
    pub fn rounded(self, scale: u8) -> Decimal {
        let Decimal { digits, scale: own } = self;
        if own <= scale {
            return self;
        }
        let unit = power(own - scale);
        let (quotient, rest) = (digits / unit, digits % unit);
        let up = if rest.unsigned_abs() >= unit.unsigned_abs().div_ceil(2) { digits.signum() } else { 0 };
        Decimal { digits: quotient + up, scale }
    }

    /// Returns the integer below the number, and what is above it in units of 10^-38.
    fn parts(self) -> (i128, i128) {
        let unit = power(self.scale);
        (self.digits.div_euclid(unit), self.digits.rem_euclid(unit) * power(DIGITS_MAX - self.scale))
    }

    fn read(text: &str) -> Option<Decimal> {
        let (number, exponent) = match text.find(['e', 'E']) {
            Some(at) => (&text[..at], text[at + 1..].parse::<i32>().ok()?),
            None => (text, 0),
        };
        let (sign, number) = match number.strip_prefix('-') {
            Some(number) => (-1, number),
            None => (1, number.strip_prefix('+').unwrap_or(number)),
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let all = || whole.bytes().chain(fraction.bytes());
        if all().next().is_none() || !all().all(|digit| digit.is_ascii_digit()) {
            return None;
        }
        let digit = |number: i128, digit: u8| number.checked_mul(10)?.checked_add(i128::from(digit - b'0'));
        let mut digits = all().try_fold(0, digit)?;
        let mut scale = i32::try_from(fraction.len()).ok()?.checked_sub(exponent)?;
        while scale < 0 && digits != 0 {
            (digits, scale) = (digits.checked_mul(10)?, scale + 1);
        }
        Decimal::new(sign * digits, u8::try_from(scale.max(0)).ok()?).ok()
    }
}

impl PartialEq for Decimal {
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for Decimal {}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        self.parts().cmp(&other.parts())
    }
}

impl Hash for Decimal {
    fn hash<H: Hasher>(&self, to: &mut H) {
        self.parts().hash(to);
    }
}

/// As many digits behind the point as the scale says.
impl fmt::Display for Decimal {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, digits) = (power(self.scale).unsigned_abs(), self.digits.unsigned_abs());
        let sign = if self.digits < 0 { "-" } else { "" };
        write!(to, "{sign}{}", digits / unit)?;
        match usize::from(self.scale) {
            0 => Ok(()),
            scale => write!(to, ".{:0scale$}", digits % unit),
        }
    }
}

impl FromStr for Decimal {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        Decimal::read(text)
            .ok_or_else(|| ValueError::form(text, "decimal number of up to 38 digits", EXAMPLE))
    }
}

macro_rules! integers {
    ($($integer:ty),*) => { $(
        impl From<$integer> for Decimal {
            fn from(integer: $integer) -> Self {
                Decimal { digits: integer.into(), scale: 0 }
            }
        }
    )* };
}
integers!(u8, u16, u32, u64, i8, i16, i32, i64);

#[cfg(feature = "rust_decimal")]
impl From<rust_decimal::Decimal> for Decimal {
    fn from(number: rust_decimal::Decimal) -> Self {
        Decimal { digits: number.mantissa(), scale: number.scale() as u8 }
    }
}

#[cfg(feature = "rust_decimal")]
impl TryFrom<Decimal> for rust_decimal::Decimal {
    type Error = ValueError;

    fn try_from(number: Decimal) -> Result<Self, ValueError> {
        let converted = rust_decimal::Decimal::try_from_i128_with_scale(number.digits, number.scale.into());
        let limits = "it has at most 28 digits: round it, or keep it as it is";
        converted
            .map_err(|_| ValueError::limits(number, "decimal number of the crate `rust_decimal`", limits))
    }
}

/// The column type `numeric(P, S)`: exact decimal numbers of up to `P` digits, `S` of them behind
/// the point. `P` is 1 to 38, and `S` at most `P`.
///
/// ```
/// use schema::{Decimal, Numeric};
///
/// let price: Numeric<10, 2> = "19.90".parse()?;
/// assert_eq!((price.digits(), price.to_string()), (1990, "19.90".to_owned()));
/// assert!("19.905".parse::<Numeric<10, 2>>().is_err(), "numbers are not rounded unasked");
/// let rounded = Numeric::<10, 2>::try_from("19.905".parse::<Decimal>()?.rounded(2))?;
/// assert_eq!(rounded.to_string(), "19.91");
/// # Ok::<(), schema::ValueError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Numeric<const P: u8, const S: u8> {
    digits: i128,
}

impl<const P: u8, const S: u8> Numeric<P, S> {
    const BOUND: i128 = {
        assert!(P >= 1 && P <= DIGITS_MAX, "a numeric has 1 to 38 digits");
        assert!(S <= P, "a numeric has at most as many digits behind the point as in all");
        power(P)
    };

    /// Returns the number `digits` / 10^`S`.
    ///
    /// # Errors
    /// It has more than `P` digits.
    pub fn from_digits(digits: i128) -> Result<Self, ValueError> {
        let fits = digits.unsigned_abs() < Self::BOUND.unsigned_abs();
        let fail =
            || ValueError::limits(Decimal { digits, scale: S }, format!("numeric({P}, {S})"), NUMERIC_LIMITS);
        fits.then_some(Numeric { digits }).ok_or_else(fail)
    }

    /// Returns all digits as an integer.
    pub fn digits(self) -> i128 {
        self.digits
    }
}

pub(crate) const NUMERIC_LIMITS: &str = "round it, or make the column longer";

impl<const P: u8, const S: u8> From<Numeric<P, S>> for Decimal {
    fn from(number: Numeric<P, S>) -> Self {
        Decimal { digits: number.digits, scale: S }
    }
}

/// Numbers with more digits are refused, not rounded: [`Decimal::rounded`] rounds.
impl<const P: u8, const S: u8> TryFrom<Decimal> for Numeric<P, S> {
    type Error = ValueError;

    fn try_from(number: Decimal) -> Result<Self, ValueError> {
        let fail = || ValueError::limits(number, format!("numeric({P}, {S})"), NUMERIC_LIMITS);
        Numeric::from_digits(number.with_scale(S).ok_or_else(fail)?.digits)
    }
}

impl<const P: u8, const S: u8> FromStr for Numeric<P, S> {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        text.parse::<Decimal>()?.try_into()
    }
}

impl<const P: u8, const S: u8> fmt::Display for Numeric<P, S> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&Decimal::from(*self), to)
    }
}

impl<const P: u8, const S: u8> fmt::Debug for Numeric<P, S> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, to)
    }
}

debug_as_text!(Decimal);

serialize_as! {
    () Decimal as (i128, u8): |it: &Decimal| (it.digits, it.scale), |(digits, scale)| Decimal::new(digits, scale);
    (const P: u8, const S: u8) Numeric<P, S> as i128: |it: &Numeric<P, S>| it.digits, Numeric::from_digits;
}

impl<const P: u8, const S: u8> Value for Numeric<P, S> {
    const BYTES: usize = if P <= SHORT_DIGITS_MAX { 8 } else { 16 };
    const ALIGN: usize = if P <= SHORT_DIGITS_MAX { 8 } else { 1 };
    fn value_type() -> ValueType {
        let _: i128 = const { Self::BOUND };
        ValueType::Numeric { precision: P, scale: S }
    }
    #[inline(always)]
    fn store(&self, to: &mut [u8]) {
        match P <= SHORT_DIGITS_MAX {
            true => (self.digits as i64).store(to),
            false => self.digits.store(to),
        }
    }
    #[inline(always)]
    fn fetch(from: &[u8]) -> Self {
        let digits = if P <= SHORT_DIGITS_MAX { i64::fetch(from).into() } else { i128::fetch(from) };
        Numeric { digits }
    }
}

impl<const P: u8, const S: u8> Key for Numeric<P, S> {
    const BITS: u32 = 8 * Self::BYTES as u32;
    #[inline(always)]
    fn append(&self, to: &mut impl KeySink) {
        match P <= SHORT_DIGITS_MAX {
            true => (self.digits as i64).append(to),
            false => self.digits.append(to),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::key::KeyBuffer;

    fn decimal(text: &str) -> Decimal {
        text.parse().expect(text)
    }

    #[test]
    fn texts_are_numbers() {
        for (text, written) in [
            ("0", "0"),
            ("-0.5", "-0.5"),
            (".5", "0.5"),
            ("5.", "5"),
            ("+12.340", "12.340"),
            ("1e3", "1000"),
            ("1.5e1", "15"),
            ("125E-2", "1.25"),
            ("0e99", "0"),
            ("-99999999999999999999999999999999999999", "-99999999999999999999999999999999999999"),
            ("0.00000000000000000000000000000000000001", "0.00000000000000000000000000000000000001"),
        ] {
            assert_eq!(decimal(text).to_string(), written, "{text}");
        }
        let long = "1".repeat(39);
        for text in
            ["", ".", "-", "1,5", " 1", "1 ", "0x1", "1e", "1e99", "NaN", "--1", "1.2.3", &long, "1e-39"]
        {
            assert!(text.parse::<Decimal>().is_err(), "{text}");
        }
    }

    #[test]
    fn numbers_are_rounded_on_demand_only() {
        for (text, scale, rounded) in [
            ("1.005", 2, "1.01"),
            ("-1.005", 2, "-1.01"),
            ("1.004", 2, "1.00"),
            ("9.99", 1, "10.0"),
            ("1.5", 3, "1.5"),
            ("0.5", 0, "1"),
        ] {
            assert_eq!(decimal(text).rounded(scale).to_string(), rounded, "{text}");
        }
        assert_eq!(decimal("1.50").with_scale(1).map(|it| it.to_string()), Some("1.5".to_owned()));
        assert_eq!(decimal("1.55").with_scale(1).map(|it| it.to_string()), None);
        assert_eq!(decimal("1").with_scale(38).map(|it| it.to_string()), None);
        let error = "123.45".parse::<Numeric<4, 2>>().expect_err("too long").to_string();
        assert_eq!(error, "123.45 is no numeric(4, 2): round it, or make the column longer");
        assert_eq!("-99.99".parse(), Numeric::<4, 2>::from_digits(-9999));
        assert!(Numeric::<4, 2>::from_digits(10_000).is_err());
        assert_eq!(<(Numeric<18, 0>, Numeric<19, 0>) as Key>::BITS, 64 + 128);
    }

    #[cfg(feature = "rust_decimal")]
    #[test]
    fn numbers_of_rust_decimal_are_numbers() {
        for text in ["0", "-12.50", "79228162514264337593543950335", "0.0000000000000000000000000001"] {
            let foreign: rust_decimal::Decimal = text.parse().expect("a number");
            assert_eq!(Decimal::from(foreign).to_string(), text);
            assert_eq!(rust_decimal::Decimal::try_from(decimal(text)), Ok(foreign));
        }
        assert!(rust_decimal::Decimal::try_from(decimal(&"9".repeat(38))).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 256 }))]
        #[test]
        fn numbers_are_read_as_written_and_sort(
            a in -power(38) + 1..power(38), b in -power(38) + 1..power(38), scale in 0..=38_u8, short: i32, other: i32,
        ) {
            let [left, right] = [a, b].map(|digits| Decimal { digits, scale });
            prop_assert_eq!(decimal(&left.to_string()), left);
            prop_assert_eq!(left.cmp(&right), a.cmp(&b));
            let [long, longer] = [a, b].map(|digits| Numeric::<38, 5> { digits });
            prop_assert_eq!(KeyBuffer::of(&long).cmp(&KeyBuffer::of(&longer)), a.cmp(&b));
            let [short, other] = [short, other].map(|digits| Numeric::<10, 2> { digits: digits.into() });
            prop_assert_eq!(KeyBuffer::of(&short).cmp(&KeyBuffer::of(&other)), short.cmp(&other));
            let mut bytes = [0; 16];
            long.store(&mut bytes);
            prop_assert_eq!(Numeric::<38, 5>::fetch(&bytes), long);
            short.store(&mut bytes);
            prop_assert_eq!(Numeric::<10, 2>::fetch(&bytes), short);
            let sent = postcard::to_allocvec(&(left, long)).expect("sent");
            prop_assert_eq!(postcard::from_bytes(&sent), Ok((left, long)));
        }

        /// The order of numbers with different scales is that of their difference.
        #[test]
        fn numbers_of_different_scales_compare(a: i64, b: i64, left in 0..10_u8, right in 0..10_u8) {
            let compared = Decimal { digits: a.into(), scale: left }.cmp(&Decimal { digits: b.into(), scale: right });
            prop_assert_eq!(compared, (i128::from(a) * power(right)).cmp(&(i128::from(b) * power(left))));
        }
    }
}
