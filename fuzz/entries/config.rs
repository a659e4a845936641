//! Any text as a configuration, after a NUL byte also as the second file: it is read, or refused with places that exist.

use rosterd::app::Config;
use rosterd::config::{Report, tree};

pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (main, own) = match text.split_once('\0') {
        Some((main, own)) => (main, Some(own)),
        None => (text, None),
    };
    if let Err(problems) = Config::load("main", main, own.map(|own| ("own", own))) {
        assert!(!problems.list().is_empty(), "refused for no reason");
        let printed = problems.to_string();
        assert!(printed.starts_with("main:") || printed.starts_with("own:"), "{printed}");
        for problem in problems.list() {
            let breaks = |text: &str| text.matches(['\n', '\r']).count();
            let lines = breaks(main).max(own.map_or(0, breaks)) + 1;
            assert!((1..=lines).contains(&(problem.span.line as usize)), "{problem:?}");
            assert!(problem.span.column >= 1, "{problem:?}");
        }
    }
    if main.trim_start().starts_with('{') && serde_json::from_str::<serde_json::Value>(main).is_ok() {
        let mut report = Report::default();
        let file = report.add_source("main", main);
        let root = tree::parse(main, file, &report);
        if let Err(problems) = report.finish(root) {
            // What other readers of JSON accept is refused only for these.
            let allowed = |message: &str| message.starts_with("Duplicate field") || message.starts_with("more than");
            assert!(problems.list().iter().all(|problem| allowed(&problem.message)), "{problems}");
        }
    }
}
