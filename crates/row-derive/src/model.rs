//! The declaration in a struct under `#[derive(Row)]` or `#[derive(Value)]`, parsed and checked.

use proc_macro2::Span;
use syn::ext::IdentExt;
use syn::meta::ParseNestedMeta;
use syn::parenthesized;
use syn::punctuated::Punctuated;
use syn::{
    Attribute, Data, DeriveInput, Error, Field, Fields, GenericArgument, Ident, Path, PathArguments, Result,
    Token, Type, Visibility,
};

/// Most columns of a key, completed with the primary key: the longest tuple that implements `Key`.
const KEY_COLUMNS_MAX: usize = 12;

/// One field.
pub struct Column {
    pub visibility: Visibility,
    pub name: Ident,
    /// Its type; for an `Option`, the inner type.
    pub kind: Type,
    pub nullable: bool,
}

/// A field of variable length.
pub struct TailColumn {
    pub column: Column,
    /// Its number among all fields.
    pub position: usize,
    pub form: TailForm,
}

/// How a field of variable length is stored.
#[derive(Clone, Copy)]
pub enum TailForm {
    /// `String`.
    Text,
    /// `Vec<u8>`.
    Bytes,
    /// By `TailValue`.
    Other,
}

/// The variable-length part.
pub enum Tail {
    None,
    /// The bytes of one field.
    Whole(Box<Column>),
    /// Fields behind a directory.
    Columns(Vec<TailColumn>),
}

impl Column {
    /// The field's name without `r#`.
    pub fn text(&self) -> String {
        self.name.unraw().to_string()
    }

    /// The name of the field's constant.
    pub fn constant(&self) -> Ident {
        upper(&self.name)
    }
}

/// An index; the primary key is the first.
pub struct Index {
    pub name: Ident,
    pub unique: bool,
    pub nulls_not_distinct: bool,
    /// The key's columns, completed with the primary key if the index is not unique.
    pub columns: Vec<KeyColumn>,
    /// True if the primary key follows in keys with nulls: the index is unique and nulls are
    /// distinct.
    pub has_distinct_nulls: bool,
}

/// A column of a key.
#[derive(Clone, Copy)]
pub struct KeyColumn {
    /// Its place among the columns of the struct.
    pub place: ColumnPlace,
    pub descending: bool,
    pub nulls_first: bool,
}

/// Where a column of a struct is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ColumnPlace {
    /// Position in [`Struct::columns`].
    Fixed(usize),
    /// Number of the column in the tail.
    Tail(usize),
}

/// A column of a key as it is declared.
struct OrderedColumn {
    name: Ident,
    descending: bool,
    /// The declaration, if it says where nulls are.
    nulls_first: Option<bool>,
}

/// A struct with its attributes, checked.
pub struct Struct {
    pub schema: Path,
    pub columns: Vec<Column>,
    pub tail: Tail,
    /// Empty under `#[derive(Value)]`.
    pub indexes: Vec<Index>,
}

/// The columns named in `index(..)`, before they are looked up.
struct Declared {
    name: Ident,
    unique: bool,
    nulls_not_distinct: bool,
    columns: Vec<OrderedColumn>,
}

#[derive(Default)]
struct Attributes {
    schema: Option<Path>,
    key: Option<Declared>,
    indexes: Vec<Declared>,
    /// `key` without columns: the values can be columns of keys.
    is_key: Option<Ident>,
}

/// Declaration of a wrapper or an enum.
pub struct Single {
    pub schema: Path,
    pub is_key: bool,
}

impl Single {
    /// Reads the attributes; `schema` as in [`Struct::row`].
    pub fn of(input: &DeriveInput, schema: &Path) -> Result<Self> {
        if !input.generics.params.is_empty() {
            return Err(Error::new_spanned(
                &input.generics,
                "the layout must be fixed: no generic parameters",
            ));
        }
        let attributes = Attributes::parse(&input.attrs)?;
        if let Some(index) = attributes.key.iter().chain(&attributes.indexes).next() {
            return Err(Error::new_spanned(
                &index.name,
                "a value has no keys of its own: `#[row(key)]` lets it be part of some",
            ));
        }
        let schema = attributes.schema.unwrap_or_else(|| schema.clone());
        Ok(Single { schema, is_key: attributes.is_key.is_some() })
    }
}

impl Struct {
    /// Reads a row type; `schema` is the path of the schema crate, unless the struct sets another
    /// one.
    pub fn row(input: &DeriveInput, schema: &Path) -> Result<Self> {
        let attributes = Attributes::parse(&input.attrs)?;
        if let Some(key) = &attributes.is_key {
            return Err(Error::new_spanned(key, "a key needs at least one column: #[row(key(column, ..))]"));
        }
        let (columns, tail) = fields(input)?;
        let key = attributes.key.ok_or_else(|| {
            Error::new_spanned(&input.ident, "a row needs a primary key: #[row(key(column, ..))]")
        })?;
        let mut declared = Struct {
            schema: attributes.schema.unwrap_or_else(|| schema.clone()),
            columns,
            tail,
            indexes: Vec::with_capacity(1 + attributes.indexes.len()),
        };
        for index in std::iter::once(&key).chain(&attributes.indexes) {
            let index = declared.complete(index)?;
            declared.indexes.push(index);
        }
        let (primary, others) = declared.indexes.split_at_mut(1);
        let mut names =
            others.iter().map(|index| &index.name).chain(declared.columns.iter().map(|one| &one.name));
        if names.any(|name| upper(name) == "KEY") {
            primary[0].name = Ident::new("primary_key", primary[0].name.span());
        }
        declared.check_constants()?;
        Ok(declared)
    }

    /// Reads a group of values; `schema` as in [`Self::row`].
    pub fn value(input: &DeriveInput, schema: &Path) -> Result<Self> {
        let attributes = Attributes::parse(&input.attrs)?;
        if let Some(index) = attributes.key.iter().chain(&attributes.indexes).next() {
            return Err(Error::new_spanned(&index.name, "a group of values has no keys: rows have"));
        }
        if let Some(key) = &attributes.is_key {
            let message = "a group of values is no part of a key: name its fields as columns of the row";
            return Err(Error::new_spanned(key, message));
        }
        let (columns, tail) = fields(input)?;
        let variable = match &tail {
            Tail::None => None,
            Tail::Whole(tail) => Some(&tail.name),
            Tail::Columns(columns) => columns.first().map(|first| &first.column.name),
        };
        if let Some(name) = variable {
            let message = "a group of values has a fixed length, and no tail: fields of variable length belong to the row";
            return Err(Error::new_spanned(name, message));
        }
        if let Some(column) = columns.iter().find(|column| column.nullable) {
            let message =
                "a group of values is there as a whole: fields that may be without a value belong to the row";
            return Err(Error::new_spanned(&column.name, message));
        }
        let schema = attributes.schema.unwrap_or_else(|| schema.clone());
        Ok(Struct { schema, columns, tail: Tail::None, indexes: Vec::new() })
    }

    /// Looks up the columns of an index and completes its key. Pre: the primary key was completed
    /// first.
    fn complete(&self, declared: &Declared) -> Result<Index> {
        let mut columns: Vec<KeyColumn> = Vec::new();
        for OrderedColumn { name, descending, nulls_first } in &declared.columns {
            let place = self.place(name)?;
            let nullable = self.column(place).nullable;
            if nullable && self.indexes.is_empty() {
                let message = format!(
                    "column `{name}` may be without a value, so it cannot be part of the primary key"
                );
                return Err(Error::new_spanned(name, message));
            }
            if !nullable && nulls_first.is_some() {
                let message = format!("column `{name}` has a value in every row: it is no `Option`");
                return Err(Error::new_spanned(name, message));
            }
            if columns.iter().any(|column| column.place == place) {
                return Err(Error::new_spanned(name, format!("column `{name}` appears twice in one key")));
            }
            let (descending, nulls_first) = (*descending, nulls_first.unwrap_or(*descending));
            columns.push(KeyColumn { place, descending, nulls_first });
        }
        if columns.is_empty() {
            return Err(Error::new_spanned(&declared.name, "a key needs at least one column"));
        }
        if let Some(primary) = self.indexes.first().filter(|_| !declared.unique) {
            let is_missing = |column: &&KeyColumn| columns.iter().all(|own| own.place != column.place);
            let missing: Vec<_> = primary.columns.iter().filter(is_missing).copied().collect();
            columns.extend(missing);
        }
        let Declared { name, unique, nulls_not_distinct, .. } = declared;
        let is_nullable = |column: &KeyColumn| self.column(column.place).nullable;
        let has_distinct_nulls = *unique && !nulls_not_distinct && columns.iter().any(is_nullable);
        let parts = columns.len() + usize::from(has_distinct_nulls);
        if parts > KEY_COLUMNS_MAX {
            let message = format!(
                "a key of a row type has at most {KEY_COLUMNS_MAX} columns; `{name}` has {parts} with those of the primary key"
            );
            return Err(Error::new_spanned(name, message));
        }
        let (name, unique, nulls_not_distinct) = (name.clone(), *unique, *nulls_not_distinct);
        Ok(Index { name, unique, nulls_not_distinct, columns, has_distinct_nulls })
    }

    /// Returns the column at a place.
    pub fn column(&self, place: ColumnPlace) -> &Column {
        match (place, &self.tail) {
            (ColumnPlace::Fixed(position), _) => &self.columns[position],
            (ColumnPlace::Tail(number), Tail::Columns(columns)) => &columns[number].column,
            (ColumnPlace::Tail(_), _) => unreachable!("the tail has no columns"),
        }
    }

    fn place(&self, name: &Ident) -> Result<ColumnPlace> {
        if let Tail::Whole(tail) = &self.tail
            && tail.name == *name
        {
            let message =
                format!("column `{name}` is all of the tail: without `#[row(tail)]` it can be part of a key");
            return Err(Error::new_spanned(name, message));
        }
        if let Tail::Columns(columns) = &self.tail
            && let Some(number) = columns.iter().position(|tail| tail.column.name == *name)
        {
            return Ok(ColumnPlace::Tail(number));
        }
        let fixed = self.columns.iter().position(|column| column.name == *name);
        fixed.map(ColumnPlace::Fixed).ok_or_else(|| {
            let known: Vec<_> = self.columns.iter().map(Column::text).collect();
            Error::new_spanned(name, format!("no column `{name}`: the row has {}", known.join(", ")))
        })
    }

    /// Checks that the names of constants, one for each field and index, differ.
    fn check_constants(&self) -> Result<()> {
        let indexes = self.indexes.iter().map(|index| &index.name);
        let names: Vec<_> = indexes.chain(self.columns.iter().map(|column| &column.name)).collect();
        for (position, name) in names.iter().enumerate() {
            if names[..position].iter().any(|earlier| upper(earlier) == upper(name)) {
                let message = format!(
                    "the constant `{}` would have two meanings: fields, indexes and the primary key (`KEY`, or \
                     `PRIMARY_KEY` where a field is called so) need different names",
                    upper(name)
                );
                return Err(Error::new_spanned(name, message));
            }
        }
        Ok(())
    }
}

impl Attributes {
    fn parse(attributes: &[Attribute]) -> Result<Self> {
        let mut parsed = Attributes::default();
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("row")) {
            attribute.parse_nested_meta(|meta| parsed.take(&meta))?;
        }
        Ok(parsed)
    }

    fn take(&mut self, meta: &ParseNestedMeta) -> Result<()> {
        if meta.path.is_ident("crate") {
            self.schema = Some(meta.value()?.call(Path::parse_mod_style)?);
            Ok(())
        } else if meta.path.is_ident("key") {
            let name = Ident::new("key", meta.path.get_ident().map_or_else(Span::call_site, Ident::span));
            if self.key.is_some() {
                return Err(meta.error("a row has one primary key"));
            }
            if !meta.input.peek(syn::token::Paren) {
                self.is_key = Some(name);
                return Ok(());
            }
            let columns = columns(meta)?;
            self.key = Some(Declared { name, unique: true, nulls_not_distinct: false, columns });
            Ok(())
        } else if meta.path.is_ident("index") || meta.path.is_ident("unique_index") {
            let unique = meta.path.is_ident("unique_index");
            meta.parse_nested_meta(|inner| {
                let (name, columns) = (inner.path.require_ident()?.clone(), columns(&inner)?);
                let nulls_not_distinct = unique && inner.input.peek(syn::Ident);
                if nulls_not_distinct {
                    let word: Ident = inner.input.parse()?;
                    if word != "nulls_not_distinct" {
                        return Err(Error::new_spanned(word, "expected `nulls_not_distinct`"));
                    }
                }
                self.indexes.push(Declared { name, unique, nulls_not_distinct, columns });
                Ok(())
            })
        } else {
            Err(meta
                .error("expected `key(..)`, `index(name(..))`, `unique_index(name(..))` or `crate = path`"))
        }
    }
}

/// Parses `(column, ..)`.
fn columns(meta: &ParseNestedMeta) -> Result<Vec<OrderedColumn>> {
    let content;
    parenthesized!(content in meta.input);
    let columns = Punctuated::<OrderedColumn, Token![,]>::parse_terminated(&content)?;
    Ok(columns.into_iter().collect())
}

impl syn::parse::Parse for OrderedColumn {
    /// Parses `column`, `desc(column)`, `nulls_first(column)`, `desc(nulls_last(column))`.
    fn parse(input: syn::parse::ParseStream<'_>) -> Result<Self> {
        let name: Ident = input.parse()?;
        if !input.peek(syn::token::Paren) {
            return Ok(OrderedColumn { name, descending: false, nulls_first: None });
        }
        let content;
        parenthesized!(content in input);
        let inner: OrderedColumn = content.parse()?;
        if !content.is_empty() {
            return Err(content.error("expected one column"));
        }
        let nulls_first = inner.nulls_first;
        match name.to_string().as_str() {
            "desc" if !inner.descending => Ok(OrderedColumn { descending: true, ..inner }),
            "nulls_first" if nulls_first.is_none() => Ok(OrderedColumn { nulls_first: Some(true), ..inner }),
            "nulls_last" if nulls_first.is_none() => Ok(OrderedColumn { nulls_first: Some(false), ..inner }),
            _ => Err(Error::new_spanned(
                name,
                "expected a column, `desc(column)`, `nulls_first(column)` or `nulls_last(column)`",
            )),
        }
    }
}

/// Returns the fields of the fixed part, and the tail.
fn fields(input: &DeriveInput) -> Result<(Vec<Column>, Tail)> {
    if !input.generics.params.is_empty() {
        return Err(Error::new_spanned(&input.generics, "the layout must be fixed: no generic parameters"));
    }
    let Data::Struct(data) = &input.data else {
        return Err(Error::new_spanned(&input.ident, "only a struct has columns"));
    };
    let Fields::Named(named) = &data.fields else {
        return Err(Error::new_spanned(
            &input.ident,
            "the columns need names: use a struct with named fields",
        ));
    };
    let (mut columns, mut in_tail, mut whole) = (Vec::new(), Vec::new(), None);
    for (position, field) in named.named.iter().enumerate() {
        let column = column(field)?;
        if is_tail(field)? {
            if position + 1 < named.named.len() || !in_tail.is_empty() {
                let message = "a field that is all of the tail must be the last one, and alone of its kind: without `#[row(tail)]` \
                               rows have any number of `String`, `Vec<u8>` and others";
                return Err(Error::new_spanned(&column.name, message));
            }
            whole = Some(column);
        } else if let Some(form) = variable(&column.kind) {
            in_tail.push(TailColumn { column, position, form });
        } else {
            columns.push(column);
        }
    }
    if columns.is_empty() && in_tail.is_empty() {
        return Err(Error::new_spanned(&input.ident, "at least one field is needed"));
    }
    let tail = match whole {
        Some(whole) => Tail::Whole(Box::new(whole)),
        None if in_tail.is_empty() => Tail::None,
        None => Tail::Columns(in_tail),
    };
    Ok((columns, tail))
}

fn column(field: &Field) -> Result<Column> {
    let Some(name) = field.ident.clone() else {
        return Err(Error::new_spanned(field, "the column needs a name"));
    };
    let optional = argument_of("Option", &field.ty).cloned();
    let (nullable, kind) = (optional.is_some(), optional.unwrap_or_else(|| field.ty.clone()));
    Ok(Column { visibility: field.vis.clone(), name, kind, nullable })
}

/// Returns the last segment of a type's path, with its generic arguments.
fn last_segment(kind: &Type) -> Option<&syn::PathSegment> {
    match kind {
        Type::Path(path) if path.qself.is_none() => path.path.segments.last(),
        _ => None,
    }
}

/// Returns the generic argument of `name<..>`.
fn argument_of<'t>(name: &str, kind: &'t Type) -> Option<&'t Type> {
    let segment = last_segment(kind).filter(|segment| segment.ident == name)?;
    match &segment.arguments {
        PathArguments::AngleBracketed(arguments) => match arguments.args.first() {
            Some(GenericArgument::Type(argument)) if arguments.args.len() == 1 => Some(argument),
            _ => None,
        },
        _ => None,
    }
}

/// Returns the form of a type of variable length, which is recognized by its name.
fn variable(kind: &Type) -> Option<TailForm> {
    let segment = last_segment(kind)?;
    let (name, has_arguments) = (segment.ident.to_string(), !segment.arguments.is_none());
    match (&*name, has_arguments) {
        ("String", false) => Some(TailForm::Text),
        ("Vec", true) => {
            let element = argument_of("Vec", kind).and_then(last_segment);
            let is_byte = element.is_some_and(|element| element.ident == "u8");
            Some(if is_byte { TailForm::Bytes } else { TailForm::Other })
        }
        ("VarChar", true) | ("JsonText", false) => Some(TailForm::Other),
        _ => None,
    }
}

fn is_tail(field: &Field) -> Result<bool> {
    let mut found = false;
    for attribute in field.attrs.iter().filter(|attribute| attribute.path().is_ident("row")) {
        attribute.parse_nested_meta(|meta| {
            found = meta.path.is_ident("tail");
            if found { Ok(()) } else { Err(meta.error("expected `tail`")) }
        })?;
    }
    Ok(found)
}

/// Returns the name of the constant for `name`.
pub fn upper(name: &Ident) -> Ident {
    Ident::new(&name.unraw().to_string().to_uppercase(), name.span())
}
