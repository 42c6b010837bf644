// The table of devices: search by the beginning of the id, by state, page by page.

import { query } from "./api.js";
import { byId, make, setText, stateBadge, timeElement } from "./dom.js";
import { formatNumber, formatTime } from "./format.js";
import { atMostEvery, repeat } from "./repeat.js";

const PAGE = 20;
const CALLS_MAX = 4; // with a filter an answer may be short although there is more
const INTERVAL_MS = 10000;
const AFTER_EVENT_MS = 1000;
const TYPING_MS = 250;

export const sinceOf = (device) => (device.state === "offline" ? device.offline_at_ms : device.online_since_ms);

export function metaText(meta) {
  return meta === null || meta === undefined ? "" : JSON.stringify(meta);
}

function fill(row, device) {
  const [id, state, since, seen, meta] = row.cells;
  setText(id.firstElementChild, device.device);
  if (row.dataset.state !== device.state) state.replaceChildren(stateBadge(device.state));
  row.dataset.state = device.state;
  const set = (cell, ms) => {
    if (cell.dataset.ms === String(ms)) return;
    cell.dataset.ms = String(ms);
    cell.replaceChildren(Number.isFinite(ms) ? timeElement(ms, formatTime(ms)) : "–");
  };
  set(since, sinceOf(device));
  set(seen, device.last_seen_ms);
  const text = metaText(device.meta);
  setText(meta.firstElementChild, text);
  meta.firstElementChild.title = text;
}

export class Devices {
  constructor(api, signal, health, openDevice) {
    this.api = api;
    this.openDevice = openDevice;
    this.cursors = [null]; // of the pages up to this one
    this.next = null;
    this.rows = byId("device-rows");
    this.rows.replaceChildren();
    this.watch = repeat(() => this.load(signal), INTERVAL_MS, signal, health);
    this.changed = atMostEvery(AFTER_EVENT_MS, this.watch.now);

    let typing = 0;
    const filter = byId("filter");
    const restart = () => {
      clearTimeout(typing);
      this.go([null]);
    };
    filter.addEventListener("submit", (event) => {
      event.preventDefault();
      restart();
    }, { signal });
    byId("prefix").addEventListener("input", () => {
      clearTimeout(typing);
      typing = setTimeout(restart, TYPING_MS);
    }, { signal });
    byId("state").addEventListener("change", restart, { signal });
    byId("page-back").addEventListener("click", () => this.go(this.cursors.slice(0, -1)), { signal });
    byId("page-next").addEventListener("click", () => this.next !== null && this.go([...this.cursors, this.next]), { signal });
  }

  go(cursors) {
    this.cursors = cursors.length ? cursors : [null];
    this.watch.now();
  }

  async load(signal) {
    const cursors = this.cursors;
    const prefix = byId("prefix").value;
    const state = byId("state").value;
    const devices = [];
    let cursor = cursors[cursors.length - 1];
    for (let call = 0; call < CALLS_MAX && devices.length < PAGE; call++) {
      const parameters = { state, prefix, limit: PAGE - devices.length, cursor };
      const answer = await this.api.json(this.api.tenantPath("devices") + query(parameters), { signal });
      devices.push(...answer.devices);
      cursor = answer.next;
      if (cursor === null) break;
    }
    if (cursors !== this.cursors) return; // somebody has turned the page meanwhile: now() is on its way
    this.next = cursor;
    this.show(devices, prefix !== "" || state !== "");
  }

  show(devices, filtered) {
    devices.forEach((device, i) => {
      let row = this.rows.rows[i];
      if (row?.dataset.device !== device.device) {
        const same = [...this.rows.rows].find((other) => other.dataset.device === device.device);
        row = same ?? this.makeRow(device.device);
        this.rows.insertBefore(row, this.rows.rows[i] ?? null);
      }
      fill(row, device);
    });
    while (this.rows.rows.length > devices.length) this.rows.lastElementChild.remove();

    const page = this.cursors.length;
    byId("page-back").disabled = page === 1;
    byId("page-next").disabled = this.next === null;
    setText(byId("page-note"), devices.length ? `Page ${formatNumber(page)}, ${formatNumber(devices.length)} devices` : `Page ${formatNumber(page)}`);
    const empty = byId("devices-empty");
    empty.hidden = devices.length > 0;
    if (this.next !== null) setText(empty, "None among the devices looked at so far; there are more pages.");
    else if (filtered) setText(empty, "No device matches.");
    else setText(empty, page > 1 ? "No more devices." : "No device has sent a heartbeat yet.");
  }

  makeRow(id) {
    const open = make("button", { class: "link id", title: id });
    open.addEventListener("click", () => this.openDevice(id));
    const row = make(
      "tr",
      {},
      make("th", { scope: "row" }, open),
      make("td"),
      make("td"),
      make("td", { class: "wide" }),
      make("td", { class: "wide" }, make("code", { class: "meta" })),
    );
    row.dataset.device = id;
    return row;
  }
}
