# shellcheck shell=bash
# What comes from npm's registry, in the releases that a lock file names: playwright-core for the browser test, fastify and ioredis
# for a peer of the benchmark. Sourced, never run.

# npm_ready NAME FOLDER: FOLDER of this checkout holds package.json and package-lock.json.
npm_ready() { cmp -s "$root/$2/package-lock.json" "$deps/$1/package-lock.json" && [ -d "$deps/$1/node_modules" ]; }

# npm_install NAME FOLDER: into $deps/NAME/node_modules.
npm_install() {
  local work=$deps/work.$1
  rm -rf "${deps:?}/$1"
  mkdir -p "$work"
  cp "$root/$2/package.json" "$root/$2/package-lock.json" "$work"
  logged "npm ci ($2)" npm --prefix "$work" ci --cache "$deps/work.npm" --ignore-scripts --no-audit --no-fund --no-update-notifier
  mv "$work" "$deps/$1"
}

browser_ready() { npm_ready browser tests/browser; }
install_playwright() { npm_install browser tests/browser; }

naive_ready() { npm_ready naive tests/bench/naive; }
install_naive() {
  if ! command -v node >/dev/null || ! command -v npm >/dev/null; then die "Node.js or npm is not installed"; fi
  npm_install naive tests/bench/naive
}
