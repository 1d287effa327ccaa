//! The doors for C. `vista.h` is [`vista`](mod@vista)'s.
#![deny(unsafe_code)]

mod vista;
