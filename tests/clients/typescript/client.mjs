// The TypeScript client 2.x against the server: both transports, both eras.
//
// usage: node client.mjs PATH_TO_SHELLYARD
//
// Prints one line for each check and, last, `N passed, N failed`.

import assert from "node:assert/strict";
import { resolve } from "node:path";

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

import { finish, inFolder, overHttp, runChecks, SETTINGS } from "./harness.mjs";

const TOOLS = ["run_command", "wait_jobs", "read_output", "list_jobs", "send_input", "stop_jobs"];
const MODES = { legacy: "legacy", auto: "auto", modern: { pin: "2026-07-28" } };

const call = (client, name, args, options) => client.callTool({ name, arguments: args }, options);
const textOf = (result) => result.content.map((block) => block.text ?? "").join("\n");

async function looksAround(client) {
  const { tools } = await client.listTools();
  assert.deepEqual(tools.map((tool) => tool.name), TOOLS);
}

async function runsACommand(client) {
  const result = await call(client, "run_command", { command: "echo hello; exit 3" });
  assert.ok(!result.isError, textOf(result));
  assert.match(textOf(result), /^exit 3[^]*hello/);
}

async function waitsForAJob(client) {
  const started = await call(client, "run_command", { command: "read x; echo got:$x", wait_s: 0 });
  const { job } = started.structuredContent;
  await call(client, "send_input", { job, text: "it\n" });
  const waited = await call(client, "wait_jobs", { jobs: [job], wait_s: 20 });
  assert.match(textOf(waited), /exit 0/);
}

async function getsProgress(client) {
  const heard = [];
  const onprogress = (progress) => heard.push(progress);
  const command = "echo busy; sleep 5; echo over";
  const result = await call(client, "run_command", { command }, { onprogress });
  assert.match(textOf(result), /over/);
  assert.ok(heard.some((progress) => progress.message?.includes("busy")), JSON.stringify(heard));
}

async function pagesALargeOutput(client) {
  const result = await call(client, "run_command", { command: "seq 1 20000" });
  const { job } = result.structuredContent;
  const pages = [];
  for (let cursor = "bytes:0"; cursor; ) {
    const page = await call(client, "read_output", { job, cursor, max_bytes: 10000 });
    pages.push(page.structuredContent.output);
    cursor = page.structuredContent.next_cursor;
  }
  const expected = Array.from({ length: 20000 }, (_, index) => `${index + 1}\n`).join("");
  assert.ok(pages.length > 5, `${pages.length} pages`);
  assert.ok(pages.join("") === expected, pages[0]);
}

async function cancelACall(client, command) {
  const cancel = new AbortController();
  const options = { signal: cancel.signal, onprogress: () => cancel.abort("a test") };
  const args = { command, wait_s: 50 };
  await assert.rejects(call(client, "run_command", args, options));
  const listed = await call(client, "list_jobs", { text: command });
  return listed.structuredContent.jobs[0].job;
}

async function cancelsACall(client) {
  const job = await cancelACall(client, "sleep 3144");
  const waited = await call(client, "wait_jobs", { jobs: [job], wait_s: 20 });
  assert.match(textOf(waited), /stopped/);
}

// Over HTTP a modern client cancels by hanging up, which a broken connection looks like too.
async function hangsUpOnACall(client) {
  const job = await cancelACall(client, "sleep 3147");
  const waited = await call(client, "wait_jobs", { jobs: [job], wait_s: 1 });
  assert.match(textOf(waited), /running/);
  await call(client, "stop_jobs", { jobs: [job] });
}

const CHECKS = [
  looksAround,
  runsACommand,
  waitsForAJob,
  getsProgress,
  pagesALargeOutput,
  cancelsACall,
];

const HANGING_UP = CHECKS.map((check) => (check === cancelsACall ? hangsUpOnACall : check));

async function connected(mode, transport, use) {
  const identity = { name: "typescript-test", version: "1.0.0" };
  const client = new Client(identity, { versionNegotiation: { mode } });
  await client.connect(transport);
  try {
    await use(client);
  } finally {
    await client.close();
  }
}

const binary = resolve(process.argv[2]);
for (const [name, mode] of Object.entries(MODES)) {
  await runChecks(`typescript stdio, ${name}`, CHECKS, (use) =>
    inFolder((cwd) => {
      const env = { ...process.env, ...SETTINGS };
      const args = ["stdio", "--data-dir", cwd];
      const transport = new StdioClientTransport({ command: binary, args, env, cwd });
      return connected(mode, transport, use);
    }),
  );
  const httpChecks = name === "legacy" ? CHECKS : HANGING_UP;
  await runChecks(`typescript http, ${name}`, httpChecks, (use) =>
    inFolder((folder) =>
      overHttp(binary, folder, (url) =>
        connected(mode, new StreamableHTTPClientTransport(new URL(url)), use),
      ),
    ),
  );
}
finish();
