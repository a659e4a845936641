//! One replica alone.

use super::*;

#[test]
fn a_key_that_is_not_asked_again_on_an_open_session_has_stopped_after_thirty_seconds() {
    let (mut one, web) = (Replica::new(0), bind("/svc/web"));
    one.all(A, [Event::Opened, Event::Claimed(web.clone()), Event::Claimed(bind("/svc/other"))]);
    one.pass(100);
    assert_eq!(one.missing(), [0, 0, 0]);
    one.tell(A, silent(&web));
    one.pass(15);
    assert_eq!(one.missing(), [0, 0, 0]);
    one.pass(5);
    assert_eq!(one.missing(), [0, 0, 1]);
    let report = one.book.report(one.now, 10);
    let Suspect { client, key, standing, watches, missing_seconds, .. } = &report.suspects[0];
    assert_eq!((*client, key, *standing, *watches, *missing_seconds), (ip(A), &web, Standing::Stopped, 1, 30));
    one.tell(A, Event::Resumed { key: web, failed: false });
    assert_eq!(one.missing(), [0, 0, 0]);
    assert_eq!(one.book.counts(one.now).live, 2);
}

#[test]
fn a_key_that_was_cut_is_late_at_first_and_has_stopped_when_no_router_waits_that_long() {
    let (mut one, web) = (Replica::new(0), addr("/#/io.l5d.fs/web"));
    one.all(
        A,
        [Event::Opened, Event::Opened, Event::Claimed(web.clone()), cut(&web), Event::Closed { by_client: false }],
    );
    one.pass(25);
    assert_eq!(one.missing(), [0, 0, 0]);
    one.pass(5);
    assert_eq!(one.missing(), [1, 0, 0]);
    one.pass(595);
    assert_eq!(one.missing(), [1, 0, 0]);
    one.pass(5);
    assert_eq!(one.missing(), [0, 0, 1]);
    one.all(A, [Event::Opened, Event::Claimed(web)]);
    assert_eq!(one.missing(), [0, 0, 0], "it has come after all");
}

#[test]
fn a_router_that_was_told_a_failure_may_wait() {
    let (mut one, web) = (Replica::new(0), bind("/svc/web"));
    one.all(A, [Event::Opened, Event::Claimed(web.clone())]);
    one.tell(A, Event::Silent { key: web.clone(), ago: Duration::from_secs(10), failed: true });
    one.pass(600);
    assert_eq!(one.missing(), [1, 0, 0]);
    one.pass(20);
    assert_eq!(one.missing(), [0, 0, 1]);
    one.tell(A, Event::Resumed { key: web, failed: true });
    assert_eq!(one.missing(), [0, 0, 0]);
}

#[test]
fn what_the_client_gives_up_or_closes_is_not_missed() {
    let (mut one, web, other) = (Replica::new(0), bind("/svc/web"), bind("/svc/other"));
    one.all(A, [Event::Opened, Event::Claimed(web.clone()), Event::Claimed(other.clone()), released(&web)]);
    one.tell(A, silent(&other));
    one.pass(100);
    assert_eq!(one.missing(), [0, 0, 1]);
    one.all(A, [Event::Released { key: other, silent: Some(false) }, Event::Closed { by_client: true }]);
    one.pass(1_000);
    assert_eq!(one.missing(), [0, 0, 0]);
    assert_eq!(one.book.counts(one.now), Counts::default());
    assert_eq!(one.book.report(one.now, 10).clients, 0, "nothing is left of it");
}

#[test]
fn what_was_cut_before_a_router_closed_its_last_session_is_late_and_never_stopped() {
    let (mut one, web, other) = (Replica::new(0), bind("/svc/web"), bind("/svc/other"));
    one.all(A, [Event::Opened, Event::Claimed(web.clone()), cut(&web), Event::Closed { by_client: false }]);
    one.all(A, [Event::Opened, Event::Claimed(other.clone()), released(&other), Event::Closed { by_client: true }]);
    // Whether it is the same process that comes again nobody knows.
    one.tell(A, Event::Opened);
    one.pass(2_000);
    assert_eq!(one.missing(), [1, 0, 0]);
    assert!(one.book.report(one.now, 1).suspects[0].parted);
    one.tell(A, Event::Claimed(web));
    assert_eq!(one.missing(), [0, 0, 0]);
}

#[test]
fn a_router_that_has_not_been_back_is_not_said_to_have_stopped() {
    let (mut one, web) = (Replica::new(0), bind("/svc/web"));
    one.all(A, [Event::Opened, Event::Claimed(web.clone()), cut(&web), Event::Closed { by_client: false }]);
    one.pass(2_000);
    assert_eq!(one.missing(), [1, 0, 0], "the network was down, or we were");
    // Now it is back; its last attempt may have failed a moment before.
    one.all(A, [Event::Opened, Event::Claimed(bind("/svc/other"))]);
    one.pass(600);
    assert_eq!(one.missing(), [1, 0, 0]);
    one.pass(30);
    assert_eq!(one.missing(), [0, 0, 1]);
}

#[test]
fn of_two_that_were_cut_the_later_one_has_its_own_time() {
    let (mut one, web) = (Replica::new(0), bind("/svc/web"));
    for _ in 0..3 {
        one.all(A, [Event::Opened, Event::Claimed(web.clone())]);
    }
    one.all(A, [cut(&web), Event::Closed { by_client: false }]);
    one.pass(620);
    one.all(A, [cut(&web), Event::Closed { by_client: false }]);
    one.pass(35);
    assert_eq!(one.missing(), [1, 0, 1]);
    // One of them comes, perhaps the first.
    one.all(A, [Event::Opened, Event::Claimed(web)]);
    assert_eq!(one.missing(), [1, 0, 0]);
}

#[test]
fn a_router_that_asks_anew_after_it_has_given_up_does_not_hide_its_neighbour() {
    let (mut one, web) = (Replica::new(0), bind("/svc/web"));
    for _ in 0..2 {
        one.all(A, [Event::Opened, Event::Claimed(web.clone())]);
    }
    one.pass(60);
    one.tell(A, silent(&web));
    one.pass(60);
    assert_eq!(one.missing(), [0, 0, 1]);
    one.tell(A, released(&web));
    one.pass(5);
    one.tell(A, Event::Claimed(web));
    one.pass(60);
    assert_eq!(one.missing(), [0, 0, 1]);
}

#[test]
fn one_address_gets_no_more_than_its_share_and_no_key_is_longer_than_names_are() {
    let most_entries = 100_000;
    let mut one = Replica { book: Book::new(Rules { most_entries, ..RULES }, 0), now: Moment::START };
    one.all(A, (0..20_000).map(|n| Event::Claimed(bind(&format!("/svc/{n}")))));
    assert_eq!((one.book.counts(one.now).live, one.book.take_left_out()), (most_entries / 8, 20_000 - 12_500));
    one.tell(B, Event::Claimed(bind("/svc/web")));
    one.tell(B, Event::Claimed(bind(&"/a".repeat(3_000))));
    assert_eq!((one.book.counts(one.now).live, one.book.take_left_out()), (12_501, 1));
    // Nor do all keys together take more than names usually do.
    let mut one = Replica::new(0);
    one.all(A, (0..1_000).map(|n| Event::Claimed(bind(&format!("{}/{n}", "/a".repeat(2_000))))));
    assert!(one.book.take_left_out() > 300);
}

#[test]
fn bindings_and_addresses_of_a_router_are_watched_apart() {
    let (mut one, web, id) = (Replica::new(0), bind("/svc/web"), addr("/#/io.l5d.fs/web"));
    one.all(A, [Event::Opened, Event::Claimed(web.clone()), Event::Claimed(id), silent(&web)]);
    one.pass(30);
    assert_eq!(one.missing(), [0, 0, 1]);
    assert_eq!(one.book.report(one.now, 10).suspects[0].key, web);
}

#[test]
fn one_of_two_routers_behind_an_address_is_missed() {
    let (mut one, web) = (Replica::new(0), bind("/svc/web"));
    for _ in 0..2 {
        one.all(A, [Event::Opened, Event::Claimed(web.clone())]);
    }
    one.pass(60);
    one.tell(A, silent(&web));
    one.pass(30);
    assert_eq!(one.missing(), [0, 0, 1]);

    // The same, and the server went away meanwhile.
    let mut one = Replica::new(0);
    for _ in 0..2 {
        one.all(A, [Event::Opened, Event::Claimed(web.clone())]);
    }
    for _ in 0..2 {
        one.all(A, [cut(&web), Event::Closed { by_client: false }]);
    }
    one.pass(60);
    assert_eq!(one.missing(), [2, 0, 0]);
    one.all(A, [Event::Opened, Event::Claimed(web)]);
    one.pass(600);
    assert_eq!(one.missing(), [1, 0, 0]);
    one.pass(30);
    assert_eq!(one.missing(), [0, 0, 1]);
}

#[test]
fn a_session_that_died_long_after_its_router_came_back_leaves_nothing_behind() {
    let (mut one, web) = (Replica::new(0), bind("/svc/web"));
    one.all(A, [Event::Opened, Event::Claimed(web.clone())]);
    one.pass(60);
    one.all(A, [Event::Opened, Event::Claimed(web.clone())]);
    one.pass(30);
    one.tell(A, Event::Cut { key: web.clone(), ago: Duration::from_secs(90) });
    one.tell(A, Event::Closed { by_client: false });
    one.pass(1_000);
    assert_eq!(one.missing(), [0, 0, 0]);
    // But one that did not come back is missed since it was heard last.
    one.tell(A, Event::Cut { key: web, ago: Duration::from_secs(90) });
    assert_eq!(one.missing(), [1, 0, 0]);
}

#[test]
fn a_loop_that_goes_on_over_another_session_is_not_missed_on_the_first_one() {
    let (mut one, web) = (Replica::new(0), bind("/svc/web"));
    one.all(A, [Event::Opened, Event::Claimed(web.clone())]);
    one.pass(60);
    one.all(A, [Event::Opened, Event::Claimed(web.clone())]);
    one.pass(10);
    one.tell(A, silent(&web));
    one.pass(1_000);
    assert_eq!(one.missing(), [0, 0, 0]);
}

#[test]
fn entries_end_a_day_after_the_client_was_heard_last() {
    let (mut one, web) = (Replica::new(0), bind("/svc/web"));
    one.all(A, [Event::Opened, Event::Claimed(web.clone()), cut(&web), Event::Closed { by_client: false }]);
    one.pass(23 * 3_600);
    assert_eq!(one.missing(), [1, 0, 0]);
    one.pass(3_600);
    assert_eq!(one.missing(), [0, 0, 0]);
    let told = one.book.changes(one.now, 0, None);
    assert_eq!(told.entries.len(), 1, "those who know of it are told first");
    one.pass(400);
    assert_eq!(one.book.report(one.now, 10).clients, 0);
}

#[test]
fn the_number_of_entries_is_bounded_and_those_that_are_left_out_are_counted() {
    let mut one = Replica { book: Book::new(Rules { most_entries: 2, ..RULES }, 0), now: Moment::START };
    let keys: Vec<_> = (0..3).map(|n| bind(&format!("/svc/{n}"))).collect();
    one.tell(A, Event::Opened);
    one.all(A, keys.iter().cloned().map(Event::Claimed));
    assert_eq!((one.book.counts(one.now).live, one.book.take_left_out()), (2, 1));
    one.all(A, [released(&keys[2]), silent(&keys[2]), cut(&keys[2])]);
    assert_eq!(one.book.counts(one.now).live, 2, "what found no room is not looked after");
    one.all(A, [released(&keys[0]), Event::Claimed(keys[2].clone())]);
    assert_eq!((one.book.counts(one.now).live, one.book.take_left_out()), (2, 0));
}

#[test]
fn stamps_of_unlisted_servers_leave_their_routers_uncertain_and_no_others() {
    let (mut one, web) = (Replica::new(0), bind("/svc/web"));
    one.tell(A, Event::Stranger(7)); // which the process before this one gave
    one.pass(700);
    for router in [A, B] {
        one.all(router, [Event::Opened, Event::Claimed(web.clone()), silent(&web)]);
    }
    one.tell(A, Event::Stranger(7));
    one.pass(100);
    assert_eq!(one.missing(), [0, 1, 1]);
    for _ in 0..10 {
        one.pass(600);
        one.tell(A, Event::Stranger(7)); // as long as that server is there
        assert_eq!(one.missing(), [0, 1, 1]);
    }
    one.pass(3_600);
    assert_eq!(one.missing(), [0, 0, 2]);
}

#[test]
fn a_stopped_watch_is_reported_once() {
    let (mut one, web) = (Replica::new(0), bind("/svc/web"));
    one.all(A, [Event::Opened, Event::Claimed(web.clone()), silent(&web)]);
    one.now = one.now.after(Duration::from_secs(20));
    assert_eq!(one.book.turn(one.now).len(), 1);
    assert!(one.book.turn(one.now).is_empty());
    one.tell(A, Event::Resumed { key: web.clone(), failed: false });
    one.tell(A, silent(&web));
    one.now = one.now.after(Duration::from_secs(20));
    assert_eq!(one.book.turn(one.now).len(), 1, "it has stopped again");
}
