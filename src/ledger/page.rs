//! The page of watches, for people.

use std::fmt::Write;

use super::{Report, Standing, Suspect};

/// The report as a page of HTML.
pub fn html(report: &Report) -> String {
    let mut page = String::from(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>rosterd: watches</title>\n<style>\
         body{font-family:sans-serif;margin:2em}td,th{text-align:left;padding:.2em 1em .2em 0;vertical-align:top}\
         .stopped{color:#b00}</style></head>\n<body><h1>Watches</h1>\n<p>",
    );
    for standing in Standing::ALL {
        // Writing to a string does not fail.
        let _ = write!(page, "{} {}; ", report.watches.of(standing), standing.name());
    }
    let _ = writeln!(page, "{} clients</p>", report.clients);
    for line in advice(report) {
        let _ = writeln!(page, "<p>{}</p>", escaped(&line));
    }
    if !report.suspects.is_empty() {
        page.push_str(
            "<table><tr><th>client</th><th>state</th><th>watch</th><th>missing for</th><th>client heard</th>\
             <th>sessions</th></tr>\n",
        );
        for suspect in &report.suspects {
            let count = if suspect.watches > 1 { format!(" ({} of it)", suspect.watches) } else { String::new() };
            let _ = writeln!(
                page,
                "<tr class=\"{0}\"><td>{1}</td><td>{0}</td><td>{2}{count}</td><td>{3}</td><td>{4} ago</td><td>{5}</td></tr>",
                state(suspect),
                suspect.client,
                escaped(&suspect.key.to_string()),
                age(suspect.missing_seconds),
                age(suspect.heard_seconds_ago),
                suspect.sessions,
            );
        }
        page.push_str("</table>\n");
    }
    if report.left_out > 0 {
        let _ = writeln!(page, "<p>and {} more</p>", report.left_out);
    }
    page.push_str("</body></html>\n");
    page
}

/// How a suspect stands, in words.
pub fn state(suspect: &Suspect) -> &'static str {
    if suspect.is_gone() { "gone" } else { suspect.standing.name() }
}

/// What to do about it, a sentence for each thing.
pub fn advice(report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    if report.watches.stopped > 0 {
        lines.push(
            "Stopped: the router follows this name no more and goes on with its last answer, without a word in its log. \
             Nothing that a server sends revives it: restart that router. `rosterd routers check` looks at it from the \
             router's side."
                .to_owned(),
        );
    }
    if report.watches.late > 0 {
        lines.push("Late: cut by a restart or a broken connection, and expected to come again.".to_owned());
    }
    if report.suspects.iter().any(|suspect| suspect.is_gone()) {
        lines.push(
            "Gone: the router has no session here, so it has ended, or moved, or all that it watched has stopped. If it \
             runs, look at it with `rosterd routers check`."
                .to_owned(),
        );
    }
    if report.peers_away > 0 {
        lines.push(format!(
            "{} of {} peers cannot be asked or keep no ledger: what is unknown may be there.",
            report.peers_away, report.peers
        ));
    }
    if report.unlisted_servers {
        lines.push(
            "Some routers come from servers that ledger.peers does not list: what of theirs is unknown may be there. List \
             all replicas."
                .to_owned(),
        );
    }
    lines
}

/// Seconds as people say it.
fn age(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        _ => format!("{} h", seconds / 3_600),
    }
}

fn escaped(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut out, char| {
        match char {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            char if char.is_control() => out.extend(char.escape_default()),
            char => out.push(char),
        }
        out
    })
}
