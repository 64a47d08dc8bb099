//! Expiry of certificates.

use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use rustls::CertificateError;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};

const SECONDS_A_DAY: u64 = 86_400;
/// The end of the year 9999, the date in a certificate that never expires (RFC 5280, section
/// 4.1.2.5).
const NEVER: UnixTime = UnixTime::since_unix_epoch(Duration::from_secs(253_402_300_799));

/// A day, in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Day(u64);

impl Day {
    /// Returns the day of a time.
    pub(super) fn of(moment: UnixTime) -> Day {
        Day(moment.as_secs() / SECONDS_A_DAY)
    }

    /// Returns today.
    pub fn today() -> Day {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Day(now.map_or(0, |now| now.as_secs()) / SECONDS_A_DAY)
    }

    /// Returns the day `days` later.
    #[must_use]
    pub fn plus(self, days: u64) -> Day {
        Day(self.0 + days)
    }

    /// Returns the days from `other` to this day, 0 if this day is earlier.
    pub fn since(self, other: Day) -> u64 {
        self.0.saturating_sub(other.0)
    }

    /// Returns year, month and day of the Gregorian calendar (Hinnant, "chrono-compatible low-level
    /// date algorithms", 2021). The computation uses years that begin in March, so that the leap
    /// day comes last.
    pub fn date(self) -> (i32, u8, u8) {
        let day = self.0 + 719_468;
        let (era, of_era) = (day / 146_097, day % 146_097);
        let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year + year / 4 - year / 100);
        let month = (5 * of_year + 2) / 153;
        let of_month = of_year - (153 * month + 2) / 5 + 1;
        let is_next = month >= 10;
        let month = if is_next { month - 9 } else { month + 3 };
        ((year + era * 400 + u64::from(is_next)) as i32, month as u8, of_month as u8)
    }
}

impl fmt::Display for Day {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = self.date();
        write!(to, "{year:04}-{month:02}-{day:02} (UTC)")
    }
}

/// A certificate and its last valid day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Validity {
    /// Its file.
    pub path: PathBuf,
    /// The day.
    pub last_day: Day,
}

/// Returns the time at which a certificate, or an intermediate one, expires. `None` if it never
/// expires, or if it has another fault, which the handshake reports.
pub(super) fn last_moment(
    verifier: &dyn ServerCertVerifier,
    chain: &[CertificateDer<'static>],
    name: &ServerName<'_>,
) -> Option<UnixTime> {
    let (own, between) = chain.split_first()?;
    match verifier.verify_server_cert(own, between, name, &[], NEVER) {
        Err(rustls::Error::InvalidCertificate(CertificateError::ExpiredContext { not_after, .. })) => {
            Some(not_after)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, CertifiedIssuer, IsCa, KeyPair};

    use super::*;
    use crate::{AUTHORITY_FILE, Credentials, CredentialsError, credential_files};

    #[test]
    fn days_have_dates() {
        let dates = [0, 59, 11_016, 19_782, 20_513, 47_541].map(|day| Day(day).to_string());
        let expected = ["1970-01-01", "1970-03-01", "2000-02-29", "2024-02-29", "2026-03-01", "2100-03-01"];
        assert_eq!(dates, expected.map(|date| format!("{date} (UTC)")));
    }

    /// Creates a directory with a certificate of `one` that expires at this date.
    fn create_directory(name: &str, year: i32, month: u8, day: u8) -> PathBuf {
        let directory = std::env::temp_dir().join(format!("isles-validity-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory");
        let mut parameters = CertificateParams::default();
        parameters.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = || KeyPair::generate().expect("a key");
        let authority = CertifiedIssuer::self_signed(parameters, key()).expect("an authority");
        let mut parameters = CertificateParams::new(["one".to_owned()]).expect("a name");
        parameters.not_after = rcgen::date_time_ymd(year, month, day);
        let own = key();
        let certificate = parameters.signed_by(&own, &authority).expect("a certificate");
        let [at, key_at] = credential_files(&directory, "one");
        std::fs::write(at, certificate.pem()).expect("a file");
        std::fs::write(key_at, own.serialize_pem()).expect("a file");
        std::fs::write(directory.join(AUTHORITY_FILE), authority.pem()).expect("a file");
        directory
    }

    #[test]
    fn an_expired_certificate_is_refused_with_file_and_date() {
        let directory = create_directory("expired", 2024, 2, 29);
        let refused = Credentials::of_directory(&directory, "one").expect_err("it is over");
        assert!(matches!(refused, CredentialsError::Expired(_)), "{refused}");
        let line = refused.to_string();
        assert!(line.contains("one.pem: expired, its last day was 2024-02-29 (UTC)"), "{line}");
        let (year, month, day) = Day::today().plus(9).date();
        let counts = create_directory("counts", year, month, day);
        let directories = [directory, counts, create_directory("never", 9999, 12, 31)];
        let of = |number: usize| Credentials::of_directory(&directories[number], "one").expect("it counts");
        let expires = of(1).expires().map(|validity| validity.last_day.since(Day::today()));
        // Midnight may pass during the test.
        assert!(matches!(expires, Some(8 | 9)), "{expires:?}");
        assert!(of(2).expires().is_some_and(|validity| validity.last_day.date().0 == 9999));
        directories.iter().for_each(|directory| std::fs::remove_dir_all(directory).expect("it was there"));
    }
}
