//! Code that rows and groups share. Offsets become constants `OFFSET_0`, `OFFSET_1`, .. and `END`, `ALIGN`, in the scope of
//! the generated implementation, because only the compiler knows how long a field's type is.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::Ident;

use crate::model::Struct;

/// The constant with the place of column number `position`.
pub fn offset(position: usize) -> Ident {
    format_ident!("OFFSET_{position}")
}

/// Definitions of the offsets, of `END` (bytes up to the end of the last field) and of `ALIGN`.
pub fn offsets(declared: &Struct) -> TokenStream {
    let engine = &declared.engine;
    let mut end = quote!(0);
    let mut definitions = TokenStream::new();
    let mut align = quote!(1);
    for (position, column) in declared.columns.iter().enumerate() {
        let (offset, kind) = (offset(position), &column.kind);
        definitions.extend(quote! {
            const #offset: usize = #engine::row::align_up(#end, <#kind as #engine::Value>::ALIGN);
        });
        end = quote!(#offset + <#kind as #engine::Value>::BYTES);
        align = quote!(maximum(#align, <#kind as #engine::Value>::ALIGN));
    }
    quote! {
        const fn maximum(left: usize, right: usize) -> usize {
            if left > right { left } else { right }
        }
        #definitions
        const END: usize = #end;
        const ALIGN: usize = #align;
    }
}

/// The descriptions of the columns, as an array expression.
pub fn columns(declared: &Struct) -> TokenStream {
    let engine = &declared.engine;
    let columns = declared.columns.iter().enumerate().map(|(position, column)| {
        let (name, kind, offset) = (column.text(), &column.kind, offset(position));
        quote! {
            #engine::Column {
                name: #name,
                offset: #offset,
                bytes: <#kind as #engine::Value>::BYTES,
                kind: <#kind as #engine::Value>::value_type,
                nullable: false,
            }
        }
    });
    quote!([#(#columns),*])
}

/// Names and types of the fields, as a list expression.
pub fn members(declared: &Struct) -> TokenStream {
    let engine = &declared.engine;
    let members = declared.columns.iter().map(|column| {
        let (name, kind) = (column.text(), &column.kind);
        quote!((::std::string::String::from(#name), <#kind as #engine::Value>::value_type()))
    });
    quote!(::std::vec![#(#members),*])
}

/// One constant a field: its place in `owner`.
pub fn constants(declared: &Struct, owner: &Ident) -> TokenStream {
    let engine = &declared.engine;
    let constants = declared.columns.iter().enumerate().map(|(position, column)| {
        let (visibility, constant, kind) = (&column.visibility, column.constant(), &column.kind);
        let offset = offset(position);
        let documentation = format!("Place of the field `{}`.", column.text());
        quote! {
            #[doc = #documentation]
            #[allow(dead_code)]
            #visibility const #constant: #engine::Field<#owner, #kind> = #engine::Field::new(#offset);
        }
    });
    quote!(#(#constants)*)
}

/// Statements that write all fields of `self` to `to`, which has `#length` bytes, and zeros between them: equal values
/// have equal bytes.
pub fn store(declared: &Struct, length: &TokenStream) -> TokenStream {
    let engine = &declared.engine;
    let mut end = quote!(0);
    let mut statements = quote!(let to = &mut to[..#length];);
    for (position, column) in declared.columns.iter().enumerate() {
        let (offset, name, kind) = (offset(position), &column.name, &column.kind);
        statements.extend(quote! {
            to[#end..#offset].fill(0);
            <#kind as #engine::Value>::store(&self.#name, &mut to[#offset..]);
        });
        end = quote!(#offset + <#kind as #engine::Value>::BYTES);
    }
    quote! {
        #statements
        to[END..].fill(0);
    }
}

/// The fields of a struct expression, read from `from`.
pub fn fetch(declared: &Struct) -> TokenStream {
    let engine = &declared.engine;
    let fields = declared.columns.iter().enumerate().map(|(position, column)| {
        let (offset, name, kind) = (offset(position), &column.name, &column.kind);
        quote!(#name: <#kind as #engine::Value>::fetch(&from[#offset..]))
    });
    quote!(#(#fields),*)
}
