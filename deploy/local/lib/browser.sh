# shellcheck shell=bash
# What the browser test needs beside Debian's packages: playwright-core, in the release that its lock file names. Sourced, never run.

browser_lock=$root/tests/browser/package-lock.json

browser_ready() { cmp -s "$browser_lock" "$deps/browser/package-lock.json" && [ -d "$deps/browser/node_modules/playwright-core" ]; }

install_playwright() {
  rm -rf "$deps/browser"
  mkdir -p "$deps/work.browser"
  cp "$root/tests/browser/package.json" "$browser_lock" "$deps/work.browser"
  logged "npm ci (playwright-core, for the browser test)" \
    npm --prefix "$deps/work.browser" ci --cache "$deps/work.npm" --ignore-scripts --no-audit --no-fund --no-update-notifier
  mv "$deps/work.browser" "$deps/browser"
}
