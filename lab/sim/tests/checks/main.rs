//! Tests of the virtual machine: schedules, costs, endings, links and files.

mod both_platforms;
mod code;
mod common;
mod costs;
mod counters;
mod crashes;
mod descriptions;
mod endings;
mod files;
mod links;
mod network;
mod readers;
mod schedules;
mod seats;
mod siblings;
mod slices;
mod synchronization;
mod touches;
mod translation;
mod waiting;
