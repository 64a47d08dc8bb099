//! Attributes of elements.

use roxmltree::Node as Element;

/// An attribute that is a number.
pub(super) fn attribute_number(object: &Element<'_, '_>, name: &str) -> Option<u64> {
    object.attribute(name)?.trim().parse().ok()
}
