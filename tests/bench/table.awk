# Reads samples.tsv of tests/bench/run; prints the table and writes the file named by the variable json.
# With the variable recorded, a file of ratios, it compares with those and exits 1 where one has become much worse.
# Ratios are taken within each round, where both sides met the same machine, and then their median.

BEGIN {
  FS = "\t"
  MARGIN = 0.3
  lane("single", "POST …/heartbeat, one device", "")
  lane("single70", "the same, at 70 % of that rate", "sent at their time whatever the answers do; p99 counts from that time")
  lane("webdis", "webdis, GET /HSETEX", "sets one field with a TTL; no token, limits, sessions, events, batching")
  lane("webdis70", "webdis, at 70 % of its rate", "")
  lane("etcd", "etcd, POST /v3/lease/keepalive", "renews a lease in memory, one of 10,000; no token, no list of who is online, " \
    "no last-seen time; an end is a deleted key, told to watchers only while they are connected")
  lane("naive", "Fastify + ioredis, SET PX", "30 lines of JavaScript: one key with a TTL, a fixed token; no events, counts, limits, outages")
  lane("mosquitto", "mosquitto, PINGREQ", "2 bytes there, 2 back, on a connection per device (here 64 devices); no Redis, no HTTP, " \
    "no token after CONNECT; an end is a will message, told once to who listens; a restart ends them all")
  lane("nginx", "nginx, empty 204", "no Redis, no token, nothing kept: the HTTP ceiling")
  lane("nginx70", "nginx, at 70 % of its rate", "")
  lane("http", "POST …/heartbeat, Redis left out", "the service with all that a heartbeat takes but the call to Redis; without its worker")
  lane("batch500", "POST …/heartbeats, 500 devices", "")
  lane("script64", "renew_heartbeats, 64 devices", "no HTTP and no service: the script alone, Redis has the core for itself")
  lane("script500", "renew_heartbeats, 500 devices", "the same, with the largest call allowed")
  ratio("single", "webdis", 1.7)
  ratio("single", "etcd", 8)
  ratio("single", "naive", "")
  ratio("single", "mosquitto", "")
  ratio("http", "nginx", 0.85)
  ratio("batch500", "script64", 0.8)
}

function lane(name, title, lacks) { lanes[++lane_count] = name; titles[name] = title; notes[name] = lacks }
# An empty target: the ratio is only told.
function ratio(over, under, target) { overs[++ratio_count] = over; unders[ratio_count] = under; targets[ratio_count] = target }
function has_ratio(r) { return count[overs[r]] > 0 && count[unders[r]] > 0 }

{
  count[$2]++
  rate[$2, count[$2]] = $3
  server[$2, count[$2]] = $4
  store[$2, count[$2]] = $5
  whole[$2, count[$2]] = 1e6 / ($4 + $5)
  load[$2, count[$2]] = $6
  p99[$2, count[$2]] = $7
}

# The n values of table[name, 1..n] in order, into sorted[].
function sort_values(table, name, n,   i, j, value) {
  for (i = 1; i <= n; i++) {
    value = table[name, i] + 0
    for (j = i - 1; j > 0 && sorted[j] > value; j--) sorted[j + 1] = sorted[j]
    sorted[j + 1] = value
  }
}

function median(table, name,   n) {
  n = count[name]
  if (n == 0) return 0
  sort_values(table, name, n)
  return n % 2 ? sorted[(n + 1) / 2] : (sorted[n / 2] + sorted[n / 2 + 1]) / 2
}

function spread(table, name) {
  sort_values(table, name, count[name])
  return thousands(sorted[1]) "–" thousands(sorted[count[name]])
}

function thousands(value) { return value >= 1000 ? sprintf("%.1fk", value / 1000) : sprintf("%.0f", value) }

# printf counts bytes, a table needs characters.
function pad(text, width,   bytes) {
  bytes = text
  gsub(/[\200-\277]/, "", bytes)
  return text sprintf("%" (width > length(bytes) ? width - length(bytes) : 0) "s", "")
}
function right(text, width,   bytes) {
  bytes = text
  gsub(/[\200-\277]/, "", bytes)
  return sprintf("%" (width > length(bytes) ? width - length(bytes) : 0) "s", "") text
}

function paired(table, name, over, under,   i) {
  count[name] = count[over] < count[under] ? count[over] : count[under] # rounds; --lanes leaves none
  for (i = 1; i <= count[name]; i++) pairs[name, i] = table[over, i] / table[under, i]
  return median(pairs, name)
}

END {
  printf "%s; %s; %d × %s; load average %s before, %s after\n", date, version, cores, cpu, load_before, load_after
  printf "Service and Redis %s share one core, load comes from another: %d keep-alive connections, %d devices, token checked.\n", \
    redis, connections, devices
  printf "Redis as shipped (deploy/redis/presence.conf)%s.\n", (aof == "no" ? ", but without its append-only file" : "")
  printf "Medians of %d rounds of %d s, lanes in turn. \"A core\" is what one core does in a second of its own time: 1 s / CPU.\n\n", \
    rounds, seconds
  print pad("", 32) right("heartbeats/s", 13) right("least–most", 17) right("a core", 9) right("CPU µs: server", 16) \
    right("Redis", 7) right("p99 ms", 8) right("load core", 11)
  for (l = 1; l <= lane_count; l++) print_lane(lanes[l])
  print ""
  for (l = 1; l <= lane_count; l++)
    if (count[lanes[l]] > 0 && notes[lanes[l]] != "") print titles[lanes[l]] ": " notes[lanes[l]]
  print ""
  print pad("ratio", 32) right("heartbeats/s", 13) right("a core", 26) right("target", 16)
  for (r = 1; r <= ratio_count; r++) {
    if (!has_ratio(r)) continue
    by_rate[r] = paired(rate, "rate " r, overs[r], unders[r])
    by_core[r] = paired(whole, "core " r, overs[r], unders[r])
    print pad(overs[r] " / " unders[r], 32) right(sprintf("%.2f", by_rate[r]), 13) right(sprintf("%.2f", by_core[r]), 26) \
      right(targets[r] == "" ? "" : "≥ " targets[r], 16) verdict(targets[r] == "", by_rate[r] >= targets[r])
  }
  print ""
  limit("single70", "p99 ms at 70 % of the maximum", p99, 3)
  limit("single", "CPU µs of the service, single", server, 13)
  limit("batch500", "CPU µs of the service, in a batch", server, 1.5)
  if (bytes > 0) printf "\nRedis memory: %s bytes per online device (16-byte ids, 32 devices a bucket; ≤ 155%s).\n", bytes, verdict(0, bytes <= 155)
  if (count["single"] > 0 && count["batch500"] > 0) model()
  write_json()
  if (recorded != "") check()
}

function verdict(told, met) { return told ? "" : met ? "  met" : "  missed" }

function limit(name, what, table, most) {
  if (count[name] == 0) return
  print pad(what, 58) right(sprintf("%.2f", median(table, name)), 13) right("≤ " most, 16) verdict(0, median(table, name) <= most)
  limits[++limit_count] = sprintf("\"%s\":{\"value\":%.3f,\"limit\":%s}", what, median(table, name), most)
}

# How many devices a machine carries: see README.md. INTERVAL_S from heartbeat to heartbeat; USED of each core's time.
function model(   INTERVAL_S, USED) {
  INTERVAL_S = 30
  USED = 0.6
  printf "\nDevices by the model of tests/bench/README.md, a heartbeat every %d s, at %d %% of the cores' time:\n", INTERVAL_S, USED * 100
  print pad("", 32) right("1 core", 13) right("4 cores", 17) right("16 cores", 17) right("16, Redis Cluster", 22)
  model_line("single", USED * INTERVAL_S * 1e6)
  model_line("batch500", USED * INTERVAL_S * 1e6)
}

function model_line(name, budget_us,   s, r, nodes) {
  s = median(server, name)
  r = median(store, name)
  nodes = int(15 / (1 + s / r)) # a core each, as many again × s / r for the service, one for worker and PostgreSQL
  print pad(titles[name], 32) right(millions(budget_us / (s + r)), 13) right(millions(budget_us / r), 17) right(millions(budget_us / r), 17) \
    right(millions(nodes * budget_us / r) " (" nodes " nodes)", 22)
  models[++model_count] = sprintf("\"%s\":{\"cores_1\":%d,\"cores_4\":%d,\"cores_16\":%d,\"cores_16_cluster\":%d}", name, budget_us / (s + r), \
    budget_us / r, budget_us / r, nodes * budget_us / r)
}

function millions(value) { return sprintf("%.1f M", value / 1e6) }

# Compares with ratios measured before, by the core's time: the rate depends on what else the machine does.
function check(   line, words, r, least, failed, checked, wanted) {
  print ""
  while ((getline line <recorded) > 0) {
    if (line ~ /^#/ || split(line, words, " ") != 2) continue
    for (r = 1; r <= ratio_count; r++) {
      if (words[1] != overs[r] "/" unders[r] || !has_ratio(r)) continue
      least = words[2] * (1 - MARGIN)
      printf "check: %s is %.2f, at least %.2f wanted: %s\n", words[1], by_core[r], least, (by_core[r] < least ? "TOO SLOW" : "fine")
      checked++
      if (by_core[r] < least) failed = 1
    }
  }
  for (r = 1; r <= ratio_count; r++) if (has_ratio(r) && targets[r] != "") wanted++
  if (checked < wanted) print "check: " recorded " does not name every ratio"
  if (failed || checked < wanted) exit 1
}

function print_lane(name) {
  if (count[name] == 0) return
  print pad(titles[name], 32) right(sprintf("%.0f", median(rate, name)), 13) right(spread(rate, name), 17) \
    right(sprintf("%.0f", median(whole, name)), 9) right(sprintf("%.2f", median(server, name)), 16) \
    right(sprintf("%.2f", median(store, name)), 7) right(p99[name, 1] == "-" ? "" : sprintf("%.2f", median(p99, name)), 8) \
    right(load[name, 1] == "-" ? "" : sprintf("%.0f%%", median(load, name)), 11)
}

function write_json(   l, r, name, comma) {
  printf "{\"date\":\"%s\",\"version\":\"%s\",\"cpu\":\"%s\",\"cores\":%d,\"server_core\":%d,\"load_core\":%d,\"redis\":\"%s\",", \
    date, version, cpu, cores, server_core, load_core, redis >json
  printf "\"load_before\":%s,\"load_after\":%s,\"rounds\":%d,\"seconds\":%d,\"devices\":%d,\"connections\":%d,\"aof\":\"%s\",", \
    load_before, load_after, rounds, seconds, devices, connections, aof >json
  printf "\"bytes_per_device\":%s,\n\"lanes\":{", bytes >json
  for (l = 1; l <= lane_count; l++) {
    name = lanes[l]
    if (count[name] == 0) continue
    printf "%s\n\"%s\":{\"what\":\"%s\",\"does_not\":\"%s\",%s", comma, name, titles[name], notes[name], numbers("per_second", rate, name) >json
    printf ",%s,%s", numbers("per_core_second", whole, name), numbers("server_cpu_us", server, name) >json
    printf ",%s", numbers("redis_cpu_us", store, name) >json
    if (p99[name, 1] != "-") printf ",%s", numbers("p99_ms", p99, name) >json
    if (load[name, 1] != "-") printf ",%s", numbers("load_core_percent", load, name) >json
    printf "}" >json
    comma = ","
  }
  printf "},\n\"ratios\":{" >json
  comma = ""
  for (r = 1; r <= ratio_count; r++) {
    if (!has_ratio(r)) continue
    printf "%s\n\"%s/%s\":{\"per_second\":%.3f,\"per_core_second\":%.3f,\"target\":%s}", comma, overs[r], unders[r], \
      by_rate[r], by_core[r], (targets[r] == "" ? "null" : targets[r]) >json
    comma = ","
  }
  printf "},\n\"limits\":{" >json
  for (l = 1; l <= limit_count; l++) printf "%s\n%s", (l > 1 ? "," : ""), limits[l] >json
  printf "},\n\"devices_by_model\":{" >json
  for (l = 1; l <= model_count; l++) printf "%s\n%s", (l > 1 ? "," : ""), models[l] >json
  printf "}}\n" >json
}

# "name":{"median":…,"least":…,"most":…}
function numbers(label, table, name) {
  sort_values(table, name, count[name])
  return sprintf("\"%s\":{\"median\":%.3f,\"least\":%.3f,\"most\":%.3f}", label, median(table, name), sorted[1], sorted[count[name]])
}
