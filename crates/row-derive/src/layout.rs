//! Code shared by rows and groups. Offsets are constants `OFFSET_0`, `OFFSET_1`, .. and `END`,
//! `ALIGN` in the scope of the generated implementation, because only the compiler knows the length
//! of a field's type.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::Ident;

use crate::model::Struct;

/// Returns the constant with the offset of column number `position`.
pub fn offset(position: usize) -> Ident {
    format_ident!("OFFSET_{position}")
}

/// Definitions of the offsets, of `END` (bytes up to the end of the last field) and of `ALIGN`.
pub fn offsets(declared: &Struct) -> TokenStream {
    let schema = &declared.schema;
    let mut end = quote!(0);
    let mut definitions = TokenStream::new();
    let mut align = quote!(1);
    for (position, column) in declared.columns.iter().enumerate() {
        let (offset, kind) = (offset(position), &column.kind);
        definitions.extend(quote! {
            const #offset: usize = #schema::row::align_up(#end, <#kind as #schema::Value>::ALIGN);
        });
        end = quote!(#offset + <#kind as #schema::Value>::BYTES);
        align = quote!(maximum(#align, <#kind as #schema::Value>::ALIGN));
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
    let schema = &declared.schema;
    let columns = declared.columns.iter().enumerate().map(|(position, column)| {
        let (name, kind, offset, nullable) = (column.text(), &column.kind, offset(position), column.nullable);
        quote! {
            #schema::Column {
                name: #name,
                offset: #offset,
                bytes: <#kind as #schema::Value>::BYTES,
                kind: <#kind as #schema::Value>::value_type,
                nullable: #nullable,
            }
        }
    });
    quote!([#(#columns),*])
}

/// Names and types of the fields, as a list expression.
pub fn members(declared: &Struct) -> TokenStream {
    let schema = &declared.schema;
    let members = declared.columns.iter().map(|column| {
        let (name, kind) = (column.text(), &column.kind);
        quote!((::std::string::String::from(#name), <#kind as #schema::Value>::value_type()))
    });
    quote!(::std::vec![#(#members),*])
}

/// One constant for each field: its place in `owner`.
pub fn constants(declared: &Struct, owner: &Ident) -> TokenStream {
    let schema = &declared.schema;
    let constants = declared.columns.iter().enumerate().map(|(position, column)| {
        let (visibility, constant, kind) = (&column.visibility, column.constant(), &column.kind);
        let offset = offset(position);
        let documentation = format!("Place of the field `{}`.", column.text());
        if let Some(bit) = null_bit(declared, position) {
            return quote! {
                #[doc = #documentation]
                #[allow(dead_code)]
                #visibility const #constant: #schema::NullableField<#owner, #kind> =
                    #schema::NullableField::new(#offset, END, #bit);
            };
        }
        quote! {
            #[doc = #documentation]
            #[allow(dead_code)]
            #visibility const #constant: #schema::Field<#owner, #kind> = #schema::Field::new(#offset);
        }
    });
    quote!(#(#constants)*)
}

/// Statements that write all fields of `self` to `to`, which has `#length` bytes, and zeros between
/// them, so that equal values have equal bytes.
pub fn store(declared: &Struct, length: &TokenStream) -> TokenStream {
    let schema = &declared.schema;
    let mut end = quote!(0);
    let mut statements = quote!(let to = &mut to[..#length];);
    for (position, column) in declared.columns.iter().enumerate() {
        let (offset, name, kind) = (offset(position), &column.name, &column.kind);
        statements.extend(quote!(to[#end..#offset].fill(0);));
        statements.extend(match column.nullable {
            false => quote!(<#kind as #schema::Value>::store(&self.#name, &mut to[#offset..]);),
            true => quote! {
                match &self.#name {
                    ::core::option::Option::Some(value) => {
                        <#kind as #schema::Value>::store(value, &mut to[#offset..]);
                    }
                    ::core::option::Option::None => {
                        to[#offset..#offset + <#kind as #schema::Value>::BYTES].fill(0);
                    }
                }
            },
        });
        end = quote!(#offset + <#kind as #schema::Value>::BYTES);
    }
    let nulls = declared.columns.iter().enumerate().filter_map(|(position, column)| {
        let (bit, name) = (null_bit(declared, position)?, &column.name);
        let (byte, mask) = (bit / 8, 1_u8 << (bit % 8));
        Some(quote! {
            if self.#name.is_none() {
                to[END + #byte] |= #mask;
            }
        })
    });
    quote! {
        #statements
        to[END..].fill(0);
        #(#nulls)*
    }
}

/// Returns the number of a column's null bit, if it is nullable.
fn null_bit(declared: &Struct, position: usize) -> Option<usize> {
    let nullable = |column: &&crate::model::Column| column.nullable;
    nullable(&&declared.columns[position])
        .then(|| declared.columns[..position].iter().filter(nullable).count())
}

/// Returns the number of bytes of the null bits.
pub fn null_bytes(declared: &Struct) -> usize {
    declared.columns.iter().filter(|column| column.nullable).count().div_ceil(8)
}

/// The fields of a struct expression, read from `from`.
pub fn fetch(declared: &Struct) -> TokenStream {
    let schema = &declared.schema;
    let fields = declared.columns.iter().enumerate().map(|(position, column)| {
        let (offset, name, kind) = (offset(position), &column.name, &column.kind);
        let value = quote!(<#kind as #schema::Value>::fetch(&from[#offset..]));
        match null_bit(declared, position) {
            None => quote!(#name: #value),
            Some(bit) => {
                let (byte, mask) = (bit / 8, 1_u8 << (bit % 8));
                quote! {
                    #name: match from[END + #byte] & #mask {
                        0 => ::core::option::Option::Some(#value),
                        _ => ::core::option::Option::None,
                    }
                }
            }
        }
    });
    quote!(#(#fields,)*)
}
