//! Two rosterds over one store.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::Value;

use super::{Kept, to_port};
use crate::support::{Chunk, Consul, Follow, PATIENCE, Wire, unique};

/// What a read finds right after a write is what was written, whoever wrote it: reads ask Consul. What routers see at
/// both is compared after each write, too.
#[test]
fn a_thousand_random_operations_leave_both_with_what_a_model_has_after_each() {
    const NAMESPACES: usize = 20;
    const DELETE: i32 = 5;
    let (consul, folder, mut rng) = (Consul::shared(), unique("model"), StdRng::seed_from_u64(5));
    let both = [Kept::start(consul, &folder), Kept::start(consul, &folder)];
    let watch = |kept: &Kept, n| Follow::bind_in(&kept.rosterd, &format!("ns-{n}"), "/n");
    let mut routers: Vec<[Follow; 2]> = (0..NAMESPACES).map(|n| both.each_ref().map(|kept| watch(kept, n))).collect();
    let mut model: BTreeMap<String, String> = BTreeMap::new();
    let mut times = Vec::new();
    for operation in 0..1000_u16 {
        let number = rng.random_range(0..NAMESPACES);
        let namespace = format!("ns-{number}");
        let (at, dtab) = (rng.random_range(0..2), to_port(1000 + operation));
        let (writer, exists) = (&both[at], model.contains_key(&namespace));
        let kind = rng.random_range(0..10);
        let (status, expected, writes) = match kind {
            0 | 1 => (writer.post(&namespace, &dtab), if exists { 409 } else { 204 }, !exists),
            2..=4 => (writer.put(&namespace, &dtab), 204, true),
            DELETE => (writer.delete(&namespace), if exists { 204 } else { 404 }, exists),
            6 => (writer.update(&namespace, &dtab, "MQ=="), 412, false),
            // The version is read from one and used at the other.
            _ => match both[1 - at].read(&namespace) {
                Some((_, etag)) => (writer.update(&namespace, &dtab, &etag), 204, true),
                None => (writer.update(&namespace, &dtab, "MQ=="), 412, false),
            },
        };
        let written = Instant::now();
        assert_eq!(status, expected, "operation {operation} on {namespace}");
        if !writes {
            continue;
        }
        match kind {
            DELETE => model.remove(&namespace),
            _ => model.insert(namespace.clone(), dtab),
        };
        for kept in &both {
            assert_eq!(kept.text(&namespace).as_ref(), model.get(&namespace), "operation {operation} on {namespace}");
        }
        let port = model.get(&namespace).and_then(|dtab| dtab.rsplit('/').next());
        for router in &mut routers[number] {
            let is_that = |value: &Value| value["bound"]["id"].as_str().and_then(|id| id.rsplit('/').next()) == port;
            router.until(&format!("operation {operation} on {namespace}"), is_that);
        }
        times.push(written.elapsed());
    }
    let names: Vec<&String> = model.keys().collect();
    for kept in &both {
        assert_eq!(kept.list(), serde_json::to_string(&names).expect("texts"));
    }
    times.sort();
    let (count, late) = (times.len(), times.iter().filter(|time| **time > Duration::from_secs(1)).count());
    println!("{count} writes: both equal after {:?} in the median, {:?} at most", times[count / 2], times[count - 1]);
    // Of a busy machine some may be late, but it is not the rule.
    assert!(late * 100 <= count, "{late} of {count} writes were seen by routers at both after more than a second");
}

/// Everybody counts up from what he read. If an update were lost, the count would be too low.
#[test]
fn of_all_updates_that_were_acknowledged_none_is_lost() {
    const EACH: usize = 25;
    let (consul, folder) = (Consul::shared(), unique("count"));
    let both = [Kept::start(consul, &folder), Kept::start(consul, &folder)];
    assert_eq!(both[0].post("counter", "/count=>/0"), 204);
    std::thread::scope(|scope| {
        for kept in both.iter().chain(&both) {
            scope.spawn(move || {
                let mut done = 0;
                while done < EACH {
                    let (text, etag) = kept.read("counter").expect("nobody deletes it");
                    let count: usize = text.trim_start_matches("/count=>/").parse().expect("a number");
                    match kept.update("counter", &format!("/count=>/{}", count + 1), &etag) {
                        204 => done += 1,
                        412 => {}
                        other => panic!("status {other}"),
                    }
                }
            });
        }
    });
    for kept in &both {
        assert_eq!(kept.text("counter"), Some(format!("/count=>/{}", 4 * EACH)));
    }
}

#[test]
fn who_watches_at_one_is_told_of_what_is_written_at_the_other() {
    let (consul, folder) = (Consul::shared(), unique("watch"));
    let [here, there] = [Kept::start(consul, &folder), Kept::start(consul, &folder)];
    let watch = |target: &str| {
        let mut wire = Wire::open(there.rosterd.http());
        wire.send(
            format!("GET /api/1/dtabs{target}?watch=true HTTP/1.1\r\nHost: x\r\nAccept: text/plain\r\n\r\n").as_bytes(),
        );
        assert_eq!(wire.head().status(), 200);
        wire
    };
    let (mut list, mut dtab) = (watch(""), watch("/web"));
    let told = |wire: &mut Wire, line: &str| assert_eq!(wire.chunk(PATIENCE), Chunk::Data(line.as_bytes().to_vec()));
    told(&mut list, "[]\n");
    assert_eq!(here.post("web", "/a=>/b"), 204);
    told(&mut list, "[\"web\"]\n");
    told(&mut dtab, "/a=>/b\n");
    assert_eq!(here.put("web", "/a=>/c"), 204);
    told(&mut dtab, "/a=>/c\n");
    assert_eq!(here.delete("web"), 204);
    told(&mut list, "[]\n");
    assert_eq!(here.put("web", "/a=>/d"), 204);
    told(&mut list, "[\"web\"]\n");
    told(&mut dtab, "/a=>/d\n");
}

#[test]
fn puts_without_a_version_all_succeed_and_the_last_one_stays() {
    let (consul, folder) = (Consul::shared(), unique("puts"));
    let both = [Kept::start(consul, &folder), Kept::start(consul, &folder)];
    std::thread::scope(|scope| {
        for (at, kept) in both.iter().chain(&both).enumerate() {
            scope.spawn(move || {
                for n in 0..10 {
                    assert_eq!(kept.put("busy", &format!("/n=>/{at}/{n}")), 204);
                }
            });
        }
    });
    let last = both[0].text("busy").expect("written");
    assert!(last.ends_with("/9"), "{last}");
    assert_eq!(both[1].text("busy"), Some(last));
}

#[test]
fn a_namespace_that_was_deleted_and_made_again_with_the_same_text_is_another_version() {
    let (consul, folder) = (Consul::shared(), unique("again"));
    let both = [Kept::start(consul, &folder), Kept::start(consul, &folder)];
    assert_eq!(both[0].post("default", "/a=>/b"), 204);
    let (_, old) = both[0].read("default").expect("made");
    assert_eq!((both[1].delete("default"), both[1].post("default", "/a=>/b")), (204, 204));
    assert_eq!(both[0].update("default", "/a=>/c", &old), 412);
    let (text, new) = both[0].read("default").expect("made again");
    assert_eq!((text.as_str(), both[0].update("default", "/a=>/c", &new)), ("/a=>/b", 204));
    assert_ne!(old, new);
}
