//! What paths are made of: `/<namespace>/<port>/<service>[/<label value>]`.

use super::watched::ServiceKey;
use crate::name::Path;

/// The form of the names of one namer.
#[derive(Clone, Debug)]
pub(super) struct Form {
    /// The namespace of all names, which then do not have one.
    pub(super) namespace: Option<Box<str>>,
    /// Whether names end with the value of a label.
    pub(super) has_label: bool,
}

/// What a name asks for, in small letters but for the label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    /// None: there can be no such service.
    pub(super) key: Option<ServiceKey>,
    pub(super) port: AskedPort,
    pub(super) label: Option<Box<str>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AskedPort {
    /// A port of the service, by number. The JVM's `toInt` decides: `+80` is one, 99999 is one that no service has.
    Number(i32),
    Named(Box<str>),
}

// === impl Form ===

impl Form {
    /// How many elements of a path name something.
    pub(super) fn depth(&self) -> usize {
        usize::from(self.namespace.is_none()) + 2 + usize::from(self.has_label)
    }

    /// Reads the elements of an id, of which there are enough.
    pub(super) fn read(&self, id: &Path) -> Option<Asked> {
        // Bytes that are no UTF-8 are shown as namerd reads them.
        let mut elems = id.utf8_elems();
        let namespace = match &self.namespace {
            Some(namespace) => namespace.clone(),
            None => elems.next()?.to_lowercase().into(),
        };
        let (port, service) = (elems.next()?.to_lowercase(), elems.next()?.to_lowercase());
        let label = if self.has_label { Some(elems.next()?.into()) } else { None };
        let port = port.parse().map_or_else(|_| AskedPort::Named(port.into()), AskedPort::Number);
        Some(Asked { key: ServiceKey::new(&namespace, &service), port, label })
    }
}

/// A path in small letters.
pub(super) fn small(path: &Path) -> Path {
    let elems = path.utf8_elems().map(|elem| elem.to_lowercase());
    // No letter is nothing in small.
    Path::from_elems(elems).unwrap_or_else(|_| path.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> Path {
        Path::parse(text).expect("a path")
    }

    #[test]
    fn a_port_is_a_number_if_the_jvm_takes_it_for_one() {
        let form = Form { namespace: None, has_label: false };
        let port = |text: &str| form.read(&path(&format!("/ns/{text}/svc"))).expect("whole").port;
        assert_eq!(port("80"), AskedPort::Number(80));
        assert_eq!(port("0080"), AskedPort::Number(80));
        assert_eq!(port("99999"), AskedPort::Number(99_999));
        assert_eq!(port("99999999999"), AskedPort::Named("99999999999".into()));
        assert_eq!(port("HTTP"), AskedPort::Named("http".into()));
    }

    #[test]
    fn names_are_read_in_small_letters_but_for_the_value_of_the_label() {
        let form = Form { namespace: Some("srv".into()), has_label: true };
        let asked = form.read(&path("/HtTp/SeSsIoNs/V1")).expect("whole");
        assert_eq!(asked.key, ServiceKey::new("srv", "sessions"));
        assert_eq!(asked.label.as_deref(), Some("V1"));
        assert_eq!(form.depth(), 3);
        assert_eq!(form.read(&path("/http/sessions")), None);
        assert_eq!(form.read(&path("/http/ses_sions/v1")).expect("whole").key, None);
    }
}
