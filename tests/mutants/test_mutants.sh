#!/usr/bin/env bash
# Takes one protection after the other out of the scripts, the SQL and the detector's rules, and expects the named tests to fail:
# a protection that no test misses may be lost one day without anybody noticing. Works on a copy of the sources in build/mutants
# that starts with the objects of the debug build. Speaks as cmocka does, for tests/run.
#
#   make mutants MUTANTS="no_guard trim_all"      only these; without: all
set -euo pipefail
root=$PRESENCE_ROOT
tree=$root/build/mutants/tree
wanted=" ${MUTANTS:-} "
passed=0 failed=0
export PRESENCE_DEPS_DIR=${PRESENCE_DEPS_DIR:-$root/.local/deps}
unset PRESENCE_BUILD_DIR PRESENCE_ROOT MAKEFLAGS MFLAGS MAKELEVEL

# Sources that a mutant may change are copied, the others are the checkout's own.
copy_tree() {
  rm -rf "$tree"
  mkdir -p "$tree/build/debug"
  cp -a "$root/service" "$root/migrations" "$tree"
  ln -s "$root"/{include,deploy,tests,Makefile,README.md,CHANGELOG.md,LICENSE} "$tree"
  cp -a "$root"/build/debug/{obj,gen,embed,config} "$tree/build/debug"
}

# build TEST...: what the tests need, from what stands in the tree.
build() {
  make --no-print-directory -C "$tree" -j2 DEBUG=1 WERROR= "${@/#/build/debug/tests/}" build/debug/{presenced,presencectl,timeshim.so} \
    >"$tree/log" 2>&1 || { tail -n 20 "$tree/log"; return 1; }
}

# passes TEST: a program of the copy, FOLDER/test_X.
passes() {
  (cd "$tree" && tests/run --only "${1##*/}" "build/debug/tests/${1%/*}") >"$tree/log" 2>&1
}

# What fails without a mutant proves nothing with one.
declare -A sound=()
is_sound() {
  [ -z "${sound[$1]:-}" ] || return 0
  if build "$1" && passes "$1"; then
    sound[$1]=yes
  else
    echo "$1 fails as it is"
    tail -n 20 "$tree/log"
    return 1
  fi
}

# replace FILE FROM TO: FROM must stand in it exactly once.
replace() {
  FROM=$2 TO=$3 perl -0777 -pi -e 'my $n = () = /\Q$ENV{FROM}\E/g; $n == 1 or die "stands $n times in it\n"; s/\Q$ENV{FROM}\E/$ENV{TO}/' "$tree/$1"
}

# mutant NAME FILE FROM TO TEST...: caught where one of the tests fails.
mutant() {
  local name=$1 file=$2 from=$3 to=$4 test by=''
  shift 4
  [ "$wanted" = '  ' ] || [[ $wanted == *" $name "* ]] || return 0
  echo "[ RUN      ] $name"
  for test in "$@"; do is_sound "$test" || by=nobody; done
  if [ -z "$by" ] && replace "$file" "$from" "$to" && build "$@"; then
    for test in "$@"; do
      if ! passes "$test"; then by=$test && break; fi
    done
  else
    by=nobody
  fi
  cp -p "$root/$file" "$tree/$file"
  touch "$tree/$file"
  if [[ $by == */* ]] && grep -qE '^[0-9]+ passed, [1-9]' "$tree/log"; then
    passed=$((passed + 1))
    echo "  caught by $by: $(grep -m 1 -oE 'FAILED  \] [a-z0-9_]+$' "$tree/log" | cut -c 11-)"
    echo "[       OK ] $name"
  else
    failed=$((failed + 1))
    echo "  nobody notices"
    echo "[  FAILED  ] $name"
  fi
}

copy_tree
scripts=service/redis/scripts
append=$(cd "$root" && grep -lE '^CREATE (OR REPLACE )?FUNCTION presence.append\(' migrations/*.sql | tail -n 1) # as it is now

## The mutants of the simulation of the rules

mutant no_recheck $scripts/expire_due.lua "'-inf', '(' .. text(cutoff)" "'-inf', '+inf'" scripts/test_sessions
mutant no_guard "$append" 'WHERE reached IS NULL OR position > reached' 'WHERE true' integration/test_outbox_model
mutant trim_all $scripts/trim.lua "'MINID', ARGV[2]" "'MAXLEN', 0" scripts/test_server
mutant forget_late $scripts/record_heartbeats.lua "    close(k, device, session, score, 'timeout')
    code = '2'" "    code = '2'" scripts/test_sessions
mutant trust_live $scripts/session.lua 'session and session.paused == P and session' 'session' scripts/test_clock
mutant audit_at_once $scripts/repair.lua "#call('XRANGE', KEYS[3], marker, marker) == 1" 'true' scripts/test_repair
mutant audit_beside_a_close $scripts/repair.lua "call('HEXISTS', KEYS[4], tenant .. '/' .. row.device) == 0" 'true' scripts/test_repair
mutant audit_of_changed_facts $scripts/repair.lua "(session and session.id or '') == found" 'true' scripts/test_repair
mutant no_history_offline "$append" \
  "WHERE before_state = 'online' AND (session_ms, session_seq) > (before_session_ms, before_session_seq)" 'WHERE false' \
  integration/test_outbox_model
mutant no_history_online "$append" "WHERE state = 'offline'
      AND" "WHERE false AND" integration/test_outbox_model
mutant no_audit $scripts/mark.lua "if kind > 0 and ARGV[4] == 'mark' then" 'if false then' integration/test_audit
mutant no_raise $scripts/adopt.lua 'if floor_ms > last_ms or floor_ms == last_ms and floor_seq > last_seq then' 'if false then' \
  scripts/test_server
mutant no_epoch $scripts/prelude.lua "if clock[1] ~= ARGV[1] and call('HGET', KEYS[at + 1], 'rebuild') ~= ARGV[1] then" 'if false then' \
  scripts/test_server
mutant no_pause $scripts/sections.lua 'local gap = math.abs(deaf) > outage' 'local gap = false' scripts/test_clock
mutant no_settle service/heartbeat/hearing.c 'heartbeat_us <= hearing->deaf_us && !is_due' 'false && !is_due' unit/test_hearing

## Further protections of the same promises

mutant no_listener_marks $scripts/cutoff.lua 'cutoff = math.min(cutoff, mark)' 'cutoff = cutoff' scripts/test_clock
mutant silent_listeners_stay $scripts/cutoff.lua 'if L - mark > SILENT_MS then' 'if false then' scripts/test_clock
mutant cutoff_beyond_the_last_mark $scripts/cutoff.lua 'math.min(now, seen) - P, 0' 'now - P, 0' scripts/test_clock
mutant trim_any_close $scripts/trim.lua "if closes[n] and closes[n]:match('^[^,]*') == ARGV[2 * n + 2] then" 'if closes[n] then' \
  scripts/test_server
mutant late_deadline $scripts/session.lua 'local function lives_by(score) return not score or score >= L end' \
  'local function lives_by(score) return not score or score > L end' scripts/test_sessions
mutant bound_not_lowered $scripts/session.lua "call('ZADD', KEYS[at + 2], 'LT', score, (place(k)))" \
  "call('ZADD', KEYS[at + 2], 'NX', score, (place(k)))" scripts/test_sessions
mutant bound_not_lowered_by_opening $scripts/session.lua "call('ZADD', KEYS[at + 2], 'LT', unpack(bounds))" \
  "call('ZADD', KEYS[at + 2], 'NX', unpack(bounds))" scripts/test_model
mutant rebuilt_twice $scripts/rebuild.lua "call('HEXISTS', KEYS[row.k + 1], row.device) == 0" 'true' integration/test_rebuild
mutant count_below_zero $scripts/session.lua "if call('HINCRBY', KEYS[at + 5], tenant, -#over) < 0 then" \
  "if call('HINCRBY', KEYS[at + 5], tenant, -#over) < -9 then" scripts/test_limits
mutant view_of_the_file $scripts/adopt.lua "call('HINCRBY', KEYS[1], 'paused', 1)" '' scripts/test_renew
mutant score_not_kept $scripts/renew_heartbeats.lua 'live_is_kept(true)' '' scripts/test_renew
mutant score_not_kept_after_a_failure $scripts/sections.lua 'live_is_kept(true)' '' scripts/test_renew
mutant expiry_not_given_back $scripts/renew_heartbeats.lua 'if score then live_renew(' 'if false then live_renew(' scripts/test_renew
mutant mark_too_old $scripts/renew_heartbeats.lua 'hear(#section > 0 and 5 or 0)' 'hear(#section > 0 and 6 or 0)' scripts/test_renew
mutant old_generation $scripts/prelude.lua "return stored and stored ~= mine and" 'return false and' scripts/test_limits
mutant no_guard_of_the_forgotten "$append" \
  'CASE WHEN f.tenant IS NOT NULL THEN ARRAY[f.session_ms, f.session_seq, 1] END' 'NULL' integration/test_forget

echo "[==========] $((passed + failed)) test(s) run."
echo "[  PASSED  ] $passed test(s)."
[ $failed = 0 ] || { echo "[  FAILED  ] $failed test(s)."; exit 1; }
