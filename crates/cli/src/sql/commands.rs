//! Commands of the shell: what begins with a backslash.

use std::fs::File;
use std::io::{BufReader, Write};
use std::path::Path;

use super::input::{Input, Reader};
use super::shell::{Place, Shell, Stop};

/// Scripts that call each other.
const SCRIPTS_DEEP_MAX: usize = 64;

/// The one variable that the shell has.
const ON_ERROR_STOP: &str = "ON_ERROR_STOP";

const HELP: &str = "\
  ;  or \\g               run the statement typed so far; \\gx shows its rows expanded
  \\gexec                 run each value of its rows as a statement
  \\r                     forget the statement typed so far
  \\d [NAME]              tables, views and sequences; or the columns of NAME
  \\dt \\di \\dv \\ds \\dn   tables, indexes, views, sequences, schemas
  \\l                     the database
  \\x [on|off]            rows as a value a line
  \\timing [on|off]       say how long each statement took
  \\set [ON_ERROR_STOP on|off]   end scripts at their first error; \\unset
  \\copy TABLE [(COLUMNS)] | (QUERY)  from|to  'FILE' | stdin | stdout  [with (OPTIONS)]
                         rows from or to a file; options as COPY's: format csv, header, …
  \\i FILE                run a script
  \\echo TEXT             print a text
  \\q                     quit

Within a transaction the prompt is *=>, in a failed one !=>, within a statement ->.
";

type Kept = std::result::Result<Option<String>, Stop>;

impl Shell {
    /// Runs a command; gives the statement before it back if that goes on behind it.
    pub(crate) fn run_command(
        &mut self,
        command: &str,
        statement: &str,
        line: usize,
        input: &mut dyn Input,
        next_line: &mut usize,
    ) -> Kept {
        let is_interactive = input.is_interactive();
        let command = command.trim_end().trim_end_matches(';');
        let (word, rest) = match command[1..].find(|c: char| c.is_whitespace() || c == '\\') {
            Some(end) => (&command[1..=end], command[end + 1..].trim()),
            None => (&command[1..], ""),
        };
        let name = input.name().map(str::to_owned);
        let place = Place { name: name.as_deref(), line };
        let keeps = !matches!(word, "g" | "gx" | "gexec" | "r" | "q");
        let kept = (keeps && !statement.trim().is_empty()).then(|| format!("{statement}\n"));
        match word {
            "g" => self.run_one(statement, line, input, next_line)?,
            "gx" => {
                let before = std::mem::replace(&mut self.expanded, true);
                let ran = self.run_one(statement, line, input, next_line);
                self.expanded = before;
                ran?;
            }
            "gexec" => self.run_each(statement, line, input, next_line)?,
            "r" => {}
            "q" | "quit" => return Err(Stop::Quit),
            "?" | "h" | "help" => self.out.write_all(HELP.as_bytes())?,
            "x" => match switched(rest, self.expanded) {
                Some(on) => {
                    self.expanded = on;
                    self.say(is_interactive, &format!("Expanded display is {}.", on_off(on)))?;
                }
                None => self.refused(&not_a_switch(rest), &place, is_interactive)?,
            },
            "timing" => match switched(rest, self.timing) {
                Some(on) => {
                    self.timing = on;
                    self.say(is_interactive, &format!("Timing is {}.", on_off(on)))?;
                }
                None => self.refused(&not_a_switch(rest), &place, is_interactive)?,
            },
            "set" => self.set(rest, &place, is_interactive)?,
            "unset" => match rest {
                ON_ERROR_STOP => self.on_error_stop = false,
                _ => self.refused(&not_a_variable(rest), &place, is_interactive)?,
            },
            "echo" => writeln!(self.out, "{}", unquoted(rest))?,
            "i" | "include" => self.include(rest, &place, is_interactive)?,
            "copy" => self.copy_command(rest, line, input, next_line)?,
            "d" | "dt" | "di" | "dv" | "ds" | "dn" | "l" | "d+" | "dt+" => {
                self.describe(word.trim_end_matches('+'), rest, &place, is_interactive)?;
            }
            _ => {
                let message = format!("invalid command \\{word}: \\? lists those that there are");
                self.refused(&message, &place, is_interactive)?;
            }
        }
        Ok(kept)
    }

    /// `\set`: what is set, or setting it.
    fn set(&mut self, rest: &str, place: &Place<'_>, is_interactive: bool) -> Result<(), Stop> {
        if rest.is_empty() {
            return Ok(writeln!(self.out, "{ON_ERROR_STOP} = '{}'", on_off(self.on_error_stop))?);
        }
        let (name, value) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        match on_error_stop(name, &unquoted(value.trim())) {
            Ok(on) => self.on_error_stop = on,
            Err(message) => self.refused(&message, place, is_interactive)?,
        }
        Ok(())
    }

    /// What only a person wants to read.
    fn say(&mut self, is_interactive: bool, message: &str) -> std::io::Result<()> {
        if is_interactive { writeln!(self.out, "{message}") } else { Ok(()) }
    }

    fn include(&mut self, rest: &str, place: &Place<'_>, is_interactive: bool) -> Result<(), Stop> {
        let path = unquoted(rest);
        if path.is_empty() {
            return self.refused("\\i: the name of a file is missing", place, is_interactive);
        }
        if self.depth >= SCRIPTS_DEEP_MAX {
            return self.refused("\\i: too many scripts call each other", place, is_interactive);
        }
        let opened = File::open(Path::new(&path)).and_then(|file| match file.metadata()?.is_dir() {
            true => Err(std::io::ErrorKind::IsADirectory.into()),
            false => Ok(file),
        });
        let file = match opened {
            Ok(file) => file,
            Err(error) => return self.refused(&format!("{path}: {error}"), place, is_interactive),
        };
        self.heed_interrupt(is_interactive)?;
        self.depth += 1;
        let ran = self.run(&mut Reader::new(Some(path), BufReader::new(file)));
        self.depth -= 1;
        match ran {
            // A script ends, and a person's shell goes on.
            Err(Stop::Failed) if is_interactive => Ok(()),
            // \q ends the script.
            Err(Stop::Quit) => Ok(()),
            ran => ran,
        }
    }
}

/// What the one variable is set to. As in psql, naming it sets it. The error is a message.
pub(crate) fn on_error_stop(name: &str, value: &str) -> Result<bool, String> {
    match (name, value) {
        (ON_ERROR_STOP, "") => Ok(true),
        (ON_ERROR_STOP, value) => switched(value, false).ok_or_else(|| not_a_switch(value)),
        _ => Err(not_a_variable(name)),
    }
}

fn not_a_variable(name: &str) -> String {
    format!("unknown variable \"{name}\": there is {ON_ERROR_STOP}")
}

fn on_off(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

fn switched(word: &str, now: bool) -> Option<bool> {
    match word.to_ascii_lowercase().as_str() {
        "" => Some(!now),
        "on" | "true" | "1" => Some(true),
        "off" | "false" | "0" => Some(false),
        _ => None,
    }
}

fn not_a_switch(word: &str) -> String {
    format!("\"{word}\" is neither on nor off")
}

/// A word without the quotes that it may have.
pub(crate) fn unquoted(text: &str) -> String {
    match text.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')) {
        Some(inner) => inner.replace("''", "'"),
        None => text.to_owned(),
    }
}
