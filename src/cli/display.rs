//! The terminal of the user: its size, whether it takes colours, and the pager.

use std::io::{self, IsTerminal as _};

use rustix::termios::tcgetwinsize;

use super::table::TableRoom;
use crate::config::Environment;
use crate::service::TerminalSize;

/// The width of a table if stdout is not a terminal.
const FILE_WIDTH: usize = 120;
/// The size of a terminal that does not tell its own.
const USUAL_SIZE: TerminalSize = TerminalSize { rows: 24, columns: 80 };

/// The properties of stdin, stdout and stderr that decide how results look.
#[derive(Debug, Clone, Default)]
pub struct Display {
    /// stdout is a terminal.
    pub is_terminal: bool,
    /// stdin is a terminal, so that a person can type.
    pub has_keyboard: bool,
    /// stderr is a terminal, so that a spinner reaches a person.
    pub has_messages: bool,
    /// stdout is a terminal that understands sequences, such as those that move its cursor.
    pub has_sequences: bool,
    /// Results are coloured.
    pub has_colors: bool,
    /// The command of the pager, or `None` for no pager.
    pub pager: Option<String>,
}

impl Display {
    /// Returns the properties of this process.
    #[must_use]
    pub fn detect(environment: &Environment) -> Self {
        let is_terminal = io::stdout().is_terminal();
        let is_capable = !environment.has_dumb_terminal();
        Self {
            is_terminal,
            has_keyboard: io::stdin().is_terminal(),
            has_messages: io::stderr().is_terminal() && is_capable,
            has_sequences: is_terminal && is_capable,
            has_colors: is_terminal && is_capable && !environment.refuses_color(),
            pager: environment.pager().filter(|_| is_terminal && is_capable),
        }
    }

    /// The room for a table on stdout, at this moment.
    pub(super) fn table_room(&self) -> TableRoom {
        if self.is_terminal {
            TableRoom::Terminal(read_terminal_size().columns.into())
        } else {
            TableRoom::Lines(FILE_WIDTH)
        }
    }
}

/// Returns the size of the terminal on stdout, at this moment.
pub(super) fn read_terminal_size() -> TerminalSize {
    let size = tcgetwinsize(io::stdout()).ok();
    size.filter(|size| size.ws_col > 0 && size.ws_row > 0)
        .map_or(USUAL_SIZE, |size| TerminalSize { rows: size.ws_row, columns: size.ws_col })
}
