# shellcheck shell=bash
# Private servers: one Redis or PostgreSQL per folder, reached by a Unix socket in a folder of its own below /tmp (a socket's path
# has at most 107 bytes, a checkout may lie deep). What is known of one stands in its folder in server.env. Sourced, never run.

# PostgreSQL refuses to run as root. The other user may still enter the checkout, whatever its folders' modes are: by a capability,
# and by a secure bit without which access(2) would not count it (PostgreSQL looks for its own programs with that).
postgres_user=()
if [ "$(id -u)" = 0 ]; then
  if id -u postgres >/dev/null 2>&1; then postgres_name=postgres; else postgres_name=nobody; fi
  postgres_user=(setpriv "--reuid=$postgres_name" "--regid=$(id -g "$postgres_name")" --clear-groups
    --securebits=+no_setuid_fixup "--inh-caps=-all,+dac_override" "--ambient-caps=-all,+dac_override")
fi

# value FILE KEY
value() { [ ! -e "$1" ] || sed -n "s/^$2=//p" "$1"; }

# Whether the process is the server of this folder (and not another one that got its number): servers work in their folder.
serves() {
  local pid=$1 dir=$2
  [ -n "$pid" ] && [ "$(readlink "/proc/$pid/cwd" 2>/dev/null)" = "$(realpath -m "$dir")" ]
}

running_pid() {
  local pid
  pid=$(value "$1/server.env" PID)
  serves "$pid" "$(value "$1/server.env" WORK_DIR)" && echo "$pid"
}

# The folder of the socket. After a stop or a crash the same one again, so that the server's address stays.
socket_folder() {
  local folder owner
  folder=$(value "$1/server.env" SOCKET_DIR)
  owner=$(stat -c %U "${folder:-/nowhere}" 2>/dev/null) || owner=''
  if [ -n "$owner" ] && [[ " $(id -un) ${postgres_name:-} " == *" $owner "* ]]; then
    echo "$folder" # left by a crash
  elif [ -n "$folder" ] && mkdir -m 700 "$folder" 2>/dev/null; then
    echo "$folder"
  else
    mktemp -d /tmp/presence.XXXXXX
  fi
}

# await SECONDS DIR PID WHAT COMMAND...: until the command succeeds; stops where the server has ended or the time is over.
await() {
  local deadline=$((SECONDS + $1)) dir=$2 pid=$3 what=$4
  shift 4
  until "$@" >/dev/null 2>&1; do
    if ! kill -0 "$pid" 2>/dev/null || [ $SECONDS -ge $deadline ]; then
      tail -n 15 "$dir/server.log" >&2
      kill -KILL "$pid" 2>/dev/null || true
      die "$what did not start; its log is $dir/server.log"
    fi
    sleep 0.02
  done
}

# Ends the server when the process that it was started for is gone, however that ended.
watch_parent() {
  local parent=$1 pid=$2 dir=$3
  [ "$parent" != 0 ] || return 0
  setsid "$here/servers" watch "$parent" "$pid" "$dir" </dev/null >/dev/null 2>&1 &
}

free_port() {
  local port
  while :; do
    port=$((20000 + RANDOM % 12000)) # below the range that outgoing connections draw from
    if ! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
      echo "$port"
      return
    fi
  done
}

# start_redis MODE DIR PARENT PORT SHIM [SETTING...]
start_redis() {
  local mode=$1 dir=$2 parent=$3 port=$4 shim=$5 name=redis8 sockets pid cli preload=()
  shift 5
  [ "$mode" != compat ] || [ ! -x "$deps/bin/redis7-server" ] || name=redis7
  mkdir -p "$dir/data"
  sockets=$(socket_folder "$dir")
  [ "$port" != free ] || port=$(value "$dir/server.env" PORT)
  [ -n "$port" ] && [ "$port" != 0 ] || port=$(free_port)
  [ "$port" != none ] || port=0
  [ -z "$shim" ] || preload=("LD_PRELOAD=$shim")
  cli=("$deps/bin/$name-cli" -s "$sockets/redis.sock")
  rm -f "$sockets/redis.sock"
  env "${preload[@]}" setsid "$deps/bin/$name-server" "$root/deploy/redis/presence.conf" --dir "$dir/data" --port "$port" \
    --bind 127.0.0.1 --unixsocket "$sockets/redis.sock" --unixsocketperm 700 --daemonize no "$@" >>"$dir/server.log" 2>&1 </dev/null &
  pid=$!
  await 30 "$dir" "$pid" Redis redis_answers "${cli[@]}"
  {
    echo "PID=$pid"
    echo "WORK_DIR=$dir/data"
    echo "SOCKET_DIR=$sockets"
    echo "PORT=$port"
    echo "REDIS_URL=unix://$sockets/redis.sock"
    [ "$port" = 0 ] || echo "REDIS_TCP_URL=redis://127.0.0.1:$port/0"
    echo "REDIS_MODE=$mode"
    echo "REDIS_VERSION=$(redis_version "$deps/bin/$name-server")"
    echo "REDIS_CLI=${cli[*]}"
  } >"$dir/server.env"
  watch_parent "$parent" "$pid" "$dir"
}

redis_answers() { [ "$("$@" ping)" = PONG ]; }

# start_postgres DIR PARENT FAST [SETTING...]: the database is "presence", its owner "presence" without a password; only who may
# enter the socket's folder can connect.
start_postgres() {
  local dir=$1 parent=$2 fast=$3 sockets pid settings=() setting
  shift 3
  mkdir -p "$dir"
  [ -d "$dir/data" ] || new_cluster "$dir" "$fast"
  [ ! -e "$dir/data/postmaster.pid" ] || clear_crash "$dir/data"
  sockets=$(socket_folder "$dir")
  [ ${#postgres_user[@]} = 0 ] || chown "$postgres_name" "$sockets"
  rm -f "$sockets"/.s.PGSQL.*
  [ "$fast" = no ] || set -- fsync=off full_page_writes=off dynamic_shared_memory_type=mmap shared_buffers=32MB "$@"
  for setting in "$@"; do settings+=(-c "$setting"); done
  : >>"$dir/server.log"
  (
    cd "$dir/data"
    exec setsid "${postgres_user[@]}" "$deps/bin/pg-postgres" -D "$dir/data" -c listen_addresses= -c "unix_socket_directories=$sockets" \
      -c unix_socket_permissions=0700 -c "log_timezone=UTC" "${settings[@]}" >>"$dir/server.log" 2>&1 </dev/null
  ) &
  pid=$!
  await 60 "$dir" "$pid" PostgreSQL postgres_answers "$dir/data" "$pid"
  {
    echo "PID=$pid"
    echo "WORK_DIR=$dir/data"
    echo "SOCKET_DIR=$sockets"
    echo "POSTGRES_URL=postgresql:///presence?host=$sockets&user=presence"
    echo "POSTGRES_VERSION=$(cat "$dir/data/PG_VERSION")"
    echo "PSQL=$deps/bin/pg-psql"
  } >"$dir/server.env"
  watch_parent "$parent" "$pid" "$dir"
}

# The server itself says in its pid file (process id in line 1, state in line 8) when it takes connections.
postgres_answers() { [[ $(sed -n '1p;8p' "$1/postmaster.pid" 2>/dev/null | tr -s '\n ' ' ') == "$2 ready "* ]]; }

# After a crash the server's other processes need a moment to notice; a new one refuses to start beside them, or beside the dead
# first process where nobody has collected it yet. Once none works in the folder its pid file means nothing.
clear_crash() {
  local data=$1 deadline=$((SECONDS + 10)) link busy=yes
  while [ $busy = yes ] && [ $SECONDS -lt $deadline ]; do
    busy=no
    for link in /proc/[0-9]*/cwd; do
      [ "$(readlink "$link" 2>/dev/null)" != "$data" ] || busy=yes
    done
    [ $busy = no ] || sleep 0.05
  done
  [ $busy = yes ] || rm -f "$data/postmaster.pid"
}

# A new database cluster takes a second or two; tests copy one made before.
new_cluster() {
  local dir=$1 fast=$2 template
  template=$deps/cluster-$("$deps/bin/pg-postgres" --version | sed 's/[^0-9.]*\([0-9.]*\).*/\1/')-${postgres_name:-$(id -un)}
  if [ "$fast" = no ]; then
    init_cluster "$dir/data"
    return
  fi
  exec 8>"$deps/.cluster.lock"
  flock 8
  if [ ! -d "$template" ]; then
    rm -rf "$template.new"
    init_cluster "$template.new" --no-sync
    mv "$template.new" "$template"
  fi
  exec 8>&-
  rm -rf "$dir/data.new"
  cp -a "$template" "$dir/data.new"
  mv "$dir/data.new" "$dir/data"
}

init_cluster() {
  local data=$1 log
  shift
  log=$(mktemp)
  mkdir -m 700 "$data"
  [ ${#postgres_user[@]} = 0 ] || chown "$postgres_name" "$data"
  if ! (
    cd "$data"
    "${postgres_user[@]}" "$deps/bin/pg-initdb" -D "$data" -U presence --auth=trust --encoding=UTF8 --locale=C.UTF-8 "$@" &&
      "${postgres_user[@]}" "$deps/bin/pg-postgres" --single -D "$data" postgres <<<"CREATE DATABASE presence"
  ) >"$log" 2>&1; then
    tail -n 15 "$log" >&2
    rm -rf "$data" "$log"
    die "initdb failed"
  fi
  rm -f "$log"
}

# Asks the folder's server to stop, insists after ten seconds. SIGTERM for Redis (saves what its settings say), SIGINT for
# PostgreSQL (ends its clients).
stop_server() {
  local dir=$1 pid sockets signal=TERM i
  sockets=$(value "$dir/server.env" SOCKET_DIR)
  [ -z "$(value "$dir/server.env" POSTGRES_URL)" ] || signal=INT
  if pid=$(running_pid "$dir"); then
    kill -"$signal" "$pid" 2>/dev/null || true
    for ((i = 0; i < 500; i++)); do
      [ -e "/proc/$pid/cwd" ] || break # a dead one that nobody has collected has none
      sleep 0.02
    done
    if running_pid "$dir" >/dev/null; then kill -KILL "$pid" 2>/dev/null || true; fi
  fi
  [[ $sockets != /tmp/presence.* ]] || rm -rf "$sockets"
}
