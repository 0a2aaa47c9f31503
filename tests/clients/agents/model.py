"""A scripted model behind the four APIs that agent programs speak: OpenAI Responses and Chat, Anthropic Messages, Gemini.

A script is a list of turns. A turn is a list of tool calls, `(tool, arguments)`, that the model makes at once, or a text that ends the
conversation; a function is called for its turn, so that something can happen between two calls. The turn to play follows from the conversation itself (how many turns with tool calls it holds), so the server keeps no state
per conversation. Every request is kept in `Model.requests`: what the model saw is what a test asserts.
"""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

NAME = "scripted"


class Model:
    """Serves one script at a time on a free port of this host."""

    def __init__(self):
        self.script = []
        self.requests = []
        self.missing = []
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                self.send_json({"object": "list", "data": [{"id": NAME, "object": "model"}], "models": []})

            def do_HEAD(self):
                self.send_json({})

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
                path = self.path.split("?")[0]
                api = next((api for end, api in APIS if path.endswith(end)), None)
                if api is None:
                    return self.send_json({"input_tokens": 1, "totalTokens": 1})
                api = api(body)
                streams = api.streams(path)
                answer = api.answer(model.next_turn(api))
                if not streams:
                    return self.send_json(api.whole(answer))
                return self.send_stream(api.events(answer))

            def send_json(self, value):
                data = json.dumps(value).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(data)

            def send_stream(self, events):
                data = b""
                for name, event in events:
                    head = f"event: {name}\n" if name else ""
                    text = event if isinstance(event, str) else json.dumps(event)
                    data += f"{head}data: {text}\n\n".encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_):
                pass

        class Server(ThreadingHTTPServer):
            def handle_error(self, request, client_address):
                # A client that is interrupted resets its connections.
                if not isinstance(sys.exc_info()[1], ConnectionError):
                    super().handle_error(request, client_address)

        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def play(self, script):
        """Starts a conversation anew."""
        self.script, self.requests, self.missing = script, [], []

    def next_turn(self, api):
        """The calls, with the names that the client gave to the tools, or the text to answer with."""
        tools = api.tools()
        if not tools:
            return "ok"  # A title, a summary: no turn of the script.
        self.requests.append(api)
        turns = [turn for turn in api.turns() if any(name not in SEARCHES for _, name in turn)]
        turn = self.script[len(turns)] if len(turns) < len(self.script) else "done"
        if callable(turn):
            turn = turn()
        if isinstance(turn, str):
            return turn
        searched = any(name in SEARCHES for turn in api.turns() for _, name in turn)
        calls = [find_tool(tools, searched, tool, arguments) for tool, arguments in turn]
        if None not in calls:
            return calls
        search = next((name for name in SEARCHES if name in tools), None)
        if search is None or searched:
            self.missing.append(sorted(tools))
            return "a tool is missing"
        names = ",".join(DEFERRED + tool for tool in TOOLS)
        return [(search, {"query": f"select:{names}", "max_results": 10})]

    def results(self):
        """What the model saw: the results of all calls of the last request, in order, as text."""
        if not self.requests:
            return []
        api = self.requests[-1]
        searches = {call for turn in api.turns() for call, name in turn if name in SEARCHES}
        return [text for call, text in api.results() if call not in searches]


# Some clients show the names of MCP tools alone, and a tool that finds their schemas.
SEARCHES = ("ToolSearch", "tool_search")
DEFERRED = "mcp__shellyard__"
TOOLS = ("run_command", "wait_jobs", "read_output", "list_jobs", "send_input", "stop_jobs")


def find_tool(tools, searched, tool, arguments):
    """The call of a tool as this client wants it: by its own name, or by the name that a search found."""
    own = next((name for name in tools if name == tool or name.endswith(("_" + tool, "." + tool))), None)
    if own is not None:
        return own, arguments
    if not searched:
        return None
    if "tool_call" in tools:
        return "tool_call", {"name": DEFERRED + tool, "arguments": arguments}
    return DEFERRED + tool, arguments


class Responses:
    """OpenAI's Responses API (Codex)."""

    def __init__(self, body):
        self.body = body

    def streams(self, _path):
        return self.body.get("stream", False)

    def tools(self):
        names = {}
        for tool in self.body.get("tools", []):
            if tool.get("type") == "namespace":
                names.update({f'{tool["name"]}.{inner["name"]}': (tool["name"], inner["name"]) for inner in tool.get("tools", [])})
            elif tool.get("name"):
                names[tool["name"]] = (None, tool["name"])
        return names

    def items(self, kind):
        return [item for item in self.body.get("input", []) if isinstance(item, dict) and item.get("type") == kind]

    def turns(self):
        # Calls of one turn stand together, before their outputs.
        turns, before = [], None
        for item in self.items("function_call") and self.body["input"]:
            kind = item.get("type")
            if kind == "function_call":
                turns = turns if before == kind else [*turns, []]
                turns[-1].append((item["call_id"], item["name"]))
            if kind in ("function_call", "function_call_output"):
                before = kind
        return turns

    def results(self):
        return [(item["call_id"], text_of(item.get("output"))) for item in self.items("function_call_output")]

    def answer(self, turn):
        if isinstance(turn, str):
            return [{"type": "message", "id": f"msg_{len(self.turns())}", "role": "assistant", "status": "completed", "content": [{"type": "output_text", "text": turn, "annotations": []}]}]
        tools = self.tools()
        calls = []
        for index, (name, arguments) in enumerate(turn):
            namespace, inner = tools[name]
            number = f"{len(self.turns())}_{index}"
            call = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "name": inner, "arguments": json.dumps(arguments), "status": "completed"}
            calls.append(call | ({"namespace": namespace} if namespace else {}))
        return calls

    def whole(self, items):
        return {"id": f"resp_{len(self.turns())}", "object": "response", "status": "completed", "model": NAME, "output": items, "usage": USAGE_RESPONSES}

    def events(self, items):
        yield "response.created", {"type": "response.created", "response": {"id": f"resp_{len(self.turns())}", "status": "in_progress"}}
        for index, item in enumerate(items):
            yield "response.output_item.added", {"type": "response.output_item.added", "output_index": index, "item": item}
            yield "response.output_item.done", {"type": "response.output_item.done", "output_index": index, "item": item}
        yield "response.completed", {"type": "response.completed", "response": self.whole(items)}


class Chat:
    """OpenAI's Chat Completions API (Qwen Code, OpenCode)."""

    def __init__(self, body):
        self.body = body

    def streams(self, _path):
        return self.body.get("stream", False)

    def tools(self):
        return {tool["function"]["name"]: None for tool in self.body.get("tools") or []}

    def turns(self):
        calls = [message["tool_calls"] for message in self.body["messages"] if message.get("tool_calls")]
        return [[(call["id"], call["function"]["name"]) for call in turn] for turn in calls]

    def results(self):
        return [(message["tool_call_id"], text_of(message.get("content"))) for message in self.body["messages"] if message["role"] == "tool"]

    def answer(self, turn):
        if isinstance(turn, str):
            return {"role": "assistant", "content": turn}, "stop"
        calls = [
            {"index": index, "id": f"call_{len(self.turns())}_{index}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
            for index, (name, arguments) in enumerate(turn)
        ]
        return {"role": "assistant", "content": None, "tool_calls": calls}, "tool_calls"

    def whole(self, answer):
        message, reason = answer
        return {"id": f"chat_{len(self.turns())}", "object": "chat.completion", "created": 1, "model": NAME, "choices": [{"index": 0, "message": message, "finish_reason": reason}], "usage": USAGE_CHAT}

    def events(self, answer):
        message, reason = answer
        head = {"id": f"chat_{len(self.turns())}", "object": "chat.completion.chunk", "created": 1, "model": NAME}
        yield None, head | {"choices": [{"index": 0, "delta": message, "finish_reason": None}]}
        yield None, head | {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": USAGE_CHAT}
        yield None, "[DONE]"


class Messages:
    """Anthropic's Messages API (Claude Code)."""

    def __init__(self, body):
        self.body = body

    def streams(self, _path):
        return self.body.get("stream", False)

    def tools(self):
        return {tool["name"]: None for tool in self.body.get("tools") or []}

    def blocks(self, role, kind):
        for message in self.body["messages"]:
            if message["role"] == role and isinstance(message["content"], list):
                yield [block for block in message["content"] if block.get("type") == kind]

    def turns(self):
        return [[(block["id"], block["name"]) for block in blocks] for blocks in self.blocks("assistant", "tool_use") if blocks]

    def results(self):
        results = [block for blocks in self.blocks("user", "tool_result") for block in blocks]
        return [(block["tool_use_id"], text_of(block.get("content"))) for block in results]

    def answer(self, turn):
        if isinstance(turn, str):
            return [{"type": "text", "text": turn}], "end_turn"
        calls = [{"type": "tool_use", "id": f"toolu_{len(self.turns())}_{index}", "name": name, "input": arguments} for index, (name, arguments) in enumerate(turn)]
        return calls, "tool_use"

    def whole(self, answer):
        content, reason = answer
        return {"id": f"msg_{len(self.turns())}", "type": "message", "role": "assistant", "model": NAME, "content": content, "stop_reason": reason, "stop_sequence": None, "usage": USAGE_MESSAGES}

    def events(self, answer):
        content, reason = answer
        start = self.whole(([], None))
        yield "message_start", {"type": "message_start", "message": start}
        for index, block in enumerate(content):
            is_text = block["type"] == "text"
            opened = block | ({"text": ""} if is_text else {"input": {}})
            delta = {"type": "text_delta", "text": block["text"]} if is_text else {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
            yield "content_block_start", {"type": "content_block_start", "index": index, "content_block": opened}
            yield "content_block_delta", {"type": "content_block_delta", "index": index, "delta": delta}
            yield "content_block_stop", {"type": "content_block_stop", "index": index}
        yield "message_delta", {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": USAGE_MESSAGES}
        yield "message_stop", {"type": "message_stop"}


class Gemini:
    """Google's generateContent API (Gemini CLI)."""

    def __init__(self, body):
        self.body = body

    def streams(self, path):
        return "streamGenerateContent" in path

    def tools(self):
        tools = self.body.get("tools") or []
        return {function["name"]: None for tool in tools for function in tool.get("functionDeclarations", [])}

    def parts(self, role, key):
        for content in self.body["contents"]:
            if content.get("role") == role:
                yield [part[key] for part in content.get("parts", []) if key in part]

    def turns(self):
        return [[(call.get("id"), call["name"]) for call in calls] for calls in self.parts("model", "functionCall") if calls]

    def results(self):
        results = [result for results in self.parts("user", "functionResponse") for result in results]
        return [(result.get("id"), text_of(result["response"])) for result in results]

    def answer(self, turn):
        if isinstance(turn, str):
            return [{"text": turn}]
        return [{"functionCall": {"id": f"call_{len(self.turns())}_{index}", "name": name, "args": arguments}} for index, (name, arguments) in enumerate(turn)]

    def whole(self, parts):
        return {"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}], "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}, "modelVersion": NAME}

    def events(self, parts):
        yield None, self.whole(parts)


def text_of(value):
    """All text inside a result, whatever the API wraps it in."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(text_of(part) for part in value)
    if isinstance(value, dict):
        inner = [value[key] for key in ("text", "output", "content", "result", "error", "parts") if key in value]
        return "\n".join(text_of(part) for part in inner) if inner else json.dumps(value)
    return "" if value is None else json.dumps(value)


USAGE_RESPONSES = {"input_tokens": 1, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 1, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 2}
USAGE_CHAT = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
USAGE_MESSAGES = {"input_tokens": 1, "output_tokens": 1, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}

# The end of a request's path, and the API behind it.
APIS = (
    ("/responses", Responses),
    ("/chat/completions", Chat),
    ("/messages", Messages),
    (":generateContent", Gemini),
    (":streamGenerateContent", Gemini),
)
