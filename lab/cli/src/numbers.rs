//! Numbers as people read them.

/// With a decimal prefix and four digits or so: `612.3 k`, `1.23 M`.
pub fn si(number: f64) -> String {
    // Rounding must not give `1000.0 k`.
    let scaled = [(1.0, ""), (1e3, " k"), (1e6, " M"), (1e9, " G")].map(|(unit, name)| (number / unit, name));
    let fitting = scaled.into_iter().find(|(value, _)| value.abs() < 999.95);
    let (value, name) = fitting.unwrap_or(scaled[3]);
    let digits = match (name, value.abs()) {
        ("", _) => 1,
        (_, magnitude) if magnitude < 9.995 => 2,
        _ => 1,
    };
    format!("{value:.digits$}{name}")
}

/// With commas between groups of three digits.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// A time given in microseconds; `-` where there is none.
pub fn microseconds(time: Option<f64>) -> String {
    match time {
        None => "-".to_owned(),
        // A moment before others begin to count.
        Some(time) if time < 0.0 => format!("-{}", microseconds(Some(-time))),
        Some(time) if time < 0.9995 => format!("{:.0} ns", time * 1e3),
        Some(time) if time < 999.95 => format!("{time:.1} us"),
        Some(time) if time < 999_950.0 => format!("{:.1} ms", time / 1e3),
        Some(time) => format!("{:.1} s", time / 1e6),
    }
}

/// A time given in seconds.
pub fn seconds(time: f64) -> String {
    microseconds(Some(time * 1e6))
}

/// With a binary prefix.
pub fn bytes(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1023.95 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{value:.1} {}", units[unit]) }
}

/// A share as percent. What is not zero does not read as zero.
pub fn percent(share: f64) -> String {
    if share > 0.0 && share < 0.0001 { "<0.01 %".to_owned() } else { format!("{:.2} %", share * 100.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        let si: Vec<String> = [0.0, 12.34, 999.94, 999.96, 9_994.0, 612_345.0, 999_960.0, 1_234_567.0, 5e12]
            .iter()
            .map(|number| si(*number))
            .collect();
        assert_eq!(
            si,
            ["0.0", "12.3", "999.9", "1.00 k", "9.99 k", "612.3 k", "1.00 M", "1.23 M", "5000.0 G"]
        );
        let grouped: Vec<String> = [0, 999, 1_000, 1_234_567].iter().map(|n| thousands(*n)).collect();
        assert_eq!(grouped, ["0", "999", "1,000", "1,234,567"]);
        let times: Vec<String> =
            [None, Some(0.85), Some(0.9999), Some(12.34), Some(999.99), Some(1.5e6)].map(microseconds).into();
        assert_eq!(times, ["-", "850 ns", "1.0 us", "12.3 us", "1.0 ms", "1.5 s"]);
        assert_eq!(seconds(-0.9375), "-937.5 ms");
        let sizes: Vec<String> = [0, 1023, 1024, 1 << 30, u64::MAX].iter().map(|n| bytes(*n)).collect();
        assert_eq!(sizes, ["0 B", "1023 B", "1.0 KiB", "1.0 GiB", "16777216.0 TiB"]);
        assert_eq!([0.0, 0.00001, 0.0123].map(percent), ["0.00 %", "<0.01 %", "1.23 %"]);
    }
}
