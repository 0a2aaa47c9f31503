// Starts the server for the TypeScript client's tests, and counts their checks.

import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

export const DEADLINE_MS = 240_000;

// Both forms of a result, so that pages can be put together byte by byte.
export const SETTINGS = {
  SHELLYARD_MCP_PROGRESS_S: "0.3",
  SHELLYARD_MCP_RESULT_FORMAT: "both",
  SHELLYARD_LOG_FILTER: "warn",
};

export async function inFolder(use) {
  const folder = await mkdtemp(join(tmpdir(), "shellyard-"));
  try {
    return await use(folder);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Runs `use` with the URL of a server, which ends afterwards. */
export async function overHttp(binary, folder, use) {
  const port = await freePort();
  const flags = ["serve", "--bind", `127.0.0.1:${port}`, "--data-dir", folder];
  const server = spawn(binary, flags, {
    cwd: folder,
    env: { ...process.env, ...SETTINGS },
    stdio: ["ignore", "inherit", "inherit"],
  });
  const ended = new Promise((resolve) => server.once("exit", resolve));
  try {
    await listening(server, port);
    return await use(`http://127.0.0.1:${port}/mcp`);
  } finally {
    server.kill("SIGTERM");
    await ended;
  }
}

/** A port that was free a moment ago, and is none that the kernel gives to connections. */
function freePort() {
  const port = 20_000 + Math.floor(Math.random() * 12_000);
  return new Promise((resolve) => {
    const probe = createServer().once("error", () => resolve(freePort()));
    probe.listen(port, "127.0.0.1", () => probe.close(() => resolve(port)));
  });
}

async function listening(server, port) {
  const deadline = Date.now() + DEADLINE_MS;
  while (!(await accepts(port))) {
    if (server.exitCode !== null) throw new Error(`the server ended with ${server.exitCode}`);
    if (Date.now() > deadline) throw new Error("the server never listened");
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

function accepts(port) {
  return new Promise((resolve) => {
    const probe = connect(port, "127.0.0.1");
    probe.once("connect", () => resolve(true)).once("error", () => resolve(false));
    probe.once("close", () => probe.destroy());
    probe.once("connect", () => probe.end());
  });
}

const counts = { passed: 0, failed: 0 };

/** Runs each check with what `open` hands to it; a connection that fails fails all of them. */
export async function runChecks(label, checks, open) {
  const left = new Set(checks);
  try {
    await open(async (subject) => {
      for (const check of checks) {
        left.delete(check);
        await runCheck(`${label}: ${check.name}`, () => check(subject));
      }
    });
  } catch (error) {
    counts.failed += Math.max(left.size, 1);
    console.log(`FAILED  ${label}: the connection`, error);
  }
}

async function runCheck(label, check) {
  try {
    await withDeadline(check());
    counts.passed += 1;
    console.log(`ok      ${label}`);
  } catch (error) {
    counts.failed += 1;
    console.log(`FAILED  ${label}`, error);
  }
}

function withDeadline(promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error("it took too long")), DEADLINE_MS);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** Says how many passed and failed, and ends. */
export function finish() {
  console.log(`${counts.passed} passed, ${counts.failed} failed`);
  process.exit(counts.failed === 0 ? 0 : 1);
}
