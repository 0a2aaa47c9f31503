"""An MCP client over the standard streams of the server."""

import json
import os
import subprocess
import tempfile

PROTOCOL = "2025-11-25"


class McpClient:
    """The server with its default settings, in a data directory of its own; ends with the block."""

    def __init__(self, binary):
        self.data = tempfile.TemporaryDirectory(prefix="shellyard-replies-", ignore_cleanup_errors=True)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SHELLYARD_")}
        self.server = subprocess.Popen(
            [binary, "stdio", "--data-dir", self.data.name],
            env=environment | {"SHELLYARD_LOG_FILTER": "error"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.last_id = 0

    def __enter__(self):
        self.request("initialize", {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": {"name": "replies-benchmark", "version": "1"}})
        self.send({"method": "notifications/initialized"})
        return self

    def __exit__(self, *_):
        self.server.stdin.close()
        try:
            self.server.wait(30)
        except subprocess.TimeoutExpired:
            self.server.kill()
            self.server.wait()
        self.data.cleanup()

    def send(self, message):
        self.server.stdin.write(json.dumps({"jsonrpc": "2.0"} | message) + "\n")
        self.server.stdin.flush()

    def request(self, method, params):
        self.last_id += 1
        self.send({"id": self.last_id, "method": method, "params": params})
        for line in self.server.stdout:
            message = json.loads(line)
            if message.get("id") == self.last_id:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
        raise RuntimeError(f"{method}: the server has ended")

    def call(self, tool, arguments):
        """The text of a tool's result, as a model sees it."""
        result = self.request("tools/call", {"name": tool, "arguments": arguments})
        return "\n".join(block["text"] for block in result["content"] if block["type"] == "text")
