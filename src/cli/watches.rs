//! `rosterd watches`: which watches of routers are missing.

use serde_json::json;

use super::args::Watches;
use super::client::{Client, Port, Target};
use super::failure::Failure;
use super::output::Output;
use crate::ledger::{Report, Standing, Suspect, advice, state};

/// The exit status if some have stopped.
const STOPPED: u8 = 3;

/// Prints them; the exit status.
pub(super) async fn run(args: Watches, output: &mut Output<'_>) -> Result<u8, Failure> {
    let client = Client::new(&args.admin, Port::ADMIN)?;
    let answer = client.get(&Target::route("/admin/watches.json").with("limit", "100000")).await?;
    let mut report: Report = answer.json("a list of watches")?;
    // 1 is also the status of what could not be asked.
    let status = if args.stopped && report.watches.stopped > 0 { STOPPED } else { 0 };
    if args.stopped {
        report.suspects.retain(|suspect| suspect.standing == Standing::Stopped);
    }
    if args.json {
        output.line(json!(report))?;
        return Ok(status);
    }
    let Report { watches, clients, suspects, left_out, .. } = &report;
    output.say(format_args!(
        "{} live, {} late, {} unknown, {} stopped; {clients} clients",
        watches.live, watches.late, watches.unknown, watches.stopped
    ));
    for suspect in suspects {
        let Suspect { client, key, watches, missing_seconds, .. } = suspect;
        let more = if *watches > 1 { format!(" ({watches} of it)") } else { String::new() };
        output.line(format_args!("{}\t{client}\t{key}{more}\tmissing for {missing_seconds} s", state(suspect)))?;
    }
    if *left_out > 0 {
        output.say(format_args!("and {left_out} more"));
    }
    for line in advice(&report) {
        output.say(line);
    }
    Ok(status)
}

#[cfg(test)]
mod tests {
    use crate::cli::testing::{Fake, Reply, run};

    const REPORT: &str = r#"{"watches":{"live":7,"late":1,"unknown":0,"stopped":1},"clients":2,"peersAway":0,"peers":0,
        "unlistedServers":false,"suspects":[
        {"client":"192.0.2.1","asks":"bind","ns":"default","path":"/svc/web","standing":"stopped","watches":1,
         "missingSeconds":95,"heardSecondsAgo":3,"sessions":1},
        {"client":"192.0.2.2","asks":"addr","path":"/#/io.l5d.fs/web","standing":"late","watches":2,
         "missingSeconds":40,"heardSecondsAgo":30,"sessions":0}],"leftOut":0}"#;

    #[tokio::test]
    async fn stopped_watches_are_named_with_what_to_do() {
        let fake = Fake::start(|_, _| Reply::ok(REPORT)).await;
        let ran = run(&fake, &["rosterd", "watches", "--admin", "SERVER"]).await;
        let lines = "stopped\t192.0.2.1\tbind default /svc/web\tmissing for 95 s\n\
                     gone\t192.0.2.2\taddr /#/io.l5d.fs/web (2 of it)\tmissing for 40 s\n";
        assert_eq!((ran.status, ran.data.as_str()), (0, lines));
        assert!(ran.talk.starts_with("7 live, 1 late, 0 unknown, 1 stopped; 2 clients\n"), "{}", ran.talk);
        assert!(ran.talk.contains("restart that router"), "{}", ran.talk);
        assert_eq!(fake.asked(), ["GET /admin/watches.json?limit=100000 HTTP/1.1"]);
    }

    #[tokio::test]
    async fn a_script_can_ask_for_stopped_watches_only() {
        let fake = Fake::start(|_, _| Reply::ok(REPORT)).await;
        let ran = run(&fake, &["rosterd", "watches", "--stopped", "--json", "--admin", "SERVER"]).await;
        assert_eq!(ran.status, 3);
        assert!(ran.data.contains("192.0.2.1") && !ran.data.contains("192.0.2.2"), "{}", ran.data);
    }
}
