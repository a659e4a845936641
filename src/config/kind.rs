//! The kinds of a family: which there are, and how each reads its keys.

use super::fields::{Fields, nearest};

/// One kind of namer, storage, interface, … `C` is what its keys are read into.
#[derive(Debug)]
pub struct Kind<C> {
    /// The value of `kind`, such as `io.l5d.fs`.
    pub name: &'static str,
    /// Whether it can be used.
    pub state: KindState<C>,
    /// Whether namerd wants `experimental: true` for it (checked for storages and telemeters only, as in namerd).
    pub experimental: bool,
}

/// Whether a kind can be used.
#[derive(Debug)]
pub enum KindState<C> {
    /// Yes: this reads its own keys. None only if a problem was reported.
    Built(fn(&mut Fields<'_>) -> Option<C>),
    /// namerd has it, rosterd will: refused with that one message, whatever its keys are.
    NotYet,
    /// Not in namerd's own distribution either: refused as an unknown kind, with this sentence why.
    Refused(&'static str),
}

impl<C> Kind<C> {
    /// A kind that works.
    #[must_use]
    pub const fn built(name: &'static str, read: fn(&mut Fields<'_>) -> Option<C>) -> Self {
        Self { name, state: KindState::Built(read), experimental: false }
    }

    /// A kind of namerd that is not built yet.
    #[must_use]
    pub const fn not_yet(name: &'static str) -> Self {
        Self { name, state: KindState::NotYet, experimental: false }
    }

    /// A kind that is known not to be available, and why.
    #[must_use]
    pub const fn refused(name: &'static str, why: &'static str) -> Self {
        Self { name, state: KindState::Refused(why), experimental: false }
    }

    /// The same kind, experimental.
    #[must_use]
    pub const fn experimental(mut self) -> Self {
        self.experimental = true;
        self
    }

    /// Finds the kind that a mapping names in `kind`. `family` (`namer`, `storage`, …) is for messages. None only if a
    /// problem was reported, in which case the other keys of the mapping cannot be judged and are left alone.
    #[must_use]
    pub fn choose<'k>(fields: &mut Fields<'_>, family: &str, kinds: &'k [Self]) -> Option<&'k Self> {
        fields.call_it(format!("the {family}"));
        let message = format!("missing type id property 'kind': which {family} is this? (known: {})", names(kinds));
        let name: Option<String> = fields.req_or("kind", message);
        let Some(name) = name else {
            fields.ignore_unknown();
            return None;
        };
        let kind = kinds.iter().find(|kind| kind.name == name);
        match kind.map(|kind| &kind.state) {
            Some(KindState::Built(_) | KindState::NotYet) => {
                fields.call_it(format!("the {name} {family}"));
                return kind;
            }
            Some(KindState::Refused(why)) => unresolved(fields, family, &name, &format!("; {why}"), kinds),
            None => {
                let near =
                    nearest(&name, usable(kinds)).map(|near| format!("; did you mean '{near}'?")).unwrap_or_default();
                unresolved(fields, family, &name, &near, kinds);
            }
        }
        fields.ignore_unknown();
        None
    }

    /// What reads the kind's own keys; none if the kind is not built yet, which is then the only complaint about the
    /// mapping. To be asked before any other key is read.
    #[must_use]
    pub fn reader(&self, fields: &mut Fields<'_>) -> Option<fn(&mut Fields<'_>) -> Option<C>> {
        match self.state {
            KindState::Built(read) => Some(read),
            KindState::NotYet | KindState::Refused(_) => {
                fields.report().problem(fields.span_of("kind"), format!("{}: not built yet", self.name));
                fields.ignore_unknown();
                None
            }
        }
    }

    /// Reads `experimental` and checks it as namerd does for storages and telemeters. None if a problem was reported,
    /// which is then the only complaint about the mapping.
    #[must_use]
    pub fn check_experimental(&self, fields: &mut Fields<'_>, family: &str) -> Option<()> {
        if fields.or("experimental", false) || !self.experimental {
            return Some(());
        }
        let message = format!(
            "The {} {family} is experimental and must be explicitly enabled by setting the `experimental' parameter \
             to true.",
            self.name
        );
        fields.report().problem(fields.span_of("kind"), message);
        fields.ignore_unknown();
        None
    }
}

fn unresolved<C>(fields: &Fields<'_>, family: &str, name: &str, more: &str, kinds: &[Kind<C>]) {
    let article = if family.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
    let message = format!(
        "Could not resolve type id '{}' as {article} {family}{more} (known: {})",
        name.escape_debug(),
        names(kinds)
    );
    fields.report().problem(fields.span_of("kind"), message);
}

fn usable<C>(kinds: &[Kind<C>]) -> impl Iterator<Item = &'static str> {
    kinds.iter().filter(|kind| !matches!(kind.state, KindState::Refused(_))).map(|kind| kind.name)
}

fn names<C>(kinds: &[Kind<C>]) -> String {
    let list = |built: bool| {
        let of = |kind: &&Kind<C>| match kind.state {
            KindState::Built(_) => built,
            KindState::NotYet => !built,
            KindState::Refused(_) => false,
        };
        kinds.iter().filter(of).map(|kind| kind.name).collect::<Vec<_>>().join(", ")
    };
    match list(false) {
        none if none.is_empty() => list(true),
        later => format!("{}; not built yet: {later}", list(true)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::read_text;
    use super::*;

    const KINDS: &[Kind<u32>] = &[
        Kind::built("io.l5d.one", |fields| fields.req("size")),
        Kind::not_yet("io.l5d.two"),
        Kind::not_yet("io.l5d.three").experimental(),
        Kind::refused("io.l5d.gone", "it was removed from namerd"),
    ];

    fn read(text: &str) -> Result<u32, Vec<String>> {
        read_text("f", text, "a file", |fields| {
            let kind = Kind::choose(fields, "storage", KINDS)?;
            kind.check_experimental(fields, "storage")?;
            kind.reader(fields)?(fields)
        })
        .map(|(size, _)| size)
        .map_err(|problems| {
            problems.list().iter().map(|p| format!("{}:{}: {}", p.span.line, p.span.column, p.message)).collect()
        })
    }

    #[test]
    fn a_kind_reads_its_own_keys() {
        assert_eq!(read("kind: io.l5d.one\nsize: 3\nexperimental: true"), Ok(3));
        assert_eq!(
            read("kind: io.l5d.one\nsice: 3"),
            Err(vec![
                "1:1: 'size' is required for the io.l5d.one storage".to_owned(),
                "2:1: Unrecognized field \"sice\" in the io.l5d.one storage; did you mean \"size\"? \
                 (known here: kind, experimental, size)"
                    .to_owned(),
            ])
        );
    }

    #[test]
    fn a_kind_that_is_not_built_yet_is_the_only_complaint_about_its_mapping() {
        assert_eq!(read("whatever: [1]\nkind: io.l5d.two\n"), Err(vec!["2:7: io.l5d.two: not built yet".to_owned()]));
    }

    #[test]
    fn an_experimental_kind_must_be_enabled_before_anything_else_is_said_about_it() {
        let problems = read("kind: io.l5d.three\nx: 1").expect_err("refused");
        assert_eq!(problems.len(), 1);
        assert!(problems[0].contains("storage is experimental"), "{problems:?}");
        assert_eq!(
            read("kind: io.l5d.three\nexperimental: true"),
            Err(vec!["1:7: io.l5d.three: not built yet".to_owned()])
        );
    }

    #[test]
    fn unknown_and_missing_kinds_name_the_known_ones() {
        let known = "(known: io.l5d.one; not built yet: io.l5d.two, io.l5d.three)";
        assert_eq!(
            read("kind: io.l5d.tow\nx: 1"),
            Err(vec![format!(
                "1:7: Could not resolve type id 'io.l5d.tow' as a storage; did you mean 'io.l5d.two'? {known}"
            )])
        );
        assert_eq!(
            read("kind: io.l5d.gone"),
            Err(vec![format!(
                "1:7: Could not resolve type id 'io.l5d.gone' as a storage; it was removed from namerd {known}"
            )])
        );
        assert_eq!(
            read("{}"),
            Err(vec![format!("1:1: missing type id property 'kind': which storage is this? {known}")])
        );
    }
}
