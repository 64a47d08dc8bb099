//! `#[derive(Row)]` and `#[derive(Value)]`: typed rows and groups of fixed layout. `schema::row`
//! documents both.
//!
//! - `model`: parses the struct and its attributes, and reports mistakes;
//! - `layout`: code shared by both derives: offsets, columns, field constants, storing and
//!   fetching;
//! - `row`, `value`: the implementations.
//!
//! The generated code refers to the crate `schema` as `::schema`. Users of the embedded library
//! depend on `isles` alone, which re-exports [`macro@EmbeddedRow`] and [`macro@EmbeddedValue`] as
//! `Row` and `Value`; their code refers to `::isles::schema`. `#[row(crate = path)]` sets any other
//! path.

#![forbid(unsafe_code)]

mod layout;
mod model;
mod row;
mod value;

use proc_macro::TokenStream;
use syn::{DeriveInput, Path, parse_macro_input, parse_quote};

/// Path of the schema crate in crates that depend on it.
fn schema() -> Path {
    parse_quote!(::schema)
}

/// Path of the schema crate in programs that depend on the embedded library.
fn embedded() -> Path {
    parse_quote!(::isles::schema)
}

/// Implements `schema::Row` for a struct with named fields.
///
/// Attributes of the struct, in one or several `#[row(..)]`:
/// - `key(column, ..)`: the primary key; required;
/// - `index(name(column, ..), ..)`: indexes that are not unique;
/// - `unique_index(name(column, ..), ..)`: unique indexes; `name(column, ..) nulls_not_distinct`
///   for one in which nulls conflict;
/// - `crate = path`: the path of the schema crate, by default `::schema`.
///
/// Fields are values of fixed length, `Option`s of these, and `String`, `VarChar`, `JsonText`,
/// `Vec` and their `Option`s, which have any length. The derive recognizes these by their names.
/// Columns of the primary key are no `Option`s. `desc(column)`,
/// `nulls_first(column)` and `desc(nulls_last(column))` are columns of keys in another order. The
/// last field may be a `Vec<u8>` marked `#[row(tail)]`: it is then the whole variable-length part,
/// without a directory, which saves 4 bytes in each row.
///
/// Besides the trait, the struct gets the constants `KEY` (its primary key's `IndexId`;
/// `PRIMARY_KEY` where a field is called `key`), one `Field` for each field of the fixed part
/// (`NullableField` for an `Option`), as visible as the field, and one `IndexId` for each index.
///
/// Wrong structs do not compile:
///
/// ```compile_fail,E0080
/// #[derive(schema::Row)]
/// #[row(key(name))] // 2049 bytes; a key has at most 2048
/// struct TooLong { name: schema::Text<2049> }
/// ```
///
/// ```compile_fail
/// #[derive(schema::Row)]
/// #[row(key(id), index(by_color(colour)))] // no such column
/// struct Car { id: u64, color: u32 }
/// ```
#[proc_macro_derive(Row, attributes(row))]
pub fn derive_row(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    row::expand(&input, &schema()).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Implements `schema::Value` for
/// - a struct with named fields, each of them a value: a group of columns;
/// - a struct with one field without a name, a value: the same bytes, another type;
/// - an enum without fields: a number of one byte, or of the type in `#[repr(..)]`. A number that
///   no variant has is read as the variant marked `#[row(other)]`, or panics if there is none.
///
/// `#[row(key)]` also implements `Key` for the latter two, so that they can be columns of keys.
///
/// Besides the trait, the struct gets one constant `Field<Self, T>` for each field, for
/// `schema::Field::then`. `#[row(crate = path)]` sets the path of the schema crate, by default
/// `::schema`.
#[proc_macro_derive(Value, attributes(row))]
pub fn derive_value(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    value::expand(&input, &schema()).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// [`macro@Row`] with `crate = ::isles::schema` by default: `isles::Row`.
#[proc_macro_derive(EmbeddedRow, attributes(row))]
pub fn derive_embedded_row(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    row::expand(&input, &embedded()).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// [`macro@Value`] with `crate = ::isles::schema` by default: `isles::Value`.
#[proc_macro_derive(EmbeddedValue, attributes(row))]
pub fn derive_embedded_value(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    value::expand(&input, &embedded()).unwrap_or_else(syn::Error::into_compile_error).into()
}
