// The figures of GET /metrics. Format: https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format

/** name -> [{labels: {…}, value}] */
export function parseMetrics(text) {
  const metrics = new Map();
  for (const line of text.split("\n")) {
    const match = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/.exec(line);
    if (!match) continue;
    const labels = {};
    for (const [, name, value] of (match[2] ?? "").matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)) labels[name] = value;
    if (!metrics.has(match[1])) metrics.set(match[1], []);
    metrics.get(match[1]).push({ labels, value: match[3] === "+Inf" ? Infinity : Number(match[3]) });
  }
  return metrics;
}

const values = (metrics, name) => (metrics.get(name) ?? []).map((sample) => sample.value);

export const sumOf = (metrics, name) => (metrics.has(name) ? values(metrics, name).reduce((a, b) => a + b, 0) : NaN);
export const largestOf = (metrics, name) => (metrics.has(name) ? Math.max(...values(metrics, name).map(Math.abs)) : NaN);

/** The bound of the bucket that holds the share q of what a histogram has counted since `before` (or since the start). NaN: nothing. */
export function quantileOf(metrics, before, name, q) {
  const at = (source) => new Map((source?.get(`${name}_bucket`) ?? []).map((sample) => [sample.labels.le, sample.value]));
  const old = at(before);
  const buckets = [...at(metrics)]
    .map(([le, count]) => ({ le: le === "+Inf" ? Infinity : Number(le), count: count - (old.get(le) ?? 0) }))
    .sort((a, b) => a.le - b.le);
  const total = buckets.at(-1)?.count ?? 0;
  if (!(total > 0)) return NaN;
  return buckets.find((bucket) => bucket.count >= q * total).le;
}
