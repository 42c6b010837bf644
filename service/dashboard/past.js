// The number of devices online, reckoned back from what it is and what has happened.

const POINTS_MAX = 2000;

/** What was online when: from now backwards, each start taken back and each end undone. events: oldest first. */
export function backwards(online, nowMs, events, sinceMs) {
  const points = [{ x: nowMs, y: online }];
  const byTime = [...events].sort((a, b) => Date.parse(b.time) - Date.parse(a.time));
  for (const event of byTime) {
    const atMs = Date.parse(event.time);
    if (atMs < sinceMs) break;
    points.push({ x: Math.min(atMs, nowMs), y: online });
    online = Math.max(0, online + (event.type.endsWith(".online") ? -1 : 1));
    points.push({ x: Math.min(atMs, nowMs) - 1, y: online });
  }
  points.push({ x: sinceMs, y: online });
  return thin(points.reverse());
}

/** At most POINTS_MAX points, the first and last kept. */
export function thin(points) {
  if (points.length <= POINTS_MAX) return points;
  const step = (points.length - 1) / (POINTS_MAX - 1);
  return Array.from({ length: POINTS_MAX }, (_, i) => points[Math.round(i * step)]);
}
