//! Values of flags: the text that was given, and its meaning or fault.
//!
//! The parser of a flag never fails. A fault is reported when the value is used, so that the
//! faults of a command line come in the order in which its configuration is resolved: a flag that
//! has no place beside another flag is named before a value that it does not take.

use std::ffi::OsStr;
use std::marker::PhantomData;
use std::ops::RangeInclusive;

use clap::builder::TypedValueParser;
use clap::error::ErrorKind;
use clap::{Arg, Command};
use harness::Choice;

use crate::bad_input::BadInput;
use crate::choices::named_value;
use crate::values;

/// The value of a flag on the command line.
#[derive(Clone, Debug)]
pub struct Given<T> {
    flag: String,
    /// The value as it was typed.
    pub text: String,
    meaning: Result<T, BadInput>,
}

impl<T> Given<T> {
    /// The fault of this value.
    pub fn refused(&self, problem: impl Into<String>, accepted: impl Into<String>) -> BadInput {
        BadInput::value(&self.flag, &self.text, problem, accepted)
    }
}

/// A flag that may have been given.
pub trait Flag<T> {
    /// Its value, if it was given.
    ///
    /// # Errors
    /// The flag does not take the value.
    fn value(&self) -> Result<Option<T>, BadInput>;

    /// Its value, or this one.
    ///
    /// # Errors
    /// The flag does not take the value.
    fn value_or(&self, default: T) -> Result<T, BadInput> {
        Ok(self.value()?.unwrap_or(default))
    }
}

impl<T: Clone> Flag<T> for Option<Given<T>> {
    fn value(&self) -> Result<Option<T>, BadInput> {
        self.as_ref().map(|given| given.meaning.clone()).transpose()
    }
}

/// A flag of any type.
pub trait AnyFlag {
    /// The fault of giving the flag, if it was given.
    fn refused(&self, problem: &str, accepted: &str) -> Option<BadInput>;
}

impl<T> AnyFlag for Option<Given<T>> {
    fn refused(&self, problem: &str, accepted: &str) -> Option<BadInput> {
        self.as_ref().map(|given| given.refused(problem, accepted))
    }
}

/// Refuses the first of these flags that was given.
///
/// # Errors
/// One was given.
pub fn refuse(flags: &[&dyn AnyFlag], problem: &str, accepted: &str) -> Result<(), BadInput> {
    flags.iter().find_map(|flag| flag.refused(problem, accepted)).map_or(Ok(()), Err)
}

/// A flag whose values depend on the machine or on other flags.
pub trait TextFlag {
    /// Its text, if it was given.
    fn text(&self) -> Option<&str>;

    /// The whole number in this range that it gives.
    ///
    /// # Errors
    /// It gives another value.
    fn whole(&self, range: RangeInclusive<u64>) -> Result<Option<u64>, BadInput>;

    /// The number in this range that it gives.
    ///
    /// # Errors
    /// It gives another value.
    fn number(&self, range: RangeInclusive<f64>) -> Result<Option<f64>, BadInput>;

    /// The value whose name it gives, or this one.
    ///
    /// # Errors
    /// There is no value of this name.
    fn choose<C: Choice>(&self, default: C) -> Result<C, BadInput>;
}

impl TextFlag for Option<Given<String>> {
    fn text(&self) -> Option<&str> {
        self.as_ref().map(|given| given.text.as_str())
    }

    fn whole(&self, range: RangeInclusive<u64>) -> Result<Option<u64>, BadInput> {
        self.as_ref().map(|given| values::whole(&given.flag, &given.text, &range)).transpose()
    }

    fn number(&self, range: RangeInclusive<f64>) -> Result<Option<f64>, BadInput> {
        self.as_ref().map(|given| values::number(&given.flag, &given.text, &range)).transpose()
    }

    fn choose<C: Choice>(&self, default: C) -> Result<C, BadInput> {
        self.as_ref().map_or(Ok(default), |given| named_value(&given.flag, &given.text))
    }
}

/// A parser that keeps the flag, the text, and what a function makes of them.
pub struct GivenParser<T, F> {
    meaning: F,
    value: PhantomData<fn() -> T>,
}

impl<T, F: Clone> Clone for GivenParser<T, F> {
    fn clone(&self) -> Self {
        GivenParser { meaning: self.meaning.clone(), value: PhantomData }
    }
}

impl<T, F> TypedValueParser for GivenParser<T, F>
where
    T: Clone + Send + Sync + 'static,
    F: Fn(&str, &str) -> Result<T, BadInput> + Clone + Send + Sync + 'static,
{
    type Value = Given<T>;

    fn parse_ref(
        &self,
        command: &Command,
        argument: Option<&Arg>,
        value: &OsStr,
    ) -> Result<Given<T>, clap::Error> {
        let text =
            value.to_str().ok_or_else(|| clap::Error::new(ErrorKind::InvalidUtf8).with_cmd(command))?;
        let flag = argument.and_then(Arg::get_long).map(|long| format!("--{long}")).unwrap_or_default();
        let meaning = (self.meaning)(&flag, text);
        Ok(Given { flag, text: text.to_owned(), meaning })
    }
}

/// Values that this function makes of flag and text.
pub fn parsed<T, F>(meaning: F) -> GivenParser<T, F>
where
    F: Fn(&str, &str) -> Result<T, BadInput> + Clone + Send + Sync + 'static,
{
    GivenParser { meaning, value: PhantomData }
}

/// Any text.
pub fn text() -> impl TypedValueParser<Value = Given<String>> {
    parsed(|_, text| Ok(text.to_owned()))
}

/// The names of a type.
pub fn named<C: Choice + Send + Sync>() -> impl TypedValueParser<Value = Given<C>> {
    parsed(named_value::<C>)
}

/// Whole numbers in this range.
pub fn whole(range: RangeInclusive<u64>) -> impl TypedValueParser<Value = Given<u64>> {
    parsed(move |flag, text| values::whole(flag, text, &range))
}

/// Numbers in this range.
pub fn number(range: RangeInclusive<f64>) -> impl TypedValueParser<Value = Given<f64>> {
    parsed(move |flag, text| values::number(flag, text, &range))
}
