//! Whatever a client does: each use of a tag gets exactly one answer, and nothing is left when the client has gone.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::runtime::Phase;

/// What is done to a session.
#[derive(Clone, Copy, Debug)]
enum Deed {
    Ask { tag: u32, what: u8, treq: bool },
    Discard { tag: u32 },
    Ping,
    Appear { name: u8 },
    Vanish { name: u8 },
    Wait { seconds: u64 },
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        8 => (2..12_u32, any::<u8>(), any::<bool>()).prop_map(|(tag, what, treq)| Deed::Ask { tag, what, treq }),
        3 => (2..12_u32).prop_map(|tag| Deed::Discard { tag }),
        1 => Just(Deed::Ping),
        2 => (0..4_u8).prop_map(|name| Deed::Appear { name }),
        2 => (0..4_u8).prop_map(|name| Deed::Vanish { name }),
        2 => (0..60_u64).prop_map(|seconds| Deed::Wait { seconds }),
    ]
}

fn question(what: u8, stamps: &[[u8; 8]]) -> Vec<u8> {
    let name = what % 4;
    let stamp = stamps.get(usize::from(what) % (stamps.len() + 1)).map_or(&b""[..], |stamp| stamp);
    match what / 32 {
        0 | 1 => bind(stamp, &format!("/svc/{name}")),
        2 | 3 => addr(stamp, &format!("/#/t/{name}")),
        4 => dtab(stamp, "default"),
        5 => delegate(b"1", "/svc/0"),
        6 => delegate(b"", &format!("/svc/{name}")),
        _ => vec![what],
    }
}

struct Conversation {
    world: World,
    router: Peer,
    pending: BTreeSet<u32>,
    stamps: Vec<[u8; 8]>,
}

impl Conversation {
    /// Hears what there is, and what comes within a time.
    async fn hear(&mut self, time: Duration) {
        while let Ok(heard) = timeout(time, self.router.hears_or_ends()).await {
            self.heard(heard.expect("the session goes on"));
        }
    }

    fn heard(&mut self, message: Message) {
        match &message {
            Message::Rping(_) => return,
            Message::Rdispatch { payload, .. } | Message::Rreq { payload, .. } => {
                let answer = Answer(payload.clone());
                if payload.len() > 40 && answer.after_head()[..3] == [12, 0, 0] {
                    self.stamps.push(answer.stamp());
                }
            }
            Message::Rdiscarded(_) => {}
            other => panic!("heard {other:?}"),
        }
        assert!(self.pending.remove(&message.tag().get()), "nothing was pending for {message:?}");
    }

    async fn does(&mut self, deed: Deed) {
        match deed {
            Deed::Ask { tag, what, treq } => {
                if !self.pending.insert(tag) {
                    return; // the tag is in use
                }
                let (tag, payload) = (Tag::new(tag), question(what, &self.stamps).into());
                let message = if treq { Message::Treq { tag, payload } } else { Message::Tdispatch { tag, payload } };
                self.router.say(&message).await;
            }
            Deed::Discard { tag } => {
                let (which, reason) = (Tag::new(tag), Bytes::new());
                self.router.say(&Message::Tdiscarded { tag: Tag::MARKER, which, reason }).await;
                // Its answer may have been on the way. Until one of the two was heard, the tag is not free.
                if self.pending.contains(&tag) {
                    self.hear(Duration::from_millis(1)).await;
                    assert!(!self.pending.contains(&tag), "neither answered nor confirmed");
                }
            }
            Deed::Ping => self.router.say(&Message::Tping(Tag::CONTROL)).await,
            Deed::Appear { name } => self.world.fixture.serve(&format!("/{name}"), &["127.0.0.1:80"]),
            Deed::Vanish { name } => self.world.fixture.remove(&format!("/{name}")),
            Deed::Wait { seconds } => self.hear(Duration::from_secs(seconds)).await,
        }
    }

    async fn ends(mut self) {
        self.hear(Duration::from_millis(1)).await;
        self.world.core.drain.enter(Phase::Close);
        while let Some(heard) = self.router.hears_or_ends().await {
            self.heard(heard);
        }
        assert!(self.pending.is_empty(), "never answered: {:?}", self.pending);
        drop(self.router);
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(self.world.server.topics.in_use(), 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn each_use_of_a_tag_gets_exactly_one_answer(deeds in proptest::collection::vec(deed(), 0..80)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        runtime.expect("a runtime").block_on(async {
            let world = World::new();
            let router = world.router().await;
            let mut all = Conversation { world, router, pending: BTreeSet::new(), stamps: Vec::new() };
            for deed in deeds {
                all.does(deed).await;
            }
            all.ends().await;
        });
    }

    #[test]
    fn any_bytes_end_a_session_or_are_answered(
        frames in proptest::collection::vec((any::<u8>(), proptest::collection::vec(any::<u8>(), 0..40)), 0..20),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        runtime.expect("a runtime").block_on(async {
            let world = World::new();
            let mut peer = world.connect();
            for (kind, rest) in frames {
                let body = [&[kind], &rest[..]].concat();
                if peer.io.write_all(&framed(&body)).await.is_err() {
                    break; // closed already
                }
            }
            peer.io.shutdown().await.expect("memory does not fail");
            let mut all = Vec::new();
            timeout(Duration::from_secs(300), peer.io.read_to_end(&mut all)).await.expect("it ends").expect("memory");
            assert_eq!(world.server.topics.in_use(), 0);
        });
    }
}
