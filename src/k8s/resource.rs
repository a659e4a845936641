//! What is asked for: resources, and which objects of a namespace.

use std::fmt::Write;

use crate::text::url::component;

/// A kind of objects that live in namespaces, as URLs and rules call it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Resource {
    /// The API group; empty for the core.
    pub group: &'static str,
    /// Its version.
    pub version: &'static str,
    /// The name in URLs.
    pub plural: &'static str,
}

/// Which objects of a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Select {
    /// All of them.
    All,
    /// That of this name.
    Name(Box<str>),
    /// Those with this value of this label.
    Label(&'static str, Box<str>),
}

/// What is asked of a list or of a watch, besides which objects.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ask<'a> {
    /// A page of the state of this moment, of so many objects at most; without limit all of it.
    Page { limit: Option<u32>, next: Option<&'a str> },
    /// Changes since a version; without one the state of this moment first. For so many seconds.
    Watch { from: Option<&'a str>, seconds: u64 },
}

// === impl Resource ===

impl Resource {
    /// Addresses of services, one object each.
    pub const ENDPOINTS: Self = Self { group: "", version: "v1", plural: "endpoints" };
    /// Services.
    pub const SERVICES: Self = Self { group: "", version: "v1", plural: "services" };
    /// Addresses of services, in slices; since Kubernetes 1.21.
    pub const SLICES: Self = Self { group: "discovery.k8s.io", version: "v1", plural: "endpointslices" };

    /// The path of the collection in a namespace.
    pub(super) fn path(&self, namespace: &str) -> String {
        let Self { group, version, plural } = self;
        let root = if group.is_empty() { "/api".to_owned() } else { format!("/apis/{group}") };
        format!("{root}/{version}/namespaces/{}/{plural}", component(namespace))
    }

    /// The path of one object.
    pub(super) fn object(&self, namespace: &str, name: &str) -> String {
        format!("{}/{}", self.path(namespace), component(name))
    }

    /// Path and parameters of a list or a watch.
    pub(super) fn target(&self, namespace: &str, select: &Select, ask: Ask<'_>) -> String {
        let mut target = self.path(namespace);
        let mut mark = '?';
        let mut add = |name: &str, value: &str| {
            // A String takes everything.
            let _ = write!(target, "{}{name}={}", std::mem::replace(&mut mark, '&'), component(value));
        };
        match select {
            Select::All => {}
            Select::Name(name) => add("fieldSelector", &format!("metadata.name={name}")),
            Select::Label(label, value) => add("labelSelector", &format!("{label}={value}")),
        }
        match ask {
            Ask::Page { limit, next } => {
                if let Some(limit) = limit {
                    add("limit", &limit.to_string());
                }
                if let Some(next) = next {
                    add("continue", next);
                }
            }
            Ask::Watch { from, seconds } => {
                add("watch", "true");
                if let Some(from) = from {
                    add("resourceVersion", from);
                }
                add("allowWatchBookmarks", "true");
                add("timeoutSeconds", &seconds.to_string());
            }
        }
        target
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_those_of_the_api() {
        let name = Select::Name("web".into());
        assert_eq!(
            Resource::ENDPOINTS.target("srv", &name, Ask::Page { limit: Some(500), next: None }),
            "/api/v1/namespaces/srv/endpoints?fieldSelector=metadata.name%3Dweb&limit=500"
        );
        let label = Select::Label("kubernetes.io/service-name", "web".into());
        assert_eq!(
            Resource::SLICES.target("srv", &label, Ask::Watch { from: Some("7"), seconds: 290 }),
            "/apis/discovery.k8s.io/v1/namespaces/srv/endpointslices?labelSelector=kubernetes.io%2Fservice-name%3Dweb\
             &watch=true&resourceVersion=7&allowWatchBookmarks=true&timeoutSeconds=290"
        );
        assert_eq!(
            Resource::SERVICES.target("srv", &Select::All, Ask::Page { limit: None, next: None }),
            "/api/v1/namespaces/srv/services"
        );
        assert_eq!(Resource::SERVICES.object("srv", "web"), "/api/v1/namespaces/srv/services/web");
    }
}
