//! The command-line tool as its users meet it: the built binary, real pipes, real files.

mod figures;
mod flags;
mod harness;
mod limits;
mod lines;
mod long_lines;
mod pipes;
mod samples;
mod sha256;
mod store;
mod store_faults;
mod store_limits;
mod transfer;
