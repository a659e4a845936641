//! `fixes:`, each a quirk of namerd that stays unless it is switched off.

use crate::support::{Rosterd, folder, get};

/// A rosterd with the file `web` below a plain namer and below one with a transformer.
fn rosterd(fixes: &str) -> Rosterd {
    let folder = folder();
    std::fs::create_dir(folder.path().join("disco")).expect("the folder is writable");
    std::fs::write(folder.path().join("disco/web"), "10.0.0.1 8080\n").expect("the folder is writable");
    Rosterd::start_in(
        folder,
        &format!(
            "storage: {{kind: io.l5d.inMemory, namespaces: {{default: ''}}}}\n\
             namers:\n\
             - {{kind: io.l5d.fs, rootDir: disco}}\n\
             - {{kind: io.l5d.fs, rootDir: disco, prefix: /ported, transformers: [{{kind: io.l5d.port, port: 4140}}]}}\n\
             interfaces: [{{kind: io.l5d.httpController, port: 0}}]\n\
             fixes: {{{fixes}}}\n"
        ),
    )
}

#[test]
fn resolve_finds_what_is_behind_a_transformer_only_if_that_is_fixed() {
    let target = "/api/1/resolve/default?path=/%23/ported/web";
    let mended = "{\"type\":\"bound\",\"addrs\":[{\"ip\":\"10.0.0.1\",\"port\":4140,\"meta\":{}}],\"meta\":{}}\n";
    assert_eq!(get(rosterd("").http(), target).text(), "{\"type\":\"neg\"}\n");
    assert_eq!(get(rosterd("resolveTransformed: true").http(), target).text(), mended);
}

#[test]
fn a_delegation_shows_the_weights_of_the_request_only_if_that_is_fixed() {
    let target = "/api/1/delegate/default?path=/a&dtab=/a=>0.123*/%23/io.l5d.fs/web%26/%23/ported/web";
    let weight = |rosterd: Rosterd, weight: &str| {
        let answer = get(rosterd.http(), target);
        assert!(answer.text().contains(&format!("\"union\":[{{\"weight\":{weight},")), "{}", answer.text());
    };
    weight(rosterd(""), "0.12");
    weight(rosterd("delegateWeights: true"), "0.123");
}
