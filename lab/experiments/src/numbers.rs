//! Formats of numbers for people: about four digits, decimal prefixes.

/// Without a prefix: four significant digits, integers whole, very large and very small ones with
/// an exponent.
pub fn plain(number: f64) -> String {
    let magnitude = number.abs();
    if number == 0.0 {
        return "0".to_owned();
    }
    if !(1e-4..1e15).contains(&magnitude) {
        return format!("{number:.3e}");
    }
    let digits = (3 - magnitude.log10().floor() as i32).clamp(0, 8) as usize;
    trimmed(format!("{number:.digits$}"))
}

/// With a decimal prefix: `612.3 k`, `1.23 M`.
pub fn si(number: f64) -> String {
    const UNITS: [(f64, &str); 5] = [(1.0, ""), (1e3, " k"), (1e6, " M"), (1e9, " G"), (1e12, " T")];
    // Rounding must not give `1000 k`.
    let fits = |unit: f64| (number / unit).abs() < 999.95;
    let (unit, name) = UNITS.into_iter().find(|(unit, _)| fits(*unit)).unwrap_or(UNITS[4]);
    let value = number / unit;
    let digits = match value.abs() {
        magnitude if magnitude < 9.995 => 2,
        magnitude if magnitude < 99.95 => 1,
        _ => 0,
    };
    format!("{}{name}", trimmed(format!("{value:.digits$}")))
}

/// A share as percent. Small shares other than zero are not rounded to zero.
pub fn percent(share: f64) -> String {
    match share {
        share if share > 0.0 && share < 0.0001 => "<0.01 %".to_owned(),
        share if share >= 0.1 => format!("{:.1} %", share * 100.0),
        share => format!("{:.2} %", share * 100.0),
    }
}

/// Removes zeros at the end of the decimals.
fn trimmed(text: String) -> String {
    if !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        let plain = [0.0, 1.0, -2.5, 516.8, 0.123456, 1234.56, 12_345_678.9, 1e-7, 1e300].map(plain);
        assert_eq!(plain, ["0", "1", "-2.5", "516.8", "0.1235", "1235", "12345679", "1.000e-7", "1.000e300"]);
        let si = [0.0, 12.34, 999.96, 9_994.0, 612_345.0, 999_960.0, 1_234_567.0, 5e15].map(si);
        assert_eq!(si, ["0", "12.3", "1 k", "9.99 k", "612 k", "1 M", "1.23 M", "5000 T"]);
        assert_eq!([0.0, 0.00001, 0.0123, 0.5].map(percent), ["0.00 %", "<0.01 %", "1.23 %", "50.0 %"]);
    }
}
