//! The clients: the places of their files, and the entry of the server in each.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::format::{SettingValue, SettingsFormat};

/// An AI client that can use an MCP server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ClientKind {
    /// Claude Code, the program in the terminal.
    ClaudeCode,
    /// Claude Desktop, the application.
    ClaudeDesktop,
    /// Codex, in the terminal and in editors.
    Codex,
    /// Cursor, editor and terminal program.
    Cursor,
    /// Visual Studio Code with Copilot.
    VsCode,
    /// Zed, with its own agent.
    Zed,
    /// Gemini CLI, by Google.
    Gemini,
    /// Qwen Code, by Alibaba.
    Qwen,
    /// OpenCode, the program in the terminal.
    OpenCode,
    /// Windsurf, with its agent Cascade.
    Windsurf,
    /// Goose, in the terminal and on the desktop.
    Goose,
}

/// The operating system, as far as it decides about places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperatingSystem {
    /// Linux, and everything that follows the XDG base directories.
    Linux,
    /// macOS, with its library folders.
    MacOs,
}

impl OperatingSystem {
    /// The system that this program was built for.
    #[must_use]
    pub const fn current() -> Self {
        if cfg!(target_os = "macos") { Self::MacOs } else { Self::Linux }
    }
}

/// The reach of an installation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InstallScope {
    /// All projects of this user.
    User,
    /// One project, with a file in its directory.
    Project,
}

/// The facts about a machine and its user that decide about places.
#[derive(Debug, Clone)]
pub struct Machine {
    /// The operating system.
    pub system: OperatingSystem,
    /// The home directory of the user.
    pub home: PathBuf,
    /// The directory of the project.
    pub project: PathBuf,
    /// The environment variables.
    pub variables: BTreeMap<String, String>,
}

impl Machine {
    /// A variable with an absolute path; others count as unset.
    fn variable_path(&self, name: &str) -> Option<PathBuf> {
        self.variables.get(name).map(PathBuf::from).filter(|path| path.is_absolute())
    }

    /// The directory for settings by the XDG rules, on every system.
    fn xdg_config(&self) -> PathBuf {
        self.variable_path("XDG_CONFIG_HOME").unwrap_or_else(|| self.home.join(".config"))
    }

    /// The directory where desktop programs keep their settings.
    fn application_support(&self) -> PathBuf {
        match self.system {
            OperatingSystem::Linux => self.xdg_config(),
            OperatingSystem::MacOs => self.home.join("Library/Application Support"),
        }
    }

    /// The directories with programs, as one text.
    #[must_use]
    pub fn path_variable(&self) -> &str {
        self.variables.get("PATH").map_or("", String::as_str)
    }

    /// Finds a program on the `PATH`.
    #[must_use]
    pub fn find_program(&self, name: &str) -> Option<PathBuf> {
        let folders = std::env::split_paths(self.path_variable());
        folders
            .filter(|dir| dir.is_absolute())
            .map(|dir| dir.join(name))
            .find(|path| is_program(path))
    }
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

impl ClientKind {
    /// All clients, in the order of lists.
    pub const ALL: [Self; 11] = [
        Self::ClaudeCode,
        Self::ClaudeDesktop,
        Self::Codex,
        Self::Cursor,
        Self::VsCode,
        Self::Zed,
        Self::Gemini,
        Self::Qwen,
        Self::OpenCode,
        Self::Windsurf,
        Self::Goose,
    ];

    /// The word for the client on the command line.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::ClaudeDesktop => "claude-desktop",
            Self::Codex => "codex",
            Self::Cursor => "cursor",
            Self::VsCode => "vscode",
            Self::Zed => "zed",
            Self::Gemini => "gemini",
            Self::Qwen => "qwen",
            Self::OpenCode => "opencode",
            Self::Windsurf => "windsurf",
            Self::Goose => "goose",
        }
    }

    /// The name that its makers give it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "Claude Code",
            Self::ClaudeDesktop => "Claude Desktop",
            Self::Codex => "Codex",
            Self::Cursor => "Cursor",
            Self::VsCode => "VS Code",
            Self::Zed => "Zed",
            Self::Gemini => "Gemini CLI",
            Self::Qwen => "Qwen Code",
            Self::OpenCode => "OpenCode",
            Self::Windsurf => "Windsurf",
            Self::Goose => "Goose",
        }
    }

    /// Reads the word of a client; the names of its program and its makers work, too.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim().to_ascii_lowercase().replace([' ', '_'], "-");
        match text.as_str() {
            "claude" => return Some(Self::ClaudeCode),
            "code" | "vs-code" | "copilot" => return Some(Self::VsCode),
            "gemini-cli" => return Some(Self::Gemini),
            "qwen-code" => return Some(Self::Qwen),
            "open-code" => return Some(Self::OpenCode),
            _ => {}
        }
        Self::ALL.into_iter().find(|client| client.word() == text)
    }

    /// The names of its program on a `PATH`.
    #[must_use]
    pub const fn programs(self) -> &'static [&'static str] {
        match self {
            Self::ClaudeCode => &["claude"],
            Self::ClaudeDesktop => &["claude-desktop"],
            Self::Codex => &["codex"],
            Self::Cursor => &["cursor", "cursor-agent"],
            Self::VsCode => &["code"],
            Self::Zed => &["zed", "zeditor"],
            Self::Gemini => &["gemini"],
            Self::Qwen => &["qwen"],
            Self::OpenCode => &["opencode"],
            Self::Windsurf => &["windsurf"],
            Self::Goose => &["goose"],
        }
    }

    /// The name of its application on macOS.
    #[must_use]
    pub const fn application(self) -> Option<&'static str> {
        match self {
            Self::ClaudeDesktop => Some("Claude.app"),
            Self::Cursor => Some("Cursor.app"),
            Self::VsCode => Some("Visual Studio Code.app"),
            Self::Zed => Some("Zed.app"),
            Self::Windsurf => Some("Windsurf.app"),
            Self::Goose => Some("Goose.app"),
            Self::ClaudeCode | Self::Codex | Self::Gemini | Self::Qwen | Self::OpenCode => None,
        }
    }

    /// The format of the file that names its servers.
    #[must_use]
    pub const fn format(self) -> SettingsFormat {
        match self {
            Self::ClaudeCode | Self::ClaudeDesktop => SettingsFormat::Json,
            Self::Codex => SettingsFormat::Toml,
            Self::Goose => SettingsFormat::Yaml,
            Self::Cursor
            | Self::VsCode
            | Self::Zed
            | Self::Gemini
            | Self::Qwen
            | Self::OpenCode
            | Self::Windsurf => SettingsFormat::Jsonc,
        }
    }

    /// The key under which that file has the servers.
    #[must_use]
    pub const fn section(self) -> &'static str {
        match self {
            Self::Codex => "mcp_servers",
            Self::VsCode => "servers",
            Self::Zed => "context_servers",
            Self::OpenCode => "mcp",
            Self::Goose => "extensions",
            Self::ClaudeCode
            | Self::ClaudeDesktop
            | Self::Cursor
            | Self::Gemini
            | Self::Qwen
            | Self::Windsurf => "mcpServers",
        }
    }

    /// The directory of its settings for all projects.
    fn user_dir(self, machine: &Machine) -> PathBuf {
        let home = &machine.home;
        match self {
            Self::ClaudeCode => {
                machine.variable_path("CLAUDE_CONFIG_DIR").unwrap_or_else(|| home.join(".claude"))
            }
            Self::ClaudeDesktop => machine.application_support().join("Claude"),
            Self::Codex => {
                machine.variable_path("CODEX_HOME").unwrap_or_else(|| home.join(".codex"))
            }
            Self::Cursor => home.join(".cursor"),
            Self::VsCode => machine.application_support().join("Code/User"),
            // Zed uses the XDG directory on macOS, too.
            Self::Zed => machine.xdg_config().join("zed"),
            Self::Gemini => machine
                .variable_path("GEMINI_CLI_HOME")
                .unwrap_or_else(|| home.clone())
                .join(".gemini"),
            Self::Qwen => machine.variable_path("QWEN_HOME").unwrap_or_else(|| home.join(".qwen")),
            Self::OpenCode => machine.xdg_config().join("opencode"),
            Self::Windsurf => home.join(".codeium/windsurf"),
            Self::Goose => machine
                .variable_path("GOOSE_PATH_ROOT")
                .map_or_else(|| machine.xdg_config().join("goose"), |root| root.join("config")),
        }
    }

    /// The file that names the servers; `None` if the client has none in this scope.
    pub(crate) fn settings_file(self, scope: InstallScope, machine: &Machine) -> Option<PathBuf> {
        match scope {
            InstallScope::User => Some(self.user_settings_file(machine)),
            InstallScope::Project => self.project_settings_file(&machine.project),
        }
    }

    fn user_settings_file(self, machine: &Machine) -> PathBuf {
        let dir = self.user_dir(machine);
        match self {
            Self::ClaudeCode => match machine.variable_path("CLAUDE_CONFIG_DIR") {
                Some(dir) => dir.join(".claude.json"),
                None => machine.home.join(".claude.json"),
            },
            Self::ClaudeDesktop => dir.join("claude_desktop_config.json"),
            Self::Codex => dir.join("config.toml"),
            Self::Cursor | Self::VsCode => dir.join("mcp.json"),
            Self::Zed | Self::Gemini | Self::Qwen => dir.join("settings.json"),
            Self::OpenCode => choose_opencode_file(&dir),
            Self::Windsurf => dir.join("mcp_config.json"),
            Self::Goose => dir.join("config.yaml"),
        }
    }

    fn project_settings_file(self, project: &Path) -> Option<PathBuf> {
        match self {
            Self::ClaudeCode => Some(project.join(".mcp.json")),
            Self::Codex => Some(project.join(".codex/config.toml")),
            Self::Cursor => Some(project.join(".cursor/mcp.json")),
            Self::VsCode => Some(project.join(".vscode/mcp.json")),
            Self::Zed => Some(project.join(".zed/settings.json")),
            Self::Gemini => Some(project.join(".gemini/settings.json")),
            Self::Qwen => Some(project.join(".qwen/settings.json")),
            Self::OpenCode => Some(choose_opencode_file(project)),
            Self::ClaudeDesktop | Self::Windsurf | Self::Goose => None,
        }
    }

    /// The file with permissions that is not the one with the servers.
    pub(crate) fn permissions_file(
        self,
        scope: InstallScope,
        machine: &Machine,
    ) -> Option<PathBuf> {
        match (self, scope) {
            (Self::ClaudeCode, InstallScope::User) => {
                Some(self.user_dir(machine).join("settings.json"))
            }
            (Self::ClaudeCode, InstallScope::Project) => {
                Some(machine.project.join(".claude/settings.json"))
            }
            (
                Self::ClaudeDesktop
                | Self::Codex
                | Self::Cursor
                | Self::VsCode
                | Self::Zed
                | Self::Gemini
                | Self::Qwen
                | Self::OpenCode
                | Self::Windsurf
                | Self::Goose,
                _,
            ) => None,
        }
    }

    /// The file with instructions for the model; `None` if the client has none in this scope.
    #[must_use]
    pub fn rules_file(self, scope: InstallScope, machine: &Machine) -> Option<PathBuf> {
        let dir = self.user_dir(machine);
        match (self, scope) {
            (Self::ClaudeDesktop, _) | (Self::Cursor | Self::VsCode, InstallScope::User) => None,
            (Self::ClaudeCode, InstallScope::User) => Some(dir.join("CLAUDE.md")),
            (Self::Gemini, InstallScope::User) => Some(dir.join("GEMINI.md")),
            (Self::Qwen, InstallScope::User) => Some(dir.join("QWEN.md")),
            (Self::Codex | Self::Zed | Self::OpenCode, InstallScope::User) => {
                Some(dir.join("AGENTS.md"))
            }
            (Self::Windsurf, InstallScope::User) => Some(dir.join("memories/global_rules.md")),
            (Self::Goose, InstallScope::User) => Some(dir.join(".goosehints")),
            (Self::ClaudeCode, InstallScope::Project) => Some(machine.project.join("CLAUDE.md")),
            (Self::Gemini, InstallScope::Project) => Some(machine.project.join("GEMINI.md")),
            (Self::Qwen, InstallScope::Project) => Some(machine.project.join("QWEN.md")),
            (
                Self::Codex
                | Self::Cursor
                | Self::VsCode
                | Self::Zed
                | Self::OpenCode
                | Self::Windsurf
                | Self::Goose,
                InstallScope::Project,
            ) => Some(machine.project.join("AGENTS.md")),
        }
    }

    /// Finds the client on a machine: its program, its application, or its settings.
    #[must_use]
    pub fn find_on(self, machine: &Machine) -> Option<PathBuf> {
        let program = self.programs().iter().find_map(|name| machine.find_program(name));
        let application = || {
            let name = self.application().filter(|_| machine.system == OperatingSystem::MacOs)?;
            let folders = [PathBuf::from("/Applications"), machine.home.join("Applications")];
            folders.into_iter().map(|dir| dir.join(name)).find(|path| path.exists())
        };
        let settings = || {
            let file = self.user_settings_file(machine);
            let places = [file, self.user_dir(machine)];
            places.into_iter().find(|path| path.exists())
        };
        program.or_else(application).or_else(settings)
    }
}

/// OpenCode reads both files; the one with comments wins if both exist.
fn choose_opencode_file(dir: &Path) -> PathBuf {
    let commented = dir.join("opencode.jsonc");
    if commented.exists() { commented } else { dir.join("opencode.json") }
}

/// The name of the server in all settings.
pub const SERVER_NAME: &str = "shellyard";

/// The command that a client is told to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfiguredCommand {
    /// The program, as an absolute path.
    pub program: String,
    /// The arguments of the program.
    pub args: Vec<String>,
    /// Variables that the client sets for it.
    pub variables: BTreeMap<String, String>,
}

/// Milliseconds that Gemini CLI and Qwen Code give to one call; seconds that Codex and Goose do. A
/// call is answered after 50 s at the latest.
const CALL_LIMIT_MS: i64 = 600_000;
const CALL_LIMIT_S: i64 = 300;

impl ConfiguredCommand {
    /// Returns the entry for a client. With `is_permitted`, it contains the client's permission to use
    /// the server without a question, where the entry is the place for it.
    #[must_use]
    pub fn to_entry(&self, client: ClientKind, is_permitted: bool) -> SettingValue {
        let program = SettingValue::text(&self.program);
        let args = SettingValue::texts(&self.args);
        let variables = self.variables.iter();
        let variables = SettingValue::Map(
            variables.map(|(name, value)| (name.clone(), SettingValue::text(value))).collect(),
        );
        let mut pairs: Vec<(&str, SettingValue)> = match client {
            ClientKind::OpenCode => {
                let words = std::iter::once(&self.program).chain(&self.args);
                vec![
                    ("type", SettingValue::text("local")),
                    ("command", SettingValue::texts(words)),
                    ("environment", variables),
                    ("enabled", SettingValue::Flag(true)),
                ]
            }
            ClientKind::Goose => vec![
                ("enabled", SettingValue::Flag(true)),
                ("type", SettingValue::text("stdio")),
                ("name", SettingValue::text(SERVER_NAME)),
                ("description", SettingValue::text("Runs shell commands as jobs")),
                ("cmd", program),
                ("args", args),
                ("envs", variables),
                ("timeout", SettingValue::Number(CALL_LIMIT_S)),
            ],
            ClientKind::ClaudeCode | ClientKind::VsCode => vec![
                ("type", SettingValue::text("stdio")),
                ("command", program),
                ("args", args),
                ("env", variables),
            ],
            ClientKind::ClaudeDesktop
            | ClientKind::Codex
            | ClientKind::Cursor
            | ClientKind::Zed
            | ClientKind::Gemini
            | ClientKind::Qwen
            | ClientKind::Windsurf => {
                vec![("command", program), ("args", args), ("env", variables)]
            }
        };
        pairs.extend(client_extras(client, is_permitted));
        let pairs = pairs.into_iter().map(|(key, value)| (key.to_owned(), value));
        SettingValue::Map(pairs.collect())
    }

    /// Reads the command from the entry of a client, as the client does. `None` for a remote server.
    #[must_use]
    pub fn from_entry(client: ClientKind, entry: &SettingValue) -> Option<Self> {
        let (program_key, variables_key) = match client {
            ClientKind::OpenCode => ("command", "environment"),
            ClientKind::Goose => ("cmd", "envs"),
            ClientKind::ClaudeCode
            | ClientKind::ClaudeDesktop
            | ClientKind::Codex
            | ClientKind::Cursor
            | ClientKind::VsCode
            | ClientKind::Zed
            | ClientKind::Gemini
            | ClientKind::Qwen
            | ClientKind::Windsurf => ("command", "env"),
        };
        let command = entry.get(program_key)?;
        let args = entry.get("args").and_then(SettingValue::as_texts).unwrap_or_default();
        let mut words = match command.as_text() {
            Some(program) => std::iter::once(program.to_owned()).chain(args).collect(),
            None => command.as_texts()?,
        };
        let variables = entry.get(variables_key).map_or(&[][..], SettingValue::pairs);
        let variables = variables
            .iter()
            .filter_map(|(name, value)| Some((name.clone(), value.as_text()?.to_owned())));
        let program = (!words.is_empty()).then(|| words.remove(0))?;
        Some(Self { program, args: words, variables: variables.collect() })
    }
}

/// The settings that a client needs besides the command, and its permission.
fn client_extras(client: ClientKind, is_permitted: bool) -> Vec<(&'static str, SettingValue)> {
    let mut extras = match client {
        ClientKind::ClaudeCode => vec![("alwaysLoad", SettingValue::Flag(true))],
        ClientKind::Codex => vec![
            ("tool_timeout_sec", SettingValue::Number(CALL_LIMIT_S)),
            ("supports_parallel_tool_calls", SettingValue::Flag(true)),
        ],
        ClientKind::Gemini => vec![("timeout", SettingValue::Number(CALL_LIMIT_MS))],
        ClientKind::Qwen => vec![
            ("timeout", SettingValue::Number(CALL_LIMIT_MS)),
            ("alwaysLoadTools", SettingValue::Flag(true)),
        ],
        ClientKind::ClaudeDesktop
        | ClientKind::Cursor
        | ClientKind::VsCode
        | ClientKind::Zed
        | ClientKind::OpenCode
        | ClientKind::Windsurf
        | ClientKind::Goose => Vec::new(),
    };
    if let Some(permission) = entry_permission(client).filter(|_| is_permitted) {
        extras.push(permission);
    }
    extras
}

/// The permission of a client that is a key of the entry.
pub(crate) fn entry_permission(client: ClientKind) -> Option<(&'static str, SettingValue)> {
    match client {
        ClientKind::Codex => Some(("default_tools_approval_mode", SettingValue::text("approve"))),
        ClientKind::Gemini | ClientKind::Qwen => Some(("trust", SettingValue::Flag(true))),
        ClientKind::ClaudeCode
        | ClientKind::ClaudeDesktop
        | ClientKind::Cursor
        | ClientKind::VsCode
        | ClientKind::Zed
        | ClientKind::OpenCode
        | ClientKind::Windsurf
        | ClientKind::Goose => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(system: OperatingSystem, variables: &[(&str, &str)]) -> Machine {
        let variables =
            variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Machine { system, home: "/h".into(), project: "/p".into(), variables: variables.collect() }
    }

    #[track_caller]
    fn check(client: ClientKind, linux: &str, mac: &str, project: Option<&str>) {
        let file = |system, scope| client.settings_file(scope, &machine(system, &[]));
        assert_eq!(file(OperatingSystem::Linux, InstallScope::User), Some(linux.into()));
        assert_eq!(file(OperatingSystem::MacOs, InstallScope::User), Some(mac.into()));
        assert_eq!(file(OperatingSystem::Linux, InstallScope::Project), project.map(PathBuf::from));
    }

    #[test]
    fn each_client_has_its_places() {
        use ClientKind::*;
        let support = "/h/Library/Application Support";
        check(ClaudeCode, "/h/.claude.json", "/h/.claude.json", Some("/p/.mcp.json"));
        let file = "Claude/claude_desktop_config.json";
        check(ClaudeDesktop, &format!("/h/.config/{file}"), &format!("{support}/{file}"), None);
        let codex = "/h/.codex/config.toml";
        check(Codex, codex, codex, Some("/p/.codex/config.toml"));
        check(Cursor, "/h/.cursor/mcp.json", "/h/.cursor/mcp.json", Some("/p/.cursor/mcp.json"));
        let code = "Code/User/mcp.json";
        let project = Some("/p/.vscode/mcp.json");
        check(VsCode, &format!("/h/.config/{code}"), &format!("{support}/{code}"), project);
        let zed = "/h/.config/zed/settings.json";
        check(Zed, zed, zed, Some("/p/.zed/settings.json"));
        let gemini = "/h/.gemini/settings.json";
        check(Gemini, gemini, gemini, Some("/p/.gemini/settings.json"));
        check(
            Qwen,
            "/h/.qwen/settings.json",
            "/h/.qwen/settings.json",
            Some("/p/.qwen/settings.json"),
        );
        let opencode = "/h/.config/opencode/opencode.json";
        check(OpenCode, opencode, opencode, Some("/p/opencode.json"));
        let windsurf = "/h/.codeium/windsurf/mcp_config.json";
        check(Windsurf, windsurf, windsurf, None);
        let goose = "/h/.config/goose/config.yaml";
        check(Goose, goose, goose, None);
    }

    #[test]
    fn variables_move_the_places() {
        for (client, variable, expected) in [
            (ClientKind::ClaudeCode, "CLAUDE_CONFIG_DIR", "/x/.claude.json"),
            (ClientKind::Codex, "CODEX_HOME", "/x/config.toml"),
            (ClientKind::Gemini, "GEMINI_CLI_HOME", "/x/.gemini/settings.json"),
            (ClientKind::Qwen, "QWEN_HOME", "/x/settings.json"),
            (ClientKind::Goose, "GOOSE_PATH_ROOT", "/x/config/config.yaml"),
            (ClientKind::OpenCode, "XDG_CONFIG_HOME", "/x/opencode/opencode.json"),
            (ClientKind::VsCode, "XDG_CONFIG_HOME", "/x/Code/User/mcp.json"),
        ] {
            let machine = machine(OperatingSystem::Linux, &[(variable, "/x")]);
            let file = client.settings_file(InstallScope::User, &machine);
            assert_eq!(file, Some(expected.into()), "{variable}");
        }
    }

    #[test]
    fn every_word_and_name_is_understood() {
        for client in ClientKind::ALL {
            assert_eq!(ClientKind::parse(client.word()), Some(client));
            assert_eq!(ClientKind::parse(client.name()), Some(client), "{}", client.name());
            let program = client.programs().first().expect("a program");
            assert_eq!(ClientKind::parse(program), Some(client), "{program}");
        }
        assert_eq!(ClientKind::parse("emacs"), None);
    }

    #[test]
    fn the_command_of_each_client_can_be_read_back() {
        let launch = ConfiguredCommand {
            program: "/opt/my programs/shellyard".to_owned(),
            args: vec!["stdio".to_owned(), "--connect".to_owned()],
            variables: BTreeMap::from([("PATH".to_owned(), "/a:/b".to_owned())]),
        };
        for client in ClientKind::ALL {
            for is_permitted in [false, true] {
                let entry = launch.to_entry(client, is_permitted);
                let read = ConfiguredCommand::from_entry(client, &entry);
                assert_eq!(read.as_ref(), Some(&launch), "{}", client.name());
            }
        }
        let remote = SettingValue::map([("url", SettingValue::text("http://127.0.0.1:8000/mcp"))]);
        assert_eq!(ConfiguredCommand::from_entry(ClientKind::Cursor, &remote), None);
    }

    #[test]
    fn nothing_is_permitted_unless_asked_for() {
        let launch = ConfiguredCommand {
            program: "/s".to_owned(),
            args: Vec::new(),
            variables: BTreeMap::new(),
        };
        for client in [ClientKind::Codex, ClientKind::Gemini, ClientKind::Qwen] {
            let (key, value) = entry_permission(client).expect("a permission");
            assert_eq!(launch.to_entry(client, false).get(key), None);
            assert_eq!(launch.to_entry(client, true).get(key), Some(&value));
        }
    }
}
