//! Texts for a person at a terminal: what the program is, where a server is reached, and the next step.

use std::fmt::Write;
use std::io::{self, IsTerminal};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use clap::CommandFactory;

use super::command_line::Cli;
use super::terminal::{VerbOutput, read_width};
use super::text_layout::{format_list_within, wrap_text};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// First steps, by verb; a row is shown if the program has the verb.
const FIRST_STEPS: [(&str, &str, &str); 7] = [
    ("install", "shellyard install", "connect the AI clients on this machine"),
    ("run", "shellyard run -- cargo test", "try it: run one command as a job"),
    ("serve", "shellyard serve", "start one server that many clients share"),
    ("jobs", "shellyard jobs", "list the jobs of a running server"),
    ("logs", "shellyard logs -f JOB", "follow the output of a job"),
    ("doctor", "shellyard doctor", "check what this host provides to jobs"),
    ("self-test", "shellyard self-test", "run a few jobs and check that every limit holds"),
];

/// Prints the text for a person who has typed the name of the program alone. Returns the exit code.
#[must_use]
pub fn run() -> u8 {
    VerbOutput::result(format_start_page(has_verb, read_width(&io::stdout()))).print()
}

/// Prints that `stdio` waits for a client, if a person has started it.
pub fn greet_on_stdio() {
    if io::stdin().is_terminal() && io::stderr().is_terminal() {
        let note = format_stdio_note(has_verb);
        eprint!("{}", wrap_text(&note, read_width(&io::stderr())));
    }
}

/// Prints where the server is reached and how a client connects. Returns `false`, and prints nothing, if
/// nobody would read it.
#[must_use]
pub fn greet_on_serve(server: &ServedAt<'_>) -> bool {
    let is_read = io::stderr().is_terminal();
    if is_read {
        eprint!("{}", format_serve_greeting(server, has_verb, read_width(&io::stderr())));
    }
    is_read
}

fn has_verb(name: &str) -> bool {
    Cli::command().find_subcommand(name).is_some()
}

/// The places at which a server is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServedAt<'a> {
    pub address: Option<SocketAddr>,
    pub socket: Option<&'a Path>,
    /// The URL path of the MCP endpoint.
    pub path: &'a str,
    pub is_tls: bool,
    /// `true` if callers over TCP need a token.
    pub needs_token: bool,
}

impl ServedAt<'_> {
    /// Returns the URL of the MCP endpoint, as a client on this machine uses it.
    fn url(&self) -> Option<String> {
        let address = self.address?;
        let host = match address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
            ip @ (IpAddr::V4(_) | IpAddr::V6(_)) => ip,
        };
        let scheme = if self.is_tls { "https" } else { "http" };
        Some(format!("{scheme}://{}{}", SocketAddr::new(host, address.port()), self.path))
    }
}

fn format_start_page(has_verb: impl Fn(&str) -> bool, width: Option<usize>) -> String {
    let steps = FIRST_STEPS.iter().filter(|(verb, _, _)| has_verb(verb));
    let rows: Vec<Vec<String>> =
        steps.map(|(_, line, what)| vec![format!("  {line}"), (*what).to_owned()]).collect();
    let title =
        format!("Shellyard {VERSION} runs shell commands for AI agents as jobs, over MCP.\n\n");
    let end = "\n`shellyard --help` lists all verbs, `shellyard VERB --help` explains one.\n";
    wrap_text(&title, width) + &format_list_within(&rows, width) + &wrap_text(end, width)
}

fn format_serve_greeting(
    server: &ServedAt<'_>,
    has_verb: impl Fn(&str) -> bool,
    width: Option<usize>,
) -> String {
    let mut text = format!("Shellyard {VERSION} is ready.\n\n");
    let url = server.url();
    let mut places = Vec::new();
    if let Some(url) = &url {
        places.push(vec!["  URL".to_owned(), url.clone()]);
    }
    if let Some(socket) = server.socket {
        places.push(vec!["  socket".to_owned(), socket.display().to_string()]);
    }
    text += &format_list_within(&places, width);
    text += "\nConnect a client:\n\n";
    let mut commands: Vec<String> = Vec::new();
    if has_verb("install") {
        commands.push("shellyard install CLIENT --connect".to_owned());
    }
    if let Some(url) = &url {
        let token = " --header \"Authorization: Bearer TOKEN\"";
        let token = if server.needs_token { token } else { "" };
        commands.push(format!("claude mcp add --transport http shellyard {url}{token}"));
    }
    for command in commands {
        // Writing to a string cannot fail.
        writeln!(text, "  {command}").ok();
    }
    let other = "  or the command `shellyard stdio --connect` in the settings of any client\n";
    text += &wrap_text(other, width);
    if server.needs_token && url.is_some() {
        let token = "  `shellyard token new NAME` creates the token of a client\n";
        text += &wrap_text(token, width);
    }
    let end =
        "\n`shellyard jobs` in another terminal shows what runs. Ctrl-C stops the server.\n\n";
    text + &wrap_text(end, width)
}

fn format_stdio_note(has_verb: impl Fn(&str) -> bool) -> String {
    let connect = if has_verb("install") {
        "`shellyard install` connects the clients on this machine."
    } else {
        "Put the command `shellyard stdio` into the settings of a client."
    };
    format!(
        "shellyard stdio speaks MCP on stdin and stdout: an AI client starts it, a person rarely does.\n\
         {connect} `shellyard run -- ls` runs a command by hand.\n\
         It now waits for JSON messages, one in each line; Ctrl-D ends it.\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served() -> ServedAt<'static> {
        ServedAt {
            address: "127.0.0.1:8000".parse().ok(),
            socket: Some(Path::new("/d/shellyard.sock")),
            path: "/mcp",
            is_tls: false,
            needs_token: false,
        }
    }

    #[test]
    fn the_start_page_names_verbs_that_exist() {
        let page = format_start_page(|verb| verb != "install", None);
        assert!(page.contains("shellyard serve ") && !page.contains("install"), "{page}");
        assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");
        assert!(format_start_page(|_| true, None).contains("shellyard install"));
    }

    #[test]
    fn a_server_says_where_it_is_and_how_to_connect() {
        let text = format_serve_greeting(&served(), |_| true, None);
        for part in [
            "  URL     http://127.0.0.1:8000/mcp\n",
            "  socket  /d/shellyard.sock\n",
            "--transport http shellyard http://127.0.0.1:8000/mcp\n",
            "shellyard install CLIENT --connect",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("TOKEN"), "{text}");
        let guarded = ServedAt { is_tls: true, needs_token: true, ..served() };
        let guarded = ServedAt { address: "0.0.0.0:8443".parse().ok(), ..guarded };
        let text = format_serve_greeting(&guarded, |_| false, None);
        assert!(text.contains("https://127.0.0.1:8443/mcp --header"), "{text}");
        assert!(text.contains("shellyard token new NAME") && !text.contains("install"), "{text}");
        let only_socket = ServedAt { address: None, ..served() };
        let text = format_serve_greeting(&only_socket, |_| false, None);
        assert!(!text.contains("URL") && text.contains("stdio --connect"), "{text}");
    }
}
