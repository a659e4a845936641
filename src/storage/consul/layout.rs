//! Where dtabs are in Consul: byte for byte where namerd has them, so that both may work on one store.

use std::collections::BTreeSet;

use bytes::Bytes;

use crate::consul::{Consistency, Request};
use crate::name::Path;
use crate::storage::StorageError;
use crate::text::url::component;

/// The folder of the dtabs, and whose store it is in.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    /// Such as `namerd/dtabs/`; a key is this and the namespace.
    folder: String,
    /// The path of requests for it, escaped.
    path: String,
    datacenter: Option<String>,
}

/// What a namespace may be called here (`ConsulDtabStore.scala:42-60`). namerd's own message omits the `_`.
const RULE: &str = "Consul keeps only namespaces of letters, digits, - and _";

// === impl Layout ===

impl Layout {
    /// `prefix` is `pathPrefix`.
    pub(super) fn new(prefix: &Path, datacenter: Option<&str>) -> Self {
        let shown = prefix.to_string();
        let mut folder = shown.trim_matches('/').to_owned();
        if !folder.is_empty() {
            folder.push('/');
        }
        let escaped: Vec<String> = folder.split('/').map(|segment| component(segment).to_string()).collect();
        Self { folder, path: format!("/v1/kv/{}", escaped.join("/")), datacenter: datacenter.map(str::to_owned) }
    }

    /// The key of a namespace, for messages.
    pub(super) fn key(&self, namespace: &str) -> String {
        format!("{}{namespace}", self.folder)
    }

    /// The keys in the folder; those below a folder in it count as one.
    pub(super) fn list(&self, mode: Consistency) -> Request {
        let request = Request::get(self.path.clone()).consistency(mode).with("keys", "true").with("separator", "/");
        self.there(request)
    }

    /// The folder's own key. Without the right to read the folder this is refused, where the list is merely empty.
    pub(super) fn probe(&self, mode: Consistency) -> Option<Request> {
        (!self.folder.is_empty()).then(|| self.read("", mode))
    }

    /// The value of a key as it is.
    pub(super) fn read(&self, namespace: &str, mode: Consistency) -> Request {
        self.there(Request::get(self.path_of(namespace)).consistency(mode).with("raw", "true"))
    }

    /// Writes a key if its index is still `index`; 0 stands for a key that does not exist.
    pub(super) fn write(&self, namespace: &str, mode: Consistency, index: u64, value: Bytes) -> Request {
        let request = Request::put(self.path_of(namespace), value).consistency(mode);
        self.there(request.with("cas", &index.to_string()))
    }

    /// Deletes a key if its index is still `index`.
    pub(super) fn delete(&self, namespace: &str, mode: Consistency, index: u64) -> Request {
        let request = Request::delete(self.path_of(namespace)).consistency(mode);
        self.there(request.with("cas", &index.to_string()))
    }

    fn path_of(&self, namespace: &str) -> String {
        format!("{}{namespace}", self.path) // nothing in a name needs escaping
    }

    fn there(&self, request: Request) -> Request {
        match &self.datacenter {
            Some(datacenter) => request.datacenter(datacenter),
            None => request,
        }
    }

    /// The namespaces among keys. Others may keep what they like beside them: folders, the folder itself, and what is
    /// no name are passed over.
    pub(super) fn namespaces(&self, keys: Vec<String>) -> BTreeSet<String> {
        let names = keys.iter().filter_map(|key| key.strip_prefix(&self.folder));
        names.filter(|name| is_name(name)).map(str::to_owned).collect()
    }
}

/// Whether there can be such a namespace.
pub(super) fn check(namespace: &str) -> Result<(), StorageError> {
    if is_name(namespace) {
        return Ok(());
    }
    Err(StorageError::InvalidNamespace { namespace: namespace.to_owned(), rule: RULE.to_owned() })
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(prefix: &str) -> Layout {
        Layout::new(&Path::parse(prefix).expect("a path"), None)
    }

    fn names(prefix: &str, keys: &[&str]) -> Vec<String> {
        let keys = keys.iter().map(|key| (*key).to_owned()).collect();
        layout(prefix).namespaces(keys).into_iter().collect()
    }

    #[test]
    fn keys_are_those_of_namerd() {
        let layout = layout("/namerd/dtabs");
        assert_eq!(layout.key("default"), "namerd/dtabs/default");
        assert_eq!(layout.list(Consistency::Stale).path(), "/v1/kv/namerd/dtabs/");
        assert_eq!(layout.read("default", Consistency::Default).path(), "/v1/kv/namerd/dtabs/default");
    }

    #[test]
    fn a_folder_may_have_any_name_or_none() {
        assert_eq!(layout("/a:b/c$").read("x", Consistency::Default).path(), "/v1/kv/a%3Ab/c%24/x");
        assert_eq!(layout("/").read("x", Consistency::Default).path(), "/v1/kv/x");
        assert_eq!(layout("/").list(Consistency::Default).path(), "/v1/kv/");
        assert_eq!(names("/", &["default", "nested/", "a.b"]), ["default"]);
    }

    #[test]
    fn only_names_in_the_folder_itself_are_namespaces() {
        assert_eq!(names("/namerd/dtabs", &["namerd/dtabs/foo", "namerd/dtabs/bar"]), ["bar", "foo"]);
        assert_eq!(names("/namerd/dtabs", &["namerd/dtabs/", "namerd/dtabs/foo", "namerd/dtabs/bar/"]), ["foo"]);
        assert_eq!(names("/namerd/dtabs", &["namerd/dtabs/b@d", "namerd/dtabs/a_b-C9", "other/x"]), ["a_b-C9"]);
    }

    #[test]
    fn a_name_that_cannot_be_is_refused_with_the_rule() {
        assert!(check("my_NS-1").is_ok());
        for name in ["", "%2e%2e", "b@dn@m35p@c3", "a/b", "a b", "ä"] {
            let refused = check(name).expect_err(name).to_string();
            assert_eq!(refused, format!("invalid dtab namespace {name}: {RULE}"));
        }
    }
}
