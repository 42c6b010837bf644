# Reads samples.tsv of tests/bench/run; prints the table and writes the file named by the variable json.
# With the variable recorded, a file of ratios, it compares with those and exits 1 where one has become much worse.
# Ratios are taken within each round, where both sides met the same machine, and then their median.

BEGIN {
  FS = "\t"
  MARGIN = 0.3
  lane("single", "POST …/heartbeat, one device", "")
  lane("webdis", "webdis, GET /HSETEX", "sets one field with a TTL; no token, limits, sessions, events, batching")
  lane("nginx", "nginx, empty 204", "no Redis, no token, nothing kept: the HTTP ceiling")
  lane("http", "POST …/heartbeats, empty array", "the service without its Redis call: HTTP, token, body, parsing, reply")
  lane("batch500", "POST …/heartbeats, 500 devices", "")
  lane("script64", "record_heartbeats, 64 devices", "no HTTP and no service: the script alone, Redis has the core for itself")
  lane("script500", "record_heartbeats, 500 devices", "the same, with the largest call allowed")
  ratio("single", "webdis", 1.7)
  ratio("http", "nginx", 0.85)
  ratio("batch500", "script64", 0.8)
}

function lane(name, title, lacks) { lanes[++lane_count] = name; titles[name] = title; notes[name] = lacks }
function ratio(over, under, target) { overs[++ratio_count] = over; unders[ratio_count] = under; targets[ratio_count] = target }

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
  count[name] = count[over] < count[under] ? count[over] : count[under]
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
    by_rate[r] = paired(rate, "rate " r, overs[r], unders[r])
    by_core[r] = paired(whole, "core " r, overs[r], unders[r])
    print pad(overs[r] " / " unders[r], 32) right(sprintf("%.2f", by_rate[r]), 13) right(sprintf("%.2f", by_core[r]), 26) \
      right("≥ " targets[r], 16)
  }
  printf "\nRedis memory: %s bytes per online device (16-byte ids, 32 devices a bucket).\n", bytes
  write_json()
  if (recorded != "") check()
}

# Compares with ratios measured before, by the core's time: the rate depends on what else the machine does.
function check(   line, words, r, least, failed) {
  print ""
  while ((getline line <recorded) > 0) {
    if (line ~ /^#/ || split(line, words, " ") != 2) continue
    for (r = 1; r <= ratio_count; r++) {
      if (words[1] != overs[r] "/" unders[r]) continue
      least = words[2] * (1 - MARGIN)
      printf "check: %s is %.2f, at least %.2f wanted: %s\n", words[1], by_core[r], least, (by_core[r] < least ? "TOO SLOW" : "fine")
      checked++
      if (by_core[r] < least) failed = 1
    }
  }
  if (checked != ratio_count) print "check: " recorded " does not name every ratio"
  if (failed || checked != ratio_count) exit 1
}

function print_lane(name) {
  if (count[name] == 0) return
  print pad(titles[name], 32) right(sprintf("%.0f", median(rate, name)), 13) right(spread(rate, name), 17) \
    right(sprintf("%.0f", median(whole, name)), 9) right(sprintf("%.2f", median(server, name)), 16) \
    right(sprintf("%.2f", median(store, name)), 7) right(p99[name, 1] == "-" ? "" : sprintf("%.2f", median(p99, name)), 8) \
    right(load[name, 1] == "-" ? "" : sprintf("%.0f%%", median(load, name)), 11)
}

function write_json(   l, name) {
  printf "{\"date\":\"%s\",\"version\":\"%s\",\"cpu\":\"%s\",\"cores\":%d,\"redis\":\"%s\",\"load_before\":%s,\"load_after\":%s,", \
    date, version, cpu, cores, redis, load_before, load_after >json
  printf "\"rounds\":%d,\"seconds\":%d,\"devices\":%d,\"connections\":%d,\"aof\":\"%s\",\"bytes_per_device\":%s,\n\"lanes\":{", \
    rounds, seconds, devices, connections, aof, bytes >json
  for (l = 1; l <= lane_count; l++) {
    name = lanes[l]
    sort_values(rate, name, count[name])
    printf "%s\n\"%s\":{\"per_second\":%.1f,\"least\":%.1f,\"most\":%.1f,\"per_core_second\":%.1f,\"server_cpu_us\":%.3f,\"redis_cpu_us\":%.3f}", \
      (l > 1 ? "," : ""), name, median(rate, name), sorted[1], sorted[count[name]], median(whole, name), median(server, name), \
      median(store, name) >json
  }
  printf "},\n\"ratios\":{" >json
  for (r = 1; r <= ratio_count; r++)
    printf "%s\n\"%s/%s\":{\"per_second\":%.3f,\"per_core_second\":%.3f,\"target\":%s}", (r > 1 ? "," : ""), overs[r], unders[r], \
      by_rate[r], by_core[r], targets[r] >json
  printf "}}\n" >json
}
