# Rewrites a machine's apt sources for another suite: see suite_sources in suite.sh.
# Variables: type (deb, deb-src), own (this release's name), suite (the one wanted), which (all, base), format (list, sources).

# own -> suite, own-security -> suite-security; "" for every other suite of the entry (backports, other vendors').
function renamed(name,   i, kinds, n) {
  n = split(which == "base" ? "" : "-updates -security", kinds, " ")
  if (is_own(name)) return suite
  for (i = 1; i <= n; i++)
    if (is_own(substr(name, 1, length(name) - length(kinds[i]))) && name ~ kinds[i] "$") return suite kinds[i]
  return ""
}

function is_own(name) { return name == own || name == "stable" || name == "oldstable" || name == "testing" }

function renamed_all(names,   i, n, words, out) {
  n = split(names, words, /[ \t]+/)
  for (i = 1; i <= n; i++)
    if (words[i] != "" && renamed(words[i]) != "") out = out " " renamed(words[i])
  return substr(out, 2)
}

BEGIN { if (format == "sources") RS = ""; else RS = "\n" }

# deb [options] uri suite component...
format == "list" && /^deb[ \t]/ && !/^deb[ \t]+(\[[^]]*\][ \t]+)?cdrom:/ {
  options = ""
  line = $0
  sub(/^deb[ \t]+/, "", line)
  if (match(line, /^\[[^]]*\]/)) {
    options = substr(line, 1, RLENGTH) " "
    line = substr(line, RLENGTH + 1)
  }
  n = split(line, words, " ")
  has_main = 0
  for (i = 3; i <= n; i++) if (words[i] == "main") has_main = 1
  name = renamed_all(words[2])
  if (has_main && name != "") print type " " options words[1] " " name " main"
}

# A stanza; everything but its types, suites and components (signed-by, even an embedded key) is kept as it is.
format == "sources" {
  n = split($0, lines, "\n")
  out = ""
  suites = ""
  has_deb = has_main = 0
  enabled = 1
  for (i = 1; i <= n; i++) {
    field = tolower(lines[i])
    value = lines[i]
    sub(/^[^:]*:[ \t]*/, "", value)
    if (field ~ /^types:/) { has_deb = value ~ /(^|[ \t])deb([ \t]|$)/; out = out "Types: " type "\n" }
    else if (field ~ /^suites:/) { suites = renamed_all(value); out = out "Suites: " suites "\n" }
    else if (field ~ /^components:/) { has_main = value ~ /(^|[ \t])main([ \t]|$)/; out = out "Components: main\n" }
    else if (field ~ /^enabled:[ \t]*(no|false|off|0|without|disable)/) enabled = 0
    else if (field !~ /^#/) out = out lines[i] "\n"
  }
  if (has_deb && has_main && enabled && suites != "") print out
}
