//! Types of other crates as columns and keys: features `time` and `uuid`.

use std::ops::Bound;

use crate::common::{Directory, SCHEMES};
use isles::{Database, Row};
use time::macros::{date, datetime, offset};
use time::{Date, Duration, OffsetDateTime, PrimitiveDateTime, UtcDateTime};
use uuid::Uuid;

#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id), index(by_begin(begin)), index(by_day(day, length)))]
struct Meeting {
    id: Uuid,
    begin: OffsetDateTime,
    told: Option<UtcDateTime>,
    local: PrimitiveDateTime,
    day: Date,
    length: Duration,
    parent: Option<Uuid>,
}

fn meeting(number: i64) -> Meeting {
    let begin = datetime!(1969-12-31 23:59:59.5 +02:00) + Duration::hours(number);
    Meeting {
        id: Uuid::from_u128(u128::MAX / 7 * number.unsigned_abs() as u128),
        begin,
        told: (number % 2 == 0).then(|| UtcDateTime::UNIX_EPOCH - Duration::nanoseconds(number)),
        local: PrimitiveDateTime::new(date!(-0044 - 03 - 15), begin.time()),
        day: date!(2000 - 02 - 28) + Duration::days(number % 3),
        length: Duration::seconds(-number) + Duration::nanoseconds(7),
        parent: (number % 3 == 0).then(|| Uuid::from_u128(number.unsigned_abs() as u128)),
    }
}

#[test]
fn foreign_values_round_trip_and_sort_like_their_types() {
    for scheme in SCHEMES {
        let directory = Directory::new(&format!("foreign-{scheme:?}"));
        let mut meetings: Vec<_> = (0..7).map(meeting).collect();
        meetings.push(Meeting { id: Uuid::max(), begin: OffsetDateTime::UNIX_EPOCH, ..meeting(1) });
        for round in 0..2 {
            let mut builder = Database::at(&directory.0).scheme(scheme);
            let table = builder.table::<Meeting>("meetings");
            let database = builder.open().expect("a database");
            database
                .transaction(|t| {
                    if round == 0 {
                        meetings.iter().try_for_each(|row| t.insert(table, row))?;
                    }
                    for row in &meetings {
                        let found = t.get(table, &row.id)?.expect("it is there");
                        assert_eq!(&found, row);
                        assert_eq!(found.begin.offset(), offset!(UTC));
                    }
                    let by_begin = t.scan(table.by(Meeting::BY_BEGIN), ..).collect()?;
                    assert!(by_begin.is_sorted_by_key(|row| row.begin));
                    let by_day = t.scan(table.by(Meeting::BY_DAY), ..).collect()?;
                    assert!(by_day.is_sorted_by_key(|row| (row.day, row.length)));
                    let ids = t.scan(table, ..).collect()?;
                    assert!(ids.is_sorted_by_key(|row| row.id));
                    let from = Bound::Included((OffsetDateTime::UNIX_EPOCH, Uuid::nil()));
                    let later = t.scan(table.by(Meeting::BY_BEGIN), (from, Bound::Unbounded)).count()?;
                    assert_eq!(
                        later,
                        meetings.iter().filter(|row| row.begin >= OffsetDateTime::UNIX_EPOCH).count() as u64
                    );
                    Ok(())
                })
                .expect("read");
        }
    }
}

#[test]
fn the_limits_of_foreign_types_fit() {
    let mut builder = Database::in_memory();
    let table = builder.table::<Meeting>("meetings");
    let database = builder.open().expect("a database");
    let ends = [
        (UtcDateTime::MIN, PrimitiveDateTime::MIN, Date::MIN, Duration::MIN, Uuid::nil()),
        (UtcDateTime::MAX, PrimitiveDateTime::MAX, Date::MAX, Duration::MAX, Uuid::max()),
    ];
    for (told, local, day, length, id) in ends {
        let begin = told.to_offset(offset!(UTC));
        let row = Meeting { id, begin, told: Some(told), local, day, length, parent: Some(id) };
        let read = database.transaction(|t| {
            t.insert(table, &row)?;
            t.get(table, &id)
        });
        assert_eq!(read, Ok(Some(row)));
    }
}
