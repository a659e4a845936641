//! Keys of `io.l5d.rewrite`.

use super::Pattern;
use super::pattern::variables;
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
        let (pattern, name): (Option<String>, Option<String>) = (fields.req("pattern"), fields.req("name"));
        prefix?;
        let (pattern, name) = (pattern?, name?);
        judge(fields, &pattern, &name);
        Some(Self { pattern, name })
    }
}

/// A pattern that cannot be used is refused; what namerd takes and nothing can come of is warned of.
fn judge(fields: &Fields<'_>, pattern: &str, name: &str) {
    let report = fields.report();
    if let Err(error) = Pattern::parse(pattern) {
        return report.problem(fields.span_of("pattern"), error);
    }
    let known = variables(pattern);
    let rest = known.iter().fold(pattern.to_owned(), |rest, variable| rest.replace(variable, ""));
    if rest.contains(['{', '}']) {
        let message = "a brace that belongs to no {variable} stands for itself, which no usual name has";
        report.warn(fields.span_of("pattern"), message);
    }
    for variable in variables(name).iter().filter(|variable| !known.contains(variable)) {
        let message = format!("nothing in `pattern` captures {variable}, so that it stays as it is in every name");
        report.warn(fields.span_of("name"), message);
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
    fn what_can_come_to_nothing_only_is_warned_of() {
        let warned = |text: &str| -> Vec<String> {
            let read = read_text("f", &format!("prefix: /p\n{text}"), "the io.l5d.rewrite namer", RewriteConfig::read);
            read.expect("namerd takes it").1.iter().map(ToString::to_string).collect()
        };
        assert_eq!(
            warned("pattern: 'x{a'\nname: /b"),
            ["f:2:10: a brace that belongs to no {variable} stands for itself, which no usual name has"]
        );
        assert_eq!(
            warned("pattern: '/{a}'\nname: '/b/{q}'"),
            ["f:3:7: nothing in `pattern` captures {q}, so that it stays as it is in every name"]
        );
        assert_eq!(warned("pattern: '/{a}.{b}/*'\nname: '/{b}/{a}'"), [""; 0]);
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
