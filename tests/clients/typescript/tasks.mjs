// The TypeScript client's tasks extension against the server, over modern HTTP.
//
// usage: node tasks.mjs PATH_TO_SHELLYARD
//
// Prints one line for each check and, last, `N passed, N failed`.

import assert from "node:assert/strict";
import { resolve } from "node:path";

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { createTaskSessionFromClient, resultFromTaskOutcome } from "@modelcontextprotocol/ext-tasks/client";

import { finish, inFolder, overHttp, runChecks } from "./harness.mjs";

const VERSION = "2026-07-28";
const IDENTITY = { name: "typescript-tasks-test", version: "1.0.0" };

const textOf = (result) => result.content.map((block) => block.text ?? "").join("\n");

async function answersAtOnceWhatEndsAtOnce({ session }) {
  const execution = await session.callTool("run_command", { command: "echo hello; exit 3" });
  assert.equal(execution.kind, "immediate");
  const { outcome } = await execution.settle();
  assert.match(textOf(resultFromTaskOutcome(outcome)), /^exit 3[^]*hello/);
}

async function makesATaskOfWhatTakesLonger({ session }) {
  const call = { command: "echo busy; sleep 8; echo over", wait_s: 1 };
  const execution = await session.callTool("run_command", call);
  assert.equal(execution.kind, "task");
  const seen = [];
  const onEvent = (event) => void seen.push(event.task?.statusMessage ?? "");
  const { outcome } = await execution.settle({ onEvent });
  assert.equal(outcome.status, "completed");
  assert.match(textOf(outcome.result), /^exit 0[^]*over/);
  assert.ok(seen.some((message) => message.includes("busy")), JSON.stringify(seen));
}

async function endsACancelledTask({ client, session }) {
  const execution = await session.callTool("run_command", { command: "sleep 3145", wait_s: 1 });
  assert.equal(execution.kind, "task");
  await execution.cancel();
  assert.equal((await execution.result()).status, "cancelled");
  const listed = await client.callTool({ name: "list_jobs", arguments: { text: "sleep 3145" } });
  const [{ job }] = listed.structuredContent.jobs;
  const wait = { name: "wait_jobs", arguments: { jobs: [job], wait_s: 20 } };
  assert.match(textOf(await client.callTool(wait)), /stopped/);
}

async function knowsNoTaskOfAnother({ session }) {
  await assert.rejects(session.task("no-such-task").snapshot());
}

const CHECKS = [
  answersAtOnceWhatEndsAtOnce,
  makesATaskOfWhatTakesLonger,
  endsACancelledTask,
  knowsNoTaskOfAnother,
];

/** Carries the requests that the client's own codecs do not know. */
function rawDispatch(url) {
  let id = 0;
  return async (request, options = {}) => {
    id += 1;
    const response = await fetch(url, {
      method: "POST",
      signal: options.signal,
      body: JSON.stringify({ ...request, jsonrpc: "2.0", id: `raw-${id}` }),
      headers: {
        ...options.context?.headers,
        "Content-Type": "application/json",
        Accept: "application/json, text/event-stream",
        "MCP-Protocol-Version": VERSION,
        "Mcp-Method": request.method,
        "Mcp-Name": request.params.name ?? request.params.taskId,
      },
    });
    const { result, error } = await lastMessage(response);
    return error ? { kind: "error", error } : { kind: "result", result };
  };
}

/** The answer, which comes as JSON or as the last event of a stream. */
async function lastMessage(response) {
  const body = await response.text();
  if (!response.headers.get("content-type")?.startsWith("text/event-stream")) {
    return JSON.parse(body);
  }
  const data = body.split("\n").filter((line) => line.startsWith("data: {"));
  return JSON.parse(data.at(-1).slice("data: ".length));
}

async function inSession(url, use) {
  const client = new Client(IDENTITY, { versionNegotiation: { mode: { pin: VERSION } } });
  await client.connect(new StreamableHTTPClientTransport(new URL(url)));
  const framing = { protocolVersion: VERSION, clientInfo: IDENTITY, clientCapabilities: {} };
  const session = createTaskSessionFromClient(client, {
    endpointId: "tasks-test",
    rawDispatch: rawDispatch(url),
    v2RequestFraming: framing,
  });
  try {
    await use({ client, session });
  } finally {
    await session.close();
    await client.close();
  }
}

const binary = resolve(process.argv[2]);
await runChecks("typescript tasks", CHECKS, (use) =>
  inFolder((folder) => overHttp(binary, folder, (url) => inSession(url, use))),
);
finish();
