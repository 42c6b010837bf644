// Transitions as they happen, newest first. The list is bounded, and drawn once per frame however many events come.

import { byId, make, reasons, setText, stateBadge, timeElement } from "./dom.js";
import { formatLength, formatNumber, formatTime } from "./format.js";

const SHOWN_MAX = 200;
const SAID_EVERY_MS = 10000; // to a screen reader: a summary, not each line

function row(event, openDevice) {
  const online = event.type.endsWith(".online");
  const { data } = event;
  const atMs = Date.parse(event.time);
  const why = online ? "" : `${reasons[data.reason] ?? data.reason} after ${formatLength(data.offline_at_ms - data.online_since_ms)}`;
  const open = make("button", { class: "link id", title: event.subject }, event.subject);
  open.addEventListener("click", () => openDevice(event.subject));
  return make(
    "li",
    { "data-state": online ? "online" : "offline" },
    stateBadge(online ? "online" : "offline"),
    open,
    make("span", { class: "small muted why" }, why),
    timeElement(atMs, formatTime(atMs)),
  );
}

export class Feed {
  constructor(signal, openDevice) {
    this.openDevice = openDevice;
    this.waiting = []; // newest last
    this.missed = 0; // dropped before they were drawn
    this.frame = 0;
    this.held = false;
    this.said = { online: 0, offline: 0 };
    this.list = byId("feed");
    this.list.replaceChildren();
    const hold = byId("feed-hold");
    hold.addEventListener("click", () => this.hold(!this.held), { signal });
    this.hold(false);
    const timer = setInterval(() => this.say(), SAID_EVERY_MS);
    signal.addEventListener("abort", () => {
      clearInterval(timer);
      cancelAnimationFrame(this.frame);
    }, { once: true });
  }

  hold(held) {
    this.held = held;
    this.label();
    byId("feed-hold").setAttribute("aria-pressed", String(held));
    if (!held) this.soon();
  }

  label() {
    const count = this.waiting.length + this.missed;
    setText(byId("feed-hold"), !this.held ? "Pause" : count ? `Go on (${formatNumber(count)} new)` : "Go on");
  }

  add(event, { quietly = false } = {}) {
    this.waiting.push(event);
    if (this.waiting.length > SHOWN_MAX) {
      this.waiting.shift();
      this.missed++;
    }
    if (!quietly) this.said[event.type.endsWith(".online") ? "online" : "offline"]++;
    if (this.held) this.label();
    else this.soon();
  }

  soon() {
    if (!this.frame) this.frame = requestAnimationFrame(() => this.draw());
  }

  draw() {
    this.frame = 0;
    if (this.held) return;
    const rows = this.waiting.map((event) => row(event, this.openDevice)).reverse();
    this.waiting = [];
    this.missed = 0;
    this.list.prepend(...rows);
    while (this.list.childElementCount > SHOWN_MAX) this.list.lastElementChild.remove();
    byId("feed-empty").hidden = this.list.childElementCount > 0;
  }

  say() {
    const { online, offline } = this.said;
    if (online + offline === 0) return;
    setText(byId("feed-said"), `${formatNumber(online)} came online, ${formatNumber(offline)} went offline`);
    this.said = { online: 0, offline: 0 };
  }

  /** In place of the list: why there is none. */
  explain(text) {
    setText(byId("feed-empty"), text);
    byId("feed-empty").hidden = this.list.childElementCount > 0;
  }
}
