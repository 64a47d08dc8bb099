//! What elements say by attributes.

use roxmltree::Node as Element;

/// A number that an attribute says.
pub(super) fn attribute_number(object: &Element<'_, '_>, name: &str) -> Option<u64> {
    object.attribute(name)?.trim().parse().ok()
}
