#!/usr/bin/env bash
# Does the bench still run? One short round of the lanes that need no peer, on the debug build. make copies this to build/debug.
set -euo pipefail
root=${PRESENCE_ROOT:-$(cd "${BASH_SOURCE[0]%/*}/../../../.." && pwd -P)}
build=${PRESENCE_BUILD_DIR:-$root/build/debug}
out=$(mktemp -d "${TMPDIR:-/tmp}/bench.XXXXXX")
trap 'rm -rf "$out"' EXIT

if [ "$(nproc)" -lt 2 ]; then
  printf 'skipped: the bench needs two cores\n[  SKIPPED ] 1 test(s).\n'
  exit 0
fi
"$root/tests/bench/run" --build "$build" --out "$out" --devices 2000 --rounds 1 --seconds 1 --lanes single,single70,http,batch500,script64
for lane in single single70 http batch500 script64; do
  grep -q "^\"$lane\":.*\"per_second\":{\"median\":[1-9]" "$out/bench.json" || {
    printf 'the lane %s has no number\n[  FAILED  ] 1 test(s).\n' "$lane"
    exit 1
  }
done
printf '[  PASSED  ] 1 test(s).\n'
