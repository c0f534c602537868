//! `optfilter completions`: a script that teaches a shell the commands and flags.

use crate::failure::Failure;

/// Print a shell completion script
#[derive(clap::Args)]
#[command(
    after_help = "Example: optfilter completions bash > ~/.local/share/bash-completion/completions/optfilter"
)]
pub struct Args {
    /// The shell
    shell: clap_complete::Shell,
    /// Print the script as JSON
    #[arg(long)]
    json: bool,
}

/// Prints the script.
pub fn run(args: &Args, command: &mut clap::Command) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, command, "optfilter", &mut script);
    let script = String::from_utf8_lossy(&script);
    if args.json {
        let about = serde_json::json!({ "shell": args.shell.to_string(), "script": script });
        return crate::files::print(&format!("{about}\n"));
    }
    crate::files::print(&script)
}
