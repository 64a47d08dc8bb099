//! `isles topology`.

use machine::{Description, Topology, render_json, render_text};
use serde_json::{Value, json};

use crate::arguments::TopologyArguments;
use crate::bad_input::BadInput;
use crate::choices::{TopologyFormat, choose};
use crate::machines;

/// Draws the machine that the arguments name.
///
/// # Errors
/// A format or machine that does not exist, or a directory that holds no machine.
pub fn draw(arguments: &TopologyArguments) -> Result<String, BadInput> {
    let format = choose("--format", arguments.format.as_deref(), TopologyFormat::Text)?;
    match (arguments.machine.as_deref(), arguments.sysroot.as_deref()) {
        (Some(_), Some(_)) => {
            let problem = "each names the machine to draw";
            Err(BadInput::new("--machine with --sysroot", problem, "one of the two"))
        }
        (None, Some(root)) => Ok(render(&machines::under(root)?, None, format)),
        (None | Some(machines::NATIVE), None) => Ok(render(&machines::native()?, None, format)),
        (Some(name), None) => {
            let description = machines::shipped(name)?;
            Ok(render(&description.topology, Some(&description), format))
        }
    }
}

/// The machine in one format; a described one with its description.
fn render(topology: &Topology, description: Option<&Description>, format: TopologyFormat) -> String {
    match format {
        TopologyFormat::Text => {
            let heading = description.map(heading).unwrap_or_default();
            let text = render_text(topology);
            format!("{heading}{}\n", text.trim_end())
        }
        TopologyFormat::Json => {
            let mut json = render_json(topology);
            if let (Some(description), Value::Object(object)) = (description, &mut json) {
                object.insert("description".to_owned(), facts(description));
            }
            format!("{json}\n")
        }
    }
}

fn heading(description: &Description) -> String {
    let Description { name, processor, links, .. } = description;
    let mut text = format!("{name}: {processor}\n");
    if !links.is_empty() {
        text.push_str(&format!("links: {links}\n"));
    }
    if description.machines > 1 {
        text.push_str(&format!("one of {} equal machines\n", description.machines));
    }
    text + &format!("confidence of its costs: {}\n\n", description.confidence)
}

fn facts(description: &Description) -> Value {
    json!({
        "name": description.name,
        "processor": description.processor,
        "links": description.links,
        "machines": description.machines,
        "confidence": description.confidence,
    })
}
