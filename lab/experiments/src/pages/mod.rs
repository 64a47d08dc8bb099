//! Elements of pages, for this crate and others: HTML and drawings, independent of a page's
//! content.

pub mod html;
pub mod plot;
