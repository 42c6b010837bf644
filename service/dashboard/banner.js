// One line over the page for whatever does not work: it comes with the first part of the page that fails, and goes when all work again.

import { byId, setText } from "./dom.js";
import { formatLength } from "./format.js";

const sentences = {
  unreachable: "The service cannot be reached: what you see is old.",
  redis_unavailable: "Redis cannot be reached: what you see is old.",
  initialising: "Redis is being prepared or rebuilt: what you see is old.",
  postgres_unavailable: "PostgreSQL cannot be reached: lists, histories and transitions wait for it.",
  worker_stalled: "The worker stands still: ends of sessions and transitions wait for it.",
};

export class Banner {
  /** onRefused(error): the token is no longer good. */
  constructor(onRefused) {
    this.onRefused = onRefused;
    this.failing = new Map(); // part of the page -> {error, waitMs}
    this.platform = null; // word of a sentence
    this.show();
  }

  /** What a part of the page tells repeat(). */
  of(part) {
    return {
      onFailure: (error, waitMs) => (error.status === 401 ? this.onRefused(error) : this.set(part, { error, waitMs })),
      onSuccess: () => this.set(part, null),
    };
  }

  set(part, failure) {
    if (failure) this.failing.set(part, failure);
    else this.failing.delete(part);
    this.show();
  }

  /** What readyz says: parts of the platform may be away although nothing on the page has failed yet. */
  setReady({ redis, postgres, worker }) {
    if (redis !== "ok") this.platform = "redis_unavailable";
    else if (postgres !== "ok") this.platform = "postgres_unavailable";
    else this.platform = worker === "stalled" ? "worker_stalled" : null;
    this.show();
  }

  show() {
    const failures = [...this.failing];
    const [part, failure] = failures.find(([, { error }]) => error.status === 0) ?? failures.at(-1) ?? [];
    const banner = byId("banner");
    banner.hidden = !failure && !this.platform;
    if (!failure) {
      if (this.platform) setText(banner, sentences[this.platform]);
      return;
    }
    const { error, waitMs } = failure;
    const known = sentences[error.status === 0 ? "unreachable" : error.word];
    setText(banner, `${known ?? `No ${part}: ${error.message}.`} Next try in ${formatLength(Math.ceil(waitMs / 1000) * 1000)}.`);
  }
}
