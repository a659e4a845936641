//! The command line: what can be said, and what is refused before anything is done.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::{Args, Parser, Subcommand, ValueEnum};

use super::flags::LOG_LEVELS;
use crate::name::{Dtab, Path};

/// Names in, addresses out: a name server for Linkerd 1 routers.
///
/// `rosterd CONFIG` serves. The commands work beside a server: some look at a configuration file, the others ask a
/// running server.
#[derive(Debug, Parser)]
#[command(
    name = "rosterd",
    version,
    args_conflicts_with_subcommands = true,
    after_help = "Exit status: 0 done, 1 failed, 2 the command line of a command is wrong."
)]
pub(super) struct Cli {
    /// The configuration to serve; `-` is standard input.
    #[arg(value_name = "CONFIG")]
    pub(super) config: Option<PathBuf>,
    /// A second file, with keys that only rosterd has.
    #[arg(long, value_name = "FILE")]
    pub(super) with: Option<PathBuf>,
    /// Only check the configuration, as `rosterd check` does (also `-validate`).
    #[arg(long)]
    pub(super) validate: bool,
    /// Take the place of the process that is running with this `stateDir`, on its addresses; if there is none, just start.
    #[arg(long)]
    pub(super) take_over: bool,
    /// What is logged (`-log.level` in namerd).
    #[arg(long, value_name = "LEVEL", default_value = "INFO", value_parser = PossibleValuesParser::new(LOG_LEVELS))]
    pub(super) log_level: String,
    /// How log lines look.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = LogFormat::Text)]
    pub(super) log_format: LogFormat,
    /// What to do instead of serving.
    #[command(subcommand)]
    pub(super) command: Option<Command>,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// What rosterd does besides serving.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Check a configuration without opening a port.
    Check(Check),
    /// Print the version.
    Version {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Ask a running server whether it is ready.
    Healthcheck(Healthcheck),
    /// Read and write the dtabs of a running server.
    Dtab(DtabArgs),
    /// Show what a name is bound to.
    Bind(Lookup),
    /// Show the addresses of a name.
    Resolve(Lookup),
    /// Show, step by step, how a name is looked up.
    Delegate(Lookup),
    /// Follow what a name is bound to, and the addresses, one line per change.
    Watch(Lookup),
    /// Show which watches of routers are missing, or have stopped.
    Watches(Watches),
    /// Look at Linkerd 1 routers from their own side.
    Routers {
        /// What to do.
        #[command(subcommand)]
        command: RoutersCommand,
    },
}

/// `rosterd routers`.
#[derive(Debug, Subcommand)]
pub(super) enum RoutersCommand {
    /// Read the admin pages of routers, and name the watches that are dead, hung or stale; exit status 1 if there are
    /// any. Works whatever their name server is.
    Check(RoutersCheck),
}

/// `rosterd routers check`.
#[derive(Debug, Args)]
pub(super) struct RoutersCheck {
    /// Admin servers of routers, such as http://10.0.0.1:9990; or a page of interpreter_state.
    #[arg(value_name = "URL", required = true)]
    pub(super) urls: Vec<String>,
    /// The HTTP controller of their name server: a router whose addresses differ from it is stale.
    #[arg(long, value_name = "URL", env = "ROSTERD_SERVER")]
    pub(super) server: Option<String>,
    /// A poll that is older is hung. 0: never, as with a namerd, which holds polls for as long as nothing changes.
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    pub(super) max_poll_age: u64,
    /// The longest wait of routers whose polls fail (`retry.maxSeconds`).
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    pub(super) retry_max: u64,
    /// Namespaces to look at, where a router does not show its configuration.
    #[arg(long, value_name = "NS")]
    pub(super) namespace: Vec<String>,
    /// Print JSON.
    #[arg(long)]
    pub(super) json: bool,
}

/// `rosterd watches`.
#[derive(Debug, Args)]
pub(super) struct Watches {
    /// The admin server to ask.
    #[arg(long, value_name = "URL", env = "ROSTERD_ADMIN", default_value = "http://127.0.0.1:9991")]
    pub(super) admin: String,
    /// Only those that have stopped; exit status 3 if there are any. (While peers cannot be asked they are unknown, which
    /// the summary shows.)
    #[arg(long)]
    pub(super) stopped: bool,
    /// Print JSON.
    #[arg(long)]
    pub(super) json: bool,
}

/// `rosterd check`.
#[derive(Debug, Args)]
pub(super) struct Check {
    /// The configuration; `-` is standard input.
    #[arg(value_name = "FILE")]
    pub(super) config: PathBuf,
    /// A second file, with keys that only rosterd has.
    #[arg(long, value_name = "FILE")]
    pub(super) with: Option<PathBuf>,
    /// Ask the backends, too: whether they are there, and whether rosterd may do there what it needs.
    #[arg(long)]
    pub(super) connect: bool,
    /// Print JSON.
    #[arg(long)]
    pub(super) json: bool,
}

/// `rosterd healthcheck`.
#[derive(Debug, Args)]
pub(super) struct Healthcheck {
    /// The admin server to ask.
    #[arg(long, value_name = "URL", env = "ROSTERD_ADMIN", default_value = "http://127.0.0.1:9991")]
    pub(super) admin: String,
    /// Print JSON.
    #[arg(long)]
    pub(super) json: bool,
}

/// How to reach the server, and how to print what it says.
#[derive(Debug, Args)]
pub(super) struct Asking {
    /// The HTTP controller to ask.
    #[arg(long, global = true, value_name = "URL", env = "ROSTERD_SERVER", default_value = "http://127.0.0.1:4180")]
    pub(super) server: String,
    /// Print JSON.
    #[arg(long, global = true)]
    pub(super) json: bool,
}

/// `rosterd dtab`.
#[derive(Debug, Args)]
pub(super) struct DtabArgs {
    /// The server.
    #[command(flatten)]
    pub(super) asking: Asking,
    /// What to do.
    #[command(subcommand)]
    pub(super) command: DtabCommand,
}

/// What can be done with dtabs.
#[derive(Debug, Subcommand)]
pub(super) enum DtabCommand {
    /// List the namespaces.
    #[command(visible_alias = "ls")]
    List,
    /// Print a dtab, with its version.
    #[command(visible_alias = "cat")]
    Get {
        /// Whose dtab.
        #[arg(value_parser = namespace)]
        namespace: String,
    },
    /// Replace a dtab, or make it if there is none.
    #[command(visible_aliases = ["update", "up"])]
    Put {
        /// Whose dtab.
        #[arg(value_parser = namespace)]
        namespace: String,
        /// The new dtab; `-` is standard input.
        file: PathBuf,
        /// Only if the stored dtab still has this version, which `dtab get` shows.
        #[arg(long, value_name = "VERSION", visible_alias = "version")]
        if_match: Option<String>,
        /// Wait until all watches of routers have it, at all replicas, and say who has not; exit status 3 then.
        #[arg(long, value_name = "TIME", value_parser = duration)]
        wait: Option<Duration>,
        /// The admin server that knows of watches.
        #[arg(
            long,
            value_name = "URL",
            env = "ROSTERD_ADMIN",
            default_value = "http://127.0.0.1:9991",
            requires = "wait"
        )]
        admin: String,
    },
    /// Make a namespace; refused if it exists.
    #[command(visible_alias = "new")]
    Create {
        /// Its name.
        #[arg(value_parser = namespace)]
        namespace: String,
        /// Its dtab; `-` is standard input.
        file: PathBuf,
    },
    /// Remove a namespace with its dtab.
    #[command(visible_aliases = ["del", "rm"])]
    Delete {
        /// Which one.
        #[arg(value_parser = namespace)]
        namespace: String,
    },
    /// Change a dtab in an editor ($VISUAL, $EDITOR, else vi).
    Edit {
        /// Whose dtab.
        #[arg(value_parser = namespace)]
        namespace: String,
    },
    /// Follow a dtab, one line per change; without a namespace, the list of namespaces.
    Watch {
        /// Whose dtab.
        #[arg(value_parser = namespace)]
        namespace: Option<String>,
    },
}

/// `rosterd bind`, `resolve`, `delegate` and `watch`.
#[derive(Debug, Args)]
pub(super) struct Lookup {
    /// The server.
    #[command(flatten)]
    pub(super) asking: Asking,
    /// Whose dtab to use. A namespace that does not exist has an empty dtab.
    #[arg(value_parser = namespace)]
    pub(super) namespace: String,
    /// The name to look up, such as /svc/web.
    #[arg(value_parser = path)]
    pub(super) path: String,
    /// Entries that are added to the dtab for this request, and win over it.
    #[arg(long, value_name = "TEXT", value_parser = dtab)]
    pub(super) dtab: Option<String>,
}

/// `30s`, `2m`, `500ms`; a number alone is seconds.
fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.find(|char: char| !char.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let millis = match unit {
        "ms" => 1,
        "" | "s" => 1_000,
        "m" => 60_000,
        _ => return Err("a time is a number of seconds, or has a unit: 500ms, 30s, 2m".to_owned()),
    };
    let number: u32 = number.parse().map_err(|_| "a time is a number and a unit: 30s".to_owned())?;
    Ok(Duration::from_millis(u64::from(number) * millis))
}

/// Namespaces go into the path of a URL, where some names cannot be said.
fn namespace(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Err("a namespace has a name".to_owned());
    }
    if text.split('/').any(|part| matches!(part.replace("%2e", ".").replace("%2E", ".").as_str(), "." | "..")) {
        return Err("a URL cannot name a namespace with an element . or ..".to_owned());
    }
    Ok(text.to_owned())
}

/// The server reads it again; this only tells a mistake from a failure.
fn path(text: &str) -> Result<String, String> {
    match Path::parse(text) {
        Err(error) if error.limit().is_none() => Err(error.to_string()),
        _ => Ok(text.to_owned()),
    }
}

/// As [`path`].
fn dtab(text: &str) -> Result<String, String> {
    match Dtab::parse(text) {
        Err(error) if error.limit().is_none() => Err(error.to_string()),
        _ => Ok(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn refused(line: &str) -> String {
        Cli::try_parse_from(line.split(' ')).expect_err("must be refused").to_string()
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_options_without_a_command_are_those_that_flags_knows() {
        let command = Cli::command();
        for option in command.get_arguments().filter_map(|argument| argument.get_long()) {
            assert!(super::super::flags::OPTIONS.contains(&format!("--{option}").as_str()), "{option}");
        }
    }

    #[test]
    fn a_file_without_a_command_is_served() {
        let cli = Cli::try_parse_from(["rosterd", "namerd.yaml", "--with", "own.yaml"]).unwrap();
        assert_eq!((cli.config, cli.with), (Some("namerd.yaml".into()), Some("own.yaml".into())));
        assert!(cli.command.is_none());
        assert_eq!(Cli::try_parse_from(["rosterd", "-"]).unwrap().config, Some("-".into()));
        assert_eq!(Cli::try_parse_from(["rosterd", "--", "-"]).unwrap().config, Some("-".into()));
    }

    #[test]
    fn a_mistyped_name_is_refused_before_a_server_is_asked() {
        assert!(refused("rosterd bind default svc/web").contains("'/' expected but 's' found at '[s]vc/web'"));
        assert!(refused("rosterd bind default /svc --dtab /a=/b").contains("'>' expected but '/' found at '/a=[/]b'"));
        assert!(refused("rosterd dtab get ..").contains("a URL cannot name a namespace"));
        assert!(refused("rosterd dtab get a/%2e%2E/b").contains("a URL cannot name a namespace"));
    }

    #[test]
    fn the_server_may_be_named_before_and_behind_a_dtab_command() {
        for line in ["rosterd dtab --server http://x:1 list", "rosterd dtab list --server http://x:1"] {
            let cli = Cli::try_parse_from(line.split(' ')).unwrap();
            let Some(Command::Dtab(dtab)) = cli.command else { panic!("{line}") };
            assert_eq!(dtab.asking.server, "http://x:1");
        }
    }
}
