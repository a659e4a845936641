//! namerd's flags. They have one dash and dots, so they are turned into rosterd's own before those are parsed.
//!
//! | namerd | here |
//! |---|---|
//! | `-validate`, `-validate=true` | `--validate` |
//! | `-log.level=X`, `-log.level X` | `--log-level=X` |
//! | `-log.…`, `-com.twitter.…`, `-io.buoyant.…` | left out, with a warning |
//! | `-help` | the usage, and exit code 1, as in namerd |
//! | `-` and `-- -` | `-`: the configuration comes from standard input |
//!
//! All else that has one dash is refused in namerd's words. Arguments of a subcommand are left alone.

use std::ffi::{OsStr, OsString};

use crate::config::nearest;

/// What `rosterd` runs instead of serving, when it is the first word.
pub const SUBCOMMANDS: &[&str] =
    &["check", "version", "healthcheck", "dtab", "bind", "resolve", "delegate", "watch", "watches", "routers", "help"];

/// Flags of the form without a subcommand.
pub(super) const OPTIONS: &[&str] =
    &["--with", "--validate", "--take-over", "--log-level", "--log-format", "--help", "--version"];

/// Flags of rosterd, in front of a configuration or a subcommand, that take a value.
const VALUED: &[&str] = &["--with", "--log-level", "--log-format", "--server", "--admin"];

/// Values of `-log.level`.
pub const LOG_LEVELS: &[&str] = &["OFF", "FATAL", "CRITICAL", "ERROR", "WARNING", "INFO", "DEBUG", "TRACE", "ALL"];

const USAGE: &str = "\
usage: rosterd [flags] path/to/config

flags of namerd that have an effect:
  -help              print this and exit
  -log.level=INFO    OFF, FATAL, CRITICAL, ERROR, WARNING, INFO, DEBUG, TRACE or ALL
  -validate          check the configuration and exit
a configuration named - is read from standard input; rosterd's own flags: rosterd --help
";

/// Arguments without namerd's flags.
#[derive(Debug, PartialEq, Eq)]
pub struct Arguments {
    /// The arguments for rosterd's own parser.
    pub arguments: Vec<OsString>,
    /// One line about all flags that have no effect.
    pub warning: Option<String>,
}

/// Why the process ends instead: text for standard error; the exit code is 1.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stop {
    /// `-help`.
    #[error("{USAGE}")]
    Help,
    /// No configuration, or more than one.
    #[error("usage: rosterd path/to/config\n{0}\n")]
    NotOneConfiguration(String),
    /// A flag, without its dash, that is wrong, and why.
    #[error("Error parsing flag \"{flag}\": {reason}\n{USAGE}")]
    Flag {
        /// The flag.
        flag: String,
        /// Why.
        reason: String,
    },
}

/// Turns namerd's flags into rosterd's. `arguments` are those of the process without its name.
///
/// # Errors
/// [`Stop`] if the arguments start nothing.
pub fn rewrite(arguments: impl IntoIterator<Item = OsString>) -> Result<Arguments, Stop> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    if is_subcommand(&arguments) {
        return Ok(Arguments { arguments, warning: None });
    }
    let mut rewriter = Rewriter::default();
    let mut rest = &arguments[..];
    while let Some((argument, more)) = rest.split_first() {
        rest = rewriter.accept(argument, more)?;
    }
    rewriter.finish()
}

/// Whether the command line, without the name of the process, is that of a subcommand.
pub fn is_subcommand(arguments: &[OsString]) -> bool {
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match argument.to_str() {
            Some(flag) if VALUED.contains(&flag) => {
                arguments.next();
            }
            Some(flag) if flag.len() > 2 && flag.starts_with("--") => {}
            Some(word) => return SUBCOMMANDS.contains(&word),
            None => return false,
        }
    }
    false
}

#[derive(Default)]
struct Rewriter {
    arguments: Vec<OsString>,
    configurations: Vec<OsString>,
    ignored: Vec<String>,
    /// A flag such as `--version` that needs no configuration.
    informs: bool,
}

impl Rewriter {
    /// Takes an argument, and says which arguments are left after it.
    fn accept<'a>(&mut self, argument: &OsStr, rest: &'a [OsString]) -> Result<&'a [OsString], Stop> {
        // A name that is no text is a file's.
        let text = argument.to_str().unwrap_or("config");
        if text == "--" {
            self.configurations.extend_from_slice(rest);
            return Ok(&[]);
        }
        if text.starts_with("--") {
            self.informs |= matches!(text, "--help" | "--version");
            self.arguments.push(argument.to_owned());
            let value = if VALUED.contains(&text) { rest.first() } else { None };
            self.arguments.extend(value.cloned());
            return Ok(&rest[usize::from(value.is_some())..]);
        }
        match text.strip_prefix('-') {
            None | Some("") => {
                self.configurations.push(argument.to_owned());
                Ok(rest)
            }
            Some(flag) => self.flag(flag, rest),
        }
    }

    fn flag<'a>(&mut self, flag: &str, rest: &'a [OsString]) -> Result<&'a [OsString], Stop> {
        let (name, value) = match flag.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (flag, None),
        };
        let stop = |reason: String| Stop::Flag { flag: name.to_owned(), reason };
        match name {
            "help" => Err(Stop::Help),
            "h" | "V" if value.is_none() => {
                self.informs = true;
                self.arguments.push(format!("-{name}").into());
                Ok(rest)
            }
            "validate" => {
                match value {
                    None | Some("true" | "t" | "1") => self.arguments.push("--validate".into()),
                    Some("false" | "f" | "0") => {}
                    Some(other) => return Err(stop(format!("'{other}' is not true or false"))),
                }
                Ok(rest)
            }
            "log.level" => {
                let (level, rest) = match (value, rest) {
                    (Some(level), rest) => (level.to_owned(), rest),
                    (None, [level, rest @ ..]) => (level.to_string_lossy().into_owned(), rest),
                    (None, []) => return Err(stop("flag value is required".to_owned())),
                };
                if !LOG_LEVELS.contains(&level.as_str()) {
                    return Err(stop(format!("Invalid log level: {level}")));
                }
                self.arguments.push(format!("--log-level={level}").into());
                Ok(rest)
            }
            _ if ["log.", "com.twitter.", "io.buoyant."].iter().any(|scope| name.starts_with(scope)) => {
                self.ignored.push(format!("-{name}"));
                let skip = usize::from(value.is_none() && self.takes_next(name, rest));
                Ok(&rest[skip..])
            }
            _ => {
                let near = nearest(name, ["help", "validate", "log.level"].into_iter());
                Err(stop(format!(
                    "flag undefined{}",
                    near.map(|near| format!(" (is it -{near}?)")).unwrap_or_default()
                )))
            }
        }
    }

    /// Whether the argument behind a flag without effect is its value. Which of them are boolean, and have none, is not
    /// known in general; but a configuration must be left over.
    fn takes_next(&self, name: &str, rest: &[OsString]) -> bool {
        let is_word = |argument: &OsString| !argument.to_string_lossy().starts_with('-') || argument == "-";
        let boolean = ["log.async", "log.append", "log.async.inferClassNames"].contains(&name);
        match rest {
            [next, more @ ..] if !boolean => {
                let is_number = next.to_string_lossy().parse::<i64>().is_ok();
                let left_over = !self.configurations.is_empty() || more.iter().any(is_word);
                (is_word(next) || is_number) && next != "-" && left_over
            }
            _ => false,
        }
    }

    fn finish(mut self) -> Result<Arguments, Stop> {
        // What is no option is told by the parser of options, with the nearest one that is.
        let is_option = |argument: &OsString| {
            let text = argument.to_string_lossy();
            let name = text.split_once('=').map_or(&*text, |(name, _)| name);
            !name.starts_with("--") || OPTIONS.contains(&name)
        };
        let well_known = self.arguments.iter().all(is_option);
        if !self.informs && well_known && self.configurations.len() != 1 {
            return Err(Stop::NotOneConfiguration(not_one(&self.configurations)));
        }
        if !self.configurations.is_empty() {
            // So that a file may have any name.
            self.arguments.push("--".into());
            self.arguments.append(&mut self.configurations);
        }
        let warning = (!self.ignored.is_empty())
            .then(|| format!("flags of namerd without effect here: {}", self.ignored.join(", ")));
        Ok(Arguments { arguments: self.arguments, warning })
    }
}

/// What is wrong with a line that names no configuration, or several, and the remedy.
fn not_one(words: &[OsString]) -> String {
    let help = "`rosterd --help` lists commands and options";
    let [first, second, ..] = words else { return format!("no configuration is named; {help}") };
    let (first, second) = (first.to_string_lossy(), second.to_string_lossy());
    match nearest(&first, SUBCOMMANDS.iter().copied()) {
        Some(near) => format!("'{first}' is no command; did you mean `rosterd {near}`? {help}"),
        None => format!("'{first}' and '{second}' are two configurations, where one is served; {help}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(OsString::from).collect()
    }

    fn rewritten(line: &str) -> (String, Option<String>) {
        let Arguments { arguments, warning } = rewrite(arguments(line)).expect("the line starts something");
        (arguments.join(OsStr::new(" ")).into_string().expect("text"), warning)
    }

    fn stops(line: &str) -> String {
        rewrite(arguments(line)).expect_err("the line starts nothing").to_string()
    }

    #[test]
    fn a_configuration_alone_is_enough() {
        for (line, result) in [
            ("namerd.yaml", "-- namerd.yaml"),
            ("-", "-- -"),
            ("-- -", "-- -"),
            ("-- -x.yaml", "-- -x.yaml"),
            ("--with own.yaml namerd.yaml", "--with own.yaml -- namerd.yaml"),
            ("namerd.yaml --with own.yaml", "--with own.yaml -- namerd.yaml"),
            ("--with=own.yaml namerd.yaml", "--with=own.yaml -- namerd.yaml"),
        ] {
            assert_eq!(rewritten(line), (result.to_owned(), None), "{line}");
        }
    }

    #[test]
    fn no_or_several_configurations_are_answered_with_the_usage() {
        for line in ["", "a b", "-- a b", "a -- b", "-validate", "--with a"] {
            let stop = stops(line);
            assert!(
                stop.starts_with("usage: rosterd path/to/config\n") && stop.contains("`rosterd --help`"),
                "{line}: {stop}"
            );
        }
    }

    #[test]
    fn the_word_that_is_wrong_is_named() {
        assert!(stops("chek namerd.yaml").contains("'chek' is no command; did you mean `rosterd check`?"));
        assert!(stops("a.yaml b.yaml").contains("'a.yaml' and 'b.yaml' are two configurations"));
        assert!(stops("--validate").contains("no configuration is named"));
        // The rest is left to the parser of options, which knows the nearest one.
        assert_eq!(rewritten("--wiht x a.yaml"), ("--wiht -- x a.yaml".to_owned(), None));
        assert_eq!(rewritten("--foo"), ("--foo".to_owned(), None));
    }

    #[test]
    fn flags_with_an_effect_become_rosterds_own() {
        for (line, result) in [
            ("-validate c", "--validate -- c"),
            ("-validate=true c", "--validate -- c"),
            ("-validate=false c", "-- c"),
            ("-log.level=DEBUG c", "--log-level=DEBUG -- c"),
            ("-log.level ALL c", "--log-level=ALL -- c"),
            ("c -log.level OFF", "--log-level=OFF -- c"),
        ] {
            assert_eq!(rewritten(line), (result.to_owned(), None), "{line}");
        }
    }

    #[test]
    fn flags_without_effect_are_left_out_with_one_warning() {
        for (line, result, ignored) in [
            ("-log.output=/dev/stderr -log.async=true c", "-- c", "-log.output, -log.async"),
            ("-log.async c", "-- c", "-log.async"),
            ("-log.async.maxsize 4096 c", "-- c", "-log.async.maxsize"),
            ("-log.rotateCount -1 c", "-- c", "-log.rotateCount"),
            ("-com.twitter.finagle.tracing.debugTrace=true c", "-- c", "-com.twitter.finagle.tracing.debugTrace"),
            ("-com.twitter.finagle.tracing.debugTrace c", "-- c", "-com.twitter.finagle.tracing.debugTrace"),
            ("-com.twitter.finagle.naming.namerMaxDepth 100 c", "-- c", "-com.twitter.finagle.naming.namerMaxDepth"),
            ("-com.twitter.x -validate c", "--validate -- c", "-com.twitter.x"),
            ("c -com.twitter.x 1", "-- c", "-com.twitter.x"),
            ("-com.twitter.x -", "-- -", "-com.twitter.x"),
            ("-com.twitter.x -- -", "-- -", "-com.twitter.x"),
            (
                "-io.buoyant.telemetry.admin.histogramSnapshotInterval=1.minute c",
                "-- c",
                "-io.buoyant.telemetry.admin.histogramSnapshotInterval",
            ),
        ] {
            let warning = format!("flags of namerd without effect here: {ignored}");
            assert_eq!(rewritten(line), (result.to_owned(), Some(warning)), "{line}");
        }
    }

    #[test]
    fn wrong_flags_are_refused_in_the_words_of_namerd() {
        for (line, first) in [
            ("-x c", "Error parsing flag \"x\": flag undefined"),
            ("-x=1 c", "Error parsing flag \"x\": flag undefined"),
            ("-valdate c", "Error parsing flag \"valdate\": flag undefined (is it -validate?)"),
            ("-log.level=debug c", "Error parsing flag \"log.level\": Invalid log level: debug"),
            ("c -log.level", "Error parsing flag \"log.level\": flag value is required"),
            ("-validate=maybe c", "Error parsing flag \"validate\": 'maybe' is not true or false"),
        ] {
            let text = stops(line);
            assert_eq!(text.lines().next(), Some(first), "{line}");
            assert!(text.ends_with(USAGE), "{text}");
        }
        assert_eq!(stops("-help"), USAGE);
    }

    #[test]
    fn subcommands_and_questions_are_left_alone() {
        for line in [
            "check -x a b",
            "--json check -x",
            "dtab get -",
            "--server a:1 bind /svc/web",
            "--help",
            "--version",
            "-h",
            "-V",
        ] {
            assert_eq!(rewritten(line), (line.to_owned(), None), "{line}");
        }
    }
}
