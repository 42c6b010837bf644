// Work that is done again and again: at its interval while it succeeds, ever more rarely while it fails, not at all while nobody
// looks at the tab.

const WAIT_MAX_MS = 30000;

/** The wait before attempt n (from 1) after failures: 1, 2, 4 … 30 s, spread so that many tabs do not come back at once. */
export function backoffMs(failures, leastMs = 0) {
  const full = Math.min(WAIT_MAX_MS, 1000 * 2 ** Math.min(failures - 1, 10));
  return Math.max(leastMs, full * (0.75 + Math.random() * 0.5));
}

/** A pause that a signal cuts short (it then throws). */
export function sleep(ms, signal) {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const stop = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, ms);
    signal?.addEventListener("abort", stop, { once: true });
  });
}

/** Runs work(signal) until `signal` aborts. onFailure(error, waitMs) and onSuccess() tell how it goes; now() runs it at once, or
 * once more where it is under way. */
export function repeat(work, intervalMs, signal, { onFailure = () => {}, onSuccess = () => {} } = {}) {
  let timer = 0;
  let failures = 0;
  let running = false;
  let again = false;

  async function run() {
    clearTimeout(timer);
    if (signal.aborted || document.hidden) return;
    if (running) {
      again = true;
      return;
    }
    running = true;
    again = false;
    let waitMs = intervalMs;
    try {
      await work(signal);
      failures = 0;
      onSuccess();
    } catch (error) {
      if (signal.aborted) return;
      failures++;
      waitMs = backoffMs(failures, error.retryAfterMs);
      onFailure(error, waitMs);
    } finally {
      running = false;
    }
    if (!signal.aborted) timer = setTimeout(run, again && failures === 0 ? 0 : waitMs);
  }

  document.addEventListener("visibilitychange", run, { signal });
  window.addEventListener("online", run, { signal });
  signal.addEventListener("abort", () => clearTimeout(timer), { once: true });
  run();
  return { now: run };
}

/** call() runs work at most once in waitMs, the first time at once and the last call never lost. */
export function atMostEvery(waitMs, work) {
  let timer = 0;
  let lastMs = -Infinity;
  return () => {
    if (timer) return;
    timer = setTimeout(() => {
      timer = 0;
      lastMs = performance.now();
      work();
    }, Math.max(0, lastMs + waitMs - performance.now()));
  };
}
