// GET …/events: what happened lately, and from there on what happens, as server-sent events read by fetch (an EventSource cannot
// send a token). Format: https://html.spec.whatwg.org/multipage/server-sent-events.html

import { ApiError, query } from "./api.js";
import { backoffMs, sleep } from "./repeat.js";

const SILENCE_MAX_MS = 45000; // the service sends a comment every 15 s: after three missed ones the connection is dead
const POLL_MS = 20000;
const PAGE = 1000;
const PAGES_MAX = 5;
const LINE_MAX = 1 << 20;

/** Takes text in any pieces; hands on {id, data} for each event. */
export class EventParser {
  constructor(onEvent) {
    this.onEvent = onEvent;
    this.rest = "";
    this.data = [];
    this.id = "";
  }

  push(text) {
    const lines = (this.rest + text).split(/\r\n|\n|\r(?!$)/);
    this.rest = lines.pop();
    if (this.rest.length > LINE_MAX) throw new ApiError(0, "bad_stream", "the stream of events makes no sense");
    for (const line of lines) this.line(line);
  }

  line(line) {
    if (line === "") {
      if (this.data.length) this.onEvent({ id: this.id, data: this.data.join("\n") });
      this.data = [];
      return;
    }
    const [, name, value] = /^([^:]*):? ?(.*)$/s.exec(line);
    if (name === "data") this.data.push(value);
    if (name === "id" && !value.includes("\0")) this.id = value;
  }
}

async function readStream(api, after, signal, { onOpen, onEvent }) {
  const stale = new AbortController();
  const either = AbortSignal.any([signal, stale.signal]);
  let timer = 0;
  const heard = () => {
    clearTimeout(timer);
    timer = setTimeout(() => stale.abort(new ApiError(0, "silent", "the stream of events fell silent")), SILENCE_MAX_MS);
  };
  heard();
  try {
    const headers = { Accept: "text/event-stream", ...(after === null ? {} : { "Last-Event-ID": after }) };
    const response = await api.fetch(api.tenantPath("events"), { signal: either, headers });
    if (!response.headers.get("Content-Type")?.startsWith("text/event-stream"))
      throw new ApiError(response.status, "no_stream", "the service has no stream of events");
    onOpen();
    const parser = new EventParser(onEvent);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      heard();
      parser.push(value);
    }
  } catch (error) {
    if (error instanceof ApiError || signal.aborted) throw error;
    throw stale.signal.aborted ? stale.signal.reason : new ApiError(0, "unreachable", "the stream of events broke off");
  } finally {
    clearTimeout(timer);
  }
}

/** The same by long polls, where something between here and the service holds streams back. */
async function readPolls(api, after, signal, { onOpen, onEvent }) {
  if (after === null) after = (await recent(api, Date.now(), signal)).next;
  for (let waitMs = 0; ; waitMs = POLL_MS) {
    const page = query({ after, limit: PAGE, wait_ms: waitMs });
    const answer = await api.json(api.tenantPath("events") + page, { signal, timeoutMs: SILENCE_MAX_MS });
    onOpen();
    after = String(answer.next);
    for (const event of answer.events) onEvent({ id: event.sequence, data: JSON.stringify(event) });
    if (answer.events.length === 0) onEvent({ id: after, data: "" }); // nothing but where we are
  }
}

/** Where no try can help: the token may not, or the service does not have it. */
const isFinal = (error) => [401, 403, 404, 405].includes(error.status);

/** Events after `after` (a seq as text; null: from now on), each once and in order, until `signal` aborts. Comes back by itself
 * after a break. Ends with an ApiError where trying again is of no use. */
export async function follow(api, after, signal, { onEvent, onState }) {
  let failures = 0;
  let read = readStream;
  while (!signal.aborted) {
    let error = null;
    try {
      await read(api, after, signal, {
        onOpen: () => {
          failures = 0;
          onState("live");
        },
        onEvent: ({ id, data }) => {
          if (id !== "") after = id;
          if (data !== "") onEvent(JSON.parse(data));
        },
      });
    } catch (caught) {
      if (signal.aborted) return;
      error = caught;
    }
    if (error && isFinal(error)) throw error;
    if (error?.word === "silent" || error?.word === "no_stream") read = readPolls;
    if (error?.status === 410) after = null; // away for longer than events are kept: from now on
    failures++;
    const waitMs = backoffMs(failures, error?.retryAfterMs);
    onState("wait", error, waitMs);
    await sleep(waitMs, signal).catch(() => {});
  }
}

const timeOf = (event) => Date.parse(event.time);

/** The seq after which the events since sinceMs lie: by halving, since events are found by seq and not by time. The first event
 * after low is always too old, the first one after high never. */
async function seqBefore(probe, oldest, sinceMs) {
  let low = BigInt(oldest.sequence) - 1n;
  let step = 1024n;
  let high = low + step;
  const isLate = async (seq) => {
    const [event] = await probe(seq);
    return event === undefined || timeOf(event) >= sinceMs;
  };
  while (!(await isLate(high))) {
    low = high;
    step *= 4n;
    high += step;
  }
  while (high - low > 1n) {
    const middle = (low + high) / 2n;
    if (await isLate(middle)) high = middle;
    else low = middle;
  }
  return high;
}

/** The events since sinceMs, oldest first, and the seq to go on from. whole is false where they are more than a page can use: there
 * are none in the answer then, and next is null. */
export async function recent(api, sinceMs, signal) {
  const get = (after, limit) => api.json(api.tenantPath("events") + query({ after, limit }), { signal });
  const first = await get(undefined, 1);
  if (first.events.length === 0) return { events: [], next: String(first.next), whole: true };
  let after = null;
  if (timeOf(first.events[0]) < sinceMs)
    after = await seqBefore(async (seq) => (await get(String(seq), 1)).events, first.events[0], sinceMs);
  const events = [];
  for (let page = 0; page < PAGES_MAX; page++) {
    const answer = await get(after === null ? undefined : String(after), PAGE);
    events.push(...answer.events);
    after = answer.next;
    if (answer.events.length < PAGE) return { events, next: String(after), whole: true };
  }
  return { events: [], next: null, whole: false };
}
