//! Which paths are served: `admin.security`.

use super::Security;

/// What a path is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Category {
    /// For people.
    Ui,
    /// Changes the process.
    Control,
    /// Everything else.
    Diagnostics,
}

impl Security {
    /// Whether a path, without its query, is served. Refused by `pathBlacklist`, else served if its category is enabled
    /// or `pathWhitelist` has it.
    #[must_use]
    pub fn allows(&self, path: &str) -> bool {
        if self.path_blacklist.iter().any(|pattern| pattern.matches(path)) {
            return false;
        }
        let enabled = match category(path) {
            Category::Ui => self.ui_enabled,
            Category::Control => self.control_enabled,
            Category::Diagnostics => self.diagnostics_enabled,
        };
        enabled || self.path_whitelist.iter().any(|pattern| pattern.matches(path))
    }
}

/// namerd's categories, but for `/dtab/`: there it is diagnostics, so that turning these off breaks the page of a
/// namespace.
fn category(path: &str) -> Category {
    match path {
        "/"
        | "/config.json"
        | "/metrics.json"
        | "/admin/metrics.json"
        | "/admin/metrics"
        | "/delegator"
        | "/delegator.json"
        | "/logging"
        | "/help" => Category::Ui,
        "/admin/drain" | "/admin/shutdown" | "/logging.json" => Category::Control,
        _ if ["/files/", "/admin/files/", "/dtab/"].iter().any(|start| path.starts_with(start)) => Category::Ui,
        _ => Category::Diagnostics,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::read_text;

    fn security(text: &str) -> Security {
        let read = read_text("f", &format!("security: {text}"), "the test", |fields| fields.opt("security"));
        read.expect("valid").0
    }

    fn check(security: &Security, served: &[&str], refused: &[&str]) {
        for path in served {
            assert!(security.allows(path), "{path} is served");
        }
        for path in refused {
            assert!(!security.allows(path), "{path} is refused");
        }
    }

    #[test]
    fn without_control_and_diagnostics_the_pages_for_people_are_left() {
        let ui = ["/", "/files/x", "/config.json", "/metrics.json", "/delegator", "/logging", "/help", "/dtab/default"];
        let security = security("{controlEnabled: false, diagnosticsEnabled: false}");
        check(
            &security,
            &ui,
            &["/admin/drain", "/admin/shutdown", "/admin/threads", "/logging.json", "/admin/ping", "/metrics"],
        );
    }

    #[test]
    fn control_stays_without_diagnostics() {
        let security = security("{diagnosticsEnabled: false}");
        check(
            &security,
            &["/admin/drain", "/admin/shutdown", "/logging.json"],
            &["/sth/else", "/admin/metrics/prometheus"],
        );
    }

    #[test]
    fn the_whitelist_opens_whole_paths_even_with_everything_off() {
        for ui in [true, false] {
            let security = security(&format!(
                "{{uiEnabled: {ui}, controlEnabled: false, diagnosticsEnabled: false,
                   pathWhitelist: ['^/fooba[rz]$', '^/abc/def/.*$']}}"
            ));
            check(&security, &["/foobar", "/foobaz", "/abc/def/ghi"], &["/foobaf", "/abc/def"]);
            assert_eq!(security.allows("/"), ui);
        }
    }

    #[test]
    fn the_blacklist_beats_the_whitelist() {
        let security = security("{pathBlacklist: ['^/help$'], pathWhitelist: ['^/help$']}");
        check(&security, &["/", "/admin/ping"], &["/help"]);
    }

    #[test]
    fn a_mixture_as_measured_with_namerd() {
        let security = security(
            "{controlEnabled: false, diagnosticsEnabled: false, pathWhitelist: ['^/admin/ping$'],
              pathBlacklist: ['^/config[.]json$']}",
        );
        check(
            &security,
            &["/", "/files/x", "/admin/metrics.json", "/logging", "/admin/ping"],
            &["/admin/metrics/prometheus", "/admin", "/config.json", "/logging.json", "/admin/shutdown", "/unknown"],
        );
    }
}
