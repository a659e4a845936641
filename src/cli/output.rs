//! Where a command writes: data to standard output, everything else to standard error.

use std::fmt::Display;
use std::io::{self, Write};
use std::time::SystemTime;

use crate::text::calendar;

/// The time of a line of output.
pub(super) fn now() -> String {
    calendar::iso(SystemTime::now())
}

/// The two streams of a command. Data is buffered until [`Output::flush`].
pub(super) struct Output<'a> {
    data: &'a mut dyn Write,
    talk: &'a mut dyn Write,
}

impl<'a> Output<'a> {
    pub(super) fn new(data: &'a mut dyn Write, talk: &'a mut dyn Write) -> Self {
        Self { data, talk }
    }

    /// One line of data. Control characters are shown escaped, so that a name cannot command a terminal.
    pub(super) fn line(&mut self, line: impl Display) -> io::Result<()> {
        let mut text = clean(&line.to_string());
        text.push('\n');
        self.data.write_all(text.as_bytes())
    }

    /// Data as it is, with a line end if it has none.
    pub(super) fn body(&mut self, body: &[u8]) -> io::Result<()> {
        self.data.write_all(body)?;
        if body.ends_with(b"\n") { Ok(()) } else { self.data.write_all(b"\n") }
    }

    /// Hands all data on.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.data.flush()
    }

    /// Lines for a person. Nobody is left to be told when they cannot be written.
    pub(super) fn say(&mut self, text: impl Display) {
        let text = text.to_string();
        for line in text.strip_suffix('\n').unwrap_or(&text).split('\n') {
            let _ = writeln!(self.talk, "{}", clean(line));
        }
    }
}

/// The text with control characters escaped.
fn clean(text: &str) -> String {
    if !text.contains(char::is_control) {
        return text.to_owned();
    }
    text.chars().fold(String::with_capacity(text.len()), |mut clean, char| {
        if char.is_control() && char != '\t' {
            clean.extend(char.escape_default());
        } else {
            clean.push(char);
        }
        clean
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_command_the_terminal() {
        let (mut data, mut talk) = (Vec::new(), Vec::new());
        let mut output = Output::new(&mut data, &mut talk);
        output.line("a\u{1b}[2Jb").unwrap();
        output.say("one\ntwo\u{7}\n");
        assert_eq!(String::from_utf8(data).unwrap(), "a\\u{1b}[2Jb\n");
        assert_eq!(String::from_utf8(talk).unwrap(), "one\ntwo\\u{7}\n");
    }
}
