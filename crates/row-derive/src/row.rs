//! Expansion of `#[derive(Row)]`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{DeriveInput, Path, Result};

use crate::layout;
use crate::model::{Column, Index, KeyColumn, Struct, Tail, TailColumn, TailForm, upper};

/// Generates the implementation of `Row`, and the constants of fields and indexes.
pub fn expand(input: &DeriveInput, schema: &Path) -> Result<TokenStream> {
    let declared = Struct::row(input, schema)?;
    let (name, schema) = (&input.ident, &declared.schema);
    let offsets = layout::offsets(&declared);
    let fields = layout::constants(&declared, name);
    let indexes = index_constants(&declared, input);
    let checks = key_checks(&declared);
    let constants = trait_constants(&declared, name);
    let functions = trait_functions(&declared, name);
    Ok(quote! {
        const _: () = {
            #offsets
            #checks
            impl #schema::Row for #name {
                #constants
                #functions
            }
            impl #name {
                #indexes
                #fields
            }
        };
    })
}

/// The type of an index's complete key.
fn key_type(declared: &Struct, index: &Index) -> TokenStream {
    let schema = &declared.schema;
    let mut kinds: Vec<_> = index.columns.iter().map(|column| column_type(declared, column)).collect();
    if index.has_distinct_nulls {
        let primary = key_type(declared, &declared.indexes[0]);
        kinds.push(quote!(#schema::DistinctNulls<#primary>));
    }
    match kinds.as_slice() {
        [kind] => quote!(#kind),
        kinds => quote!((#(#kinds),*)),
    }
}

/// The type of a column in keys.
fn column_type(declared: &Struct, column: &KeyColumn) -> TokenStream {
    let (schema, Column { kind, nullable, .. }) = (&declared.schema, declared.column(column.place));
    // A descending column is the reverse of one whose nulls are at the other end.
    let ascending = match (nullable, column.nulls_first != column.descending) {
        (false, _) => quote!(#kind),
        (true, false) => quote!(::core::option::Option<#kind>),
        (true, true) => quote!(#schema::NullsFirst<#kind>),
    };
    if column.descending { quote!(::core::cmp::Reverse<#ascending>) } else { ascending }
}

/// Expression of a column's order.
fn order(declared: &Struct, column: &KeyColumn) -> TokenStream {
    let (schema, KeyColumn { descending, nulls_first, .. }) = (&declared.schema, column);
    quote!(#schema::KeyOrder { descending: #descending, nulls_first: #nulls_first })
}

/// Statements that append a key of `self` to `to`.
fn append_key(declared: &Struct, index: &Index) -> TokenStream {
    let schema = &declared.schema;
    let columns = index.columns.iter().map(|key_column| {
        let Column { name, nullable, .. } = declared.column(key_column.place);
        let order = order(declared, key_column);
        match nullable {
            false if !key_column.descending => quote!(#schema::Key::append(&self.#name, to);),
            false => quote!(#schema::key_order::append_value(&self.#name, #order, to);),
            true => quote!(#schema::key_order::append_option(self.#name.as_ref(), #order, to);),
        }
    });
    let nulls = index.has_distinct_nulls.then(|| {
        let nullable = index.columns.iter().map(|column| declared.column(column.place));
        let names = nullable.filter(|column| column.nullable).map(|column| &column.name);
        let primary = &declared.indexes[0];
        let appended = append_key(declared, primary);
        quote! {
            if #(self.#names.is_none())||* {
                #appended
            }
        }
    });
    quote!(#(#columns)* #nulls)
}

/// Checks at compile time that no key is too long.
fn key_checks(declared: &Struct) -> TokenStream {
    let schema = &declared.schema;
    let checks = declared.indexes.iter().map(|index| {
        let kind = key_type(declared, index);
        let most = quote!(#schema::key::KEY_BYTES_MAX);
        let message = format!("the key `{}` is longer than 2048 bytes", index.name);
        quote! {
            const _: () = assert!(<#kind as #schema::Key>::BITS as usize <= 8 * #most, #message);
        }
    });
    quote!(#(#checks)*)
}

/// Generates `KEY` and one constant for each index.
fn index_constants(declared: &Struct, input: &DeriveInput) -> TokenStream {
    let (schema, name, visibility) = (&declared.schema, &input.ident, &input.vis);
    let constants = declared.indexes.iter().enumerate().map(|(number, index)| {
        let (constant, kind) = (upper(&index.name), key_type(declared, index));
        let documentation = match number {
            0 => "The primary key.".to_string(),
            _ => format!("The index `{}`.", index.name),
        };
        quote! {
            #[doc = #documentation]
            #[allow(dead_code)]
            #visibility const #constant: #schema::IndexId<#name, #kind> = #schema::IndexId::new(#number);
        }
    });
    quote!(#(#constants)*)
}

fn trait_constants(declared: &Struct, name: &syn::Ident) -> TokenStream {
    let schema = &declared.schema;
    let columns = layout::columns(declared);
    let indexes = declared.indexes.iter().enumerate().map(|(number, index)| {
        let text = match number {
            0 => "primary".to_string(),
            _ => index.name.to_string(),
        };
        let names = index.columns.iter().map(|column| declared.column(column.place).text());
        let is_ordered = |column: &KeyColumn| column.descending || column.nulls_first;
        let ordered = index.columns.iter().rposition(is_ordered).map_or(0, |last| last + 1);
        let orders = index.columns[..ordered].iter().map(|column| order(declared, column));
        let (unique, nulls_not_distinct) = (index.unique, index.nulls_not_distinct);
        let kind = key_type(declared, index);
        quote! {
            #schema::IndexInfo {
                name: #text,
                unique: #unique,
                nulls_not_distinct: #nulls_not_distinct,
                columns: &[#(#names),*],
                orders: &[#(#orders),*],
                key_bits: <#kind as #schema::Key>::BITS,
                variable: <#kind as #schema::Key>::VARIABLE,
            }
        }
    });
    let (text, has_tail) = (name.to_string(), !matches!(declared.tail, Tail::None));
    let tail = match &declared.tail {
        Tail::None => quote!(),
        Tail::Whole(tail) => {
            let name = tail.text();
            quote!(const TAIL_NAME: &'static str = #name;)
        }
        Tail::Columns(columns) => {
            let columns = columns.iter().map(|TailColumn { column, position, form }| {
                let (name, field, nullable) = (column.text(), &column.kind, column.nullable);
                let kind = match form {
                    TailForm::Bytes => quote!(#schema::row::bytes_type),
                    TailForm::Text | TailForm::Other => {
                        quote!(<#field as #schema::row::TailValue>::value_type)
                    }
                };
                quote! {
                    #schema::TailColumn { name: #name, position: #position, kind: #kind, nullable: #nullable }
                }
            });
            quote!(const TAIL_COLUMNS: &'static [#schema::TailColumn] = &[#(#columns),*];)
        }
    };
    let null_bytes = layout::null_bytes(declared);
    let key = key_type(declared, &declared.indexes[0]);
    quote! {
        const NAME: &'static str = #text;
        const BYTES: usize = #schema::row::row_bytes(END + #null_bytes);
        const COLUMNS: &'static [#schema::Column] = &#columns;
        const INDEXES: &'static [#schema::IndexInfo] = &[#(#indexes),*];
        const HAS_TAIL: bool = #has_tail;
        #tail
        type Key = #key;
    }
}

fn trait_functions(declared: &Struct, name: &syn::Ident) -> TokenStream {
    let schema = &declared.schema;
    let length = quote!(<#name as #schema::Row>::BYTES);
    let store = layout::store(declared, &length);
    let fields = layout::fetch(declared);
    let key = declared.indexes[0].columns.iter().map(|key_column| {
        let column = &declared.column(key_column.place).name;
        match key_column.descending {
            false => quote!(::core::clone::Clone::clone(&self.#column)),
            true => quote!(::core::cmp::Reverse(::core::clone::Clone::clone(&self.#column))),
        }
    });
    let appends = declared.indexes.iter().enumerate().map(|(number, index)| {
        let appended = append_key(declared, index);
        quote!(#number => { #appended })
    });
    let (tail_read, tail_fields, tail_function) = tail(declared);
    quote! {
        #[inline(always)]
        fn key(&self) -> Self::Key {
            (#(#key),*)
        }
        #[inline(always)]
        fn index_key(&self, index: usize, to: &mut impl #schema::KeySink) {
            match index {
                #(#appends)*
                _ => ::core::panic!("{} has no index number {index}", <#name as #schema::Row>::NAME),
            }
        }
        #[inline(always)]
        fn store(&self, to: &mut [u8]) {
            #store
        }
        #[inline(always)]
        #[allow(unused_variables)]
        fn fetch(from: &[u8], tail: &[u8]) -> Self {
            let from = &from[..#length];
            #tail_read
            #name { #fields #tail_fields }
        }
        #tail_function
    }
}

/// Generates the code that reads the variable-length part, its fields in a struct expression, and
/// the code that writes it.
fn tail(declared: &Struct) -> (TokenStream, TokenStream, TokenStream) {
    let schema = &declared.schema;
    match &declared.tail {
        Tail::None => (quote!(), quote!(), quote!()),
        Tail::Whole(tail) => {
            let (tail, kind) = (&tail.name, &tail.kind);
            let field = quote!(#tail: <#kind as ::core::convert::From<&[u8]>>::from(tail));
            let function = quote! {
                #[inline(always)]
                fn tail(&self) -> ::std::borrow::Cow<'_, [u8]> {
                    ::std::borrow::Cow::Borrowed(::core::convert::AsRef::<[u8]>::as_ref(&self.#tail))
                }
            };
            (quote!(), field, function)
        }
        Tail::Columns(columns) => {
            let fields = columns.iter().enumerate().map(|(number, TailColumn { column, form, .. })| {
                let (name, kind) = (&column.name, &column.kind);
                let value = match form {
                    TailForm::Text => quote!(columns.text(#number)),
                    TailForm::Bytes => quote!(columns.bytes(#number).map(<[u8]>::to_vec)),
                    TailForm::Other => {
                        quote!(columns.bytes(#number).map(<#kind as #schema::row::TailValue>::from_bytes))
                    }
                };
                match column.nullable {
                    true => quote!(#name: #value),
                    false => quote!(#name: #value.unwrap_or_default()),
                }
            });
            let written = columns.iter().map(|TailColumn { column, form, .. }| {
                let (name, kind) = (&column.name, &column.kind);
                let bytes = match form {
                    TailForm::Text => quote!(::std::string::String::as_bytes),
                    TailForm::Bytes => quote!(::std::vec::Vec::as_slice),
                    TailForm::Other => {
                        let bytes = quote!(<#kind as #schema::row::TailValue>::to_bytes);
                        return match column.nullable {
                            true => quote!(to.column(self.#name.as_ref().map(#bytes).as_deref());),
                            false => quote!(to.column(::core::option::Option::Some(&*#bytes(&self.#name)));),
                        };
                    }
                };
                match column.nullable {
                    true => quote!(to.column(self.#name.as_ref().map(#bytes));),
                    false => quote!(to.column(::core::option::Option::Some(#bytes(&self.#name)));),
                }
            });
            let function = quote! {
                fn tail(&self) -> ::std::borrow::Cow<'_, [u8]> {
                    let mut to = #schema::row::TailWriter::new();
                    #(#written)*
                    ::std::borrow::Cow::Owned(to.into_tail())
                }
            };
            (quote!(let columns = #schema::row::TailColumns::of(tail);), quote!(#(#fields),*), function)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(source: &str) -> String {
        let input = syn::parse_str(source).expect("test source");
        expand(&input, &syn::parse_quote!(::schema)).expect_err("must be refused").to_string()
    }

    #[test]
    fn wrong_rows_are_refused_with_a_reason() {
        for (source, reason) in [
            ("struct Row { a: u8 }", "needs a primary key"),
            ("#[row(key())] struct Row { a: u8 }", "at least one column"),
            ("#[row(key(a), key(a))] struct Row { a: u8 }", "one primary key"),
            ("#[row(key(b))] struct Row { a: u8 }", "no column `b`: the row has a"),
            ("#[row(key(a, a))] struct Row { a: u8 }", "appears twice"),
            ("#[row(key(a), index(by_b(b)))] struct Row { a: u8 }", "no column `b`"),
            ("#[row(key(a), index(a(a)))] struct Row { a: u8 }", "two meanings"),
            ("#[row(key(key))] struct Row { key: u8, primary_key: u8 }", "two meanings"),
            ("#[row(key(a), colour = 1)] struct Row { a: u8 }", "expected `key"),
            ("#[row(key(a))] struct Row { a: u8, #[row(tail)] b: Vec<u8>, c: u8 }", "must be the last"),
            ("#[row(key(a))] struct Row { a: u8, b: String, #[row(tail)] c: Vec<u8> }", "alone of its kind"),
            ("#[row(key(b))] struct Row { a: u8, b: Option<u8> }", "may be without a value"),
            ("#[row(key(a), index(by_a(nulls_first(a))))] struct Row { a: u8 }", "it is no `Option`"),
            ("#[row(key(asc(a)))] struct Row { a: u8 }", "expected a column, `desc(column)`"),
            ("#[row(key(desc(desc(a))))] struct Row { a: u8 }", "expected a column, `desc(column)`"),
            ("#[row(key(desc(a b)))] struct Row { a: u8, b: u8 }", "expected one column"),
            (
                "#[row(key(a), unique_index(by_a(a) nulls))] struct Row { a: u8 }",
                "expected `nulls_not_distinct`",
            ),
            ("#[row(key(a), index(by_a(a) nulls_not_distinct))] struct Row { a: u8 }", "expected `,`"),
            ("#[row(key(b))] struct Row { a: u8, #[row(tail)] b: Vec<u8> }", "is all of the tail"),
            ("#[row(key(a))] struct Row { a: u8, #[row(tall)] b: Vec<u8> }", "expected `tail`"),
            ("#[row(key(a))] struct Row { #[row(tail)] a: Vec<u8> }", "at least one field"),
            ("#[row(key(a))] struct Row<T> { a: T }", "no generic parameters"),
            ("#[row(key(a))] struct Row(u8);", "named fields"),
            ("#[row(key(a))] enum Row { A }", "only a struct"),
        ] {
            let message = error(source);
            assert!(message.contains(reason), "{source}: {message}");
        }
    }

    #[test]
    fn too_many_columns_are_refused() {
        let source = "#[row(key(a, b, c, d, e), index(by(f, g, h, i, j, k, l, m)))] struct Row { a: u8, b: u8, \
                      c: u8, d: u8, e: u8, f: u8, g: u8, h: u8, i: u8, j: u8, k: u8, l: u8, m: u8 }";
        assert!(error(source).contains("has 13 with those of the primary key"));
    }
}
