//! Where lines come from: a terminal with a line editor, or a text read to its end.

use std::io::{self, BufRead};
use std::path::PathBuf;

use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;

use crate::failure::{Failure, Result};

/// What came.
pub(crate) enum Line {
    /// A line, or several, without the end of the last.
    Text(String),
    /// Ctrl-C.
    Interrupted,
    /// Nothing more will.
    End,
}

/// A source of lines.
pub(crate) trait Input {
    /// The next line. A person sees the prompt.
    fn line(&mut self, prompt: &str) -> io::Result<Line>;

    /// Keeps a statement for the arrow keys.
    fn remember(&mut self, _statement: &str) {}

    /// What errors are to say of the place: the script's name.
    fn name(&self) -> Option<&str>;

    /// Whether input comes from a terminal.
    fn is_interactive(&self) -> bool {
        false
    }
}

/// A terminal.
pub(crate) struct Editor {
    editor: DefaultEditor,
    history: Option<PathBuf>,
    database: String,
}

impl Editor {
    /// Reads the history, which is in `$COLIBRI_HISTORY` or `~/.colibri_history`.
    pub(crate) fn new(database: &str) -> Result<Self> {
        let config = rustyline::Config::builder().max_history_size(2000).map(|config| config.auto_add_history(false));
        let editor = config.and_then(|config| DefaultEditor::with_config(config.build()));
        let mut editor = editor.map_err(|error| Failure::Output(io::Error::other(error)))?;
        let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".colibri_history"));
        let history = std::env::var_os("COLIBRI_HISTORY").map(PathBuf::from).or_else(home);
        if let Some(path) = &history {
            // There is none the first time.
            _ = editor.load_history(path);
        }
        Ok(Self { editor, history, database: database.to_owned() })
    }
}

impl Input for Editor {
    fn line(&mut self, prompt: &str) -> io::Result<Line> {
        match self.editor.readline(&format!("{}{prompt} ", self.database)) {
            Ok(text) => Ok(Line::Text(text)),
            Err(ReadlineError::Interrupted) => Ok(Line::Interrupted),
            Err(ReadlineError::Eof) => Ok(Line::End),
            Err(ReadlineError::Io(error)) => Err(error),
            Err(error) => Err(io::Error::other(error)),
        }
    }

    fn remember(&mut self, statement: &str) {
        // A history that cannot be kept is no reason to stop.
        _ = self.editor.add_history_entry(statement);
        if let Some(path) = &self.history {
            _ = self.editor.append_history(path);
        }
    }

    fn name(&self) -> Option<&str> {
        None
    }

    fn is_interactive(&self) -> bool {
        true
    }
}

/// A text.
pub(crate) struct Reader<R> {
    name: Option<String>,
    text: R,
}

impl<R: BufRead> Reader<R> {
    pub(crate) fn new(name: Option<String>, text: R) -> Self {
        Self { name, text }
    }
}

impl<R: BufRead> Input for Reader<R> {
    fn line(&mut self, _prompt: &str) -> io::Result<Line> {
        let mut line = String::new();
        if self.text.read_line(&mut line)? == 0 {
            return Ok(Line::End);
        }
        if line.ends_with('\n') {
            line.pop();
        }
        Ok(Line::Text(line))
    }

    fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }
}
