//! What is kept in the state directory.

use super::*;
use crate::runtime::StateDir;

fn write(ledger: &Ledger, directory: &std::path::Path) {
    StateFile::open(ledger.clone(), &StateDir::open(directory)).write();
}

fn ledger() -> Ledger {
    Ledger::new(RULES, 0)
}

fn tell(ledger: &Ledger, events: impl IntoIterator<Item = Event>) {
    ledger.tell(ip(A), &mut events.into_iter().collect());
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_with_its_server_is_missed_by_the_next_process() {
    let directory = tempfile::tempdir().expect("a directory");
    let (first, web, other) = (ledger(), bind("/svc/web"), bind("/svc/other"));
    let mut file = StateFile::open(first.clone(), &StateDir::open(directory.path()));
    tell(&first, [Event::Opened, Event::Claimed(web.clone()), Event::Claimed(other.clone())]);
    file.write();
    let gone = bind("/svc/gone");
    tell(&first, [Event::Claimed(gone.clone()), released(&gone)]);
    file.write();
    drop((file, first)); // it is killed

    let second = ledger();
    let _file = StateFile::open(second.clone(), &StateDir::open(directory.path()));
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(second.counts(), Counts { late: 2, ..Counts::default() });
    tell(&second, [Event::Opened, Event::Claimed(other)]);
    tokio::time::advance(Duration::from_secs(620)).await;
    assert_eq!(second.counts(), Counts { live: 1, late: 1, ..Counts::default() });
    tokio::time::advance(Duration::from_secs(15)).await;
    assert_eq!(second.counts(), Counts { live: 1, stopped: 1, ..Counts::default() });
    assert_eq!(second.report(1).suspects[0].key, web);
}

/// The process that wrote the file ended so long ago.
fn ended(directory: &std::path::Path, ago: Duration) {
    let path = directory.join("watches.ledger");
    let earlier = std::time::SystemTime::now() - ago;
    let text = std::fs::read_to_string(&path).expect("written");
    let millis =
        |line: &str| line.split_once("\"at\":").and_then(|(_, rest)| rest.split_once(',')).map(|at| at.0.to_owned());
    let shifted: String = text.lines().fold(String::new(), |all, line| {
        let line = match millis(line) {
            Some(at) => line.replacen(&at, &(at.parse::<u128>().expect("a number") - ago.as_millis()).to_string(), 1),
            None => line.to_owned(),
        };
        all + &line + "\n"
    });
    std::fs::write(&path, shifted).expect("written");
    std::fs::File::options().append(true).open(&path).and_then(|file| file.set_modified(earlier)).expect("touched");
}

#[tokio::test(start_paused = true)]
async fn after_a_long_time_without_a_server_no_router_is_blamed_before_it_could_come() {
    let directory = tempfile::tempdir().expect("a directory");
    let (first, web) = (ledger(), bind("/svc/web"));
    tell(&first, [Event::Opened, Event::Claimed(web.clone())]);
    write(&first, directory.path());
    ended(directory.path(), Duration::from_secs(3_600));
    let second = ledger();
    let _file = StateFile::open(second.clone(), &StateDir::open(directory.path()));
    second.turn();
    assert_eq!(second.counts(), Counts { late: 1, ..Counts::default() });
    tell(&second, [Event::Opened, Event::Claimed(bind("/svc/other"))]);
    tokio::time::advance(Duration::from_secs(625)).await;
    assert_eq!(second.counts(), Counts { live: 1, late: 1, ..Counts::default() });
    tell(&second, [Event::Claimed(web)]);
    assert_eq!(second.counts(), Counts { live: 2, ..Counts::default() });
}

#[tokio::test(start_paused = true)]
async fn what_has_been_missed_for_a_day_is_forgotten_however_often_the_server_restarts() {
    let directory = tempfile::tempdir().expect("a directory");
    let first = ledger();
    tell(
        &first,
        [Event::Opened, Event::Claimed(bind("/svc/web")), cut(&bind("/svc/web")), Event::Closed { by_client: false }],
    );
    write(&first, directory.path());
    for (hours, late) in [(8, 1), (8, 1), (9, 0)] {
        ended(directory.path(), Duration::from_secs(hours * 3_600));
        let next = ledger();
        let mut file = StateFile::open(next.clone(), &StateDir::open(directory.path()));
        next.turn();
        assert_eq!(next.counts().late, late);
        file.write();
    }
}

#[tokio::test(start_paused = true)]
async fn a_file_that_was_torn_or_is_of_another_kind_is_no_disaster() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("watches.ledger");
    let first = ledger();
    tell(&first, [Event::Claimed(bind("/svc/web"))]);
    write(&first, directory.path());
    let whole = std::fs::read(&path).expect("written");

    std::fs::write(&path, [&whole[..], br#"{"at":1,"instance":"1","se"#].concat()).expect("torn");
    let second = ledger();
    write(&second, directory.path());
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(second.counts().late, 1, "all but the last line counts");

    for text in ["not ours\n", "{\"file\":\"rosterd watch ledger\",\"version\":2}\n"] {
        std::fs::write(&path, text).expect("spoiled");
        let third = ledger();
        write(&third, directory.path());
        assert_eq!(third.counts(), Counts::default());
        let aside = std::fs::read_to_string(directory.path().join("watches.ledger.unreadable")).expect("set aside");
        assert_eq!(aside, text);
        assert!(path.exists(), "and a new one is there");
    }
}

#[tokio::test(start_paused = true)]
async fn the_file_does_not_grow_for_ever() {
    let directory = tempfile::tempdir().expect("a directory");
    let ledger = ledger();
    let mut file = StateFile::open(ledger.clone(), &StateDir::open(directory.path()));
    let keys: Vec<_> = (0..900).map(|n| bind(&format!("/svc/{n}"))).collect();
    for _ in 0..100 {
        tell(&ledger, keys.iter().cloned().map(Event::Claimed));
        tell(&ledger, keys.iter().map(released));
        file.write();
    }
    let size = std::fs::metadata(directory.path().join("watches.ledger")).expect("written").len();
    assert!(size < 4 << 20, "{size} bytes");
}

#[tokio::test(start_paused = true)]
async fn a_file_of_many_pages_is_written_whole_though_something_has_gone() {
    let directory = tempfile::tempdir().expect("a directory");
    let large = || Ledger::new(Rules { most_entries: 100_000, ..RULES }, 0);
    let (first, count) = (large(), MOST_CHANGES + 5);
    tell(&first, (0..count).map(|n| Event::Claimed(bind(&format!("/svc/{n}")))));
    let gone = bind("/svc/gone");
    tell(&first, [Event::Claimed(gone.clone()), released(&gone)]);
    tokio::time::advance(Duration::from_secs(400)).await;
    first.turn();
    write(&first, directory.path());
    let second = large();
    let _file = StateFile::open(second.clone(), &StateDir::open(directory.path()));
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(second.counts(), Counts { late: count, ..Counts::default() });
}

#[tokio::test(start_paused = true)]
async fn a_file_with_more_than_there_is_room_for_is_taken_up_as_far_as_it_goes() {
    let directory = tempfile::tempdir().expect("a directory");
    let (first, old) = (ledger(), bind("/svc/old"));
    tell(&first, [Event::Claimed(old.clone()), released(&old)]);
    write(&first, directory.path());
    tell(&first, [Event::Claimed(bind("/svc/web")), Event::Claimed(bind("/svc/users"))]);
    write(&first, directory.path());
    let second = Ledger::new(Rules { most_entries: 1, ..RULES }, 0);
    let _file = StateFile::open(second.clone(), &StateDir::open(directory.path()));
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(second.counts().late, 1);
}

#[tokio::test(start_paused = true)]
async fn a_file_that_could_not_be_written_is_written_whole_when_it_can_be() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("watches.ledger");
    let state = StateDir::open(directory.path());
    let first = ledger();
    let mut file = StateFile::open(first.clone(), &state);
    tell(&first, [Event::Claimed(bind("/svc/web"))]);
    file.write();
    assert_eq!(state.degradation(), None);
    // On a device that is always full, as the last of the disk.
    std::fs::remove_file(&path).expect("it was written");
    std::os::unix::fs::symlink("/dev/full", &path).expect("a link");
    tell(&first, [Event::Claimed(bind("/svc/users"))]);
    file.write();
    assert!(state.degradation().expect("degraded").contains("watches.ledger cannot be written since "));
    std::fs::remove_file(&path).expect("there is room again");
    file.write();
    assert_eq!(state.degradation(), None);
    let second = ledger();
    let _file = StateFile::open(second.clone(), &StateDir::open(directory.path()));
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(second.counts().late, 2, "nothing of it is missing");
}
