"""The agent programs, each with the configuration that connects it to the scripted model and to Shellyard.

How they find Shellyard is what docs/clients.md tells a user to write; only the program's path and the time limit of a call are replaced.
"""

import json
import os
import re
import subprocess
import tempfile
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs/clients.md"


def documented_blocks(client):
    """The blocks of settings that docs/clients.md has for a client."""
    section = re.search(rf"^## {re.escape(client)}\n(.*?)(?=^## )", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return re.findall(r"^```(?:json|toml)\n(.*?)^```", section[1], re.MULTILINE | re.DOTALL)


class Client:
    """One agent program in a home directory of its own.

    `connection` is `["stdio", COMMAND, ARG…]` or `["http", URL]`; `call_limit_s` is the time that the client gives to one tool call.
    """

    name = program = ""

    def __init__(self, tools, model, connection, call_limit_s):
        self.bin = Path(tools) / "node_modules/.bin" / self.program
        self.model, self.connection, self.call_limit_s = model, connection, call_limit_s
        self.home = tempfile.TemporaryDirectory(prefix=f"shellyard-{self.program}-", ignore_cleanup_errors=True)
        self.work = Path(self.home.name) / "work"
        self.work.mkdir()
        subprocess.run(["git", "init", "-q", self.work], check=True)
        self.configure()

    def start(self, prompt):
        """Starts the program with one prompt; it ends by itself when the model has said its last word."""
        keep = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        environment = keep | {"HOME": self.home.name, "CI": "1", "NO_COLOR": "1"} | self.environment()
        log = open(Path(self.home.name) / "client.log", "wb")
        return subprocess.Popen(
            [self.bin, *self.arguments(prompt)], cwd=self.work, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )

    def log(self):
        return (Path(self.home.name) / "client.log").read_text(errors="replace")

    def write(self, path, text):
        file = Path(self.home.name) / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text if isinstance(text, str) else json.dumps(text, indent=2))
        return file

    def is_stdio(self):
        return self.connection[0] == "stdio"

    def documented(self, http):
        """The documented JSON settings, pointed at our server; `http` is what the page has in place of `command` and `args`."""
        settings = json.loads(documented_blocks(self.name)[0])
        servers = settings["mcp" if "mcp" in settings else "mcpServers"]
        server = servers["shellyard"]
        if not self.is_stdio():
            for key in ("type", "command", "args"):
                server.pop(key, None)
            server.update(http)
        elif isinstance(server["command"], list):
            server["command"] = self.connection[1:]
        else:
            server["command"], server["args"] = self.connection[1], self.connection[2:]
        return settings, server


class Codex(Client):
    name, program = "Codex", "codex"

    def configure(self):
        server = documented_blocks(self.name)[0]
        target = f"command = {json.dumps(self.connection[1])}\nargs = {json.dumps(self.connection[2:])}" if self.is_stdio() else f"url = {json.dumps(self.connection[1])}"
        server = re.sub(r"^command = .*\nargs = .*$", lambda _: target, server, flags=re.MULTILINE)
        server = re.sub(r"^tool_timeout_sec = .*$", f"tool_timeout_sec = {self.call_limit_s}", server, flags=re.MULTILINE)
        self.write(
            ".codex/config.toml",
            f"""model = "scripted"
model_provider = "scripted"
approval_policy = "never"
sandbox_mode = "danger-full-access"

[model_providers.scripted]
name = "scripted"
base_url = "{self.model.url}/v1"
wire_api = "responses"
env_key = "OPENAI_API_KEY"

{server}""",
        )

    def environment(self):
        return {"OPENAI_API_KEY": "none", "CODEX_HOME": f"{self.home.name}/.codex"}

    def arguments(self, prompt):
        return ["exec", "--skip-git-repo-check", prompt]


class ClaudeCode(Client):
    name, program = "Claude Code", "claude"

    def configure(self):
        settings, _ = self.documented({"type": "http", "url": self.connection[1]})
        self.settings = self.write("mcp.json", settings)
        self.write(".claude/settings.json", documented_blocks(self.name)[1])

    def environment(self):
        return {
            "ANTHROPIC_BASE_URL": self.model.url,
            "ANTHROPIC_API_KEY": "none",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "MCP_TOOL_TIMEOUT": str(self.call_limit_s * 1000),
        }

    def arguments(self, prompt):
        return ["-p", prompt, "--mcp-config", self.settings, "--strict-mcp-config"]


class Gemini(Client):
    name, program = "Gemini CLI", "gemini"
    folder = ".gemini"

    def configure(self):
        settings, server = self.documented({"httpUrl": self.connection[1]})
        server["timeout"] = self.call_limit_s * 1000
        settings |= {
            "security": {"auth": {"selectedType": self.authentication}, "folderTrust": {"enabled": False}},
            "privacy": {"usageStatisticsEnabled": False},
            "telemetry": {"enabled": False},
            "general": {"enableAutoUpdate": False, "disableAutoUpdate": True},
        }
        self.write(f"{self.folder}/settings.json", settings)

    authentication = "gemini-api-key"

    def environment(self):
        return {"GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": self.model.url, "GEMINI_CLI_TRUST_WORKSPACE": "true"}

    def arguments(self, prompt):
        return ["--yolo", "-m", "gemini-2.5-flash", "-p", prompt]


class Qwen(Gemini):
    name, program = "Qwen Code", "qwen"
    folder, authentication = ".qwen", "openai"

    def environment(self):
        return {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": f"{self.model.url}/v1", "OPENAI_MODEL": "scripted"}

    def arguments(self, prompt):
        return ["--yolo", "-p", prompt]


class OpenCode(Client):
    name, program = "OpenCode", "opencode"

    def configure(self):
        settings, server = self.documented({"type": "remote", "url": self.connection[1]})
        server["timeout"] = self.call_limit_s * 1000
        self.write(
            "work/opencode.json",
            settings
            | {
                "autoupdate": False,
                "share": "disabled",
                "provider": {
                    "scripted": {
                        "npm": "@ai-sdk/openai-compatible",
                        "options": {"baseURL": f"{self.model.url}/v1", "apiKey": "none"},
                        "models": {"scripted": {"name": "scripted", "tool_call": True}},
                    }
                },
                "permission": {"*": "allow"},
            },
        )

    def environment(self):
        return {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"}

    def arguments(self, prompt):
        return ["run", "--model", "scripted/scripted", prompt]


ALL = (Codex, ClaudeCode, Gemini, Qwen, OpenCode)
