// Numbers, times and lengths of time for people, in the browser's language and time zone.

const whole = new Intl.NumberFormat();
const oneDigit = new Intl.NumberFormat(undefined, { maximumFractionDigits: 1 });
const compact = new Intl.NumberFormat(undefined, { notation: "compact", maximumFractionDigits: 1 });
const toMinute = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" }; // 24 hours: shorter, and as in logs
const minuteClock = new Intl.DateTimeFormat(undefined, toMinute);
const clock = new Intl.DateTimeFormat(undefined, { ...toMinute, second: "2-digit" });
const day = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });
const dayAndClock = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric", ...toMinute });

export const formatNumber = (value) => (Number.isFinite(value) ? whole.format(value) : "–");
export const formatCompact = (value) => (Number.isFinite(value) ? (Math.abs(value) < 10000 ? oneDigit : compact).format(value) : "–");
export const formatMinute = (ms) => minuteClock.format(ms);
export const formatDay = (ms) => day.format(ms);

/** The time of day today, with the day before that. */
export function formatTime(ms, nowMs = Date.now()) {
  if (!Number.isFinite(ms)) return "–";
  return new Date(ms).toDateString() === new Date(nowMs).toDateString() ? clock.format(ms) : dayAndClock.format(ms);
}

/** "850 ms", "42 s", "3 min 5 s", "2 h 10 min", "4 d 3 h". */
export function formatLength(ms) {
  if (!Number.isFinite(ms)) return "–";
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  const s = Math.round(ms / 1000);
  if (s < 60) return `${s} s`;
  const min = Math.floor(s / 60);
  if (min < 60) return s % 60 ? `${min} min ${s % 60} s` : `${min} min`;
  const h = Math.floor(min / 60);
  if (h < 24) return min % 60 ? `${h} h ${min % 60} min` : `${h} h`;
  const d = Math.floor(h / 24);
  return h % 24 ? `${d} d ${h % 24} h` : `${d} d`;
}

/** 1 → "100 %", 0.99961 → "99.96 %": never rounded up to 100. */
export function formatShare(share) {
  if (!Number.isFinite(share)) return "–";
  const percent = Math.floor(share * 10000) / 100;
  return `${percent.toLocaleString(undefined, { maximumFractionDigits: 2 })} %`;
}
