//! Tests of the tree, over nodes that stay in memory and over nodes that move and are evicted.

mod long_keys;
mod partition_walk;
mod support;
mod tree_concurrent;
mod tree_guards;
mod tree_model;
mod tree_shape;
