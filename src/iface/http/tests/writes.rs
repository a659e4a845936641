//! Stories about writing dtabs.

use super::*;

#[tokio::test]
async fn a_page_of_another_site_can_read_dtabs_and_not_write_them() {
    let world = World::new();
    let host = "Host: 127.0.0.1:4180\r\nContent-Type: text/plain\r\n";
    for (origin, status) in [("http://evil.example", 403), ("null", 403), ("http://127.0.0.1:4180", 204)] {
        let headers = format!("{host}Origin: {origin}\r\n");
        for method in ["POST", "PUT", "DELETE"] {
            let answer = world.request(method, "/api/1/dtabs/p", &headers, "/a=>/b").await;
            assert_eq!(answer.status, status, "{method} from {origin}: {}", answer.body);
        }
        assert_eq!(world.request("GET", "/api/1/dtabs/default", &headers, "").await.status, 200);
    }
}

#[tokio::test]
async fn writing_a_dtab_has_namerds_answers() {
    let world = World::new();
    let typed = "Content-Type: application/dtab; charset=utf-8\r\n";
    let post = async |body: &str, headers: &str| world.request("POST", "/api/1/dtabs/p", headers, body).await;
    assert_eq!(post("/a=>/b", typed).await.status, 204);
    assert_eq!(post("/a=>/b", typed).await.status, 409);
    let read = world.request("GET", "/api/1/dtabs/p", "Accept: text/plain;q=0.1, application/dtab\r\n", "").await;
    assert_eq!(read.body, "/a=>/b\n");
    assert!(
        read.head.ends_with("Etag: AAAAAAAAAAE=\r\nContent-Type: text/plain\r\nContent-Length: 7"),
        "{}",
        read.head
    );
    let put = async |headers: &str, body: &str| world.request("PUT", "/api/1/dtabs/p", headers, body).await;
    assert_eq!(put(&format!("{typed}If-Match: \"AAAAAAAAAAE\"\r\n"), "/a=>/c").await.status, 204);
    let stale = put(&format!("{typed}If-Match: AAAAAAAAAAE=\r\n"), "/a=>/d").await;
    assert_eq!(stale.status, 412);
    assert!(stale.head.contains("\r\nEtag: AAAAAAAAAAI=\r\n"), "{}", stale.head);
    assert_eq!(put(&format!("{typed}If-Match: W/\"AAAAAAAAAAI=\"\r\n"), "/a=>/d").await.status, 400);
    for (headers, body, text) in [
        ("", "/a=>/b", "Invalid Content-Type \"\". "),
        ("Content-Type: image/png\r\n", "/a=>/b", "Invalid Content-Type \"image/png\". "),
        (typed, "/foo = > /bar", "'>' expected but ' ' found at '/foo =[ ]> /bar'"),
        ("Content-Type: application/json\r\n", "[null]", "The dtab contains invalid dentries: [null]"),
    ] {
        let (put, post) = (put(headers, body).await, post(body, headers).await);
        assert_eq!((put.status, put.body.as_str()), (400, text));
        assert_eq!((post.status, post.body.as_str()), (400, text));
    }
    let missing = world.request("PUT", "/api/1/dtabs/q", &format!("{typed}If-Match: AAAAAAAAAAE=\r\n"), "/a=>/b").await;
    assert_eq!(missing.status, 404);
    assert_eq!(world.request("PATCH", "/api/1/dtabs/p", typed, "").await.status, 404);
    assert_eq!(world.request("DELETE", "/api/1/dtabs/p", "If-Match: x\r\n", "").await.status, 204);
    assert_eq!(world.request("DELETE", "/api/1/dtabs/p", "", "").await.status, 404);
    let swallowed = world.put("w", "/svc => /a;# note/svc/x => /b;").await;
    assert_eq!(swallowed.status, 204);
    assert!(swallowed.head.contains("\r\nWarning: 299 rosterd \""), "{}", swallowed.head);
    assert_eq!(world.get("/api/1/dtabs/w").await.body, "[{\"prefix\":\"/svc\",\"dst\":\"/a\"}]\n");
}

#[tokio::test]
async fn nothing_is_stored_of_a_dtab_that_is_too_large_or_too_deep() {
    let mut limits = OwnLimits::default();
    limits.names.dtab_bytes = 2000;
    limits.body_bytes = 4000;
    let world = World::with(&[], limits);
    for (dtab, status, name) in [
        (format!("/a=>/b;# {}", "x".repeat(2000)), 400, "limits.dtabBytes"),
        (format!("/a=>/b;# {}", "x".repeat(5000)), 413, "limits.bodyBytes"),
        (format!("/a=>{}/b{}", "(".repeat(100), ")".repeat(100)), 400, "limits.depth"),
    ] {
        let answer = world.put("big", &dtab).await;
        assert_eq!(answer.status, status);
        assert!(answer.body.contains(name) && !answer.body.contains('\n'), "{}", answer.body);
    }
    assert_eq!(world.get("/api/1/dtabs").await.body, "[]\n");
    let refused = Limit::ALL.map(|limit| world.counts.count(limit));
    assert_eq!(refused, [1, 1, 1, 0, 0], "each is counted");
}
