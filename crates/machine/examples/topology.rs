//! Draws a machine: `cargo run --example topology -- [ROOT | name of a shipped description]`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let argument = std::env::args().nth(1);
    let shipped = argument.as_deref().and_then(machine::Description::shipped);
    let topology = match shipped {
        Some(description) => description.topology,
        None => machine::discover(argument.as_deref().map(std::path::Path::new))?,
    };
    print!("{}", machine::render_text(&topology));
    Ok(())
}
