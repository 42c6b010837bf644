// How the platform itself is: readyz tells everybody, the figures come from metrics where this tab may read them.

import { byId, make, setText } from "./dom.js";
import { formatCompact, formatLength, formatNumber } from "./format.js";
import { largestOf, parseMetrics, quantileOf, sumOf } from "./prometheus.js";
import { repeat } from "./repeat.js";

const INTERVAL_MS = 5000;
const WINDOW_MS = 60000; // rates and quantiles are those of about the last minute

const partNames = { listening: "API", redis: "Redis", postgres: "PostgreSQL", worker: "Worker" };

function showParts(ready) {
  const parts = Object.entries(partNames)
    .filter(([name]) => name in ready && ready[name] !== "none")
    .map(([name, label]) => {
      const good = ready[name] === "ok";
      return make("li", { class: "pill", "data-state": good ? "good" : "bad" }, `${label} ${ready[name]}`);
    });
  byId("parts").replaceChildren(...parts);
}

const seconds = (s) => (Number.isNaN(s) ? "–" : s === Infinity ? "over 10 s" : formatLength(s * 1000));

/** [label, explanation, text, bad?] of each figure. */
function figuresOf(metrics, then, elapsedMs) {
  const since = (name) => (then ? sumOf(metrics, name) - sumOf(then, name) : NaN);
  const lag = quantileOf(metrics, then, "presence_detection_lag_seconds", 0.99);
  const due = largestOf(metrics, "presence_due_oldest_age_seconds");
  const backlog = sumOf(metrics, "presence_publish_backlog");
  const publishLag = sumOf(metrics, "presence_publish_lag_seconds");
  const drift = largestOf(metrics, "presence_count_drift");
  const deaf = since("presence_deaf_seconds_total");
  const deafTotal = sumOf(metrics, "presence_deaf_seconds_total");
  const rate = since("presence_heartbeats_total") / (elapsedMs / 1000);
  return [
    ["heartbeats/s", "accepted by the process that answered", formatCompact(rate), false],
    ["detection lag", "99 of 100 ends of sessions are found within this after the deadline", Number.isNaN(lag) ? "none due" : `≤ ${seconds(lag)}`, lag > 1],
    ["oldest due", "the deadline that has waited longest to be handled", seconds(due), due > 1],
    ["publish backlog", "transitions not yet in PostgreSQL", formatNumber(backlog), backlog > 1000],
    ["publish lag", "age of the oldest transition not yet in PostgreSQL", seconds(publishLag), publishLag > 5],
    ["count drift", "the largest difference found by the last comparison", formatNumber(drift), drift > 0],
    ["deaf in total", "time in which no heartbeat could be recorded, since the start of the process", seconds(deafTotal), deaf > 0],
    ["listeners", "API loops that hear heartbeats", formatNumber(sumOf(metrics, "presence_listeners")), false],
  ];
}

function showFigures(figures) {
  byId("figures").replaceChildren(
    ...figures.map(([name, explanation, text, bad]) =>
      make("div", { class: "figure", title: explanation, "data-bad": bad === true }, make("dt", {}, name), make("dd", {}, text))),
  );
}

/** onReady(what readyz says) at each answer. */
export function watchHealth(api, signal, health, onReady) {
  const scrapes = []; // of the last minute, oldest first

  async function readMetrics() {
    try {
      const metrics = parseMetrics(await api.text("/metrics", { signal }));
      const nowMs = Date.now();
      const restarted = scrapes.length && sumOf(metrics, "presence_heartbeats_total") < sumOf(scrapes.at(-1).metrics, "presence_heartbeats_total");
      if (restarted) scrapes.length = 0;
      while (scrapes.length > 1 && scrapes[1].atMs <= nowMs - WINDOW_MS) scrapes.shift();
      showFigures(figuresOf(metrics, scrapes[0]?.metrics, nowMs - scrapes[0]?.atMs));
      scrapes.push({ atMs: nowMs, metrics });
      setText(byId("health-note"), "Rates and lags of about the last minute, of the process that answered.");
    } catch (error) {
      if (![401, 403, 404].includes(error.status)) throw error;
      byId("figures").replaceChildren();
      setText(byId("health-note"), "This token may not read the platform's figures (lag, backlog, drift): from another machine they need an admin token.");
    }
  }

  repeat(
    async () => {
      const response = await api.fetch("/readyz", { signal, accept: [503] });
      const ready = await response.json();
      showParts(ready);
      onReady(ready);
      await readMetrics();
    },
    INTERVAL_MS,
    signal,
    health,
  );
}
