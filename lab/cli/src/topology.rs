//! `isles topology`.

use machine::{
    Description, Topology, render_cores_svg, render_costs, render_description_json, render_json,
    render_memory_svg, render_svg, render_text,
};
use serde_json::Value;

use crate::arguments::{Flag, TopologyArguments};
use crate::bad_input::BadInput;
use crate::choices::{TopologyFormat, TopologyView};
use crate::machine_facts::NATIVE;
use crate::machines;

/// Draws the machine that the arguments name.
///
/// # Errors
/// A format or machine that does not exist, or a directory that holds no machine.
pub fn draw(arguments: &TopologyArguments) -> Result<String, BadInput> {
    let format = arguments.format.value_or(TopologyFormat::Text)?;
    let view = arguments.view.value_or(TopologyView::Machine)?;
    if arguments.view.is_some() && format != TopologyFormat::Svg {
        return Err(BadInput::new("--view", "a flag of pictures", "with --format svg"));
    }
    let machine = match (arguments.machine.as_deref(), arguments.sysroot.as_deref()) {
        (Some(_), Some(_)) => {
            let problem = "each names the machine to draw";
            return Err(BadInput::new("--machine with --sysroot", problem, "one of the two"));
        }
        (None, Some(root)) => Machine::Found(Box::new(machines::under(root)?)),
        (None | Some(NATIVE), None) => Machine::Found(Box::new(machines::native()?)),
        (Some(name), None) => {
            let description = machines::described(name)?;
            let whole = description.whole();
            Machine::Described(Box::new(description), Box::new(whole))
        }
    };
    Ok(match format {
        TopologyFormat::Text => text(&machine),
        TopologyFormat::Json => json(&machine),
        TopologyFormat::Svg => picture(&machine, view),
        TopologyFormat::Toml => machine.description().to_toml(),
    })
}

/// A machine, and how it is known.
enum Machine {
    /// Its structure was found; what it costs is anybody's guess.
    Found(Box<Topology>),
    /// A described machine, or all machines of a cluster.
    Described(Box<Description>, Box<Topology>),
}

impl Machine {
    fn topology(&self) -> &Topology {
        match self {
            Machine::Found(topology) | Machine::Described(_, topology) => topology,
        }
    }

    fn known(&self) -> Option<&Description> {
        match self {
            Machine::Found(_) => None,
            Machine::Described(description, _) => Some(description),
        }
    }

    /// Its description, of estimates where only its structure is known.
    fn description(&self) -> Description {
        match self {
            Machine::Found(topology) => Description::of_topology(topology),
            Machine::Described(description, _) => description.as_ref().clone(),
        }
    }
}

fn text(machine: &Machine) -> String {
    let tree = render_text(machine.topology());
    match machine.known() {
        None => format!("{}\n", tree.trim_end()),
        Some(description) => {
            format!("{}{}\n\n{}", heading(description), tree.trim_end(), render_costs(description))
        }
    }
}

fn json(machine: &Machine) -> String {
    let mut json = render_json(machine.topology());
    if let (Some(description), Value::Object(object)) = (machine.known(), &mut json) {
        object.insert("description".to_owned(), render_description_json(description));
    }
    format!("{json}\n")
}

fn picture(machine: &Machine, view: TopologyView) -> String {
    match view {
        TopologyView::Machine => render_svg(machine.topology(), machine.known()),
        TopologyView::Cores => render_cores_svg(&machine.description()),
        TopologyView::Memory => render_memory_svg(&machine.description()),
    }
}

fn heading(description: &Description) -> String {
    let Description { name, processor, links, .. } = description;
    let mut text = match processor.as_str() {
        "" => format!("{name}\n"),
        _ => format!("{name}: {processor}\n"),
    };
    if !links.is_empty() {
        text.push_str(&format!("links: {links}\n"));
    }
    if description.machines > 1 {
        text.push_str(&format!("{} equal machines; costs are those within each\n", description.machines));
    }
    text + &format!("confidence of its costs: {}\n\n", description.confidence)
}
