//! Tests of the memory tier without races.
