//! Logs: to stderr, as text or JSON, with levels that can be changed while the process runs.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::io;
use std::panic;
use std::str::FromStr;
use std::sync::Arc;

use parking_lot::Mutex;
use tracing::field::Field;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::{Writer, debug_fn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt as layer, reload};

/// Loggers that are always listed. A level set for one holds for what is below it, too.
const LOGGERS: &[&str] = &[
    "rosterd",
    "rosterd::admin",
    "rosterd::client",
    "rosterd::consul",
    "rosterd::http1",
    "rosterd::iface",
    "rosterd::interpreter",
    "rosterd::namer",
    "rosterd::runtime",
    "rosterd::storage",
    "rosterd::store",
];

/// More loggers than these are not given levels of their own.
const MOST_LOGGERS: usize = 256;

/// Longest name of a logger.
const MOST_BYTES: usize = 256;

/// How a log line looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Time, level, target, message, fields.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// A level in namerd's words: `ALL TRACE DEBUG INFO WARNING ERROR CRITICAL FATAL OFF`, in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level(LevelFilter);

/// A word that is no level.
#[derive(Clone, Debug, thiserror::Error)]
#[error("Invalid log level: {0}")]
pub struct UnknownLevel(String);

/// Changes the levels of the running process.
#[derive(Clone)]
pub struct LogControl {
    shared: Arc<Shared>,
}

struct Shared {
    levels: Mutex<Levels>,
    apply: Box<dyn Fn(Targets) + Send + Sync>,
}

struct Levels {
    root: Level,
    loggers: BTreeMap<String, Level>,
}

/// Sends the process's logs to stderr, and panics to the log.
///
/// # Errors
/// Logs have been set up before.
pub fn init(format: Format, root: Level) -> Result<LogControl, tracing_subscriber::util::TryInitError> {
    let (filter, handle) = reload::Layer::new(Targets::new().with_default(root.0));
    let lines = layer::layer::<Registry>().with_writer(io::stderr).with_ansi(false);
    let lines = match format {
        Format::Text => lines.fmt_fields(debug_fn(write_field).delimited(" ")).boxed(),
        Format::Json => lines.json().flatten_event(true).boxed(),
    };
    tracing_subscriber::registry().with(lines.with_filter(filter)).try_init()?;
    panic::set_hook(Box::new(log_panic));
    Ok(LogControl::new(root, move |targets| {
        if let Err(error) = handle.reload(targets) {
            tracing::error!(%error, "log levels were not changed");
        }
    }))
}

/// One event is one line, whatever the texts in it are: some are what clients sent.
fn write_field(writer: &mut Writer<'_>, field: &Field, value: &dyn fmt::Debug) -> fmt::Result {
    let mut line = OneLine(writer);
    match field.name() {
        "message" => write!(line, "{value:?}"),
        name => write!(line, "{name}={value:?}"),
    }
}

/// Shows control characters instead of writing them.
struct OneLine<W>(W);

impl<W: fmt::Write> fmt::Write for OneLine<W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for part in text.split_inclusive(char::is_control) {
            match part.chars().next_back().filter(|c| c.is_control()) {
                Some(c) => {
                    self.0.write_str(&part[..part.len() - c.len_utf8()])?;
                    write!(self.0, "{}", c.escape_default())?;
                }
                None => self.0.write_str(part)?,
            }
        }
        Ok(())
    }
}

fn log_panic(info: &panic::PanicHookInfo<'_>) {
    let message = info.payload_as_str().unwrap_or("no message");
    let place = info.location().map(ToString::to_string).unwrap_or_default();
    let thread = std::thread::current().name().unwrap_or("unnamed").to_owned();
    tracing::error!(%place, thread, "panic: {message}; this is a defect, please report it with the log");
}

// === impl Level ===

impl Level {
    /// The default.
    pub const INFO: Self = Self(LevelFilter::INFO);
}

impl FromStr for Level {
    type Err = UnknownLevel;

    fn from_str(text: &str) -> Result<Self, UnknownLevel> {
        Ok(Self(match text.to_ascii_uppercase().as_str() {
            "ALL" | "TRACE" => LevelFilter::TRACE,
            "DEBUG" => LevelFilter::DEBUG,
            "INFO" => LevelFilter::INFO,
            "WARNING" => LevelFilter::WARN,
            "ERROR" | "CRITICAL" | "FATAL" => LevelFilter::ERROR,
            "OFF" => LevelFilter::OFF,
            _ => return Err(UnknownLevel(text.to_owned())),
        }))
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            LevelFilter::TRACE => "TRACE",
            LevelFilter::DEBUG => "DEBUG",
            LevelFilter::INFO => "INFO",
            LevelFilter::WARN => "WARNING",
            LevelFilter::ERROR => "ERROR",
            LevelFilter::OFF => "OFF",
        })
    }
}

// === impl LogControl ===

impl LogControl {
    /// Keeps the levels and hands each new set of them to `apply`.
    pub fn new(root: Level, apply: impl Fn(Targets) + Send + Sync + 'static) -> Self {
        let levels = Mutex::new(Levels { root, loggers: BTreeMap::new() });
        Self { shared: Arc::new(Shared { levels, apply: Box::new(apply) }) }
    }

    /// The level that each logger has now, root first, the others by name.
    pub fn levels(&self) -> Vec<(String, Level)> {
        let levels = self.shared.levels.lock();
        let mut named: BTreeMap<String, Level> =
            LOGGERS.iter().map(|name| ((*name).to_owned(), levels.effective(name))).collect();
        named.extend(levels.loggers.iter().map(|(name, level)| (name.clone(), *level)));
        std::iter::once(("root".to_owned(), levels.root)).chain(named).collect()
    }

    /// Sets the level of a logger, or of `root`: all that have none of their own. A name that is none of this process
    /// (a Java class) changes nothing: false.
    pub fn set(&self, logger: &str, level: Level) -> bool {
        let mut levels = self.shared.levels.lock();
        if logger == "root" {
            levels.root = level;
        } else {
            let known = !logger.is_empty()
                && logger.len() <= MOST_BYTES
                && logger.chars().all(|c| c.is_ascii_alphanumeric() || "_:".contains(c));
            if !known || (levels.loggers.len() >= MOST_LOGGERS && !levels.loggers.contains_key(logger)) {
                return false;
            }
            levels.loggers.insert(logger.to_owned(), level);
        }
        let targets = Targets::new()
            .with_default(levels.root.0)
            .with_targets(levels.loggers.iter().map(|(name, level)| (name.clone(), level.0)));
        drop(levels);
        (self.shared.apply)(targets);
        true
    }
}

impl fmt::Debug for LogControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogControl").finish_non_exhaustive()
    }
}

// === impl Levels ===

impl Levels {
    /// The level of the longest name that `logger` begins with, as the filter sees it.
    fn effective(&self, logger: &str) -> Level {
        let above = self.loggers.iter().filter(|(name, _)| logger.starts_with(name.as_str()));
        above.max_by_key(|(name, _)| name.len()).map_or(self.root, |(_, level)| *level)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn control() -> (LogControl, Arc<Mutex<Option<Targets>>>) {
        let applied = Arc::new(Mutex::new(None));
        let seen = applied.clone();
        (LogControl::new(Level::INFO, move |targets| *seen.lock() = Some(targets)), applied)
    }

    fn shown(control: &LogControl, logger: &str) -> String {
        let levels = control.levels();
        levels.iter().find(|(name, _)| name == logger).map(|(_, level)| level.to_string()).expect("listed")
    }

    #[test]
    fn a_level_holds_for_what_is_below_and_can_be_changed_at_any_time() {
        let (control, applied) = control();
        assert_eq!(control.levels()[0], ("root".to_owned(), Level::INFO));
        assert!(control.set("rosterd::iface", "debug".parse().expect("level")));
        assert!(control.set("root", "WARNING".parse().expect("level")));
        assert_eq!(shown(&control, "rosterd::iface"), "DEBUG");
        assert_eq!(shown(&control, "rosterd::namer"), "WARNING");
        let targets = applied.lock().clone().expect("applied");
        assert!(targets.would_enable("rosterd::iface::http", &tracing::Level::DEBUG));
        assert!(!targets.would_enable("rosterd::namer", &tracing::Level::INFO));
    }

    #[test]
    fn a_text_of_a_client_cannot_begin_a_line_of_its_own() {
        let mut shown = String::new();
        let sent = "NOPE\r\nfake \u{1b}[31mline\n|é";
        write!(OneLine(&mut shown), "level: {sent}").expect("memory");
        assert_eq!(shown, "level: NOPE\\r\\nfake \\u{1b}[31mline\\n|é");
    }

    #[test]
    fn loggers_of_namerd_change_nothing() {
        let (control, applied) = control();
        assert!(!control.set("io.buoyant", Level::INFO));
        assert!(applied.lock().is_none());
    }

    #[test]
    fn every_word_of_namerd_is_a_level() {
        let words = ["ALL", "TRACE", "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL", "FATAL", "OFF"];
        let shown = words.map(|word| word.parse::<Level>().expect("level").to_string());
        assert_eq!(shown, ["TRACE", "TRACE", "DEBUG", "INFO", "WARNING", "ERROR", "ERROR", "ERROR", "OFF"]);
        assert_eq!("WARN".parse::<Level>().expect_err("no level").to_string(), "Invalid log level: WARN");
    }
}
