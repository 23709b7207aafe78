//! Tensor graphs, compiled node by node.
