//! What the policy of a token has to say, rule by rule, in the policy's own language.

use percent_encoding::percent_decode_str;

/// To read instances of services.
const SERVICES: &str = "service_prefix \"\" { policy = \"read\" }";

/// To read on which nodes they are.
const NODES: &str = "node_prefix \"\" { policy = \"read\" }";

/// To read what an agent says of itself.
const AGENT: &str = "agent_prefix \"\" { policy = \"read\" }";

/// What a request needs, by the path of its URL: the right in Consul's words, and the rules that give it.
pub(super) fn needed(path: &str, writes: bool) -> String {
    let path = path.strip_prefix("/v1/").unwrap_or(path);
    match path.split_once('/').unwrap_or((path, "")) {
        ("kv", key) => {
            let key = percent_decode_str(key).decode_utf8_lossy();
            let folder = key.rfind('/').map_or("", |end| &key[..=end]);
            let policy = if writes { "write" } else { "read" };
            format!("key:{policy} (key_prefix \"{folder}\" {{ policy = \"{policy}\" }})")
        }
        ("agent", _) => format!("agent:read ({AGENT})"),
        ("catalog", "services") => format!("service:read ({SERVICES})"),
        ("catalog", "nodes") => format!("node:read ({NODES})"),
        _ => format!("service:read and node:read ({SERVICES} and {NODES})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_needs_a_rule_for_its_folder() {
        let folder = "key:write (key_prefix \"name rd/dtabs/\" { policy = \"write\" })";
        assert_eq!(needed("/v1/kv/name%20rd/dtabs/default", true), folder);
        assert_eq!(needed("/v1/kv/dtabs/", false), "key:read (key_prefix \"dtabs/\" { policy = \"read\" })");
        assert_eq!(needed("/v1/kv/default", false), "key:read (key_prefix \"\" { policy = \"read\" })");
    }
}
