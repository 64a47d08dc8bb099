//! The password that the first role gets when a server starts.

use std::sync::Arc;

use isles::Datum;

use crate::bind::OutputColumn;
use crate::context::Context;
use crate::engine::Engine;
use crate::error::Result;
use crate::roles::FIRST_ROLE;
use crate::session::{RowSink, Session};

/// A statement without rows has nothing to send.
struct Nothing;

impl RowSink for Nothing {
    fn row(&mut self, _: &[Datum], _: &[OutputColumn], _: &Context) -> Result<()> {
        Ok(())
    }

    fn restart(&mut self) -> bool {
        true
    }
}

/// Gives a role this password, unless it has it.
///
/// # Errors
/// There is no such role, or the change is not kept.
pub fn set_password(engine: &Arc<Engine>, name: &str, password: &str) -> Result<()> {
    let role = engine.schema.get().roles.get(name);
    if role.and_then(|role| role.verifier).is_some_and(|kept| kept.is_password(password)) {
        return Ok(());
    }
    let mut session = Session::new(engine, FIRST_ROLE, &engine.database_name, 0);
    let quoted = |text: &str, sign: &str| format!("{sign}{}{sign}", text.replace(sign, &sign.repeat(2)));
    let text = format!("ALTER ROLE {} PASSWORD {}", quoted(name, "\""), quoted(password, "'"));
    let prepared = session.prepare_text(&text, &[])?;
    let mut portal = session.portal(&prepared, Vec::new())?;
    session.run(&mut portal, None, &mut Nothing)?;
    session.end_batch(false)
}
