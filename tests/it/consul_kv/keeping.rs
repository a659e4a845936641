//! What is kept, byte for byte, and what others may have put there.

use std::time::Duration;

use super::{Kept, to_port};
use crate::support::{Consul, PATIENCE, get, unique};

#[test]
fn dtabs_are_kept_where_namerd_keeps_them_and_versions_are_those_of_consul() {
    let (consul, folder) = (Consul::shared(), unique("layout"));
    let kept = Kept::start(consul, &folder);
    assert_eq!((kept.list().as_str(), kept.read("default")), ("[]", None));
    assert_eq!(kept.post("default", "/svc  =>  /#/io.l5d.fs ; /b => 3 * /c & /d ;"), 204);
    let (value, index) = consul.kv_get(&kept.key("default")).expect("stored");
    assert_eq!(value, "/svc=>/#/io.l5d.fs;/b=>3.00*/c & /d");
    let entry = consul.expect("GET", &format!("/v1/kv/{}", kept.key("default")), b"");
    assert!(entry.text().contains("\"Flags\":0,"), "{entry:?}");
    assert_eq!(kept.read("default"), Some((value, base64(&index.to_string()))));
    assert_eq!((kept.list().as_str(), kept.post("default", "/a=>/b")), ("[\"default\"]", 409));
    assert_eq!(kept.update("default", "/a=>/b", &base64(&index.to_string())), 204);
    assert_eq!(kept.update("default", "/a=>/c", &base64(&index.to_string())), 412);
    assert_eq!(kept.update("none", "/a=>/c", &base64("0")), 412);
    assert_eq!((kept.put("empty", ""), kept.text("empty").as_deref()), (204, Some("")));
    assert_eq!((kept.delete("default"), kept.delete("default")), (204, 404));
    assert_eq!((kept.read("default"), consul.kv_get(&kept.key("default"))), (None, None));
}

#[test]
fn what_a_person_or_namerd_writes_is_seen_at_once() {
    let (consul, folder) = (Consul::shared(), unique("by-hand"));
    let kept = Kept::start(consul, &folder);
    let by_hand = "# the default route\n/n =>\n  /$/inet/127.0.0.1/8001 ;  # one host\n\n/svc => /n ;\n";
    assert_eq!(kept.bound("default"), None);
    consul.kv_put(&kept.key("default"), by_hand);
    assert_eq!(kept.text("default").as_deref(), Some("/n=>/$/inet/127.0.0.1/8001;/svc=>/n"));
    kept.wait_bound("default", Some("8001"), PATIENCE);
    std::thread::sleep(Duration::from_secs(1));
    consul.kv_put(&kept.key("default"), &to_port(8002));
    // A thread of the test may wait for the processor, so this is more than the 200 ms that are promised.
    kept.wait_bound("default", Some("8002"), Duration::from_secs(1));
    consul.kv_delete(&kept.key("default"), false);
    kept.wait_bound("default", None, PATIENCE);
    assert_eq!(kept.read("default"), None);
}

#[test]
fn folders_and_other_keys_beside_the_dtabs_do_no_harm() {
    let (consul, folder) = (Consul::shared(), unique("others"));
    for key in ["", "nested/deep/x", "b@d", "default/x", "a b"] {
        consul.kv_put(&format!("{folder}/{}", key.replace(' ', "%20")), "whatever");
    }
    let kept = Kept::start(consul, &folder);
    assert_eq!(kept.list(), "[]");
    assert_eq!((kept.post("default", "/a=>/b"), kept.list().as_str()), (204, "[\"default\"]"));
    let refused = kept.send("PUT", "b@d", "", "/a=>/b");
    assert_eq!((refused.head.status(), kept.ask("b@d").head.status(), kept.delete("b@d")), (400, 400, 400));
    assert!(refused.text().contains("letters, digits, - and _"), "{refused:?}");
    let bind = get(kept.rosterd.http(), "/api/1/bind/b@d?path=/n");
    assert!(bind.head.status() == 500 && bind.text().contains("invalid dtab namespace b@d"), "{bind:?}");
}

#[test]
fn a_value_that_is_no_dtab_leaves_routes_as_they_are_and_says_where_it_is_wrong() {
    let (consul, folder) = (Consul::shared(), unique("wrong"));
    let kept = Kept::start(consul, &folder);
    assert_eq!(kept.put("default", &to_port(8001)), 204);
    kept.wait_bound("default", Some("8001"), PATIENCE);
    consul.kv_put(&kept.key("default"), "/svc => /a;\n/n => /actual/{outage};");
    let shown = kept.ask("default");
    assert_eq!(shown.head.status(), 500, "{shown:?}");
    let place = format!("the key {} of Consul cannot be read, 2:15: ", kept.key("default"));
    assert!(shown.text().contains(&place), "{shown:?}");
    let page = get(kept.rosterd.admin(), &format!("/storage/{folder}.json"));
    assert!(page.text().contains(&place) && page.text().contains("/$/inet/127.0.0.1/8001"), "{page:?}");
    let metrics = get(kept.rosterd.admin(), "/metrics");
    assert!(metrics.text().contains("rosterd_stale_values{source=\"storage\"} 1\n"), "{}", metrics.text());
    assert_eq!(kept.bound("default").as_deref(), Some("8001"));
    // It is there, so it cannot be made; but it can be replaced, which mends it.
    assert_eq!((kept.post("default", "/a=>/b"), kept.put("default", &to_port(8002))), (409, 204));
    kept.wait_bound("default", Some("8002"), Duration::from_secs(1));
    assert_eq!(kept.text("default"), Some(to_port(8002)));
}

#[test]
fn a_dtab_larger_than_consul_keeps_is_refused_with_the_limit() {
    let kept = Kept::start(Consul::shared(), &unique("large"));
    let of = |bytes: usize| format!("/n=>/{}", "x".repeat(bytes - 5));
    assert_eq!(kept.put("fits", &of(512 << 10)), 204);
    for bytes in [(512 << 10) + 1, 2 << 20, 15 << 20] {
        let refused = kept.send("PUT", "larger", "", &of(bytes));
        assert_eq!(refused.head.status(), 413, "{bytes}: {refused:?}");
        for part in [&format!("{bytes} bytes"), "Consul at 127.0.0.1:", "524288", "limits.kv_max_value_size"] {
            assert!(refused.text().contains(part), "{bytes}: {refused:?}");
        }
    }
    assert_eq!(kept.list(), "[\"fits\"]");
}

/// In the alphabet of an `Etag`.
fn base64(text: &str) -> String {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let group = |bytes: &[u8]| {
        let number = bytes.iter().fold(0_u32, |number, byte| number << 8 | u32::from(*byte)) << (8 * (3 - bytes.len()));
        let digit = |place: usize| match place <= bytes.len() {
            true => ALPHABET[(number >> (18 - 6 * place)) as usize & 63] as char,
            false => '=',
        };
        (0..4).map(digit).collect::<String>()
    };
    text.as_bytes().chunks(3).map(group).collect()
}
