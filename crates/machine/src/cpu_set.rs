//! Sets of processor numbers, and the two formats in which the Linux kernel prints them.

use std::collections::BTreeSet;

/// A set of operating-system processor (or node) numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CpuSet(BTreeSet<u32>);

/// Larger numbers are errors: the largest Linux configurations stay far below it.
const NUMBER_MAX: u32 = 1 << 16;

impl CpuSet {
    /// The set of one number.
    pub(crate) fn single(number: u32) -> Self {
        Self(BTreeSet::from([number]))
    }

    /// Parses a kernel list such as `0-3,5`; `None` if the text is no list. The empty text is the
    /// empty set.
    pub(crate) fn parse_list(text: &str) -> Option<Self> {
        let mut set = BTreeSet::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (first, last) = match part.split_once('-') {
                Some((first, last)) => (first.parse().ok()?, last.parse().ok()?),
                None => {
                    let only: u32 = part.parse().ok()?;
                    (only, only)
                }
            };
            if first > last || last > NUMBER_MAX {
                return None;
            }
            set.extend(first..=last);
        }
        Some(Self(set))
    }

    /// Parses a kernel mask: 32-bit hexadecimal words separated by commas, the most significant
    /// first.
    pub(crate) fn parse_mask(text: &str) -> Option<Self> {
        let mut set = BTreeSet::new();
        for (position, word) in text.trim().rsplit(',').enumerate() {
            let bits = u32::from_str_radix(word.trim(), 16).ok()?;
            let base = u32::try_from(position).ok()?.checked_mul(32)?;
            set.extend((0..32).filter(|bit| bits >> bit & 1 == 1).map(|bit| base + bit));
        }
        Some(Self(set))
    }

    /// Parses a bitmap of hwloc: hexadecimal words such as `0x0000000f`, separated by commas, the
    /// most significant first, empty words being zero; `None` if the text is no bitmap, or
    /// infinite.
    pub(crate) fn parse_bitmap(text: &str) -> Option<Self> {
        let words = text.trim().split(',').map(|word| match word.trim() {
            "" => Some("0"),
            word => word.strip_prefix("0x"),
        });
        let set = Self::parse_mask(&words.collect::<Option<Vec<_>>>()?.join(","))?;
        set.0.last().is_none_or(|&last| last <= NUMBER_MAX).then_some(set)
    }

    /// The set as the kernel lists it: `0-3,8`.
    pub(crate) fn list(&self) -> String {
        let mut runs: Vec<(u32, u32)> = Vec::new();
        for number in self.iter() {
            match runs.last_mut() {
                Some((_, last)) if *last + 1 == number => *last = number,
                _ => runs.push((number, number)),
            }
        }
        let spell = |&(first, last): &(u32, u32)| {
            if first == last { first.to_string() } else { format!("{first}-{last}") }
        };
        runs.iter().map(spell).collect::<Vec<_>>().join(",")
    }

    pub(crate) fn contains(&self, number: u32) -> bool {
        self.0.contains(&number)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn first(&self) -> Option<u32> {
        self.0.first().copied()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().copied()
    }

    pub(crate) fn is_subset(&self, other: &Self) -> bool {
        self.0.is_subset(&other.0)
    }

    pub(crate) fn is_disjoint(&self, other: &Self) -> bool {
        self.0.is_disjoint(&other.0)
    }

    pub(crate) fn intersection(&self, other: &Self) -> Self {
        Self(self.0.intersection(&other.0).copied().collect())
    }

    pub(crate) fn difference(&self, other: &Self) -> Self {
        Self(self.0.difference(&other.0).copied().collect())
    }

    pub(crate) fn union(&self, other: &Self) -> Self {
        Self(self.0.union(&other.0).copied().collect())
    }
}

impl FromIterator<u32> for CpuSet {
    fn from_iter<I: IntoIterator<Item = u32>>(numbers: I) -> Self {
        Self(numbers.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::CpuSet;

    fn set(numbers: &[u32]) -> Option<CpuSet> {
        Some(numbers.iter().copied().collect())
    }

    #[test]
    fn lists_and_masks_are_read() {
        assert_eq!(CpuSet::parse_list("0-2,5,9-9"), set(&[0, 1, 2, 5, 9]));
        assert_eq!(CpuSet::parse_list(""), set(&[]));
        assert_eq!(CpuSet::parse_mask("00000001,80000005"), set(&[0, 2, 31, 32]));
        assert_eq!(CpuSet::parse_mask("f"), set(&[0, 1, 2, 3]));
        assert_eq!(CpuSet::parse_bitmap("0x80000000,,0x00000005"), set(&[0, 2, 95]));
        assert_eq!(set(&[0, 1, 2, 5, 9]).map(|set| set.list()), Some("0-2,5,9".to_owned()));
    }

    #[test]
    fn garbage_is_refused() {
        for text in ["x", "3-1", "0-99999999", "1-", "-1"] {
            assert_eq!(CpuSet::parse_list(text), None, "{text}");
        }
        for text in ["", "xyz", "0,,1"] {
            assert_eq!(CpuSet::parse_mask(text), None, "{text}");
        }
        for text in ["0xf...f,0x1", "f", "0xg"] {
            assert_eq!(CpuSet::parse_bitmap(text), None, "{text}");
        }
    }
}
