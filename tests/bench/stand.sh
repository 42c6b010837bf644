# shellcheck shell=bash
# What the benches share: the servers they start and end, presence-sim, CPU times. The server under test and its Redis share core 0;
# load and PostgreSQL have core 1. Everything lies below $data, which goes at the end. Sourced, never run.

# shellcheck disable=SC2034 # for die
program=bench
root=$(cd "${BASH_SOURCE[0]%/*}/../.." && pwd -P)
here=$root/deploy/local
# shellcheck source=../../deploy/local/lib/common.sh
. "$here/lib/common.sh"
# shellcheck source=../../deploy/local/lib/private.sh
. "$here/lib/private.sh"

server_core=0 load_core=1 connections=64
# The caller sets these: $build, the folder of the programs; $out, where results go; how many $devices; $aof, yes or no.
build=$root/build out=$root/build/bench devices=100000 aof=yes

# shellcheck disable=SC2317 # called by the trap
stop() {
  local pid
  for pid in $(jobs -p); do # those that this shell has not collected yet, so that no number is another process's by now
    kill -CONT "$pid" 2>/dev/null || true
    kill -TERM "$pid" 2>/dev/null || true
  done
  "$here/servers" stop "$data/redis" "$data/scripts" "$data/compat" "$data/postgres" || true
  wait
  rm -rf "$data"
}

# In order: the folder, and the end of all that is started from here on.
open_stand() {
  [ "$(nproc)" -ge 2 ] || die "this needs two cores: one for service and Redis, one for the load"
  data=$out/data
  mkdir -p "$out"
  [ ! -d "$data" ] || die "$data is there: another bench runs, or one was killed; remove it then"
  mkdir -m 700 "$data"
  trap stop EXIT
  trap 'exit 1' INT TERM
}

on_server_core() { taskset -c $server_core "$@"; }
on_load_core() { taskset -c $load_core "$@"; }

# known SERVER KEY: what the server's start said.
known() { value "$data/$1/server.env" "$2"; }

# start NAME COMMAND...: on the servers' core, with its output in NAME.log; sets $started.
start() {
  local name=$1
  shift
  setsid setpriv --pdeathsig TERM taskset -c $server_core "$@" >"$data/$name.log" 2>&1 </dev/null &
  started=$!
}

answers() { curl --noproxy '*' -s -o /dev/null --max-time 2 "$@"; }

# await_http NAME PID URL [CURL-ARGUMENTS...]
await_http() {
  local name=$1 pid=$2 deadline=$((SECONDS + 30))
  shift 2
  until answers -f "$@"; do
    if ! kill -0 "$pid" 2>/dev/null || [ $SECONDS -ge $deadline ]; then
      tail -n 5 "$data/$name.log" >&2
      die "$name did not start"
    fi
    sleep 0.05
  done
}

## Servers; those of others are in peers.sh

# Rewrites of the append-only file would fall into some rounds and not into others.
start_redis_here() {
  on_server_core "$here/servers" start-redis native "$data/$1" --parent $$ -- --appendonly "$aof" --auto-aof-rewrite-percentage 0 >/dev/null
}

redis_of() { $(known "$1" REDIS_CLI) "${@:2}"; }
redis() { redis_of redis "$@"; }

# create_token TENANT: prints the secret.
create_token() {
  "$build/presencectl" token create --tenant "$1" --scope device,read --json | sed -n 's/.*"secret": *"\([^"]*\)".*/\1/p'
}

# start_storage DEVICES: Redis, PostgreSQL, the tenant "bench" with room for so many devices, and its token.
start_storage() {
  local room=$1
  start_redis_here redis
  on_load_core "$here/servers" start-postgres "$data/postgres" --parent $$ --fast -- shared_buffers=128MB >/dev/null
  PRESENCE_REDIS_URL=$(known redis REDIS_URL)
  PRESENCE_POSTGRES_URL=$(known postgres POSTGRES_URL)
  export PRESENCE_REDIS_URL PRESENCE_POSTGRES_URL
  redis_pid=$(known redis PID)
  "$build/presencectl" migrate >/dev/null
  "$build/presencectl" tenant create bench --default-ttl-ms 86400000 --max-devices "$((room * 2))" --buckets "$((room / 32))" >/dev/null
  PRESENCE_SIM_TOKEN=$(create_token bench)
  export PRESENCE_SIM_TOKEN
}

# start_service PROGRAM NAME ARGUMENTS...: presenced or one like it; sets $started and $started_url; await_http knows when it is ready.
start_service() {
  local binary=$1 name=$2 port
  shift 2
  port=$(free_port)
  started_url=http://127.0.0.1:$port
  start "$name" "$build/$binary" --listen "127.0.0.1:$port" --threads 1 --log-level warn "$@"
}
start_presenced() { start_service presenced "$@"; }

## Measuring

# cpu_ticks PID: user and system time so far of all threads of the process, and of its children that ended. 0: no process.
cpu_ticks() {
  local fields
  [ "$1" != 0 ] || { echo 0; return; }
  read -r -a fields <"/proc/$1/stat"
  echo $((fields[13] + fields[14]))
}

# PostgreSQL's processes come and go: those that are there, and what those that ended have used.
postgres_ticks() {
  local fields sum=0 pid stat
  pid=$(known postgres PID)
  for stat in /proc/[0-9]*/stat; do
    { read -r -a fields <"$stat"; } 2>/dev/null || continue
    if [ "${fields[0]}" = "$pid" ]; then
      sum=$((sum + fields[13] + fields[14] + fields[15] + fields[16]))
    elif [ "${fields[3]}" = "$pid" ]; then
      sum=$((sum + fields[13] + fields[14]))
    fi
  done
  echo "$sum"
}

child_ticks() {
  local fields
  read -r -a fields <"/proc/$$/stat"
  echo $((fields[15] + fields[16]))
}

# field NAME [SUMMARY]: of presence-sim's summary.
field() { sed -n "s/.*\"$1\":\([0-9.]*\).*/\1/p" "$data/${2:-summary}.json"; }

load() {
  load_begin summary "$@"
  load_end summary "$load_pid"
}

# load_begin SUMMARY SIM-ARGUMENTS...: in the background, flat out where the arguments do not say otherwise; sets $load_pid.
load_begin() {
  local summary=$1
  shift
  # No function here, so that $! is presence-sim itself.
  taskset -c $load_core "$build/presence-sim" --tenant bench --prefix device- --devices "$devices" --interval-ms 0 \
    --connections $connections --json "$@" >"$data/$summary.json" 2>"$data/$summary.log" &
  load_pid=$!
}

# load_mqtt PORT ARGUMENTS...: what `load` is, for MQTT.
load_mqtt() {
  on_load_core "$build/bench_mqtt" "$@" --connections $connections >"$data/summary.json" || die "bench_mqtt failed"
}

# load_end SUMMARY PID: waits for its end.
load_end() {
  wait "$2" || {
    tail -n 3 "$data/$1.log" >&2
    die "presence-sim failed"
  }
}

# open_sessions URL WORKER-URL [SIM-ARGUMENTS...]: all sessions open and in PostgreSQL, so that what follows is renewals only.
open_sessions() {
  local url=$1 worker=$2 seconds=$((1 + devices / 40000)) deadline=$((SECONDS + 300))
  shift 2
  until load --url "$url" --batch 1000 --connections 16 --duration-s $seconds "$@" && [ "$(field heartbeats_ok)" -ge "$devices" ]; do
    [ $SECONDS -lt $deadline ] || die "not all sessions could be opened"
    seconds=$((seconds * 2)) # each time from the first device on
  done
  until [ "$(curl --noproxy '*' -s "$worker/metrics" | awk '/^presence_publish_backlog/ { n += $2 } END { print n + 0 }')" = 0 ]; do
    [ $SECONDS -lt $deadline ] || die "the sessions did not reach PostgreSQL"
    sleep 0.2
  done
}
