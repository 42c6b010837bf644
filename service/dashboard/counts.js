// The figures of the tenant: online, offline, known.

import { byId, setText } from "./dom.js";
import { formatLength, formatNumber } from "./format.js";
import { atMostEvery, repeat } from "./repeat.js";

const INTERVAL_MS = 5000;
const AFTER_EVENT_MS = 500;

function show(counts) {
  for (const name of ["online", "offline", "known"]) setText(byId(`count-${name}`), formatNumber(counts[name]));
  const drift = counts.last_drift ? `, off by ${formatNumber(Math.abs(counts.last_drift))} and put right` : ", no difference";
  document.title = `${formatNumber(counts.online)} online · ${counts.tenant} · presence`;
  setText(
    byId("count-note"),
    counts.recalibrated_ms === null
      ? "Counted where sessions open and close; not yet compared with the sessions themselves."
      : `Compared with the sessions themselves ${formatLength(counts.as_of_ms - counts.recalibrated_ms)} ago${drift}.`,
  );
}

/** onCounts(counts) at each answer. changed(): something happened, the figures are worth asking for. */
export function watchCounts(api, signal, health, onCounts) {
  const watch = repeat(
    async () => {
      const counts = await api.json(api.tenantPath("counts"), { signal });
      show(counts);
      onCounts(counts);
    },
    INTERVAL_MS,
    signal,
    health,
  );
  return { changed: atMostEvery(AFTER_EVENT_MS, watch.now) };
}
