// A device's sessions over a window of time, as a bar.

import { makeSvg } from "./dom.js";
import { formatDay, formatLength, formatMinute, formatTime } from "./format.js";

export const windows = { "1h": 3600000, "24h": 86400000, "7d": 604800000 };
const WIDTH = 1000;
const HEIGHT = 56;
const BAR = 32;
const TICKS = 4;

/** sessions: as in the answer. Before knownMs nothing is known; it is drawn so. */
export function timeline(sessions, fromMs, toMs, knownMs) {
  const place = (ms) => ((Math.min(Math.max(ms, fromMs), toMs) - fromMs) / (toMs - fromMs)) * WIDTH;
  const bar = (className, startMs, endMs, title, y = 0, height = BAR) => {
    const x = place(startMs);
    const width = Math.max(1.5, place(endMs) - x);
    return makeSvg("rect", { class: className, x: x.toFixed(2), y, width: width.toFixed(2), height }, makeSvg("title", {}, title));
  };
  const shown = sessions.filter((session) => (session.offline_at_ms ?? toMs) >= fromMs && session.online_since_ms <= toMs);
  const onlineMs = shown.reduce(
    (sum, { online_since_ms, offline_at_ms }) => sum + Math.min(offline_at_ms ?? toMs, toMs) - Math.max(online_since_ms, fromMs),
    0,
  );
  const svg = makeSvg("svg", { class: "timeline", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img",
    "aria-label": `${shown.length} sessions, ${formatLength(onlineMs)} online of the last ${formatLength(toMs - fromMs)}` });
  svg.append(bar("offline", Math.max(fromMs, knownMs), toMs, "offline"));
  if (knownMs > fromMs) svg.append(bar("unknown", fromMs, knownMs, "nothing is known of this time", BAR / 2 - 2, 4));
  for (const { online_since_ms, offline_at_ms } of shown) {
    const end = offline_at_ms === null ? "now" : formatTime(offline_at_ms);
    const length = formatLength((offline_at_ms ?? toMs) - online_since_ms);
    svg.append(bar("online", online_since_ms, offline_at_ms ?? toMs, `online ${formatTime(online_since_ms)} to ${end}, ${length}`));
  }
  for (let i = 1; i < TICKS; i++)
    svg.append(makeSvg("line", { class: "tick", x1: (WIDTH / TICKS) * i, x2: (WIDTH / TICKS) * i, y1: BAR, y2: BAR + 6 }));
  return svg;
}

/** The times below the bar, as text of the page so that they do not stretch with it. */
export function timelineScale(fromMs, toMs) {
  const format = toMs - fromMs > windows["24h"] ? formatDay : formatMinute;
  return Array.from({ length: TICKS + 1 }, (_, i) => (i === TICKS ? "now" : format(fromMs + ((toMs - fromMs) / TICKS) * i)));
}
