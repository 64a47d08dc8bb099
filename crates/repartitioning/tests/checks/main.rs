//! Tests of the crate from outside.

mod controller;
mod effort;
mod maps;
mod optimum;
mod simulation;
mod support;
