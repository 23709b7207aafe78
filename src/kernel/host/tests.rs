//! Programs of host code, against what CPython and NumPy print.
