//! Keys of `io.l5d.rewrite`.

use crate::config::Fields;
use crate::name::Path;

/// The `io.l5d.rewrite` namer: names that match a pattern become other names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RewriteConfig {
    /// `pattern`, such as `/{service}/api`.
    pub pattern: String,
    /// `name`: what a name that matches becomes, with `{variable}` for what the pattern captured.
    pub name: String,
}

impl RewriteConfig {
    /// Reads the keys. None only if a problem was reported.
    #[must_use]
    pub fn read(fields: &mut Fields<'_>) -> Option<Self> {
        // The value is that of the common key; that it is given is a rule of this kind.
        let prefix = fields.node("prefix");
        if prefix.is_none() {
            let _: Option<Path> =
                fields.req_or("prefix", "The 'prefix' property is required for the io.l5d.rewrite namer.");
        }
        let (pattern, name) = (fields.req("pattern"), fields.req("name"));
        prefix?;
        Some(Self { pattern: pattern?, name: name? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::read_text;

    fn read(text: &str) -> Result<RewriteConfig, Vec<String>> {
        read_text("f", text, "the io.l5d.rewrite namer", RewriteConfig::read)
            .map(|(config, _)| config)
            .map_err(|problems| problems.list().iter().map(|problem| problem.message.clone()).collect())
    }

    #[test]
    fn prefix_pattern_and_name_are_required() {
        let config = RewriteConfig { pattern: "/{a}/x".to_owned(), name: "/srv/{a}".to_owned() };
        assert_eq!(read("prefix: /p\npattern: '/{a}/x'\nname: '/srv/{a}'\n"), Ok(config));
        assert_eq!(
            read("{}"),
            Err(vec![
                "The 'prefix' property is required for the io.l5d.rewrite namer.".to_owned(),
                "'pattern' is required for the io.l5d.rewrite namer".to_owned(),
                "'name' is required for the io.l5d.rewrite namer".to_owned(),
            ])
        );
    }
}
