//! The `firstseen` command; `firstseen --help` says what it does.

mod cli;

fn main() -> std::process::ExitCode {
    cli::run(std::env::args_os())
}
