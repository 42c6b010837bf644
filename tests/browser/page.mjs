// The dashboard in headless Chromium, against a service of its own. The steps follow each other as an operator's would; each error
// on the page's console fails the step in which it comes. Pictures are kept in build/browser.

import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { Service, until } from "./service.mjs";

const { chromium } = createRequire(join(process.env.PRESENCE_DEPS_DIR, "browser/"))("playwright-core");
const pictures = join(process.env.PRESENCE_ROOT, "build/browser");
const LIMIT_MS = 15000;
const HOSTILE = `<img src=x onerror="document.title='owned'"> & "d"`;

const service = new Service();
let browser, page, reader;
let consoleErrors = [];
let failedLoads = false; // a step in which answers other than 2xx are meant

function listen(to) {
  to.setDefaultTimeout(LIMIT_MS);
  to.on("console", (message) => {
    if (message.type() !== "error" && message.type() !== "warning") return;
    if (failedLoads && message.text().startsWith("Failed to load resource")) return;
    consoleErrors.push(`${message.text()} (${message.location().url})`);
  });
  to.on("pageerror", (error) => consoleErrors.push(error.stack));
  to.on("dialog", (dialog) => {
    consoleErrors.push(`a dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  return to;
}

async function openPage(options = {}) {
  const context = await browser.newContext({ viewport: { width: 1360, height: 960 }, ...options });
  const opened = listen(await context.newPage());
  await opened.goto(`${service.url}/`);
  return opened;
}

async function signIn(on, token) {
  await on.getByLabel("Tenant").fill(service.tenant);
  await on.getByLabel("Token").fill(token);
  await on.getByRole("button", { name: "Sign in" }).click();
}

const picture = (name, on = page, fullPage = true) => on.screenshot({ path: join(pictures, `${name}.png`), fullPage });
const textOf = (selector, on = page) => on.locator(selector).textContent();
const row = (device, on = page) => on.locator("#device-rows tr").filter({ has: on.getByRole("button", { name: device, exact: true }) });
const ids = (on = page) => on.locator("#device-rows .id").allTextContents();
const feedHas = (device, state) => page.locator(`#feed li[data-state="${state}"]`).filter({ hasText: device }).first().waitFor();
const name = (i) => `pump-${String(i).padStart(3, "0")}`;

const steps = {
  async "a wrong token is refused in words"() {
    failedLoads = true;
    page = await openPage();
    assert.equal(await page.evaluate(() => document.activeElement.id), "tenant");
    await signIn(page, "wrong");
    await page.getByText("This token is unknown, expired or revoked.").waitFor();
    assert.equal(await page.evaluate(() => sessionStorage.length), 0);
  },

  async "signing in keeps the token in this tab"() {
    await signIn(page, reader.secret);
    await page.locator('#stream-state[data-state="live"]').waitFor();
    await page.getByText("No device has sent a heartbeat yet.").waitFor();
    await until("nothing is online", async () => (await textOf("#count-online")) === "0");
    assert.equal(new URL(page.url()).href, `${service.url}/`);
    assert.equal(await page.evaluate(() => localStorage.length + document.cookie.length), 0);
    await page.evaluate(() => (window.sameDocument = true));
    await picture("empty");
  },

  async "a device comes online and goes offline without a reload"() {
    await service.heartbeat("boiler-1", { ttl_ms: 2500, meta: { fw: "1.4.2", note: "<b>bold</b>" } });
    await row("boiler-1").locator('[data-state="online"]').first().waitFor();
    await feedHas("boiler-1", "online");
    await until("one is online", async () => (await textOf("#count-online")) === "1");
    await row("boiler-1").locator('.badge[data-state="offline"]').waitFor();
    await feedHas("boiler-1", "offline");
    await until("none is online", async () => (await textOf("#count-online")) === "0");
    await until("one is offline", async () => (await textOf("#count-offline")) === "1");
    assert.match(await page.locator('#feed li[data-state="offline"] .why').first().textContent(), /^timeout after 2(\.\d+)? s|^timeout after 3 s/);
    const iso = await row("boiler-1").locator("time").first().getAttribute("title");
    assert.match(iso, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    assert.equal(await page.evaluate(() => window.sameDocument), true);
  },

  async "markup in an id and in metadata is text"() {
    await service.heartbeat(HOSTILE, { ttl_ms: 600000, meta: { "<script>": HOSTILE } });
    await row(HOSTILE).waitFor();
    await feedHas(HOSTILE, "online");
    await row(HOSTILE).getByRole("button").click();
    await page.locator("#device").getByRole("heading", { name: HOSTILE }).waitFor();
    await page.locator("#device-now pre").getByText("<script>").waitFor();
    await page.locator("#sessions tr").first().waitFor();
    assert.equal(await page.locator("img, #app script, #device script").count(), 0);
    assert.match(await page.title(), /online · works/);
    await page.keyboard.press("Escape");
    await service.disconnect(HOSTILE);
    await feedHas(HOSTILE, "offline");
  },

  async "pages, search and the state filter"() {
    await service.heartbeats(Array.from({ length: 45 }, (_, i) => name(i)));
    await service.disconnect(name(7));
    await page.getByRole("searchbox").fill("pump-");
    await until("the first page", async () => (await ids()).length === 20 && (await ids())[0] === name(0));
    await page.getByRole("button", { name: "Next" }).click();
    await until("the second page", async () => (await ids())[0] === name(20));
    await page.getByRole("button", { name: "Next" }).click();
    await until("the last page", async () => (await ids()).length === 5);
    assert.equal(await page.getByRole("button", { name: "Next" }).isDisabled(), true);
    await page.getByRole("button", { name: "Previous" }).click();
    await until("back", async () => (await ids())[19] === name(39));
    await page.getByLabel("State", { exact: true }).selectOption("offline");
    await until("only the offline one", async () => (await ids()).join() === name(7));
    await page.getByRole("searchbox").fill("nobody");
    await page.getByText("No device matches.").waitFor();
    await page.getByLabel("State", { exact: true }).selectOption("");
    await page.getByRole("searchbox").fill("");
    await until("all again", async () => (await ids()).length === 20);
  },

  async "a history by the keyboard alone"() {
    await page.getByRole("searchbox").fill("boiler");
    await until("only the boiler", async () => (await ids()).join() === "boiler-1");
    await service.heartbeat("boiler-1", { ttl_ms: 600000, meta: { fw: "1.4.3", site: "north" } });
    await page.getByRole("searchbox").focus();
    await page.keyboard.press("Tab"); // the state
    await page.keyboard.press("Tab"); // the device
    await page.keyboard.press("Enter");
    await page.locator("#device[open]").waitFor();
    await until("two sessions", async () => (await page.locator("#sessions tr").count()) === 2);
    assert.match(await page.locator("#sessions tr").nth(1).textContent(), /timeout/);
    await page.getByRole("button", { name: "1 h" }).click();
    assert.equal(await page.locator(".timeline rect.online").count(), 2);
    assert.match(await page.locator(".timeline").getAttribute("aria-label"), /^2 sessions/);
    await picture("history", page, false);
    await page.keyboard.press("Escape");
    await page.locator("#device").waitFor({ state: "hidden" });
    assert.equal(await page.evaluate(() => document.activeElement.textContent), "boiler-1");
    await page.getByRole("searchbox").fill("");
  },

  async "every control has a name, and the first stop skips to the devices"() {
    const nameless = await page.evaluate(() =>
      [...document.querySelectorAll("button, input, select")]
        .filter((control) => !(control.getAttribute("aria-label") || control.labels?.length || control.textContent.trim()))
        .map((control) => control.outerHTML).filter((html) => !html.includes('class="link id"')));
    assert.deepEqual(nameless, []);
    await page.evaluate(() => document.activeElement.blur());
    await page.reload(); // the tab keeps its token
    await page.locator('#stream-state[data-state="live"]').waitFor();
    await feedHas("boiler-1", "offline"); // and the last quarter of an hour is fetched anew
    await page.locator(".skip").focus();
    await page.keyboard.press("Enter");
    assert.equal(await page.evaluate(() => document.activeElement.id), "devices");
  },

  async "two thousand transitions leave a bounded list"() {
    const fleet = Array.from({ length: 1000 }, (_, i) => `fleet-${i}`);
    await service.heartbeats(fleet, 1000);
    await until("all have come", async () => Number((await textOf("#count-known")).replace(/\D/g, "")) >= 1000);
    await until("all have gone", async () => Number((await textOf("#count-online")).replace(/\D/g, "")) < 100);
    await until("the last ones are shown", async () => (await page.locator('#feed li[data-state="offline"]').count()) > 150);
    assert.ok((await page.locator("#feed li").count()) <= 200);
    assert.match(await textOf("#count-known"), /^1[,.\s\u202f]?0\d\d$/);
  },

  async "long polls, where something holds streams back"() {
    const held = await openPage();
    await held.route("**/events", (route) => route.fulfill({ status: 200, contentType: "text/plain", body: "" }));
    await signIn(held, reader.secret);
    await held.locator('#stream-state[data-state="live"]').waitFor();
    await service.heartbeat("polled", { ttl_ms: 600000 });
    await held.locator("#feed li").filter({ hasText: "polled" }).waitFor();
    await held.context().close();
  },

  async "the modules by themselves"() {
    const told = await page.evaluate(async () => {
      const { EventParser } = await import("/assets/events.js");
      const { parseMetrics, quantileOf, sumOf } = await import("/assets/prometheus.js");
      const { formatLength, formatShare } = await import("/assets/format.js");
      const { backwards } = await import("/assets/past.js");
      const stream = ": hello\r\nid: 7\r\ndata: {\"a\":\r\ndata: 1}\r\n\r\n:\n\nid: 8\ndata:{}\n\ndata: cut";
      const streams = new Set();
      for (let cut = 0; cut <= stream.length; cut++) {
        const events = [];
        const parser = new EventParser((event) => events.push(event));
        parser.push(stream.slice(0, cut));
        parser.push(stream.slice(cut));
        streams.add(JSON.stringify(events));
      }
      const buckets = (...counts) => parseMetrics(["0.1", "1", "+Inf"].map((le, i) => `h_bucket{le="${le}"} ${counts[i]}`).join("\n"));
      const event = (type, ms) => ({ type: `presence.device.${type}`, time: new Date(ms).toISOString() });
      return {
        streams: [...streams],
        quantiles: [quantileOf(buckets(98, 99, 100), null, "h", 0.99), quantileOf(buckets(100, 110, 110), buckets(98, 99, 99), "h", 0.5), quantileOf(buckets(5, 5, 5), buckets(5, 5, 5), "h", 0.5)],
        sum: sumOf(parseMetrics('# HELP x\nx{p="a\\"b",q="}"} 1.5\nx{p="c"} 2e1\nxy 7\n'), "x"),
        lengths: [0, 850, 42000, 185000, 7800000, 360000000].map(formatLength),
        shares: [1, 0.99999, 0].map(formatShare),
        past: backwards(5, 10000, [event("online", 4000), event("offline", 6000)], 1000).map(({ x, y }) => `${x}:${y}`),
      };
    });
    assert.deepEqual(told.streams, [JSON.stringify([{ id: "7", data: '{"a":\n1}' }, { id: "8", data: "{}" }])]);
    assert.deepEqual(told.quantiles, [1, 1, NaN]);
    assert.equal(told.sum, 21.5);
    assert.deepEqual(told.lengths, ["0 ms", "850 ms", "42 s", "3 min 5 s", "2 h 10 min", "4 d 4 h"]);
    assert.deepEqual(told.shares, ["100 %", "99.99 %", "0 %"]);
    assert.deepEqual(told.past, ["1000:5", "3999:5", "4000:6", "5999:6", "6000:5", "10000:5"]);
  },

  async "the platform's figures, and what a token may not see"() {
    await page.locator("#parts .pill", { hasText: "PostgreSQL ok" }).waitFor();
    await page.locator("#figures dt", { hasText: "publish backlog" }).waitFor();
    failedLoads = true;
    await page.route("**/metrics", (route) => route.fulfill({ status: 403, contentType: "application/json", body: "{}" }));
    const degraded = { ready: true, listening: "ok", redis: "ok", postgres: "degraded", worker: "ok" };
    await page.route("**/readyz", (route) => route.fulfill({ status: 200, contentType: "application/json", body: JSON.stringify(degraded) }));
    await page.getByText("This token may not read the platform's figures").waitFor();
    await page.getByText("PostgreSQL cannot be reached: lists, histories and transitions wait for it.").waitFor();
    await page.locator('#parts .pill[data-state="bad"]', { hasText: "PostgreSQL degraded" }).waitFor();
    await page.unroute("**/readyz");
    await page.unroute("**/metrics");
    const narrow = await openPage();
    await signIn(narrow, service.token("read").secret);
    await narrow.getByText("This token lacks the scope events").waitFor();
    await narrow.locator("#device-rows tr").first().waitFor();
    await narrow.getByRole("button", { name: "Sign out" }).click();
    await signIn(narrow, service.token("device").secret);
    await narrow.getByText("This token lacks the scope read.").waitFor();
    await narrow.context().close();
  },

  async "pictures: light, dark, phone"() {
    await picture("light");
    await page.emulateMedia({ colorScheme: "dark" });
    await until("the chart is dark too", () => page.evaluate(() => getComputedStyle(document.body).backgroundColor !== "rgb(244, 245, 247)"));
    await picture("dark");
    await page.emulateMedia({ colorScheme: "light" });
    for (const colorScheme of ["light", "dark"]) {
      const phone = await openPage({ viewport: { width: 360, height: 740 }, deviceScaleFactor: 2, isMobile: true, hasTouch: true, colorScheme });
      await picture(`phone-sign-in-${colorScheme}`, phone, false);
      await signIn(phone, reader.secret);
      await phone.locator("#device-rows tr").first().waitFor();
      await phone.locator("#feed li").first().waitFor();
      assert.equal(await phone.evaluate(() => document.documentElement.scrollWidth - innerWidth), 0);
      await picture(`phone-${colorScheme}`, phone);
      await phone.locator("#device-rows button").first().tap();
      await phone.locator("#sessions tr").first().waitFor();
      await picture(`phone-history-${colorScheme}`, phone, false);
      await phone.context().close();
    }
  },

  async "the service goes and comes back"() {
    failedLoads = true;
    await service.stopProcess();
    await page.getByText("The service cannot be reached: what you see is old.").waitFor();
    await page.evaluate(() => scrollTo(0, 0));
    await picture("unreachable", page, false);
    await service.startProcess();
    await page.locator("#banner").waitFor({ state: "hidden" });
    await page.locator('#stream-state[data-state="live"]').waitFor();
    await service.heartbeat("after-the-break", { ttl_ms: 600000 });
    await feedHas("after-the-break", "online");
  },

  async "a revoked token ends the session"() {
    failedLoads = true;
    service.presencectl("token", "revoke", reader.id);
    await page.getByText("This token is unknown, expired or revoked.").waitFor();
    assert.equal(await page.evaluate(() => sessionStorage.length), 0);
  },
};

async function runSteps() {
  let passed = 0;
  for (const [title, step] of Object.entries(steps)) {
    console.log(`[ RUN      ] ${title}`);
    const begunMs = Date.now();
    consoleErrors = [];
    failedLoads = false;
    try {
      await step();
      assert.deepEqual(consoleErrors, [], "errors on the console");
    } catch (error) {
      console.log(`[  ERROR   ] ${error.stack}`);
      if (consoleErrors.length) console.log(`on the console: ${consoleErrors.join("\n")}`);
      await picture("failed").catch(() => {});
      console.log(`[  PASSED  ] ${passed} test(s).\n[  FAILED  ] 1 test(s), the steps after it were not run: ${title}`);
      return 1;
    }
    passed++;
    console.log(`[       OK ] ${title} (${Date.now() - begunMs} ms)`);
  }
  console.log(`[  PASSED  ] ${passed} test(s).`);
  return 0;
}

async function main() {
  mkdirSync(pictures, { recursive: true });
  try {
    await service.start();
    reader = service.token("read,events");
    browser = await chromium.launch({
      executablePath: "/usr/bin/chromium",
      env: { ...process.env, HOME: service.folder },
      args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
        "--disable-component-update", "--disable-sync"],
    });
    return await runSteps();
  } finally {
    await browser?.close();
    await service.end();
  }
}

process.exitCode = await main();
