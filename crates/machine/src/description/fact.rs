//! Values with their confidence and source.

/// Confidence in a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// A published measurement of this machine.
    Measured,
    /// A published measurement of the same processor family.
    Family,
    /// Derived by rule, or from general knowledge.
    Estimate,
}

impl Confidence {
    /// Names of the confidences in files.
    pub(super) const NAMES: &str = "measured, family or estimate";

    pub(super) fn parse(name: &str) -> Option<Self> {
        let all = [Confidence::Measured, Confidence::Family, Confidence::Estimate];
        all.into_iter().find(|confidence| confidence.to_string() == name)
    }
}

impl std::fmt::Display for Confidence {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Confidence::Measured => "measured",
            Confidence::Family => "family",
            Confidence::Estimate => "estimate",
        })
    }
}

/// A value with its confidence and source.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Fact<T> {
    /// The value.
    pub value: T,
    /// Confidence in the value.
    pub confidence: Confidence,
    /// Source of the value: a publication, or the rule that it follows from.
    pub source: String,
}

impl<T> Fact<T> {
    pub(crate) fn estimate(value: T, rule: &str) -> Self {
        Self { value, confidence: Confidence::Estimate, source: rule.to_owned() }
    }
}

/// A square matrix over the nodes of a machine, in the order of [`crate::Topology::nodes`], row =
/// requester.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct FactMatrix {
    /// The values.
    pub values: Vec<Vec<f64>>,
    /// Confidence in each value.
    pub confidence: Vec<Vec<Confidence>>,
    /// Source of the values.
    pub source: String,
}
