//! What pages are made of, those of this crate and of others: elements of HTML, and drawings.
//! Nothing here knows what a page tells.

pub mod html;
pub mod plot;
