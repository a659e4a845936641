//! What the name server says, to compare with.

use std::collections::BTreeSet;

use futures_util::stream::{self, StreamExt, TryStreamExt};

use super::Place;
use crate::cli::client::{Client, ClientError, Target};
use crate::cli::lookup::answer::Addr;
use crate::interpreter::strip_transformers;
use crate::name::Path;

/// So many ids are asked for at a time.
const AT_ONCE: usize = 8;

/// The HTTP controller of the name server.
pub(super) struct Server {
    client: Client,
}

// === impl Server ===

impl Server {
    pub(super) fn new(client: Client) -> Self {
        Self { client }
    }

    /// The ids whose addresses differ from what the server says, and how.
    pub(super) async fn differing<'p>(
        &self,
        place: &Place,
        addresses: impl Iterator<Item = (&'p String, Vec<&'p str>)>,
    ) -> Result<Vec<(String, String)>, ClientError> {
        let asked = stream::iter(addresses).map(|(id, theirs)| async move {
            let ours = self.addresses(place, id).await?;
            let theirs: BTreeSet<String> = theirs.into_iter().map(str::to_owned).collect();
            let reason = ours.filter(|ours| *ours != theirs).map(|ours| {
                let show = |set: &BTreeSet<String>, other: &BTreeSet<String>| {
                    let only: Vec<&str> = set.difference(other).take(5).map(String::as_str).collect();
                    if only.is_empty() { "none".to_owned() } else { only.join(", ") }
                };
                format!("only at the router: {}; only at the server: {}", show(&theirs, &ours), show(&ours, &theirs))
            });
            Ok(reason.map(|reason| (id.clone(), reason)))
        });
        let found: Vec<Option<(String, String)>> = asked.buffered(AT_ONCE).try_collect().await?;
        Ok(found.into_iter().flatten().collect())
    }

    /// What the server says; None if it cannot tell.
    async fn addresses(&self, place: &Place, id: &str) -> Result<Option<BTreeSet<String>>, ClientError> {
        // Transformers of namers are a matter of the binding: the server knows the id without them.
        let id = Path::parse(id).map_or_else(|_| id.to_owned(), |id| strip_transformers(&id).to_string());
        let target = Target::namespace("/api/1/addr", &place.namespace).with("path", &id);
        let addr: Addr = match self.client.get(&target).await {
            Ok(answer) => answer.json("an address set")?,
            Err(error) if error.status().is_some() => return Ok(None),
            Err(error) => return Err(error),
        };
        Ok(match addr {
            Addr::Bound { addrs, .. } => Some(
                addrs
                    .iter()
                    .map(|addr| match addr.ip.contains(':') {
                        true => format!("[{}]:{}", addr.ip, addr.port),
                        false => format!("{}:{}", addr.ip, addr.port),
                    })
                    .collect(),
            ),
            Addr::Neg => Some(BTreeSet::new()),
            _ => None,
        })
    }
}
