//! Makes and opens databases under the schemes of the registry.
//!
//! A caller of these functions compiles the engine for all schemes on platform `P`, or for the
//! basic ones ([`SchemeName::is_basic`]) if `ALL` is false. The crates `engine-native` and
//! `engine-simulated` are the only callers, and all other crates use those.

use concurrency::{InstanceOptions, Scheme, SchemeName, SchemeVisitor};
use platform::files::Files;
use platform::{Node, OutOfMemory, Platform};

use boundary::{Database, DurableOptions, OpenError, Progress, Recovered, SchemaBuilder, Traits};

use crate::database::MemoryDatabase;

/// [`create`] for one platform.
pub type Create<P> = fn(
    SchemeName,
    <P as Platform>::Core,
    &InstanceOptions,
    SchemaBuilder,
    &dyn Fn(usize) -> Option<Node>,
) -> Result<Database<P>, OutOfMemory>;

/// [`open`] for one platform.
pub type Open<P> = fn(
    SchemeName,
    <P as Platform>::Core,
    &InstanceOptions,
    SchemaBuilder,
    &dyn Fn(usize) -> Option<Node>,
    &DurableOptions,
    Option<&mut dyn FnMut(Progress)>,
) -> Result<(Database<P>, Recovered), OpenError>;

/// Makes the declared tables under scheme `S`, which is known at compile time.
///
/// # Errors
/// There is not enough memory.
pub fn create_under<P: Platform, S: Scheme<P>>(
    c: P::Core,
    options: &InstanceOptions,
    schema: SchemaBuilder,
    node_of: &dyn Fn(usize) -> Option<Node>,
) -> Result<Database<P>, OutOfMemory> {
    let made = MemoryDatabase::<P, S>::create(c, options, schema, node_of)?;
    Ok(Database::of(Box::new(made)))
}

/// Opens a durable database under scheme `S`, which is known at compile time.
///
/// # Errors
/// [`OpenError`]; the directory is left as it was.
pub fn open_under<P: Files, S: Scheme<P>>(
    c: P::Core,
    options: &InstanceOptions,
    schema: SchemaBuilder,
    node_of: &dyn Fn(usize) -> Option<Node>,
    durable: &DurableOptions,
    listener: Option<&mut dyn FnMut(Progress)>,
) -> Result<(Database<P>, Recovered), OpenError> {
    let (opened, recovered) =
        MemoryDatabase::<P, S>::open_with_progress(c, options, schema, node_of, durable, listener)?;
    Ok((Database::of(Box::new(opened)), recovered))
}

/// Makes the declared tables under this scheme: see [`crate::MemoryDatabase::create`].
///
/// # Errors
/// There is not enough memory.
///
/// # Panics
/// The scheme is none of those that this is compiled for.
pub fn create<P: Platform, const ALL: bool>(
    scheme: SchemeName,
    c: P::Core,
    options: &InstanceOptions,
    schema: SchemaBuilder,
    node_of: &dyn Fn(usize) -> Option<Node>,
) -> Result<Database<P>, OutOfMemory> {
    scheme.visit::<P, _>(Creation::<P, ALL> { c, options, schema, node_of })
}

struct Creation<'a, P: Platform, const ALL: bool> {
    c: P::Core,
    options: &'a InstanceOptions,
    schema: SchemaBuilder,
    node_of: &'a dyn Fn(usize) -> Option<Node>,
}

impl<P: Platform, const ALL: bool> SchemeVisitor<P> for Creation<'_, P, ALL> {
    const ALL: bool = ALL;
    type Output = Result<Database<P>, OutOfMemory>;

    fn visit<S: Scheme<P>>(self) -> Self::Output {
        create_under::<P, S>(self.c, self.options, self.schema, self.node_of)
    }
}

/// Opens a durable database under this scheme: see [`crate::MemoryDatabase::open_with_progress`].
///
/// # Errors
/// [`OpenError`]; the directory is left as it was.
///
/// # Panics
/// The scheme is none of those that this is compiled for.
pub fn open<P: Files, const ALL: bool>(
    scheme: SchemeName,
    c: P::Core,
    options: &InstanceOptions,
    schema: SchemaBuilder,
    node_of: &dyn Fn(usize) -> Option<Node>,
    durable: &DurableOptions,
    listener: Option<&mut dyn FnMut(Progress)>,
) -> Result<(Database<P>, Recovered), OpenError> {
    let creation = Creation::<P, ALL> { c, options, schema, node_of };
    scheme.visit::<P, _>(Opening { creation, durable, listener })
}

struct Opening<'a, 'l, P: Platform, const ALL: bool> {
    creation: Creation<'a, P, ALL>,
    durable: &'a DurableOptions,
    listener: Option<&'a mut (dyn FnMut(Progress) + 'l)>,
}

impl<P: Files, const ALL: bool> SchemeVisitor<P> for Opening<'_, '_, P, ALL> {
    const ALL: bool = ALL;
    type Output = Result<(Database<P>, Recovered), OpenError>;

    fn visit<S: Scheme<P>>(self) -> Self::Output {
        let Opening { creation: Creation { c, options, schema, node_of }, durable, listener } = self;
        let listener = listener.map(|listener| listener as &mut dyn FnMut(Progress));
        open_under::<P, S>(c, options, schema, node_of, durable, listener)
    }
}

/// Properties of this scheme.
pub fn traits<P: Platform>(scheme: SchemeName) -> Traits {
    struct Look;
    impl<P: Platform> SchemeVisitor<P> for Look {
        type Output = Traits;
        fn visit<S: Scheme<P>>(self) -> Traits {
            Traits::of::<P, S>()
        }
    }
    scheme.visit::<P, _>(Look)
}
