# shellcheck shell=bash
# Redis 8, Redis 7, Valkey and PostgreSQL as programs to call: $deps/bin/NAME is a small script that runs the machine's program or, where
# that is missing or too old, the one of a private tree. No package with a service is installed. Sourced, never run.

redis8_suite=trixie
redis8_least=8.0

# The scripts find their tree beside themselves, so that the folder may be copied or moved.
link_program() {
  mkdir -p "$deps/bin"
  cat >"$deps/bin/$1.new"
  chmod +x "$deps/bin/$1.new"
  mv "$deps/bin/$1.new" "$deps/bin/$1"
}

link_system_program() {
  printf '#!/bin/sh\nexec "%s" "$@"\n' "$2" | link_program "$1"
}

# link_tree_program NAME TREE PROGRAM: calls the tree's program by the tree's own loader and libraries, or as it is where it is
# linked statically. Redis looks at its name to know what it is, hence --argv0.
link_tree_program() {
  local name=$1 tree=$2 path=$3 loader
  if [[ $(LC_ALL=C readelf -lW "$deps/$tree/$path" || echo INTERP) != *INTERP* ]]; then
    link_program "$name" <<SCRIPT
#!/bin/sh
exec "\$(dirname "\$0")/../$tree/$path" "\$@"
SCRIPT
    return
  fi
  loader=$(cd "$deps/$tree" && find . -name 'ld-linux*.so.*' | sort | head -n 1)
  [ -n "$loader" ] || die "no loader in the unpacked $tree"
  link_program "$name" <<SCRIPT
#!/bin/sh
here=\$(cd "\$(dirname "\$0")/../$tree" && pwd -P)
exec "\$here/$loader" --argv0 "${path##*/}" --library-path "$(tree_libraries "$tree")" "\$here/$path" "\$@"
SCRIPT
}

# The folders of a tree that hold libraries, relative to $here of the scripts above.
tree_libraries() {
  (cd "$deps/$1" && find . -name '*.so.*' -printf '%h\n' | grep -E '^\./(usr/)?lib(/[a-z0-9_]+-linux-gnu[a-z0-9]*)?$' | sort -u |
    sed "s|^\.|\$here|" | paste -sd:)
}

# program_works NAME [FLAG]: runs only what it has just written: does the program say a version?
program_works() { [ -x "$deps/bin/$1" ] && "$deps/bin/$1" "${2:---version}" >/dev/null 2>&1; }

redis_version() { "$1" --version 2>/dev/null | sed -n 's/.*v=\([0-9.]*\).*/\1/p'; }

system_redis() {
  local path
  path=$(command -v redis-server || true)
  [ -n "$path" ] && [ -n "$(redis_version "$path")" ] && echo "$path"
}

redis8_ready() { program_works redis8-server && program_works redis8-cli; }

find_redis8() {
  local path
  if path=$(system_redis) && version_at_least "$(redis_version "$path")" "$redis8_least" && command -v redis-cli >/dev/null; then
    link_system_program redis8-server "$path"
    link_system_program redis8-cli "$(command -v redis-cli)"
    return
  fi
  private_tree "$redis8_suite" "$deps/redis8" "redis-(server|tools)" redis-server redis-tools
  link_tree_program redis8-server redis8 usr/bin/redis-server
  link_tree_program redis8-cli redis8 usr/bin/redis-cli
  redis8_ready || die "the unpacked Redis of $redis8_suite does not run here"
}

# Only Debian 12 has a Redis 7.0 (7.0 knows no field expiry); elsewhere the tests force that dialect on Redis 8.
redis7_ready() { [ -e "$deps/redis7.none" ] || { program_works redis7-server && program_works redis7-cli; }; }

find_redis7() {
  local path
  if path=$(system_redis) && [[ $(redis_version "$path") == 7.0.* ]] && command -v redis-cli >/dev/null; then
    link_system_program redis7-server "$path"
    link_system_program redis7-cli "$(command -v redis-cli)"
  elif [ "$(own_release)" = bookworm ]; then
    unpack_redis7
  else
    touch "$deps/redis7.none"
  fi
}

unpack_redis7() {
  private_tree bookworm "$deps/redis7" "redis-(server|tools)" redis-server redis-tools
  link_tree_program redis7-server redis7 usr/bin/redis-server
  link_tree_program redis7-cli redis7 usr/bin/redis-cli
  { program_works redis7-server && program_works redis7-cli; } || die "the unpacked Redis 7.0 does not run here"
}

# Only for `make matrix`: valkey8 (no field expiry) and valkey9, each from the first Debian suite that has it.
valkey_ready() { program_works "$1-server" && program_works "$1-cli"; }

find_valkey8() { unpack_valkey valkey8 trixie 8.1; }
find_valkey9() { unpack_valkey valkey9 forky 9.1.1; }

# unpack_valkey NAME SUITE LEAST
unpack_valkey() {
  private_tree "$2" "$deps/$1" "valkey-(server|tools)" valkey-server valkey-tools
  link_tree_program "$1-server" "$1" usr/bin/valkey-server
  link_tree_program "$1-cli" "$1" usr/bin/valkey-cli
  valkey_ready "$1" || die "the unpacked Valkey of $2 does not run here"
  version_at_least "$(redis_version "$deps/bin/$1-server")" "$3" || die "the Valkey of $2 is older than $3"
}

postgres_least=13
postgres_programs="initdb postgres pg_ctl psql pg_dump"

postgres_ready() {
  local name
  for name in $postgres_programs; do program_works "pg-$name" || return 1; done
}

# The newest installed PostgreSQL, else the release's own packages. Their tree runs with the machine's libc (initdb calls postgres
# by itself, which no loader call reaches) and takes only the other libraries from the tree.
find_postgres() {
  local bin name
  bin=$(installed_postgres)
  if [ -n "$bin" ]; then
    for name in $postgres_programs; do link_system_program "pg-$name" "$bin/$name"; done
    return
  fi
  private_tree "$(own_release)" "$deps/postgres" 'postgresql(-client)?-[0-9]+' postgresql
  # The machine's own libc and compiler runtime serve better than a second copy.
  find "$deps/postgres" \( -name 'ld-linux*' -o -name 'lib[cm].so.*' -o -name 'libpthread.so.*' -o -name 'libdl.so.*' \
    -o -name 'librt.so.*' -o -name 'libresolv.so.*' -o -name 'libgcc_s.so.*' -o -name 'libstdc++.so.*' \) -delete
  bin=$(cd "$deps/postgres" && echo usr/lib/postgresql/*/bin)
  for name in $postgres_programs; do
    link_program "pg-$name" <<SCRIPT
#!/bin/sh
here=\$(cd "\$(dirname "\$0")/../postgres" && pwd -P)
LD_LIBRARY_PATH=$(tree_libraries postgres)
export LD_LIBRARY_PATH
exec "\$here/$bin/$name" "\$@"
SCRIPT
  done
  postgres_ready || die "the unpacked PostgreSQL does not run here"
}

installed_postgres() {
  local bin release
  for bin in /usr/lib/postgresql/*/bin; do
    release=${bin%/bin}
    release=${release##*/}
    if [ "$release" -ge "$postgres_least" ] 2>/dev/null && [ -x "$bin/initdb" ] && [ -x "$bin/postgres" ] && [ -x "$bin/psql" ] && [ -x "$bin/pg_dump" ]; then
      echo "$release $bin"
    fi
  done | sort -n | tail -n 1 | cut -d' ' -f2
}

# Peers of the benchmark. They are never the machine's own, so that a bench compares the same programs on every machine of a release.
peers_ready() {
  local name
  for name in nginx webdis etcd mosquitto; do [ -x "$deps/bin/bench-$name" ] || return 1; done
}

find_peers() {
  private_tree "$(own_release)" "$deps/peers" 'nginx|webdis|etcd-server|mosquitto' nginx webdis etcd-server mosquitto
  link_tree_program bench-nginx peers usr/sbin/nginx
  link_tree_program bench-webdis peers usr/bin/webdis
  link_tree_program bench-etcd peers usr/bin/etcd
  link_tree_program bench-mosquitto peers usr/sbin/mosquitto
  "$deps/bin/bench-nginx" -v >/dev/null 2>&1 || die "the unpacked nginx does not run here"
  "$deps/bin/bench-etcd" --version >/dev/null 2>&1 || die "the unpacked etcd does not run here"
}

# What only tests need: PgBouncer, HAProxy (a rolling restart behind a proxy), promtool (checks alerting rules). Where one cannot be
# had, $deps/NAME.none notes it; its tests are skipped, and say so.
pgbouncer_ready() { [ -e "$deps/pgbouncer.none" ] || program_works pgbouncer; }
haproxy_ready() { [ -e "$deps/haproxy.none" ] || program_works haproxy -v; }
promtool_ready() { [ -e "$deps/promtool.none" ] || program_works promtool; }

find_pgbouncer() { find_for_tests pgbouncer pgbouncer usr/sbin/pgbouncer; }
find_haproxy() { find_for_tests haproxy haproxy usr/sbin/haproxy -v; }
find_promtool() {
  find_for_tests promtool prometheus usr/bin/promtool
  rm -rf "$deps"/prometheus/usr/bin/prometheus "$deps"/prometheus/usr/share
}

# find_for_tests NAME PACKAGE PROGRAM [VERSION-FLAG]
find_for_tests() {
  local name=$1 package=$2 program=$3 path
  path=$(PATH=$PATH:/usr/sbin command -v "$name" || true)
  if [ -n "$path" ]; then
    link_system_program "$name" "$path"
  elif (private_tree "$(own_release)" "$deps/$package" "$package" "$package"); then
    link_tree_program "$name" "$package" "$program"
  fi
  if ! program_works "$name" "${@:4}"; then
    rm -f "$deps/bin/$name"
    touch "$deps/$name.none"
  fi
}
