// A private Redis and PostgreSQL, the service on them, a tenant with tokens, and calls as its devices.

import { execFileSync, spawn } from "node:child_process";
import { appendFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const root = process.env.PRESENCE_ROOT;
const build = process.env.PRESENCE_BUILD_DIR ?? join(root, "build/debug");

/** Asks again until the answer is true; a condition is waited for, never a time. */
export async function until(what, condition, limitMs = 15000) {
  const deadline = Date.now() + limitMs;
  for (;;) {
    if (await condition()) return;
    if (Date.now() > deadline) throw new Error(`in ${limitMs} ms not so: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

export class Service {
  constructor() {
    this.folder = mkdtempSync(join(tmpdir(), "b-"));
    this.env = { ...process.env, PRESENCE_OUTAGE_MS: "5000", PRESENCE_SETTLE_MS: "0", PRESENCE_THREADS: "1" };
    this.listen = "127.0.0.1:0";
    this.tenant = "works";
  }

  servers(...words) {
    const out = execFileSync(join(root, "deploy/local/servers"), [...words, "--parent", String(process.pid)], { encoding: "utf8" });
    return Object.fromEntries(out.split("\n").filter(Boolean).map((line) => line.split(/=(.*)/s).slice(0, 2)));
  }

  presencectl(...words) {
    return execFileSync(join(build, "presencectl"), words, { env: this.env, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
  }

  /** {id, secret} */
  token(scopes) {
    return JSON.parse(this.presencectl("token", "create", "--tenant", this.tenant, "--scope", scopes, "--json"));
  }

  async start() {
    this.env.PRESENCE_REDIS_URL = this.servers("start-redis", "native", join(this.folder, "redis")).REDIS_URL;
    this.env.PRESENCE_POSTGRES_URL = this.servers("start-postgres", join(this.folder, "postgres"), "--fast").POSTGRES_URL;
    this.presencectl("migrate");
    this.presencectl("tenant", "create", this.tenant);
    this.secret = this.token("device").secret;
    await this.startProcess();
  }

  async startProcess() {
    let log = "";
    this.process = spawn(join(build, "presenced"), ["--listen", this.listen], { env: this.env, stdio: ["ignore", "ignore", "pipe"] });
    this.process.stderr.setEncoding("utf8").on("data", (text) => {
      log += text;
      appendFileSync(join(this.folder, "presenced.log"), text);
    });
    const address = () => /event=listening .*address=(\S+)/.exec(log)?.[1];
    await until("presenced listens", () => {
      if (this.process.exitCode !== null) throw new Error(`presenced ended:\n${log}`);
      return address();
    });
    this.listen = address();
    this.url = `http://${this.listen}`;
    await until("presenced is ready", async () => (await fetch(`${this.url}/readyz`)).status === 200);
  }

  async stopProcess() {
    const ended = new Promise((resolve) => this.process.once("exit", resolve));
    this.process.kill("SIGTERM");
    await ended;
  }

  async post(path, body) {
    const response = await fetch(`${this.url}/v1/tenants/${this.tenant}/${path}`, {
      method: "POST",
      headers: { Authorization: `Bearer ${this.secret}` },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
    return response.status === 204 ? null : response.json();
  }

  heartbeat(device, body) {
    return this.post(`devices/${encodeURIComponent(device)}/heartbeat`, body);
  }

  heartbeats(devices, ttl_ms = 600000) {
    return this.post("heartbeats", devices.map((device) => ({ device, ttl_ms })));
  }

  disconnect(device) {
    return this.post(`devices/${encodeURIComponent(device)}/disconnect`);
  }

  async end() {
    if (this.process?.exitCode === null) await this.stopProcess();
    for (const name of ["redis", "postgres"]) {
      try {
        execFileSync(join(root, "deploy/local/servers"), ["stop", join(this.folder, name)], { stdio: "ignore" });
      } catch {
        // it never started
      }
    }
    rmSync(this.folder, { recursive: true, force: true });
  }
}
