// The number of devices online over the last 15 minutes, drawn by Chart.js (Debian's libjs-chart.js; it sets window.Chart).

import "./chart.min.js";
import { byId } from "./dom.js";
import { formatCompact, formatMinute, formatNumber, formatTime } from "./format.js";
import { thin } from "./past.js";
import { atMostEvery } from "./repeat.js";

export const TREND_MS = 15 * 60 * 1000;
const QUIET_MS = 1000; // a redraw at most so often

const { Chart } = globalThis;
Chart.defaults.font = { family: getComputedStyle(document.body).fontFamily, size: 12 };

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

export class Trend {
  constructor(signal) {
    this.points = [];
    this.drawSoon = atMostEvery(QUIET_MS, () => !signal.aborted && this.draw());
    this.chart = new Chart(byId("trend"), {
      type: "line",
      data: { datasets: [{ data: this.points, stepped: true, fill: "origin", borderWidth: 2, pointRadius: 0, pointHitRadius: 8 }] },
      options: {
        parsing: false,
        normalized: true,
        animation: false,
        maintainAspectRatio: false,
        interaction: { mode: "index", intersect: false },
        scales: {
          x: {
            type: "linear",
            grid: { display: false },
            ticks: { maxRotation: 0, autoSkip: false, callback: (value) => formatMinute(value) },
            afterBuildTicks: (axis) => {
              const everyMs = (axis.width < 420 ? 5 : 3) * 60000;
              axis.ticks = [];
              for (let ms = Math.ceil(axis.min / everyMs) * everyMs; ms <= axis.max; ms += everyMs) axis.ticks.push({ value: ms });
            },
          },
          y: { beginAtZero: true, grace: "8%", border: { display: false }, ticks: { precision: 0, maxTicksLimit: 5, callback: formatCompact } },
        },
        plugins: {
          legend: { display: false },
          tooltip: {
            displayColors: false,
            callbacks: { title: ([item]) => formatTime(item.parsed.x), label: (item) => `${formatNumber(item.parsed.y)} online` },
          },
        },
      },
    });
    this.paint();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.paint(), { signal });
    signal.addEventListener("abort", () => this.chart.destroy(), { once: true });
  }

  /** Colours from the style sheet, which knows light and dark. */
  paint() {
    const [dataset] = this.chart.data.datasets;
    dataset.borderColor = colour("--online");
    dataset.backgroundColor = colour("--online-wash");
    const { x, y } = this.chart.options.scales;
    x.ticks.color = y.ticks.color = colour("--muted");
    y.grid.color = colour("--line");
    this.draw();
  }

  /** Takes the place of what was there, up to its last point. */
  setPast(points) {
    const lastMs = points.length ? points[points.length - 1].x : 0;
    this.points = [...points, ...this.points.filter((point) => point.x > lastMs)];
    this.draw();
  }

  add(ms, online) {
    const last = this.points[this.points.length - 1];
    if (last && ms <= last.x) return;
    this.points.push({ x: ms, y: online });
    const firstMs = ms - TREND_MS;
    let gone = 0; // the last one before the window stays: the line begins at the edge
    while (gone + 1 < this.points.length && this.points[gone + 1].x < firstMs) gone++;
    if (gone) this.points.splice(0, gone);
    this.points = thin(this.points);
    this.drawSoon();
  }

  draw() {
    const last = this.points[this.points.length - 1];
    const endMs = last ? last.x : Date.now();
    this.chart.options.scales.x.min = endMs - TREND_MS;
    this.chart.options.scales.x.max = endMs;
    this.chart.data.datasets[0].data = this.points;
    this.chart.update();
    if (!last) return;
    const counts = this.points.map((point) => point.y);
    const text = `least ${formatNumber(Math.min(...counts))}, most ${formatNumber(Math.max(...counts))}`;
    byId("trend").setAttribute("aria-label", `Devices online over the last 15 minutes: now ${formatNumber(last.y)}, ${text}`);
  }
}
