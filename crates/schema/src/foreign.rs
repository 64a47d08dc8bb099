//! Types that are stored, and sort, as other values: a macro, and dates and times of the crate
//! `time` (feature `time`).

#[cfg(feature = "time")]
use crate::key::{Key, KeySink};
#[cfg(feature = "time")]
use crate::row::Value;
#[cfg(feature = "time")]
use crate::value_type::ValueType;

/// Implements `Value` and `Key` for a type that is stored, and sorts, as another value.
macro_rules! like {
    ($($foreign:ty as $value:ty, $kind:expr => $to:expr, $from:expr;)*) => { $(
        impl Value for $foreign {
            const BYTES: usize = <$value as Value>::BYTES;
            const ALIGN: usize = <$value as Value>::ALIGN;
            fn value_type() -> ValueType {
                $kind
            }
            #[inline(always)]
            fn store(&self, to: &mut [u8]) {
                let value: $value = $to(*self);
                value.store(to);
            }
            #[inline(always)]
            fn fetch(from: &[u8]) -> Self {
                $from(<$value as Value>::fetch(from))
            }
        }

        impl Key for $foreign {
            const BITS: u32 = <$value as Key>::BITS;
            #[inline(always)]
            fn append(&self, to: &mut impl KeySink) {
                let value: $value = $to(*self);
                value.append(to);
            }
        }
    )* };
}

pub(crate) use like;

// Stored numbers are values of the type. Any other number is damage, and panics.
#[cfg(feature = "time")]
like! {
    // Nanoseconds since 1970, without the time offset. A value that is read is in UTC.
    time::OffsetDateTime as i128, ValueType::Signed(16) => |moment: time::OffsetDateTime| moment.unix_timestamp_nanos(),
        |nanos| time::OffsetDateTime::from_unix_timestamp_nanos(nanos).expect("a moment was stored");
    time::UtcDateTime as i128, ValueType::Signed(16) => |moment: time::UtcDateTime| moment.unix_timestamp_nanos(),
        |nanos| time::UtcDateTime::from_unix_timestamp_nanos(nanos).expect("a moment was stored");
    // Stored as if it were in UTC.
    time::PrimitiveDateTime as i128, ValueType::Signed(16) => |moment: time::PrimitiveDateTime| moment.assume_utc().unix_timestamp_nanos(),
        |nanos| {
            let moment = time::UtcDateTime::from_unix_timestamp_nanos(nanos).expect("a moment was stored");
            time::PrimitiveDateTime::new(moment.date(), moment.time())
        };
    // The Julian day.
    time::Date as i32, ValueType::Signed(4) => |date: time::Date| date.to_julian_day(),
        |day| time::Date::from_julian_day(day).expect("a date was stored");
    time::Duration as i128, ValueType::Signed(16) => |length: time::Duration| length.whole_nanoseconds(), duration;
}

#[cfg(feature = "time")]
fn duration(nanos: i128) -> time::Duration {
    const SECOND: i128 = 1_000_000_000;
    let seconds = i64::try_from(nanos / SECOND).expect("a length of time was stored");
    time::Duration::new(seconds, (nanos % SECOND) as i32)
}
