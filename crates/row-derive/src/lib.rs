//! `#[derive(Row)]` and `#[derive(Value)]`.

use proc_macro::TokenStream;

/// See `engine::row`.
#[proc_macro_derive(Row, attributes(row))]
pub fn derive_row(_: TokenStream) -> TokenStream {
    TokenStream::new()
}

/// See `engine::row`.
#[proc_macro_derive(Value)]
pub fn derive_value(_: TokenStream) -> TokenStream {
    TokenStream::new()
}
