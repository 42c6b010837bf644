// Calls to the service, with the tab's token in a header and never in an address.

/** status 0: no answer came. word and message are the service's own where it gave them. */
export class ApiError extends Error {
  constructor(status, word, message, retryAfterMs = 0) {
    super(message);
    this.status = status;
    this.word = word;
    this.retryAfterMs = retryAfterMs;
  }
}

const CALL_TIMEOUT_MS = 20000;

async function errorOf(response) {
  const body = await response.json().catch(() => null);
  const message = body?.message ?? `the service answered ${response.status}`;
  return new ApiError(response.status, body?.error ?? "", message, Number(response.headers.get("Retry-After")) * 1000 || 0);
}

export class Api {
  constructor(tenant, token) {
    this.tenant = tenant;
    this.token = token;
  }

  /** The response, its status 2xx (or among `accept`); else an ApiError is thrown. An abort by `signal` is thrown as it is. */
  async fetch(path, { signal, headers = {}, accept = [] } = {}) {
    let response;
    try {
      response = await fetch(path, {
        signal,
        headers: { Authorization: `Bearer ${this.token}`, ...headers },
        cache: "no-store",
        credentials: "omit",
        redirect: "error",
      });
    } catch (error) {
      if (signal?.aborted) throw signal.reason ?? error;
      throw new ApiError(0, "unreachable", "the service cannot be reached");
    }
    if (!response.ok && !accept.includes(response.status)) throw await errorOf(response);
    return response;
  }

  async read(path, how, { signal, timeoutMs = CALL_TIMEOUT_MS, ...options } = {}) {
    const timeout = AbortSignal.timeout(timeoutMs);
    const either = signal ? AbortSignal.any([signal, timeout]) : timeout;
    try {
      const response = await this.fetch(path, { ...options, signal: either });
      return await response[how]();
    } catch (error) {
      if (error instanceof ApiError || signal?.aborted) throw error;
      throw new ApiError(0, "unreachable", "the service does not answer");
    }
  }

  json(path, options) {
    return this.read(path, "json", options);
  }

  text(path, options) {
    return this.read(path, "text", options);
  }

  /** tenantPath("devices", id, "history"), each part a segment of its own, whatever is in it. */
  tenantPath(...parts) {
    return ["/v1/tenants", encodeURIComponent(this.tenant), ...parts.map(encodeURIComponent)].join("/");
  }
}

/** "?a=1&b=x"; empty and null ones are left out. */
export function query(parameters) {
  const used = Object.entries(parameters).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  return used.length ? `?${new URLSearchParams(used)}` : "";
}
