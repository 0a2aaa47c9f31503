"""The agent programs, each with the configuration that connects it to the scripted model and to Shellyard."""

import json
import os
import subprocess
import tempfile
from pathlib import Path


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


class Codex(Client):
    name, program = "Codex", "codex"
    packages = ["@openai/codex@0.166.0"]

    def configure(self):
        server = (
            f"command = {json.dumps(self.connection[1])}\nargs = {json.dumps(self.connection[2:])}" if self.is_stdio() else f"url = {json.dumps(self.connection[1])}"
        )
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

[mcp_servers.shellyard]
{server}
tool_timeout_sec = {self.call_limit_s}
default_tools_approval_mode = "approve"
supports_parallel_tool_calls = true
""",
        )

    def environment(self):
        return {"OPENAI_API_KEY": "none", "CODEX_HOME": f"{self.home.name}/.codex"}

    def arguments(self, prompt):
        return ["exec", "--skip-git-repo-check", prompt]


class ClaudeCode(Client):
    name, program = "Claude Code", "claude"
    packages = ["@anthropic-ai/claude-code@2.1.325"]

    def configure(self):
        server = {"type": "stdio", "command": self.connection[1], "args": self.connection[2:]} if self.is_stdio() else {"type": "http", "url": self.connection[1]}
        self.settings = self.write("mcp.json", {"mcpServers": {"shellyard": server}})

    def environment(self):
        return {
            "ANTHROPIC_BASE_URL": self.model.url,
            "ANTHROPIC_API_KEY": "none",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "MCP_TOOL_TIMEOUT": str(self.call_limit_s * 1000),
        }

    def arguments(self, prompt):
        return ["-p", prompt, "--mcp-config", self.settings, "--strict-mcp-config", "--allowedTools", "mcp__shellyard"]


class Gemini(Client):
    name, program = "Gemini CLI", "gemini"
    packages = ["@google/gemini-cli@0.61.0"]
    folder = ".gemini"

    def configure(self):
        server = {"command": self.connection[1], "args": self.connection[2:]} if self.is_stdio() else {"httpUrl": self.connection[1]}
        settings = {
            "mcpServers": {"shellyard": server | {"timeout": self.call_limit_s * 1000, "trust": True}},
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
    packages = ["@qwen-code/qwen-code@0.24.4"]
    folder, authentication = ".qwen", "openai"

    def environment(self):
        return {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": f"{self.model.url}/v1", "OPENAI_MODEL": "scripted"}

    def arguments(self, prompt):
        return ["--yolo", "-p", prompt]


class OpenCode(Client):
    name, program = "OpenCode", "opencode"
    packages = ["opencode-ai@1.18.33"]

    def configure(self):
        server = {"type": "local", "command": self.connection[1:]} if self.is_stdio() else {"type": "remote", "url": self.connection[1]}
        self.write(
            "work/opencode.json",
            {
                "$schema": "https://opencode.ai/config.json",
                "autoupdate": False,
                "share": "disabled",
                "provider": {
                    "scripted": {
                        "npm": "@ai-sdk/openai-compatible",
                        "options": {"baseURL": f"{self.model.url}/v1", "apiKey": "none"},
                        "models": {"scripted": {"name": "scripted", "tool_call": True}},
                    }
                },
                "mcp": {"shellyard": server | {"enabled": True, "timeout": self.call_limit_s * 1000}},
                "permission": {"*": "allow"},
            },
        )

    def environment(self):
        return {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"}

    def arguments(self, prompt):
        return ["run", "--model", "scripted/scripted", prompt]


ALL = (Codex, ClaudeCode, Gemini, Qwen, OpenCode)
