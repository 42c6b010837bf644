#!/usr/bin/env bash
# The dashboard in Chromium: page.mjs with what `deploy/local/setup browser` has brought. make copies this to build/debug.
set -euo pipefail
root=${PRESENCE_ROOT:-$(cd "${BASH_SOURCE[0]%/*}/../../../.." && pwd -P)}
export PRESENCE_ROOT=$root PRESENCE_DEPS_DIR=${PRESENCE_DEPS_DIR:-$root/.local/deps}

skip() {
  printf 'skipped: %s\n[  SKIPPED ] 1 test(s).\n' "$1"
  exit 0
}

command -v chromium >/dev/null || skip "there is no Chromium (Debian's package chromium)"
command -v node >/dev/null || skip "there is no Node.js (Debian's package nodejs)"
[ -d "$PRESENCE_DEPS_DIR/browser/node_modules/playwright-core" ] || skip "playwright-core is not installed: deploy/local/setup browser"
exec node "$root/tests/browser/page.mjs"
