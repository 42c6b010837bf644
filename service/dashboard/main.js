// The page: signing in, and the parts of the dashboard while somebody is signed in.

import { Api, ApiError } from "./api.js";
import { Banner } from "./banner.js";
import { watchCounts } from "./counts.js";
import { DeviceDialog } from "./device.js";
import { Devices } from "./devices.js";
import { byId, setText } from "./dom.js";
import { follow, recent } from "./events.js";
import { Feed } from "./feed.js";
import { watchHealth } from "./health.js";
import { backwards } from "./past.js";
import { Trend, TREND_MS } from "./trend.js";

// sessionStorage lives as long as the tab and is read by this origin only.
const STORED = "presence";

function stored() {
  try {
    return JSON.parse(sessionStorage.getItem(STORED));
  } catch {
    return null;
  }
}

let session = null; // AbortController of the signed-in time

function showSignIn(error = "") {
  session?.abort();
  session = null;
  sessionStorage.removeItem(STORED);
  byId("app").hidden = true;
  byId("sign-in").hidden = false;
  byId("token").value = "";
  document.title = "presence";
  setText(byId("sign-in-error"), error);
  byId(byId("tenant").value ? "token" : "tenant").focus();
}

function whatIsWrong(error) {
  if (error.status === 401) return "This token is unknown, expired or revoked.";
  if (error.status === 403 && error.word === "missing_scope") return "This token lacks the scope read.";
  if (error.status === 403) return "This token is not one of this tenant.";
  if (error.status === 404) return "There is no such tenant.";
  return `Signing in failed: ${error.message}.`;
}

async function signIn(event) {
  event.preventDefault();
  const api = new Api(byId("tenant").value.trim(), byId("token").value.trim());
  const button = event.submitter ?? byId("sign-in-form").querySelector("button");
  button.disabled = true;
  setText(byId("sign-in-error"), "");
  try {
    await api.json(api.tenantPath("counts"));
    sessionStorage.setItem(STORED, JSON.stringify({ tenant: api.tenant, token: api.token }));
    byId("token").value = "";
    start(api);
  } catch (error) {
    setText(byId("sign-in-error"), error instanceof ApiError ? whatIsWrong(error) : String(error));
    byId("token").focus();
  } finally {
    button.disabled = false;
  }
}

const streamWords = { live: "Live", wait: "Connecting", off: "Not live" };

function showStream(state) {
  const pill = byId("stream-state");
  pill.dataset.state = state;
  setText(pill, streamWords[state]);
}

function start(api) {
  session = new AbortController();
  const { signal } = session;
  const banner = new Banner((error) => showSignIn(whatIsWrong(error)));
  byId("sign-in").hidden = true;
  byId("app").hidden = false;
  setText(byId("tenant-name"), api.tenant);
  byId("overview").focus({ preventScroll: true });
  showStream("wait");

  const dialog = new DeviceDialog(api, signal);
  const openDevice = (id) => dialog.open(id);
  const trend = new Trend(signal);
  const feed = new Feed(signal, openDevice);
  const devices = new Devices(api, signal, banner.of("devices"), openDevice);
  const counts = watchCounts(api, signal, banner.of("counts"), (answer) => {
    trend.add(answer.as_of_ms, answer.online);
  });
  watchHealth(api, signal, banner.of("health"), (ready) => banner.setReady(ready));

  const onEvent = (event) => {
    feed.add(event);
    counts.changed();
    devices.changed();
  };
  watchEvents(api, signal, banner, { feed, trend, onEvent });
}

/** The last quarter of an hour first, then what comes. */
async function watchEvents(api, signal, banner, { feed, trend, onEvent }) {
  let after = null;
  try {
    const nowMs = Date.now();
    const [past, counts] = await Promise.all([recent(api, nowMs - TREND_MS, signal), api.json(api.tenantPath("counts"), { signal })]);
    after = past.next;
    if (past.whole) trend.setPast(backwards(counts.online, counts.as_of_ms, past.events, counts.as_of_ms - TREND_MS));
    for (const event of past.events.slice(-100)) feed.add(event, { quietly: true });
  } catch (error) {
    if (signal.aborted) return;
    if (!(error instanceof ApiError)) throw error; // else follow() meets the same and says so
  }
  try {
    await follow(api, after, signal, {
      onEvent,
      onState: (state, error, waitMs) => {
        showStream(state);
        banner.set("events", error ? { error, waitMs } : null);
      },
    });
  } catch (error) {
    if (signal.aborted) return;
    if (error.status === 401) return showSignIn(whatIsWrong(error));
    showStream("off");
    feed.explain(
      error.status === 403
        ? "This token lacks the scope events, so transitions cannot be shown. The figures are asked for every few seconds."
        : `No transitions: ${error.message}. The figures are asked for every few seconds.`,
    );
  }
}

byId("sign-in-form").addEventListener("submit", signIn);
byId("sign-out").addEventListener("click", () => showSignIn());
const known = stored();
if (known?.tenant && known?.token) {
  byId("tenant").value = known.tenant;
  start(new Api(known.tenant, known.token));
} else {
  showSignIn();
}
