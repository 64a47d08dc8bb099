//! `#[derive(Value)]`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{DeriveInput, Path, Result};

use crate::layout;
use crate::model::Struct;

/// The implementation of `Value`, with the constants of the fields.
pub fn expand(input: &DeriveInput, engine: &Path) -> Result<TokenStream> {
    let declared = Struct::value(input, engine)?;
    let (name, engine) = (&input.ident, &declared.engine);
    let length = quote!(<#name as #engine::Value>::BYTES);
    let offsets = layout::offsets(&declared);
    let members = layout::members(&declared);
    let constants = layout::constants(&declared, name);
    let store = layout::store(&declared, &length);
    let fields = layout::fetch(&declared);
    Ok(quote! {
        const _: () = {
            #offsets
            impl #engine::Value for #name {
                const BYTES: usize = #engine::row::align_up(END, ALIGN);
                const ALIGN: usize = ALIGN;
                fn value_type() -> #engine::ValueType {
                    #engine::ValueType::Group(#members)
                }
                #[inline(always)]
                fn store(&self, to: &mut [u8]) {
                    #store
                }
                #[inline(always)]
                fn fetch(from: &[u8]) -> Self {
                    let from = &from[..#length];
                    #name { #fields }
                }
            }
            impl #name {
                #constants
            }
        };
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(source: &str) -> String {
        let input = syn::parse_str(source).expect("test source");
        expand(&input, &syn::parse_quote!(::engine)).expect_err("must be refused").to_string()
    }

    #[test]
    fn wrong_groups_are_refused() {
        assert!(error("#[row(key(a))] struct Group { a: u8 }").contains("no keys"));
        assert!(error("struct Group { a: u8, #[row(tail)] b: Vec<u8> }").contains("no tail"));
        assert!(error("struct Group {}").contains("at least one field"));
    }
}
