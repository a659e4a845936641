//! The command line: serving, checking a configuration, and commands that ask a running server.
//!
//! Data goes to standard output, everything else to standard error.

mod args;
mod check;
mod client;
mod dtab;
mod failure;
mod files;
pub mod flags;
mod health;
mod load;
mod lookup;
mod output;
mod reader;
mod routers;
mod serve;
mod shell;
#[cfg(test)]
mod testing;
mod watches;

use std::ffi::OsString;
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

use args::{Cli, Command, DtabCommand, RoutersCommand};
use check::How;
use failure::Failure;
use lookup::Question;
use output::Output;

/// Does what the command line says. The first of `args` is the name of the program.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    // Not locked: a serving process logs to stderr from all its threads.
    let (mut data, mut talk) = (BufWriter::new(io::stdout()), io::stderr());
    ExitCode::from(run(args.into_iter().collect(), &mut data, &mut talk))
}

/// The exit status: 0 done, 1 failed, 2 the command line of a command is wrong.
fn run(args: Vec<OsString>, data: &mut dyn Write, talk: &mut dyn Write) -> u8 {
    install_crypto();
    let mut output = Output::new(data, talk);
    let mut args = args.into_iter();
    let name = args.next().unwrap_or_else(|| "rosterd".into());
    let args: Vec<OsString> = args.collect();
    // namerd exits with 1 for whatever is wrong, and so does the form of the command line that it shares.
    let wrong = if flags::is_subcommand(&args) { 2 } else { 1 };
    let args = match flags::rewrite(args) {
        Ok(flags::Arguments { arguments, warning }) => {
            warning.into_iter().for_each(|warning| output.say(format_args!("warning: {warning}")));
            arguments
        }
        Err(stop) => {
            // The usage ends with an empty line in namerd, too.
            output.say(format_args!("{stop}\n"));
            return 1;
        }
    };
    let result = match Cli::try_parse_from([name].into_iter().chain(args)) {
        Ok(cli) => dispatch(cli, &mut output),
        Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            output.body(error.render().to_string().as_bytes()).map(|()| 0).map_err(Failure::from)
        }
        Err(error) => {
            output.say(error.render());
            return wrong;
        }
    };
    match result.and_then(|status| Ok(output.flush().map(|()| status)?)) {
        Ok(status) => status,
        Err(failure) if failure.is_closed_pipe() => 0,
        Err(failure) => {
            // What was said so far comes first.
            let _ = output.flush();
            output.say(failure);
            1
        }
    }
}

/// TLS needs one implementation of its algorithms per process.
fn install_crypto() {
    // It fails when there is one already.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// Does it; the exit status.
fn dispatch(cli: Cli, output: &mut Output<'_>) -> Result<u8, Failure> {
    let Cli { config, with, validate, take_over, log_level, log_format, command } = cli;
    let command = match (command, config) {
        (Some(command), _) => command,
        (None, Some(config)) if validate => {
            return check::run(&config, with.as_deref(), How::default(), output).map(|()| 0);
        }
        (None, Some(config)) => {
            return serve::run((&config, with.as_deref()), take_over, (log_format, &log_level), output);
        }
        (None, None) => return Err(Failure::Text(flags::Stop::NotOneConfiguration(String::new()).to_string())),
    };
    let done = match command {
        Command::Check(args) => {
            let how = How { json: args.json, connect: args.connect };
            check::run(&args.config, args.with.as_deref(), how, output)
        }
        Command::Version { json } => version(json, output),
        Command::Healthcheck(args) => ask(health::run(args, output)),
        Command::Dtab(args) if matches!(args.command, DtabCommand::Watch { .. }) => {
            return ask(while_read(dtab::run(args, output)));
        }
        Command::Dtab(args) => return ask(dtab::run(args, output)),
        Command::Bind(args) => ask(lookup::ask(Question::Bind, args, output)),
        Command::Resolve(args) => ask(lookup::ask(Question::Resolve, args, output)),
        Command::Delegate(args) => ask(lookup::ask(Question::Delegate, args, output)),
        Command::Watch(args) => ask(while_read(lookup::watch(args, output))),
        Command::Routers { command: RoutersCommand::Check(args) } => return ask(routers::run(args, output)),
        Command::Watches(args) => return ask(watches::run(args, output)),
    };
    done.map(|()| 0)
}

/// Runs a command that asks a server.
fn ask<T>(command: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::other(format_args!("cannot start: {error}")))?;
    let result = runtime.block_on(command);
    // A name look-up that hangs does not hold up the end.
    runtime.shutdown_background();
    result
}

/// Runs a command that would go on for ever, until nobody reads what it says.
async fn while_read<T: Default>(command: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::select! {
        result = command => result,
        () = reader::gone(io::stdout()) => Ok(T::default()),
    }
}

fn version(json: bool, output: &mut Output<'_>) -> Result<(), Failure> {
    let version = env!("CARGO_PKG_VERSION");
    if json {
        output.line(serde_json::json!({ "name": "rosterd", "version": version }))?;
    } else {
        output.line(format_args!("rosterd {version}"))?;
    }
    Ok(())
}
