# shellcheck shell=bash
# What people would use instead, as servers of the bench: each start_X sets X_pid and X_url. Sourced after stand.sh, never run.

start_nginx() {
  local port user=''
  port=$(free_port)
  [ "$(id -u)" != 0 ] || user='user root;'
  cat >"$data/nginx.conf" <<CONF
daemon off;
master_process off;
$user
error_log stderr warn;
pid $data/nginx.pid;
events { worker_connections 1024; }
http {
  access_log off;
  keepalive_requests 1000000000;
  client_body_temp_path $data;
  proxy_temp_path $data;
  fastcgi_temp_path $data;
  uwsgi_temp_path $data;
  scgi_temp_path $data;
  server {
    listen 127.0.0.1:$port;
    location / { return 204; }
  }
}
CONF
  start nginx "$deps/bin/bench-nginx" -e stderr -c "$data/nginx.conf"
  nginx_pid=$started
  nginx_url=http://127.0.0.1:$port
  await_http nginx "$nginx_pid" "$nginx_url/"
}

# Reaches the same Redis over the same socket as the service does. One thread: with one core, more are slower.
start_webdis() {
  local port
  port=$(free_port)
  cat >"$data/webdis.json" <<CONF
{"redis_host": "$(known redis SOCKET_DIR)/redis.sock", "redis_port": 0, "redis_auth": null, "http_host": "127.0.0.1",
 "http_port": $port, "threads": 1, "pool_size": 20, "daemonize": false, "websockets": false, "database": 0, "verbosity": 0,
 "logfile": "$data/webdis.own.log"}
CONF
  start webdis "$deps/bin/bench-webdis" "$data/webdis.json"
  webdis_pid=$started
  webdis_url=http://127.0.0.1:$port
  await_http webdis "$webdis_pid" "$webdis_url/PING"
}

# A cluster of one; it refuses tokens that it did not give. Leases are granted before, by the ids that presence-sim makes of the prefix 1.
etcd_leases=10000
start_etcd() {
  local port peer_port granted='' grant_s=2
  port=$(free_port) peer_port=$(free_port)
  etcd_url=http://127.0.0.1:$port
  start etcd "$deps/bin/bench-etcd" --data-dir "$data/etcd" --listen-client-urls "$etcd_url" --advertise-client-urls "$etcd_url" \
    --listen-peer-urls "http://127.0.0.1:$peer_port" --initial-advertise-peer-urls "http://127.0.0.1:$peer_port" \
    --initial-cluster "default=http://127.0.0.1:$peer_port" --log-level error
  etcd_pid=$started
  await_http etcd "$etcd_pid" "$etcd_url/health"
  until [[ $granted == *'"TTL"'* ]]; do # of the last lease
    grant_s=$((grant_s * 2))
    [ $grant_s -lt 60 ] || die "etcd does not grant $etcd_leases leases"
    load_begin summary --url "$etcd_url" --token '' --prefix 1 --devices $etcd_leases --request 'POST /v3/lease/grant' \
      --body '{"TTL":86400,"ID":{device}}' --duration-s $grant_s
    wait "$load_pid" || true # what is granted again is refused
    granted=$(curl --noproxy '*' -s "$etcd_url/v3/lease/keepalive" -d "{\"ID\":$((etcd_leases * 2 - 1))}")
  done
}

start_mosquitto() {
  local user='' deadline=$((SECONDS + 30))
  mosquitto_port=$(free_port)
  [ "$(id -u)" != 0 ] || user='user root'
  cat >"$data/mosquitto.conf" <<CONF
listener $mosquitto_port 127.0.0.1
allow_anonymous true
persistence false
log_type error
$user
CONF
  start mosquitto "$deps/bin/bench-mosquitto" -c "$data/mosquitto.conf"
  mosquitto_pid=$started
  until (exec 3<>"/dev/tcp/127.0.0.1/$mosquitto_port") 2>/dev/null; do
    if ! kill -0 "$mosquitto_pid" 2>/dev/null || [ $SECONDS -ge $deadline ]; then die "mosquitto did not start: $(cat "$data/mosquitto.log")"; fi
    sleep 0.05
  done
}

naive_is_there() { command -v node >/dev/null && [ -d "$deps/naive/node_modules/fastify" ]; }

start_naive() {
  local port
  port=$(free_port)
  naive_url=http://127.0.0.1:$port
  start naive env NODE_ENV=production NODE_PATH="$deps/naive/node_modules" PORT="$port" TOKEN="$PRESENCE_SIM_TOKEN" \
    REDIS_SOCKET="$(known redis SOCKET_DIR)/redis.sock" node "$root/tests/bench/naive/server.cjs"
  naive_pid=$started
  await_http naive "$naive_pid" "$naive_url/v1/tenants/bench/devices/none" -H "Authorization: Bearer $PRESENCE_SIM_TOKEN"
}
