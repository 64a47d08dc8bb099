//! The workloads on a model and on the real engine.
#![allow(missing_docs)]

mod both_ways;
mod dependent;
mod flow;
mod homes;
mod micro;
mod model;
mod shuffled;
mod support;
mod tatp;
mod tpcb;
mod tpcc;
mod tpcc_conditions;
mod tpcc_engine;
mod tpcc_ways;
mod ycsb;
