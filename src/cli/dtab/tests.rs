//! Commands against a server that only writes down what it is asked.

use crate::cli::testing::{Fake, Ran, Reply, Scratch, run, run_into};

const STORED: &str = "[{\"prefix\":\"/svc\",\"dst\":\"/host\"},{\"prefix\":\"/host/web\",\"dst\":\"/srv | /old\"}]\n";

async fn always(reply: fn() -> Reply) -> Fake {
    Fake::start(move |_, _| reply()).await
}

async fn stored() -> Fake {
    always(|| Reply::Whole("200 OK", "Etag: AAAAAAAAAAI=\r\n", STORED.to_owned())).await
}

fn answered(ran: &Ran, status: u8, data: &str, talk: &str) {
    assert_eq!((ran.status, ran.data.as_str(), ran.talk.as_str()), (status, data, talk));
}

#[tokio::test]
async fn namespaces_are_listed_one_a_line() {
    let fake = always(|| Reply::ok("[\"default\",\"x%20y\"]\n")).await;
    answered(&run(&fake, &["rosterd", "dtab", "list", "--server", "SERVER"]).await, 0, "default\nx%20y\n", "");
    answered(
        &run(&fake, &["rosterd", "dtab", "ls", "--json", "--server", "SERVER/"]).await,
        0,
        "[\"default\",\"x%20y\"]\n",
        "",
    );
    assert_eq!(fake.asked(), ["GET /api/1/dtabs HTTP/1.1", "GET /api/1/dtabs HTTP/1.1"]);
}

#[tokio::test]
async fn a_dtab_is_printed_with_its_version_as_a_file_that_can_be_put_back() {
    let fake = stored().await;
    let ran = run(&fake, &["rosterd", "dtab", "get", "default", "--server", "SERVER"]).await;
    answered(&ran, 0, "# version AAAAAAAAAAI=\n/svc      => /host ;\n/host/web => /srv | /old ;\n", "");
    assert_eq!(crate::name::Dtab::parse(&ran.data).unwrap().to_string(), "/svc=>/host;/host/web=>/srv | /old");
    let json = run(&fake, &["rosterd", "dtab", "get", "default", "--json", "--server", "SERVER"]).await;
    answered(&json, 0, &format!("{{\"version\":\"AAAAAAAAAAI=\",\"dtab\":{}}}\n", STORED.trim()), "");
}

#[tokio::test]
async fn who_waits_for_a_dtab_is_told_when_everybody_has_it_or_who_has_not() {
    let reach = |behind: &str, watches: &str| {
        format!(
            r#"[{{"replica":"","instance":"1","version":"AAAAAAAAAAI=","watches":{{"AAAAAAAAAAI=":2}},"behind":[],
            "leftOut":0,"silent":0}},{{"replica":"b:9991","instance":"2","version":"AAAAAAAAAAI=",
            "watches":{watches},"behind":[{behind}],"leftOut":0,"silent":0}}]"#
        )
    };
    let late = r#"{"client":"192.0.2.7","asks":"bind","ns":"default","path":"/svc/web","versionsBehind":2}"#;
    let not_yet = reach(late, r#"{"AAAAAAAAAAI=":1,"older":1}"#);
    let all = reach("", r#"{"AAAAAAAAAAI=":2}"#);
    let fake = Fake::start(move |line, asked| match line {
        line if line.starts_with("PUT") => Reply::Whole("204 No Content", "", String::new()),
        line if line.contains("/api/1/dtabs") => Reply::Whole("200 OK", "Etag: AAAAAAAAAAI=\r\n", STORED.to_owned()),
        _ if asked < 4 => Reply::ok(&not_yet),
        _ => Reply::ok(&all),
    })
    .await;
    let file = Scratch::new("/svc => /host ;\n");
    let put = |wait| {
        ["rosterd", "dtab", "put", "default", file.name(), "--wait", wait, "--admin", "SERVER", "--server", "SERVER"]
    };
    let ran = run(&fake, &put("100ms")).await;
    assert_eq!(
        (ran.status, &*ran.data),
        (3, "3/4\n192.0.2.7\tbind default /svc/web\t2 versions behind\n"),
        "{}",
        ran.talk
    );
    let ran = run(&fake, &put("30s")).await;
    assert_eq!((ran.status, &*ran.data), (0, "4/4\n"), "{}", ran.talk);
}

#[tokio::test]
async fn a_missing_namespace_is_said_with_what_to_do() {
    let fake = always(|| Reply::status("404 Not Found")).await;
    for command in ["get", "delete"] {
        let ran = run(&fake, &["rosterd", "dtab", command, "web", "--server", "SERVER"]).await;
        assert_eq!((ran.status, ran.data.as_str()), (1, ""));
        let said =
            format!("rosterd: there is no namespace web on {}; `rosterd dtab list` shows those there are", fake.url());
        assert!(ran.talk.starts_with(&said), "{}", ran.talk);
    }
    assert_eq!(fake.asked(), ["GET /api/1/dtabs/web HTTP/1.1", "DELETE /api/1/dtabs/web HTTP/1.1"]);
}

#[tokio::test]
async fn a_file_is_put_as_it_was_written_over_the_version_asked_for() {
    let fake = always(|| Reply::Whole("204 No Content", "", String::new())).await;
    let file = Scratch::new("# web\n/svc => /host ;\n");
    let line = ["rosterd", "dtab", "put", "default", file.name(), "--if-match", "AAAAAAAAAAI=", "--server", "SERVER"];
    answered(&run(&fake, &line).await, 0, "", "updated default\n");
    let json = Scratch::new("{\"version\":\"Nw==\",\"dtab\":[{\"prefix\":\"/svc\",\"dst\":\"/host\"}]}");
    let line = ["rosterd", "dtab", "put", "default", json.name(), "--json", "--server", "SERVER"];
    answered(&run(&fake, &line).await, 0, "{\"namespace\":\"default\",\"result\":\"updated\"}\n", "");
    assert_eq!(
        fake.asked(),
        [
            "PUT /api/1/dtabs/default HTTP/1.1\ncontent-type: application/dtab\nif-match: AAAAAAAAAAI=\n\n# web\n/svc => \
             /host ;\n",
            "PUT /api/1/dtabs/default HTTP/1.1\ncontent-type: application/dtab\nif-match: Nw==\n\n/svc => /host ;\n",
        ]
    );
}

#[tokio::test]
async fn a_wrong_dtab_never_reaches_the_server() {
    let fake = always(|| Reply::status("204 No Content")).await;
    let file = Scratch::new("/svc => /host ;\n/host = /srv ;\n");
    for command in ["put", "create"] {
        let ran = run(&fake, &["rosterd", "dtab", command, "default", file.name(), "--server", "SERVER"]).await;
        let shown = "2:8: '>' expected but ' ' found\n  2 | /host = /srv ;\n    |        ^\n";
        answered(&ran, 1, "", &format!("{}:{shown}", file.name()));
    }
    let ran = run(&fake, &["rosterd", "dtab", "put", "default", "/does/not/exist", "--server", "SERVER"]).await;
    assert!(ran.talk.starts_with("rosterd: cannot read /does/not/exist: No such file"), "{}", ran.talk);
    assert_eq!(fake.asked(), Vec::<String>::new());
}

#[tokio::test]
async fn what_looks_like_a_lost_line_end_is_sent_and_doubted() {
    let fake = always(|| Reply::status("204 No Content")).await;
    let file = Scratch::new("/svc => /a;# note/svc/x => /b;");
    let ran = run(&fake, &["rosterd", "dtab", "create", "default", file.name(), "--server", "SERVER"]).await;
    assert_eq!(ran.status, 0);
    assert!(ran.talk.contains("were line ends lost?") && ran.talk.ends_with("\ncreated default\n"), "{}", ran.talk);
    assert!(fake.asked()[0].starts_with("POST /api/1/dtabs/default HTTP/1.1\ncontent-type: application/dtab\n\n/svc"));
}

#[tokio::test]
async fn conflicts_tell_what_is_there_and_how_to_go_on() {
    let file = Scratch::new("/svc => /host");
    let fake = always(|| Reply::status("409 Conflict")).await;
    let ran = run(&fake, &["rosterd", "dtab", "create", "default", file.name(), "--server", "SERVER"]).await;
    assert!(
        ran.talk.contains(&format!("`rosterd dtab put default {}` replaces its dtab", file.name())),
        "{}",
        ran.talk
    );
    let fake = always(|| Reply::Whole("412 Precondition Failed", "Etag: \"AAAAAAAAAAM=\"\r\n", String::new())).await;
    let line = ["rosterd", "dtab", "put", "default", file.name(), "--if-match", "AAAAAAAAAAI=", "--server", "SERVER"];
    let ran = run(&fake, &line).await;
    assert_eq!(ran.status, 1);
    let said = "is no longer at version AAAAAAAAAAI=; it is at AAAAAAAAAAM= now: nothing was changed";
    assert!(ran.talk.contains(said), "{}", ran.talk);
}

#[tokio::test]
async fn a_refusal_is_told_in_the_words_of_the_server() {
    let fake = always(|| Reply::Whole("400 Bad Request", "", "path has more than 9 elements\n".to_owned())).await;
    let ran = run(&fake, &["rosterd", "dtab", "get", "default", "--server", "SERVER"]).await;
    let said = format!(
        "rosterd: GET {}/api/1/dtabs/default was answered with 400 Bad Request: path has more than 9 elements\n",
        fake.url()
    );
    answered(&ran, 1, "", &said);
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named_with_the_way_to_name_another() {
    let fake = stored().await;
    let ran = run(&fake, &["rosterd", "dtab", "list", "--server", "127.0.0.1:1"]).await;
    assert_eq!(ran.status, 1);
    assert!(ran.talk.starts_with("rosterd: no connection to http://127.0.0.1:1 (Connection refused"), "{}", ran.talk);
    assert!(ran.talk.contains("is the server running there? Another address: --server URL or ROSTERD_SERVER"));
    let ran = run(&fake, &["rosterd", "dtab", "list", "--server", "ftp://x"]).await;
    assert!(ran.talk.contains("ftp://x is not the address of a server (ftp is not spoken here)"), "{}", ran.talk);
}

#[tokio::test]
async fn an_answer_of_another_program_is_not_taken_for_data() {
    let fake = always(|| Reply::ok("<html>hello</html>")).await;
    let ran = run(&fake, &["rosterd", "dtab", "list", "--server", "SERVER"]).await;
    assert_eq!((ran.status, ran.data.as_str()), (1, ""));
    assert!(ran.talk.contains("is not a list of namespaces"), "{}", ran.talk);
    assert!(ran.talk.contains("is this the port of the HTTP controller (4180 by default)?"), "{}", ran.talk);
}

async fn edit(fake: &Fake, editor: &str) -> Ran {
    let (url, editor) = (fake.url(), editor.to_owned());
    let client = crate::cli::testing::client(&url);
    let (mut data, mut talk) = (Vec::new(), Vec::new());
    let mut output = crate::cli::output::Output::new(&mut data, &mut talk);
    let result = super::edit::with_editor(&client, "default", &editor, false, &mut output).await;
    let status = u8::from(result.is_err());
    if let Err(failure) = result {
        output.say(failure);
    }
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { status, data: text(data), talk: text(talk) }
}

/// The draft that a message names.
fn draft(talk: &str) -> String {
    let file = talk.split("Your text is in ").nth(1).unwrap().split(". Once").next().unwrap().to_owned();
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    text
}

#[tokio::test]
async fn an_edit_is_written_over_the_version_that_was_read() {
    let fake = Fake::start(|request, _| match request.starts_with("GET") {
        true => Reply::Whole("200 OK", "Etag: AAAAAAAAAAI=\r\n", STORED.to_owned()),
        false => Reply::status("204 No Content"),
    })
    .await;
    answered(&edit(&fake, "sed -i s,/old,/new,").await, 0, "", "updated default\n");
    let put = &fake.asked()[1];
    assert!(
        put.starts_with(
            "PUT /api/1/dtabs/default HTTP/1.1\ncontent-type: application/dtab\nif-match: AAAAAAAAAAI=\n\n#"
        )
    );
    assert!(put.ends_with("\n/svc      => /host ;\n/host/web => /srv | /new ;\n"), "{put}");
}

#[tokio::test]
async fn an_edit_without_a_change_writes_nothing() {
    let fake = stored().await;
    answered(&edit(&fake, "true").await, 0, "", "unchanged default\n");
    answered(&edit(&fake, "sed -i 's, => ,=>,'").await, 0, "", "unchanged default\n");
    let failed = edit(&fake, "false").await;
    assert!(failed.talk.contains("nothing was changed") && failed.status == 1, "{}", failed.talk);
    assert_eq!(fake.asked().len(), 3, "only reads");
}

#[tokio::test]
async fn a_mistake_in_the_editor_loses_nothing() {
    let fake = stored().await;
    let ran = edit(&fake, "sed -i s,/host/web.*,oops,").await;
    assert_eq!(ran.status, 1);
    assert!(ran.talk.contains(":4:1: '/' expected but 'o' found\n  4 | oops\n    | ^\n"), "{}", ran.talk);
    assert!(
        ran.talk.contains("rosterd dtab put default /") && ran.talk.contains("--if-match AAAAAAAAAAI="),
        "{}",
        ran.talk
    );
    assert!(draft(&ran.talk).ends_with("oops\n"));
}

#[tokio::test]
async fn an_overtaken_edit_tells_what_others_changed_and_keeps_the_text() {
    let fake = Fake::start(|request, before| match (request.starts_with("GET"), before) {
        (true, 0) => Reply::Whole("200 OK", "Etag: AAAAAAAAAAI=\r\n", STORED.to_owned()),
        (true, _) => Reply::Whole(
            "200 OK",
            "Etag: AAAAAAAAAAM=\r\n",
            "[{\"prefix\":\"/svc\",\"dst\":\"/host\"},{\"prefix\":\"/host/web\",\"dst\":\"/blue\"}]".to_owned(),
        ),
        (false, _) => Reply::status("412 Precondition Failed"),
    })
    .await;
    let ran = edit(&fake, "sed -i s,/old,/new,").await;
    let changed = "the dtab of default was changed meanwhile:\n  + /host/web => /blue\n  - /host/web => /srv | /old\n";
    assert!(ran.talk.contains(changed), "{}", ran.talk);
    assert!(ran.talk.contains("--if-match AAAAAAAAAAM="), "{}", ran.talk);
    assert!(draft(&ran.talk).contains("/host/web => /srv | /new ;"));
}

#[tokio::test]
async fn a_followed_dtab_gives_a_line_per_change_and_survives_a_lost_connection() {
    let fake = Fake::start(|_, before| match before {
        0 => Reply::Ended(vec![
            "[{\"prefix\":\"/a\",\"dst\":\"/b\"}]",
            "[{\"prefix\":\"/a\",\"dst\":\"/b\"}]",
            "[{\"prefix\":\"/a\",\"dst\":\"/c\"}]",
        ]),
        1 => Reply::status("503 Service Unavailable"),
        _ => Reply::Open(vec!["[{\"prefix\":\"/a\",\"dst\":\"/c\"}]", "[]"]),
    })
    .await;
    let ran = run_into(&fake, &["rosterd", "dtab", "watch", "default", "--server", "SERVER"], 3).await;
    assert_eq!(ran.status, 0, "{}", ran.talk);
    let lines: Vec<&str> = ran.data.lines().map(|line| line.split_once("Z ").unwrap().1).collect();
    assert_eq!(lines, ["default: 1 entry +/a=>/b", "default: 1 entry +/a=>/c -/a=>/b", "default: 0 entries -/a=>/c"]);
    assert_eq!(ran.talk, "the watch was lost (the server ended the watch); asking again\nthe watch goes on\n");
    assert_eq!(fake.asked()[2], "GET /api/1/dtabs/default?watch=true HTTP/1.1");
}

#[tokio::test]
async fn the_list_of_namespaces_can_be_followed_too() {
    let fake = Fake::start(|_, _| Reply::Open(vec!["[\"a\"]", "[\"a\",\"b\"]"])).await;
    let ran = run_into(&fake, &["rosterd", "dtab", "watch", "--json", "--server", "SERVER"], 2).await;
    let lines: Vec<&str> = ran.data.lines().map(|line| line.split_once("Z\",").unwrap().1).collect();
    assert_eq!(lines, ["\"namespaces\":[\"a\"]}", "\"namespaces\":[\"a\",\"b\"]}"]);
    assert_eq!(fake.asked(), ["GET /api/1/dtabs?watch=true HTTP/1.1"]);
}
