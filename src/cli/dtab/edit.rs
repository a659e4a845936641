//! `rosterd dtab edit`: the dtab in an editor, written back only over the version that was read. Nothing that was typed
//! is lost: whenever it cannot be written, the message names the file that has it.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use http::StatusCode;
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};

use super::{Stored, changes, done, fetch, target, text};
use crate::cli::client::Client;
use crate::cli::failure::Failure;
use crate::cli::output::Output;
use crate::cli::shell::quoted;

pub(super) async fn run(client: &Client, namespace: &str, json: bool, output: &mut Output<'_>) -> Result<(), Failure> {
    let editor = ["VISUAL", "EDITOR"].iter().filter_map(|name| std::env::var(name).ok()).find(|text| !text.is_empty());
    with_editor(client, namespace, &editor.unwrap_or_else(|| "vi".to_owned()), json, output).await
}

/// Edits with the shell command `editor`, which gets the name of the file as its last argument.
pub(super) async fn with_editor(
    client: &Client,
    namespace: &str,
    editor: &str,
    json: bool,
    output: &mut Output<'_>,
) -> Result<(), Failure> {
    let stored = fetch(client, namespace).await?;
    let Some(version) = stored.version.clone() else {
        return Err(Failure::other(format_args!(
            "{} gives no version (ETag) with its dtabs, so an edit could undo the work of others; use `rosterd dtab \
             get` and `rosterd dtab put`",
            client.address()
        )));
    };
    let shown = introduce(client, namespace, &version, &stored);
    let draft = Draft::new(namespace, &shown)?;

    // Ctrl-C is meant for the editor.
    let mut interrupt = signal(SignalKind::interrupt())
        .map_err(|error| Failure::other(format_args!("cannot take signals: {error}")))?;
    let status = Command::new("sh").arg("-c").arg(format!("{editor} \"$1\"")).arg("sh").arg(&draft.path).status().await;
    let edited = fs::read_to_string(&draft.path)
        .map_err(|error| Failure::other(format_args!("cannot read {}: {error}", draft.path.display())))?;
    let unchanged = edited == shown;
    match status {
        Ok(status) if status.success() => {}
        Ok(status) if unchanged => {
            draft.remove();
            return Err(Failure::other(format_args!("`{editor}` failed ({status}): nothing was changed")));
        }
        Ok(status) => return Err(draft.kept(format_args!("`{editor}` failed ({status})"), namespace, Some(&version))),
        Err(error) => {
            draft.remove();
            return Err(Failure::other(format_args!("cannot run `{editor}`: {error}; set $VISUAL or $EDITOR")));
        }
    }
    if unchanged {
        draft.remove();
        return done(namespace, "unchanged", json, output);
    }

    let given = match text::check(&draft.path.display().to_string(), edited) {
        Ok(given) => given,
        Err(failure) => return Err(draft.kept(failure.to_string().trim_end(), namespace, Some(&version))),
    };
    if given.entries.as_ref() == Some(&stored.entries) {
        // Servers keep entries only, not comments.
        draft.remove();
        return done(namespace, "unchanged", json, output);
    }
    if let Some(doubt) = &given.doubt {
        output.say(doubt);
    }
    let target = target(namespace);
    let put = tokio::select! {
        put = client.put(&target, given.text, Some(&version)) => put,
        _ = interrupt.recv() => {
            return Err(draft.kept("interrupted; the server may have the new dtab or not", namespace, Some(&version)));
        }
    };
    match put {
        Ok(()) => {
            draft.remove();
            done(namespace, "updated", json, output)
        }
        Err(error) if error.status() == Some(StatusCode::PRECONDITION_FAILED) => {
            Err(overtaken(client, namespace, &stored, draft).await)
        }
        Err(error) => Err(draft.kept(error, namespace, Some(&version))),
    }
}

/// The dtab as the editor shows it.
fn introduce(client: &Client, namespace: &str, version: &str, stored: &Stored) -> String {
    format!(
        "# The dtab of {} on {}, version {version}.\n# Later entries win. An entry ends with ; and # starts a comment, \
         which is not stored.\n{}",
        // Neither can end the comment.
        namespace.escape_default(),
        client.address().escape_default(),
        text::pretty(&stored.entries)
    )
}

/// Someone else was faster: what they changed, and how to go on.
async fn overtaken(client: &Client, namespace: &str, base: &Stored, draft: Draft) -> Failure {
    let now = match fetch(client, namespace).await {
        Ok(now) => now,
        Err(failure) => return draft.kept(format_args!("the dtab was changed meanwhile. {failure}"), namespace, None),
    };
    let mut sentence = format!("the dtab of {namespace} was changed meanwhile:\n");
    let changes = changes(&base.entries, &now.entries, |entry| format!(" {} => {}", entry.prefix, entry.dst));
    for change in &changes {
        // Writing to a string does not fail.
        let _ = writeln!(sentence, "  {change}");
    }
    if changes.is_empty() {
        sentence.push_str("  the same entries");
        sentence.push_str(if base.entries == now.entries { " in the same order\n" } else { " in another order\n" });
    }
    sentence.push_str("Nothing was written");
    draft.kept(sentence, namespace, now.version.as_deref())
}

/// The file that is edited.
struct Draft {
    path: PathBuf,
}

impl Draft {
    /// A new file that only this user can read.
    fn new(namespace: &str, text: &str) -> Result<Self, Failure> {
        let name: String =
            namespace.chars().map(|char| if char.is_ascii_alphanumeric() { char } else { '-' }).take(50).collect();
        let path = std::env::temp_dir().join(format!("rosterd-{name}-{:08x}.dtab", rand::random::<u32>()));
        let written = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .and_then(|mut file| file.write_all(text.as_bytes()));
        match written {
            Ok(()) => Ok(Self { path }),
            Err(error) => Err(Failure::other(format_args!("cannot write {}: {error}; see $TMPDIR", path.display()))),
        }
    }

    fn remove(self) {
        // A file that stays behind harms nobody.
        let _ = fs::remove_file(&self.path);
    }

    /// A failure after which the text is still wanted.
    fn kept(self, what: impl std::fmt::Display, namespace: &str, version: Option<&str>) -> Failure {
        let file = quoted(&self.path.display().to_string());
        let version = version.unwrap_or("VERSION");
        Failure::Text(format!(
            "{what}\nYour text is in {file}. Once it is right: rosterd dtab put {} {file} --if-match {version}",
            quoted(namespace),
        ))
    }
}
