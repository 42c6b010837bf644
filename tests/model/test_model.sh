#!/usr/bin/env bash
# Looks at every interleaving of presence.pml with spin: the design holds, and each mutant, which takes one protection out, fails.
# Speaks as cmocka does, for tests/run.
set -euo pipefail
model=$PRESENCE_ROOT/tests/model/presence.pml
passed=0 failed=0

# explore SETTING...: builds the checker of a variant and runs it; prints what it found. Memory is bounded.
explore() {
  local folder
  folder=$(mktemp -d)
  (
    cd "$folder"
    spin "${@/#/-D}" -a "$model"
    cc -O2 -w -DSAFETY -DHC4 -DMEMLIM=4096 -o pan pan.c
    ./pan -m100000 -w25
  ) >"$folder/log" 2>&1 || true
  cat "$folder/log"
  rm -rf "$folder"
}

# verdict NAME OK: a line of the test's result.
verdict() {
  if [ "$2" = yes ]; then
    passed=$((passed + 1))
    echo "[       OK ] $1"
  else
    failed=$((failed + 1))
    echo "[  FAILED  ] $1"
  fi
}

# holds SETTING...: a whole search without an error.
holds() {
  local found ok=no
  echo "[ RUN      ] the design $*"
  found=$(explore "$@")
  if grep -q 'errors: 0$' <<<"$found" && ! grep -qE 'Search not completed|max search depth too small|out of memory' <<<"$found"; then ok=yes; else tail -n 20 <<<"$found"; fi
  grep -E 'states, stored' <<<"$found" || true
  verdict "the design $*" $ok
}

# caught PATTERN SETTING...: an assertion that matches the pattern fails.
caught() {
  local found ok=no pattern=$1
  shift
  echo "[ RUN      ] mutant $*"
  found=$(explore "$@")
  if grep -qE "assertion violated .*$pattern" <<<"$found"; then ok=yes; else tail -n 20 <<<"$found"; fi
  verdict "mutant $*" $ok
}

holds TICKS=3
holds TICKS=2 STEPS=1
holds TICKS=1 LOSSES=1
caught 'listened' TICKS=3 NO_RECHECK
caught 'listened' TICKS=3 NO_PAUSE
caught 'row_session' TICKS=3 NO_GUARD
caught 'lost' TICKS=3 FORGET_LATE
caught 'row_session' TICKS=3 TRIM_ALL
caught 'row_session' TICKS=1 LOSSES=1 NO_EPOCH
caught 'row_session' TICKS=1 LOSSES=1 NO_HISTORY

echo "[==========] $((passed + failed)) test(s) run."
echo "[  PASSED  ] $passed test(s)."
[ $failed = 0 ] || { echo "[  FAILED  ] $failed test(s)."; exit 1; }
