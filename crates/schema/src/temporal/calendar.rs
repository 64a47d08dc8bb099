//! The Gregorian calendar, extended to all years, and the digits of dates and times of day.
//!
//! Days are counted by the algorithms of Hinnant, "chrono-Compatible Low-Level Date Algorithms":
//! years begin in March, so that the leap day is the last day of a year. Decision 0114 says why no
//! crate does it: PostgreSQL's dates reach the year 5,874,897.

use std::fmt;

/// Days of 400 years.
const ERA_DAYS: i64 = 146_097;
/// Days from 0000-03-01 to 2000-01-01.
const EPOCH_DAYS: i64 = 730_425;
/// Microseconds of a second, and of a day.
pub(crate) const SECOND: i64 = 1_000_000;
pub(crate) const DAY: i64 = 86_400 * SECOND;

/// A day of the calendar. Year 0 is 1 BC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Civil {
    pub year: i64,
    pub month: u8,
    pub day: u8,
}

impl Civil {
    /// Returns the day that is this many days after 2000-01-01.
    pub(crate) const fn of_days(days: i64) -> Civil {
        let days = days + EPOCH_DAYS;
        let (era, of_era) = (days.div_euclid(ERA_DAYS), days.rem_euclid(ERA_DAYS));
        let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year + year / 4 - year / 100);
        let month = (5 * of_year + 2) / 153;
        let day = of_year - (153 * month + 2) / 5 + 1;
        let month = if month < 10 { month + 3 } else { month - 9 };
        let year = year + era * 400 + if month <= 2 { 1 } else { 0 };
        Civil { year, month: month as u8, day: day as u8 }
    }

    /// Returns the days since 2000-01-01; `None` if the calendar has no such day.
    pub(crate) const fn days(self) -> Option<i64> {
        let Civil { year, month, day } = self;
        if month < 1 || month > 12 || day < 1 || day > days_of_month(year, month) {
            return None;
        }
        let year = if month <= 2 { year - 1 } else { year };
        let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
        let month = (month as i64 + 9) % 12;
        let of_year = (153 * month + 2) / 5 + day as i64 - 1;
        Some(era * ERA_DAYS + of_era * 365 + of_era / 4 - of_era / 100 + of_year - EPOCH_DAYS)
    }

    /// True for years before year 1.
    pub(crate) fn is_before_christ(self) -> bool {
        self.year < 1
    }

    /// Writes `2026-11-28`, without the mark of years before year 1.
    pub(crate) fn write(self, to: &mut impl fmt::Write) -> fmt::Result {
        let year = if self.is_before_christ() { 1 - self.year } else { self.year };
        write!(to, "{year:04}-{:02}-{:02}", self.month, self.day)
    }
}

const fn days_of_month(year: i64, month: u8) -> u8 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Writes a fraction of a second without the zeros at its end.
pub(crate) fn write_fraction(micros: i64, to: &mut impl fmt::Write) -> fmt::Result {
    match micros {
        0 => Ok(()),
        micros => to.write_str(format!(".{micros:06}").trim_end_matches('0')),
    }
}

/// Writes a time of day: `04:35:00.5`.
pub(crate) fn write_time(micros: i64, to: &mut impl fmt::Write) -> fmt::Result {
    let seconds = micros / SECOND;
    write!(to, "{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)?;
    write_fraction(micros % SECOND, to)
}

/// Reads the parts of a text one after the other.
pub(crate) struct Scanner<'t> {
    pub rest: &'t str,
}

impl Scanner<'_> {
    /// Takes a text, if it comes next.
    pub(crate) fn take(&mut self, text: &str) -> bool {
        let rest = self.rest.strip_prefix(text);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// Takes a number of this number of digits.
    pub(crate) fn number(&mut self, digits_min: usize, digits_max: usize) -> Option<i64> {
        let end = self.rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(self.rest.len());
        let (digits, rest) = self.rest.split_at(end);
        if !(digits_min..=digits_max).contains(&digits.len()) {
            return None;
        }
        self.rest = rest;
        digits.parse().ok()
    }

    /// Takes `.` and up to six digits, if they come next: microseconds.
    pub(crate) fn fraction(&mut self) -> Option<i64> {
        if !self.take(".") {
            return Some(0);
        }
        let before = self.rest.len();
        let number = self.number(1, 6)?;
        let digits = before - self.rest.len();
        Some(number * 10_i64.pow(6 - digits as u32))
    }

    /// Takes `2026-11-28`.
    pub(crate) fn date(&mut self) -> Option<Civil> {
        let year = self.number(4, 7)?;
        let month = self.take("-").then(|| self.number(2, 2))??;
        let day = self.take("-").then(|| self.number(2, 2))??;
        Some(Civil { year, month: month as u8, day: day as u8 })
    }

    /// Takes ` BC`, if it comes next, and returns the date in that era; `None` for year 0.
    pub(crate) fn era(&mut self, date: Civil) -> Option<Civil> {
        let year = if self.take(" BC") { 1 - date.year } else { date.year };
        (date.year > 0).then_some(Civil { year, ..date })
    }

    /// Takes `04:35`, `04:35:00` or `04:35:00.5`: microseconds. The end of a day is `24:00:00`.
    pub(crate) fn time(&mut self) -> Option<i64> {
        let hour = self.number(2, 2)?;
        let minute = self.take(":").then(|| self.number(2, 2))?.filter(|minute| *minute < 60)?;
        let second = if self.take(":") { self.number(2, 2).filter(|second| *second < 60)? } else { 0 };
        let micros = ((hour * 60 + minute) * 60 + second) * SECOND + self.fraction()?;
        (micros <= DAY).then_some(micros)
    }

    /// Takes an offset from UTC, `Z`, `+02`, `+0230` or `+02:30`: microseconds.
    pub(crate) fn offset(&mut self) -> Option<i64> {
        if self.take("Z") {
            return Some(0);
        }
        let sign = if self.take("-") { -1 } else { self.take("+").then_some(1)? };
        let before = self.rest.len();
        let number = self.number(2, 4)?;
        let (hour, minute) = match before - self.rest.len() {
            2 if self.take(":") => (number, self.number(2, 2)?),
            2 => (number, 0),
            4 => (number / 100, number % 100),
            _ => return None,
        };
        (hour < 16 && minute < 60).then_some(sign * (hour * 60 + minute) * 60 * SECOND)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each day of 800 years follows the day before it, by the rules of the calendar.
    #[test]
    fn days_follow_each_other() {
        let mut civil = Civil { year: -401, month: 2, day: 28 };
        let first = civil.days().expect("a day");
        for days in first..first + 2 * ERA_DAYS {
            assert_eq!((Civil::of_days(days), civil.days()), (civil, Some(days)));
            civil.day += 1;
            if civil.day > days_of_month(civil.year, civil.month) {
                (civil.month, civil.day) = (civil.month + 1, 1);
            }
            if civil.month > 12 {
                (civil.year, civil.month) = (civil.year + 1, 1);
            }
        }
        assert_eq!(Civil::of_days(0), Civil { year: 2000, month: 1, day: 1 });
    }

    #[test]
    fn days_that_no_calendar_has_are_none() {
        for (year, month, day) in
            [(2023, 2, 29), (1900, 2, 29), (2024, 4, 31), (2024, 13, 1), (2024, 0, 1), (2024, 1, 0)]
        {
            assert_eq!(Civil { year, month, day }.days(), None, "{year}-{month}-{day}");
        }
        assert!(Civil { year: 2000, month: 2, day: 29 }.days().is_some());
    }
}
