//! Expansion of `#[derive(Value)]`: a struct with named fields becomes a group of columns, a struct
//! with one unnamed field the value of that field, an enum without fields a number.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DataEnum, DeriveInput, Error, Fields, Ident, Path, Result, Variant};

use crate::layout;
use crate::model::{Single, Struct};

/// Number of values of an enum without `#[repr(..)]`.
const VARIANTS_MAX: usize = 256;

/// Generates the implementation of `Value`, and of `Key` if requested.
pub fn expand(input: &DeriveInput, schema: &Path) -> Result<TokenStream> {
    match &input.data {
        Data::Enum(data) => choice(input, data, &Single::of(input, schema)?),
        Data::Struct(data) => match &data.fields {
            Fields::Unnamed(fields) if fields.unnamed.len() == 1 => {
                Ok(wrapper(&input.ident, &fields.unnamed[0].ty, &Single::of(input, schema)?))
            }
            _ => group(input, schema),
        },
        Data::Union(_) => group(input, schema),
    }
}

/// Generates the code of a struct around one value.
fn wrapper(name: &Ident, kind: &syn::Type, single: &Single) -> TokenStream {
    let schema = &single.schema;
    let key = single.is_key.then(|| {
        quote! {
            impl #schema::Key for #name {
                const BITS: u32 = <#kind as #schema::Key>::BITS;
                #[inline(always)]
                fn append(&self, to: &mut impl #schema::KeySink) {
                    #schema::Key::append(&self.0, to);
                }
            }
        }
    });
    quote! {
        impl #schema::Value for #name {
            const BYTES: usize = <#kind as #schema::Value>::BYTES;
            const ALIGN: usize = <#kind as #schema::Value>::ALIGN;
            fn value_type() -> #schema::ValueType {
                <#kind as #schema::Value>::value_type()
            }
            #[inline(always)]
            fn store(&self, to: &mut [u8]) {
                #schema::Value::store(&self.0, to);
            }
            #[inline(always)]
            fn fetch(from: &[u8]) -> Self {
                #name(#schema::Value::fetch(from))
            }
        }
        #key
    }
}

/// Generates the code of an enum whose variants have no fields.
fn choice(input: &DeriveInput, data: &DataEnum, single: &Single) -> Result<TokenStream> {
    let (name, schema) = (&input.ident, &single.schema);
    if data.variants.is_empty() {
        return Err(Error::new_spanned(name, "an enum without variants has no values"));
    }
    if let Some(variant) = data.variants.iter().find(|variant| !variant.fields.is_empty()) {
        return Err(Error::new_spanned(
            variant,
            "a variant with fields has no fixed layout: make the fields columns",
        ));
    }
    let number = match number_type(input)? {
        Some(number) => number,
        None if data.variants.len() <= VARIANTS_MAX => Ident::new("u8", name.span()),
        None => {
            return Err(Error::new_spanned(name, "more than 256 variants: say how long with #[repr(u16)]"));
        }
    };
    let variants: Vec<&Ident> = data.variants.iter().map(|variant| &variant.ident).collect();
    let unknown = match other(data)? {
        Some(other) => quote!(#name::#other),
        None => {
            let text = format!(
                "no variant of {name} has the number {{number}}: a later version of the program has written it"
            );
            quote!(::core::panic!(#text))
        }
    };
    let key = single.is_key.then(|| {
        quote! {
            impl #schema::Key for #name {
                const BITS: u32 = <#number as #schema::Key>::BITS;
                #[inline(always)]
                fn append(&self, to: &mut impl #schema::KeySink) {
                    let number: #number = match self { #(#name::#variants => #name::#variants as #number),* };
                    #schema::Key::append(&number, to);
                }
            }
        }
    });
    Ok(quote! {
        const _: () = {
            #(::core::assert!(
                #name::#variants as i128 == #name::#variants as #number as i128,
                "a variant's number is too large: say how long numbers are with #[repr(u16)]"
            );)*
        };
        impl #schema::Value for #name {
            const BYTES: usize = <#number as #schema::Value>::BYTES;
            const ALIGN: usize = <#number as #schema::Value>::ALIGN;
            fn value_type() -> #schema::ValueType {
                <#number as #schema::Value>::value_type()
            }
            #[inline(always)]
            fn store(&self, to: &mut [u8]) {
                let number: #number = match self { #(#name::#variants => #name::#variants as #number),* };
                #schema::Value::store(&number, to);
            }
            #[inline(always)]
            fn fetch(from: &[u8]) -> Self {
                let number: #number = #schema::Value::fetch(from);
                #(if number == #name::#variants as #number {
                    return #name::#variants;
                })*
                #unknown
            }
        }
        #key
    })
}

/// Returns the integer type in `#[repr(..)]`.
fn number_type(input: &DeriveInput) -> Result<Option<Ident>> {
    let mut found = None;
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("repr")) {
        attribute.parse_nested_meta(|meta| {
            let name = meta.path.get_ident().cloned();
            found = name.filter(|name| {
                ["u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64"].iter().any(|number| name == number)
            });
            match found {
                Some(_) => Ok(()),
                None => {
                    Err(meta.error("expected an integer of 1 to 8 bytes: its length is part of the layout"))
                }
            }
        })?;
    }
    Ok(found)
}

/// Returns the variant for all numbers that no variant has.
fn other(data: &DataEnum) -> Result<Option<&Ident>> {
    let mut found = None;
    for variant in &data.variants {
        let Variant { attrs, ident, .. } = variant;
        for attribute in attrs.iter().filter(|attribute| attribute.path().is_ident("row")) {
            attribute.parse_nested_meta(|meta| {
                let is_other = meta.path.is_ident("other") && found.is_none();
                found = Some(ident);
                if is_other { Ok(()) } else { Err(meta.error("expected `other`, at one variant")) }
            })?;
        }
    }
    Ok(found)
}

/// Generates the code of a struct with named fields.
fn group(input: &DeriveInput, schema: &Path) -> Result<TokenStream> {
    let declared = Struct::value(input, schema)?;
    let (name, schema) = (&input.ident, &declared.schema);
    let length = quote!(<#name as #schema::Value>::BYTES);
    let offsets = layout::offsets(&declared);
    let members = layout::members(&declared);
    let constants = layout::constants(&declared, name);
    let store = layout::store(&declared, &length);
    let fields = layout::fetch(&declared);
    Ok(quote! {
        const _: () = {
            #offsets
            impl #schema::Value for #name {
                const BYTES: usize = #schema::row::align_up(END, ALIGN);
                const ALIGN: usize = ALIGN;
                fn value_type() -> #schema::ValueType {
                    #schema::ValueType::Group(#members)
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
        expand(&input, &syn::parse_quote!(::schema)).expect_err("must be refused").to_string()
    }

    #[test]
    fn wrong_groups_are_refused() {
        assert!(error("#[row(key(a))] struct Group { a: u8 }").contains("no keys"));
        assert!(error("struct Group { a: u8, #[row(tail)] b: Vec<u8> }").contains("no tail"));
        assert!(error("struct Group { a: u8, b: String }").contains("no tail"));
        assert!(error("struct Group { a: Option<u8> }").contains("as a whole"));
        assert!(error("struct Group {}").contains("at least one field"));
        assert!(error("#[row(key)] struct Group { a: u8 }").contains("no part of a key"));
        assert!(error("struct Group(u8, u8);").contains("named fields"));
    }

    #[test]
    fn wrong_single_values_are_refused() {
        assert!(error("enum Choice {}").contains("no values"));
        assert!(error("enum Choice { A(u8) }").contains("no fixed layout"));
        assert!(error("#[repr(usize)] enum Choice { A }").contains("integer of 1 to 8 bytes"));
        assert!(error("enum Choice { #[row(others)] A }").contains("expected `other`"));
        assert!(error("enum Choice { #[row(other)] A, #[row(other)] B }").contains("at one variant"));
        assert!(error("#[row(key(a))] enum Choice { A }").contains("no keys of its own"));
        assert!(error("struct Wrapper<T>(T);").contains("no generic parameters"));
    }
}
