// One device: what is known of it now, and its history, in a dialog.

import { query } from "./api.js";
import { metaText, sinceOf } from "./devices.js";
import { byId, make, reasons, setText, stateBadge, timeElement } from "./dom.js";
import { formatLength, formatShare, formatTime } from "./format.js";
import { repeat } from "./repeat.js";
import { timeline, timelineScale, windows } from "./timeline.js";

const INTERVAL_MS = 5000;
const SESSIONS = 200;
const LISTED = 50;

function fact(name, value) {
  return make("div", { class: "figure" }, make("dt", {}, name), make("dd", {}, value));
}

function showNow(device) {
  const since = sinceOf(device);
  const parts = [make("p", { class: "state-line" }, stateBadge(device.state), Number.isFinite(since) ? make("span", {}, "since ", timeElement(since, formatTime(since))) : null)];
  const facts = make("dl", { class: "figures" });
  if (Number.isFinite(device.last_seen_ms)) facts.append(fact("last heartbeat", timeElement(device.last_seen_ms, formatTime(device.last_seen_ms))));
  if (Number.isFinite(device.ttl_ms)) facts.append(fact("silent for at most", formatLength(device.ttl_ms)));
  if (device.reason) facts.append(fact("ended by", reasons[device.reason] ?? device.reason));
  parts.push(facts);
  if (device.meta !== null && device.meta !== undefined) parts.push(make("pre", { class: "meta", tabindex: "0", "aria-label": "Metadata" }, metaText(device.meta)));
  byId("device-now").replaceChildren(...parts);
}

function sessionRow(session) {
  const open = session.offline_at_ms === null;
  return make(
    "tr",
    {},
    make("td", {}, timeElement(session.online_since_ms, formatTime(session.online_since_ms))),
    make("td", {}, open ? stateBadge("online") : timeElement(session.offline_at_ms, formatTime(session.offline_at_ms))),
    make("td", {}, formatLength(session.length_ms)),
    make("td", {}, open ? "–" : (reasons[session.reason] ?? session.reason ?? "–")),
  );
}

const windowNames = { "1h": "last hour", "24h": "last 24 hours", "7d": "last 7 days" };

function showHistory(history, chosen) {
  const toMs = history.as_of_ms;
  const fromMs = toMs - windows[chosen];
  const knownMs = history.complete_since_ms ?? fromMs;
  const scale = make("div", { class: "scale small muted" }, ...timelineScale(fromMs, toMs).map((text) => make("span", {}, text)));
  byId("timeline").replaceChildren(timeline(history.sessions, fromMs, toMs, knownMs), scale);
  byId("availability").replaceChildren(
    ...Object.entries(history.availability).map(([name, figures]) => {
      const asked = windows[name];
      const looked = toMs - figures.from_ms;
      const of = looked < asked - 1000 ? `online, of ${formatLength(looked)} known` : "online";
      return fact(windowNames[name] ?? name, make("span", {}, formatShare(figures.share), make("span", { class: "small muted" }, of)));
    }),
  );
  byId("sessions").replaceChildren(...history.sessions.slice(0, LISTED).map(sessionRow));
  const more = history.more || history.sessions.length > LISTED;
  setText(byId("device-note"), more ? `The newest ${Math.min(LISTED, history.sessions.length)} sessions; there are older ones.` : "");
}

export class DeviceDialog {
  constructor(api, signal) {
    this.api = api;
    this.signal = signal;
    this.chosen = "24h";
    this.history = null;
    this.dialog = byId("device");
    byId("device-close").addEventListener("click", () => this.dialog.close(), { signal });
    this.dialog.addEventListener("close", () => this.closing?.abort(), { signal });
    this.dialog.addEventListener("click", (event) => event.target === this.dialog && this.dialog.close(), { signal });
    for (const button of this.dialog.querySelectorAll("[data-window]"))
      button.addEventListener("click", () => this.choose(button.dataset.window), { signal });
    signal.addEventListener("abort", () => this.dialog.close(), { once: true });
  }

  choose(name) {
    this.chosen = name;
    for (const button of this.dialog.querySelectorAll("[data-window]"))
      button.setAttribute("aria-pressed", String(button.dataset.window === name));
    if (this.history) showHistory(this.history, name);
  }

  open(id) {
    this.closing?.abort();
    this.closing = new AbortController();
    this.history = null;
    setText(byId("device-title"), id);
    for (const name of ["device-now", "timeline", "availability", "sessions"]) byId(name).replaceChildren();
    setText(byId("device-note"), "Loading…");
    if (!this.dialog.open) this.dialog.showModal();
    const signal = AbortSignal.any([this.signal, this.closing.signal]);
    this.watch = repeat(() => this.load(id, signal), INTERVAL_MS, signal, {
      onFailure: (error) => setText(byId("device-note"), error.status === 404 ? "Nothing is known of this device." : `No history: ${error.message}.`),
    });
  }

  async load(id, signal) {
    const { api } = this;
    showNow(await api.json(api.tenantPath("devices", id), { signal }));
    this.history = await api.json(api.tenantPath("devices", id, "history") + query({ limit: SESSIONS }), { signal });
    signal.throwIfAborted();
    showHistory(this.history, this.chosen);
  }
}
