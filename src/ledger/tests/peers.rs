//! Replicas that ask each other.

use super::*;

/// Replicas in step.
struct Fleet(Vec<Replica>);

impl Fleet {
    /// So many replicas, all of which know each other; for long enough.
    fn new(count: usize) -> Self {
        let mut fleet = Self((0..count).map(|_| Replica::new(count)).collect());
        fleet.pass(700);
        fleet
    }

    fn pass(&mut self, seconds: u64) {
        for _ in 0..seconds.div_ceil(5) {
            for asking in 0..self.0.len() {
                for asked in 0..self.0.len() {
                    self.ask(asking, asked);
                }
            }
            for replica in &mut self.0 {
                replica.pass(5);
            }
        }
    }

    fn ask(&mut self, asking: usize, asked: usize) {
        let (mut since, mut gone) = (self.0[asking].book.asked_until(asked), None);
        loop {
            let changes = self.0[asked].book.changes(self.0[asked].now, since, gone);
            gone = Some(changes.gone);
            let changes: Changes = serde_json::from_str(&serde_json::to_string(&changes).expect("told")).expect("read");
            let now = self.0[asking].now;
            match self.0[asking].book.merge(now, asked, &changes).expect("sense") {
                Some(next) => since = next,
                None => return,
            }
        }
    }

    fn missing(&self) -> Vec<[usize; 3]> {
        self.0.iter().map(Replica::missing).collect()
    }

    fn tell(&mut self, replica: usize, client: &str, event: Event) {
        self.0[replica].tell(client, event);
    }
}

const NOTHING: [usize; 3] = [0, 0, 0];
const STOPPED: [usize; 3] = [0, 0, 1];

#[test]
fn a_watch_that_went_to_a_peer_is_not_missed() {
    let (mut fleet, web) = (Fleet::new(2), bind("/svc/web"));
    fleet.tell(0, A, Event::Opened);
    fleet.tell(0, A, Event::Claimed(web.clone()));
    fleet.pass(60);
    fleet.tell(1, A, Event::Claimed(web.clone()));
    fleet.pass(10);
    fleet.tell(0, A, silent(&web));
    fleet.pass(600);
    assert_eq!(fleet.missing(), [NOTHING, NOTHING]);
    // And back, on the session that is still open there.
    fleet.tell(0, A, Event::Claimed(web.clone()));
    fleet.pass(10);
    fleet.tell(1, A, silent(&web));
    fleet.pass(600);
    assert_eq!(fleet.missing(), [NOTHING, NOTHING]);
    // Until it stops: reported by the one that answered last.
    fleet.tell(0, A, silent(&web));
    fleet.pass(30);
    assert_eq!(fleet.missing(), [STOPPED, NOTHING]);
}

#[test]
fn a_watch_that_a_peer_was_asked_for_and_given_up_there_is_not_missed() {
    let (mut fleet, web) = (Fleet::new(2), bind("/svc/web"));
    fleet.tell(0, A, Event::Claimed(web.clone()));
    fleet.pass(60);
    fleet.tell(1, A, Event::Claimed(web.clone()));
    fleet.tell(1, A, released(&web));
    fleet.pass(10);
    fleet.tell(0, A, silent(&web));
    fleet.pass(600);
    assert_eq!(fleet.missing(), [NOTHING, NOTHING]);
}

#[test]
fn one_of_two_routers_behind_an_address_is_missed_when_only_the_other_one_came_to_a_peer() {
    let (mut fleet, web) = (Fleet::new(2), bind("/svc/web"));
    for event in [Event::Claimed(web.clone()), Event::Claimed(web.clone()), cut(&web), cut(&web)] {
        fleet.tell(0, A, event);
    }
    fleet.pass(2);
    fleet.tell(1, A, Event::Claimed(web.clone()));
    fleet.pass(640);
    assert_eq!(fleet.missing(), [STOPPED, NOTHING]);

    // But not if both came.
    let mut fleet = Fleet::new(2);
    for event in [Event::Claimed(web.clone()), Event::Claimed(web.clone()), cut(&web), cut(&web)] {
        fleet.tell(0, A, event);
    }
    fleet.tell(1, A, Event::Claimed(web.clone()));
    fleet.pass(40);
    fleet.tell(1, A, Event::Claimed(web.clone()));
    fleet.pass(640);
    assert_eq!(fleet.missing(), [NOTHING, NOTHING]);
}

#[test]
fn a_watch_of_a_replica_that_goes_is_missed_at_those_that_stay() {
    let (mut fleet, web, other) = (Fleet::new(3), bind("/svc/web"), bind("/svc/other"));
    for key in [&web, &other] {
        fleet.tell(0, A, Event::Claimed(key.clone()));
    }
    fleet.pass(60);
    // It dies, and a new one is at its address after a while, which knows nothing.
    let mut seconds = 0;
    while seconds < 40 {
        for (asking, asked) in [(1, 2), (2, 1)] {
            fleet.ask(asking, asked);
        }
        for replica in &mut fleet.0[1..] {
            replica.pass(5);
        }
        seconds += 5;
    }
    fleet.tell(1, A, Event::Claimed(other.clone()));
    fleet.tell(2, A, Event::Claimed(bind("/svc/third")));
    fleet.0[0] = Replica { now: fleet.0[1].now, ..Replica::new(3) };
    fleet.pass(5);
    assert_eq!(fleet.missing()[1][0], 1, "one of them has come");
    fleet.pass(700);
    assert_eq!(fleet.missing(), [NOTHING, STOPPED, STOPPED]);
    assert_eq!(fleet.0[2].book.report(fleet.0[2].now, 1).suspects[0].key, web);
}

#[test]
fn while_a_peer_is_away_nothing_has_stopped_for_certain() {
    let (mut fleet, web) = (Fleet::new(2), bind("/svc/web"));
    fleet.tell(0, A, Event::Claimed(web.clone()));
    fleet.tell(0, A, silent(&web));
    fleet.0[0].pass(100);
    assert_eq!(fleet.0[0].missing(), [0, 1, 0]);
    assert_eq!(fleet.0[0].book.report(fleet.0[0].now, 0).peers_away, 1);
    // It was away, so it may have had the watch and lost it: that takes as long as a router may wait.
    fleet.0[1].now = fleet.0[0].now;
    fleet.pass(600);
    assert_eq!(fleet.missing(), [[0, 1, 0], NOTHING]);
    fleet.pass(60);
    assert_eq!(fleet.missing(), [STOPPED, NOTHING]);
}

#[test]
fn a_peer_that_keeps_no_ledger_leaves_everything_unknown() {
    let (mut one, web) = (Replica::new(1), bind("/svc/web"));
    one.all(A, [Event::Opened, Event::Claimed(web.clone()), silent(&web)]);
    one.pass(24 * 3_600 - 60);
    assert_eq!(one.missing(), [0, 1, 0]);
}

#[test]
fn a_replica_in_its_own_list_is_no_peer() {
    let (mut fleet, web) = (Fleet::new(1), bind("/svc/web"));
    fleet.tell(0, A, Event::Claimed(web.clone()));
    fleet.tell(0, A, silent(&web));
    fleet.pass(100);
    assert_eq!(fleet.missing(), [STOPPED]);
    assert_eq!(fleet.0[0].book.report(fleet.0[0].now, 0).peers, 0);
}

#[test]
fn only_what_has_changed_is_told() {
    let mut one = Replica { book: Book::new(Rules { most_entries: 100_000, ..RULES }, 0), now: Moment::START };
    let keys: Vec<_> = (0..MOST_CHANGES + 5).map(|n| bind(&format!("/svc/{n}"))).collect();
    one.all(A, keys.iter().cloned().map(Event::Claimed));
    let first = one.book.changes(one.now, 0, None);
    assert_eq!((first.entries.len(), first.more, first.reset, first.clients.len()), (MOST_CHANGES, true, true, 1));
    let rest = one.book.changes(one.now, first.seq, None);
    assert_eq!((rest.entries.len(), rest.more, rest.reset), (5, false, false));
    assert!(one.book.changes(one.now, rest.seq, None).entries.is_empty());
    one.tell(B, Event::Claimed(keys[3].clone()));
    let news = one.book.changes(one.now, rest.seq, None);
    assert_eq!((news.entries.len(), &news.keys[..], &news.clients[..]), (1, &keys[3..4], &[ip(B)][..]));
    // Whoever missed that an entry has gone begins anew.
    one.tell(B, released(&keys[3]));
    let before = one.book.changes(one.now, news.seq, None).seq;
    one.pass(400);
    assert!(!one.book.changes(one.now, before, None).reset && one.book.changes(one.now, rest.seq, None).reset);
    assert!(one.book.changes(one.now, 1 << 40, None).reset, "that is another process's number");
}

#[test]
fn a_read_of_many_pages_ends_though_something_that_changed_late_has_gone() {
    let mut one = Replica { book: Book::new(Rules { most_entries: 100_000, ..RULES }, 0), now: Moment::START };
    let keys: Vec<_> = (0..MOST_CHANGES + 5).map(|n| bind(&format!("/svc/{n}"))).collect();
    one.all(A, keys.iter().cloned().map(Event::Claimed));
    one.tell(B, Event::Claimed(keys[3].clone()));
    one.tell(B, released(&keys[3]));
    one.pass(400);
    let first = one.book.changes(one.now, 0, None);
    assert!(first.more && first.gone > first.seq);
    let rest = one.book.changes(one.now, first.seq, Some(first.gone));
    assert_eq!((rest.entries.len(), rest.more, rest.reset), (5, false, false));
    assert!(one.book.changes(one.now, first.seq, Some(first.gone - 1)).reset, "more has gone than that reader knows");
}

#[test]
fn a_watch_that_went_on_from_a_replica_before_that_went_is_not_missed() {
    let (mut fleet, web) = (Fleet::new(3), bind("/svc/web"));
    for replica in 0..3 {
        fleet.tell(replica, A, Event::Opened);
    }
    fleet.tell(0, A, Event::Claimed(web.clone()));
    fleet.pass(60);
    // It goes elsewhere; the first replica is asked after that, and is another process the next time.
    fleet.tell(1, A, Event::Claimed(web.clone()));
    fleet.pass(5);
    fleet.0[0] = Replica { now: fleet.0[1].now, ..Replica::new(3) };
    fleet.pass(1_000);
    assert_eq!(fleet.missing(), [NOTHING; 3]);
}

#[test]
fn what_a_process_has_taken_up_from_the_one_before_is_its_own_to_miss() {
    let (mut fleet, web) = (Fleet::new(2), bind("/svc/web"));
    for replica in 0..2 {
        fleet.tell(replica, A, Event::Opened);
    }
    fleet.tell(0, A, Event::Claimed(web.clone()));
    fleet.pass(60);
    fleet.tell(0, A, released(&web));
    let mut next = Replica { now: fleet.0[0].now, ..Replica::new(2) };
    let kept = fleet.0[0].book.changes(next.now, 0, None);
    next.book.take_up(next.now, (next.now, next.now), &kept).expect("sense");
    fleet.0[0] = next;
    fleet.pass(1_000);
    assert_eq!(fleet.missing(), [NOTHING; 2], "the other one had not heard yet that it was given up");
}

#[test]
fn a_death_behind_a_shared_address_is_seen_however_the_other_router_moves() {
    let (mut fleet, web) = (Fleet::new(2), bind("/svc/web"));
    for replica in [0, 0, 1, 1] {
        fleet.tell(replica, A, Event::Opened);
    }
    for _ in 0..2 {
        fleet.tell(0, A, Event::Claimed(web.clone()));
    }
    fleet.pass(60);
    // Both are answered. One goes to the other replica, and the other one nowhere.
    fleet.tell(1, A, Event::Claimed(web.clone()));
    fleet.pass(10);
    fleet.tell(0, A, silent(&web));
    fleet.tell(0, A, silent(&web));
    fleet.pass(60);
    assert_eq!(fleet.missing(), [STOPPED, NOTHING]);
    // And back it goes, and there again.
    for _ in 0..5 {
        fleet.tell(0, A, Event::Resumed { key: web.clone(), failed: false });
        fleet.pass(10);
        fleet.tell(1, A, silent(&web));
        fleet.pass(60);
        assert_eq!(fleet.missing(), [STOPPED, NOTHING]);
        fleet.tell(1, A, Event::Resumed { key: web.clone(), failed: false });
        fleet.pass(10);
        fleet.tell(0, A, silent(&web));
        fleet.pass(60);
        assert_eq!(fleet.missing(), [STOPPED, NOTHING]);
    }
}

#[test]
fn a_name_with_two_servers_behind_it_is_no_peer_and_makes_nobody_suspect() {
    let (mut one, web) = (Replica::new(1), bind("/svc/web"));
    let mut both = [Replica::new(0), Replica::new(0)];
    for replica in &mut both {
        replica.tell(A, Event::Claimed(web.clone()));
    }
    one.tell(A, Event::Opened);
    for turn in 0..400 {
        let told = &both[turn % 2].book;
        let mut since = one.book.asked_until(0);
        while let Ok(Some(next)) = one.book.merge(one.now, 0, &told.changes(one.now, since, None)) {
            since = next;
        }
        one.pass(5);
    }
    assert_eq!(one.missing()[2], 0);
    assert_eq!(one.book.report(one.now, 0).peers_away, 1);
}

#[test]
fn an_address_is_the_same_one_however_it_is_written() {
    let (mut fleet, web) = (Fleet::new(2), bind("/svc/web"));
    fleet.tell(0, A, Event::Claimed(web.clone()));
    fleet.pass(60);
    fleet.tell(1, "::ffff:192.0.2.1", Event::Claimed(web.clone()));
    fleet.pass(10);
    fleet.tell(0, A, silent(&web));
    fleet.pass(600);
    assert_eq!(fleet.missing(), [NOTHING, NOTHING]);
}

#[test]
fn stamps_of_peers_are_known_also_those_of_their_earlier_processes() {
    let mut one = Replica::new(1);
    let tell = |one: &mut Replica, instance: &str, stamps: (u64, u64)| {
        let changes = Changes { instance: instance.to_owned(), stamps: Some(stamps), ..Changes::default() };
        while let Ok(Some(_)) = one.book.merge(one.now, 0, &changes) {}
    };
    for _ in 0..140 {
        tell(&mut one, "1", (1_000, 2_000));
        one.pass(5);
    }
    tell(&mut one, "2", (1 << 40, 2 << 40));
    for stamp in [1_000, 2_500, (1 << 40) + 1] {
        one.all(A, [Event::Opened, Event::Stranger(stamp)]);
        assert!(!one.book.has_strangers(one.now), "{stamp}");
    }
    one.tell(A, Event::Stranger(5 << 40));
    assert!(one.book.has_strangers(one.now));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let mut one = Replica::new(1);
    let many = Changes {
        instance: "1".to_owned(),
        clients: vec![ip(A)],
        keys: vec![bind("/svc/web")],
        entries: serde_json::from_str(&format!(
            "[{}[0,0,[1,0,0],[null,null,0,null]]]",
            "[0,0,[1,0,0],[null,null,0,null]],".repeat(MOST_CHANGES)
        ))
        .expect("entries"),
        ..Changes::default()
    };
    assert!(one.book.merge(one.now, 0, &many).is_err(), "too many");
    let more = |seq| Changes { instance: "1".to_owned(), seq, more: true, ..Changes::default() };
    assert_eq!(one.book.merge(one.now, 0, &more(5)), Ok(Some(5)));
    assert!(one.book.merge(one.now, 0, &more(5)).is_err(), "it would go on for ever");
    assert!(one.book.merge(one.now, 0, &more(4)).is_err());
    for text in [
        r#"{"instance":"x","seq":1,"clients":[],"keys":[],"entries":[]}"#,
        r#"{"instance":"1","seq":1,"clients":[],"keys":[],"entries":[[0,0,[1,0,0],[null,null,0,null]]]}"#,
    ] {
        let changes: Changes = serde_json::from_str(text).expect("the shape is right");
        assert!(one.book.merge(one.now, 0, &changes).is_err(), "{text}");
    }
}
