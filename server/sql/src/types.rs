//! Types of SQL: their numbers and names, and how columns of tables have them.

use isles::ValueType;
use sqlparser::ast::{ArrayElemTypeDef, CharacterLength, DataType, ExactNumberInfo, TimezoneInfo};

use crate::error::{Result, SqlError, state};

/// Digits of a `numeric` without a precision, and those behind its point.
const NUMERIC_DEFAULT: (u8, u8) = (38, 10);
/// Most characters of `varchar(n)` and `char(n)`.
const CHARACTERS_MAX: u64 = 10_485_760;

/// A type of SQL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SqlType {
    /// A literal or parameter whose type is not known yet.
    Unknown,
    /// Truth value.
    Bool,
    /// Integer of 2 bytes.
    Int2,
    /// Integer of 4 bytes.
    Int4,
    /// Integer of 8 bytes.
    Int8,
    /// Floating-point number of 4 bytes.
    Float4,
    /// Floating-point number of 8 bytes.
    Float8,
    /// Exact number: digits, and digits behind the point.
    Numeric(Option<(u8, u8)>),
    /// Text of any length.
    Text,
    /// Text with this many characters at most.
    VarChar(Option<u32>),
    /// Text of this many characters, padded with blanks.
    Char(u32),
    /// Name of an object of a catalog.
    Name,
    /// One byte of a catalog: `"char"`.
    Letter,
    /// Bytes.
    Bytea,
    /// Day.
    Date,
    /// Time of day.
    Time,
    /// Day and time of day.
    Timestamp,
    /// Moment.
    TimestampTz,
    /// Length of time.
    Interval,
    /// Identifier.
    Uuid,
    /// JSON as text.
    Json,
    /// JSON, here as text too.
    Jsonb,
    /// Number of an object of a catalog.
    Oid,
    /// Number of a table, shown as its name.
    RegClass,
    /// Number of a type, shown as its name.
    RegType,
    /// Number of a function, shown as its name.
    RegProc,
    /// Several values of a type.
    Array(Box<SqlType>),
    /// Values of several types.
    Record,
    /// No value.
    Void,
}

/// Facts of a type: number, number of its array type, name in the catalog, name in SQL, bytes.
pub struct TypeFacts {
    /// A type of that kind.
    pub kind: SqlType,
    /// Its number.
    pub oid: u32,
    /// The number of arrays of it.
    pub array: u32,
    /// Its name in `pg_type`.
    pub name: &'static str,
    /// Its name in messages.
    pub sql: &'static str,
    /// Its length; -1 if values have several.
    pub bytes: i16,
    /// Its category in `pg_type`.
    pub category: &'static str,
}

const fn facts(
    kind: SqlType,
    (oid, array): (u32, u32),
    (name, sql): (&'static str, &'static str),
    bytes: i16,
    category: &'static str,
) -> TypeFacts {
    TypeFacts { kind, oid, array, name, sql, bytes, category }
}

/// All types but arrays.
pub static TYPES: &[TypeFacts] = &[
    facts(SqlType::Bool, (16, 1000), ("bool", "boolean"), 1, "B"),
    facts(SqlType::Bytea, (17, 1001), ("bytea", "bytea"), -1, "U"),
    facts(SqlType::Letter, (18, 1002), ("char", "\"char\""), 1, "Z"),
    facts(SqlType::Name, (19, 1003), ("name", "name"), 64, "S"),
    facts(SqlType::Int8, (20, 1016), ("int8", "bigint"), 8, "N"),
    facts(SqlType::Int2, (21, 1005), ("int2", "smallint"), 2, "N"),
    facts(SqlType::Int4, (23, 1007), ("int4", "integer"), 4, "N"),
    facts(SqlType::RegProc, (24, 1008), ("regproc", "regproc"), 4, "N"),
    facts(SqlType::Text, (25, 1009), ("text", "text"), -1, "S"),
    facts(SqlType::Oid, (26, 1028), ("oid", "oid"), 4, "N"),
    facts(SqlType::Json, (114, 199), ("json", "json"), -1, "U"),
    facts(SqlType::Float4, (700, 1021), ("float4", "real"), 4, "N"),
    facts(SqlType::Float8, (701, 1022), ("float8", "double precision"), 8, "N"),
    facts(SqlType::Unknown, (705, 0), ("unknown", "unknown"), -2, "X"),
    facts(SqlType::Char(1), (1042, 1014), ("bpchar", "character"), -1, "S"),
    facts(SqlType::VarChar(None), (1043, 1015), ("varchar", "character varying"), -1, "S"),
    facts(SqlType::Date, (1082, 1182), ("date", "date"), 4, "D"),
    facts(SqlType::Time, (1083, 1183), ("time", "time without time zone"), 8, "D"),
    facts(SqlType::Timestamp, (1114, 1115), ("timestamp", "timestamp without time zone"), 8, "D"),
    facts(SqlType::TimestampTz, (1184, 1185), ("timestamptz", "timestamp with time zone"), 8, "D"),
    facts(SqlType::Interval, (1186, 1187), ("interval", "interval"), 16, "T"),
    facts(SqlType::Numeric(None), (1700, 1231), ("numeric", "numeric"), -1, "N"),
    facts(SqlType::RegClass, (2205, 2210), ("regclass", "regclass"), 4, "N"),
    facts(SqlType::RegType, (2206, 2211), ("regtype", "regtype"), 4, "N"),
    facts(SqlType::Record, (2249, 2287), ("record", "record"), -1, "P"),
    facts(SqlType::Void, (2278, 0), ("void", "void"), 4, "P"),
    facts(SqlType::Uuid, (2950, 2951), ("uuid", "uuid"), 16, "U"),
    facts(SqlType::Jsonb, (3802, 3807), ("jsonb", "jsonb"), -1, "U"),
];

impl SqlType {
    /// Returns an array of this type.
    pub fn array(self) -> SqlType {
        SqlType::Array(Box::new(self))
    }

    fn facts(&self) -> &'static TypeFacts {
        let same = |facts: &&TypeFacts| std::mem::discriminant(&facts.kind) == std::mem::discriminant(self);
        // All types but arrays are in the list.
        TYPES.iter().find(same).unwrap_or(&TYPES[0])
    }

    /// Returns the number of the type.
    pub fn oid(&self) -> u32 {
        match self {
            SqlType::Array(of) => of.facts().array,
            kind => kind.facts().oid,
        }
    }

    /// Returns the type of this number.
    pub fn of_oid(oid: u32) -> Option<SqlType> {
        if oid == 0 {
            return Some(SqlType::Unknown);
        }
        let facts = TYPES.iter().find(|facts| facts.oid == oid || facts.array == oid)?;
        Some(if facts.oid == oid { facts.kind.clone() } else { facts.kind.clone().array() })
    }

    /// Returns the bytes of a value; -1 if values have several lengths.
    pub fn bytes(&self) -> i16 {
        if matches!(self, SqlType::Array(_)) { -1 } else { self.facts().bytes }
    }

    /// Returns the modifier of the type: lengths and digits; -1 if there is none.
    pub fn modifier(&self) -> i32 {
        match self {
            SqlType::VarChar(Some(characters)) | SqlType::Char(characters) => *characters as i32 + 4,
            SqlType::Numeric(Some((precision, scale))) => {
                ((i32::from(*precision) << 16) | i32::from(*scale)) + 4
            }
            _ => -1,
        }
    }

    /// Returns the name in SQL, with lengths and digits.
    pub fn name(&self) -> String {
        match self {
            SqlType::Array(of) => of.name() + "[]",
            SqlType::VarChar(Some(characters)) | SqlType::Char(characters) => {
                format!("{}({characters})", self.facts().sql)
            }
            SqlType::Numeric(Some((precision, scale))) => format!("numeric({precision},{scale})"),
            kind => kind.facts().sql.to_owned(),
        }
    }

    /// Returns the name of a type by number and modifier, as `format_type` does.
    pub fn format(oid: u32, modifier: i32) -> Option<String> {
        let kind = SqlType::of_oid(oid)?;
        let length = (modifier >= 4).then(|| modifier - 4);
        Some(match (kind, length) {
            (SqlType::Char(_), None) => "character".to_owned(),
            (SqlType::Char(_), Some(length)) => format!("character({length})"),
            (SqlType::VarChar(_), Some(length)) => format!("character varying({length})"),
            (SqlType::Numeric(_), Some(digits)) => {
                format!("numeric({},{})", digits >> 16, digits & 0xffff)
            }
            (kind, _) => kind.name(),
        })
    }

    /// Returns true for integers, numbers of catalogs included.
    pub fn is_integer(&self) -> bool {
        use SqlType::{Int2, Int4, Int8, Oid, RegClass, RegProc, RegType};
        matches!(self, Int2 | Int4 | Int8 | Oid | RegClass | RegProc | RegType)
    }

    /// Returns true for numbers.
    pub fn is_number(&self) -> bool {
        self.is_integer() || matches!(self, SqlType::Float4 | SqlType::Float8 | SqlType::Numeric(_))
    }

    /// Returns true for texts.
    pub fn is_text(&self) -> bool {
        use SqlType::{Char, Letter, Name, Text, VarChar};
        matches!(self, Text | VarChar(_) | Char(_) | Name | Letter)
    }

    /// Returns the type without lengths and digits.
    #[must_use]
    pub fn plain(&self) -> SqlType {
        match self {
            SqlType::VarChar(_) => SqlType::VarChar(None),
            SqlType::Numeric(_) => SqlType::Numeric(None),
            kind => kind.clone(),
        }
    }

    /// Returns the type of a column of a table.
    pub fn of_value(kind: &ValueType) -> Option<SqlType> {
        Some(match kind {
            ValueType::Signed(2) | ValueType::Signed(1) | ValueType::Unsigned(1) => SqlType::Int2,
            ValueType::Signed(4) | ValueType::Unsigned(2) => SqlType::Int4,
            ValueType::Signed(8) | ValueType::Unsigned(4) => SqlType::Int8,
            ValueType::Float(4) => SqlType::Float4,
            ValueType::Float(_) => SqlType::Float8,
            ValueType::Bool => SqlType::Bool,
            ValueType::String | ValueType::Text(_) => SqlType::Text,
            ValueType::VarChar(characters) => SqlType::VarChar(Some(*characters as u32)),
            ValueType::Char(characters) => SqlType::Char(*characters as u32),
            ValueType::Bytes => SqlType::Bytea,
            ValueType::Numeric { precision, scale } => SqlType::Numeric(Some((*precision, *scale))),
            ValueType::Date => SqlType::Date,
            ValueType::Time => SqlType::Time,
            ValueType::Timestamp => SqlType::Timestamp,
            ValueType::TimestampTz => SqlType::TimestampTz,
            ValueType::Interval => SqlType::Interval,
            ValueType::Uuid => SqlType::Uuid,
            ValueType::Json => SqlType::Json,
            ValueType::List(of) => SqlType::of_value(of)?.array(),
            _ => return None,
        })
    }

    /// Returns the type that a column of a table gets.
    pub fn to_value(&self) -> Result<ValueType> {
        Ok(match self {
            SqlType::Bool => ValueType::Bool,
            SqlType::Int2 => ValueType::Signed(2),
            SqlType::Int4 => ValueType::Signed(4),
            SqlType::Int8 | SqlType::Oid => ValueType::Signed(8),
            SqlType::Float4 => ValueType::Float(4),
            SqlType::Float8 => ValueType::Float(8),
            SqlType::Numeric(digits) => {
                let (precision, scale) = digits.unwrap_or(NUMERIC_DEFAULT);
                ValueType::Numeric { precision, scale }
            }
            SqlType::Text | SqlType::VarChar(None) | SqlType::Name | SqlType::Letter => ValueType::String,
            SqlType::VarChar(Some(characters)) => ValueType::VarChar(*characters as usize),
            SqlType::Char(characters) => ValueType::Char(*characters as usize),
            SqlType::Bytea => ValueType::Bytes,
            SqlType::Date => ValueType::Date,
            SqlType::Time => ValueType::Time,
            SqlType::Timestamp => ValueType::Timestamp,
            SqlType::TimestampTz => ValueType::TimestampTz,
            SqlType::Interval => ValueType::Interval,
            SqlType::Uuid => ValueType::Uuid,
            SqlType::Json | SqlType::Jsonb => ValueType::Json,
            SqlType::Array(of) => ValueType::List(Box::new(of.to_value()?)),
            kind => return Err(SqlError::unsupported(format!("a column of type {}", kind.name()))),
        })
    }

    /// Returns the type that a statement names.
    pub fn of_ast(kind: &DataType) -> Result<SqlType> {
        use DataType as D;
        Ok(match kind {
            D::Bool | D::Boolean => SqlType::Bool,
            D::SmallInt(_) | D::Int2(_) => SqlType::Int2,
            D::Int(_) | D::Integer(_) | D::Int4(_) => SqlType::Int4,
            D::BigInt(_) | D::Int8(_) => SqlType::Int8,
            D::Real | D::Float4 => SqlType::Float4,
            D::Float(ExactNumberInfo::Precision(1..=24)) => SqlType::Float4,
            D::Float(_) | D::Float8 | D::Double(_) | D::DoublePrecision => SqlType::Float8,
            D::Numeric(digits) | D::Decimal(digits) | D::Dec(digits) => SqlType::Numeric(digits_of(digits)?),
            D::Text => SqlType::Text,
            D::Varchar(length) | D::CharacterVarying(length) | D::CharVarying(length) => {
                SqlType::VarChar(length_of(length.as_ref())?)
            }
            D::Char(length) | D::Character(length) => SqlType::Char(length_of(length.as_ref())?.unwrap_or(1)),
            D::Bytea => SqlType::Bytea,
            D::Date => SqlType::Date,
            D::Time(_, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => SqlType::Time,
            D::Timestamp(_, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => SqlType::Timestamp,
            D::Timestamp(..) => SqlType::TimestampTz,
            D::Interval { .. } => SqlType::Interval,
            D::Uuid => SqlType::Uuid,
            D::JSON => SqlType::Json,
            D::JSONB => SqlType::Jsonb,
            D::Regclass => SqlType::RegClass,
            D::Array(ArrayElemTypeDef::SquareBracket(of, _) | ArrayElemTypeDef::AngleBracket(of)) => {
                SqlType::of_ast(of)?.array()
            }
            D::Custom(name, _) => {
                let name = name.0.last().and_then(|part| part.as_ident()).map(|part| part.value.as_str());
                return SqlType::of_name(name.unwrap_or_default());
            }
            kind => return Err(SqlError::new(state::NO_OBJECT, format!("type \"{kind}\" does not exist"))),
        })
    }

    /// Returns the type of a name, of the catalog or of SQL.
    pub fn of_name(name: &str) -> Result<SqlType> {
        let lower = name.trim().trim_start_matches("pg_catalog.").to_ascii_lowercase();
        if let Some(of) = lower.strip_suffix("[]").or_else(|| lower.strip_prefix('_')) {
            return SqlType::of_name(of).map(SqlType::array);
        }
        let other = match lower.as_str() {
            "int" => "int4",
            "decimal" => "numeric",
            "serial" | "serial4" => "int4",
            "bigserial" | "serial8" => "int8",
            "smallserial" | "serial2" => "int2",
            "regnamespace" | "regrole" => "regclass",
            other => other,
        };
        let found = TYPES.iter().find(|facts| facts.name == other || facts.sql == other);
        let error = || SqlError::new(state::NO_OBJECT, format!("type \"{name}\" does not exist"));
        found.map(|facts| facts.kind.clone()).ok_or_else(error)
    }
}

fn length_of(length: Option<&CharacterLength>) -> Result<Option<u32>> {
    match length {
        None | Some(CharacterLength::Max) => Ok(None),
        Some(CharacterLength::IntegerLength { length: length @ 1..=CHARACTERS_MAX, .. }) => {
            Ok(Some(*length as u32))
        }
        Some(_) => {
            let message = format!("length for type varchar must be 1 to {CHARACTERS_MAX}");
            Err(SqlError::new(state::INVALID_PARAMETER, message))
        }
    }
}

fn digits_of(digits: &ExactNumberInfo) -> Result<Option<(u8, u8)>> {
    let (precision, scale) = match digits {
        ExactNumberInfo::None => return Ok(None),
        ExactNumberInfo::Precision(precision) => (*precision, 0),
        ExactNumberInfo::PrecisionAndScale(precision, scale) => (*precision, *scale),
    };
    match (u8::try_from(precision), u8::try_from(scale)) {
        (Ok(precision @ 1..=38), Ok(scale)) if scale <= precision => Ok(Some((precision, scale))),
        _ => {
            let message = format!("NUMERIC precision {precision} with scale {scale} is not supported");
            Err(SqlError::new(state::INVALID_PARAMETER, message)
                .hint("Exact numbers have up to 38 digits, and a scale from 0 to their precision."))
        }
    }
}
