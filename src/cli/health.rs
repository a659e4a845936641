//! `rosterd healthcheck`: for a container's HEALTHCHECK and for scripts.

use serde_json::json;

use super::args::Healthcheck;
use super::client::{Client, ClientError, Port, Target};
use super::failure::Failure;
use super::output::Output;

/// Asks `/ready`; an unready or unreachable server is a failure.
pub(super) async fn run(args: Healthcheck, output: &mut Output<'_>) -> Result<(), Failure> {
    let client = Client::new(&args.admin, Port::ADMIN)?;
    match client.get(&Target::route("/ready")).await {
        Ok(answer) => {
            let text = String::from_utf8_lossy(&answer.body);
            if args.json {
                output.line(json!({ "ready": true, "text": text.trim_end() }))?;
            } else {
                output.body(&answer.body)?;
            }
            Ok(())
        }
        Err(ClientError::Refused { status, text, .. }) => {
            if args.json {
                output.line(json!({ "ready": false, "text": text.trim_end() }))?;
            }
            Err(Failure::other(format_args!("{} is not ready ({status}): {}", client.address(), text.trim_end())))
        }
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use crate::cli::testing::{Fake, Reply, run};

    #[tokio::test]
    async fn a_ready_server_is_a_success_also_when_it_is_degraded() {
        let fake = Fake::start(|_, _| Reply::ok("degraded: storage\n")).await;
        let ran = run(&fake, &["rosterd", "healthcheck", "--admin", "SERVER"]).await;
        assert_eq!((ran.status, ran.data.as_str(), ran.talk.as_str()), (0, "degraded: storage\n", ""));
        assert_eq!(fake.asked(), ["GET /ready HTTP/1.1"]);
    }

    #[tokio::test]
    async fn a_server_that_is_not_ready_is_a_failure_with_what_is_missing() {
        let fake =
            Fake::start(|_, _| Reply::Whole("503 Service Unavailable", "", "waiting: storage\n".to_owned())).await;
        let ran = run(&fake, &["rosterd", "healthcheck", "--json", "--admin", "SERVER"]).await;
        assert_eq!((ran.status, ran.data.as_str()), (1, "{\"ready\":false,\"text\":\"waiting: storage\"}\n"));
        let said = format!("rosterd: {} is not ready (503 Service Unavailable): waiting: storage\n", fake.url());
        assert_eq!(ran.talk, said);
        let ran = run(&fake, &["rosterd", "healthcheck", "--admin", "127.0.0.1:1"]).await;
        assert!(ran.status == 1 && ran.talk.contains("--admin URL or ROSTERD_ADMIN"), "{}", ran.talk);
    }
}
