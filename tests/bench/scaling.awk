# Reads the samples of tests/bench/scaling; prints its tables and writes the file named by the variable json.

BEGIN { FS = "\t" }

{
  if (!(($1, $2) in seen)) { seen[$1, $2]; names[++points] = $2; parts[points] = $1 }
  if ($5 != "-") bytes[$2] = $5
  if ($4 == "-") next
  n = ++count[$2]
  server[$2, n] = $3
  store[$2, n] = $4
  whole[$2, n] = $3 + $4
}

function median(table, name,   n, i, j, value) {
  n = count[name]
  for (i = 1; i <= n; i++) {
    value = table[name, i] + 0
    for (j = i - 1; j > 0 && sorted[j] > value; j--) sorted[j + 1] = sorted[j]
    sorted[j + 1] = value
  }
  return n == 0 ? 0 : n % 2 ? sorted[(n + 1) / 2] : (sorted[n / 2] + sorted[n / 2 + 1]) / 2
}

function verdict(met) { return met ? "met" : "missed" }

function service_line(title, name, base) {
  if (!count[name]) return
  printf "%-34s %8.2f %8.2f %8.2f", title, median(server, name), median(store, name), median(whole, name)
  if (base != name) printf " %8.2f", median(whole, name) / median(whole, base)
  print ""
}

function service(   base) {
  print "One POST a heartbeat, CPU µs                service    Redis     both    ratio"
  base = "devices_10k"
  service_line("10,000 devices", base, base)
  service_line("100,000 devices", "devices_100k", base)
  service_line(largest " devices", "devices_largest", base)
  printf "  target: within 1.3 × from 10,000 to %d devices: %s\n", largest, verdict(median(whole, "devices_largest") <= 1.3 * median(whole, base))
  service_line("1,000 tenants of one device", "tenants_1k", base)
  service_line("10,000 tenants of one device", "tenants_10k", base)
  base = "devices_100k"
  service_line("1 partition, 100,000 devices", "partitions_1", base)
  service_line("8 partitions", base, base)
  service_line("64 partitions", "partitions_64", base)
  print ""
}

function buckets(   f, fields, d, dialects, name) {
  split("8 16 32 64 128 1000", fields, " ")
  split("native hpexpire compat", dialects, " ")
  printf "renew_heartbeats alone, 64 devices a call, 100,000 devices in random order: Redis CPU µs a heartbeat, bytes a device\n"
  printf "%-18s %18s %18s %18s\n", "fields per bucket", "native", "hpexpire", "compat (" compat ")"
  for (f = 1; f in fields; f++) {
    printf "%-18s", fields[f]
    for (d = 1; d in dialects; d++) {
      name = dialects[d] "_" fields[f]
      printf " %8.2f µs %5d B", median(store, name), bytes[name]
    }
    print ""
  }
  print ""
}

END {
  printf "%s; %s; %d × %s; Redis %s; load average %s; medians of %d rounds\n\n", date, version, cores, cpu, redis, load, rounds
  if (count["devices_10k"]) service()
  if (count["native_32"]) buckets()
  if ("sparse" in bytes) printf "sparse: 10 devices of 10,000, 1,000 such tenants: %d bytes a device; at most 700: %s\n\n", bytes["sparse"], verdict(bytes["sparse"] <= 700)
  while ((getline line <encodings) > 0) {
    name = substr(line, 1, index(line, " ") - 1)
    encoding[name] = substr(line, index(line, " ") + 1)
    printf "ids of %d bytes: %d bytes a device; %s\n", substr(name, 5), bytes[name], encoding[name]
  }
  write_json()
}

function write_json(   i, name) {
  printf "{\"date\":\"%s\",\"version\":\"%s\",\"cpu\":\"%s\",\"cores\":%d,\"redis\":\"%s\",\"compat_redis\":\"%s\",\"rounds\":%d,\"largest\":%d,\n\"points\":{", \
    date, version, cpu, cores, redis, compat, rounds, largest >json
  for (i = 1; i <= points; i++) {
    name = names[i]
    printf "%s\n\"%s\":{\"part\":\"%s\"", (i > 1 ? "," : ""), name, parts[i] >json
    if (count[name]) printf ",\"redis_cpu_us\":%.3f", median(store, name) >json
    if (count[name] && server[name, 1] != "-") printf ",\"server_cpu_us\":%.3f", median(server, name) >json
    if (name in bytes) printf ",\"bytes_per_device\":%d", bytes[name] >json
    if (name in encoding) printf ",\"encoding\":\"%s\"", encoding[name] >json
    printf "}" >json
  }
  print "}}" >json
}
