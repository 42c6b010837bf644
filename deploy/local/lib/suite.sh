# shellcheck shell=bash
# Packages of any Debian suite without touching the machine: a private apt state whose sources are the machine's own with
# another suite's name in them. Mirror, proxy, keyring and signature check stay the machine's. Sourced, never run.

own_release() {
  local name
  name=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release 2>/dev/null)
  [ -n "$name" ] || die "this machine's /etc/os-release names no release: is it Debian?"
  echo "$name"
}

# suite_sources TYPE SUITE [base]: the machine's apt sources for its own release, rewritten to TYPE (deb, deb-src) and SUITE.
# Entries for updates and security are kept unless "base" is asked for. Prints deb822 stanzas and one-line entries
# into the files .sources and .list of the current folder, since apt tells the formats apart by name.
suite_sources() {
  local type=$1 suite=$2 which=${3:-all} own list='' parts=''
  own=$(own_release)
  eval "$(apt-config shell list Dir::Etc::sourcelist/f parts Dir::Etc::sourceparts/d)"
  local one_line=() stanzas=() file
  for file in "$list" "$parts"*.list; do [ -r "$file" ] && one_line+=("$file"); done
  for file in "$parts"*.sources; do [ -r "$file" ] && stanzas+=("$file"); done
  local rules=(-v "type=$type" -v "suite=$suite" -v "own=$own" -v "which=$which" -f "$root/deploy/local/lib/sources.awk")
  mkdir -p sources
  [ ${#one_line[@]} = 0 ] || awk "${rules[@]}" -v format=list "${one_line[@]}" >>sources/machine.list
  [ ${#stanzas[@]} = 0 ] || for file in "${stanzas[@]}"; do awk "${rules[@]}" -v format=sources "$file"; done >>sources/machine.sources
}

# open_suite TYPE SUITE: makes a private apt state in the current folder and reads the suite's lists. Fails where the suite
# cannot be reached. $apt_options holds what apt needs to use it.
open_suite() {
  local type=$1 suite=$2 which
  mkdir -p state/lists/partial cache/archives/partial
  : >status
  write_apt_options >apt.conf
  # Only what the suite itself signed as Debian's: another vendor's entry for the same suite name is not meant.
  printf 'Package: *\nPin: release o=Debian\nPin-Priority: 500\n\nPackage: *\nPin: release *\nPin-Priority: -1\n' >preferences
  apt_options=(-q -c "$PWD/apt.conf")
  for which in all base; do # a suite under test has no security entry
    rm -rf sources
    suite_sources "$type" "$suite" $which
    [ -s sources/machine.list ] || [ -s sources/machine.sources ] || die "no Debian mirror in this machine's apt sources"
    if apt-get "${apt_options[@]}" -o APT::Update::Error-Mode=any update >>"$setup_log" 2>&1; then return 0; fi
  done
  return 1
}

# apt reads this after the machine's own configuration, which therefore goes on counting (proxies, time-outs, certificates).
write_apt_options() {
  local architecture
  architecture=$(dpkg --print-architecture)
  cat <<CONF
#clear APT::Architectures;
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
APT::Architectures { "$architecture"; };
// The checkout may lie where apt's own user cannot go.
APT::Sandbox::User "root";
APT::Get::AllowUnauthenticated "false";
Acquire::AllowInsecureRepositories "false";
Acquire::AllowWeakRepositories "false";
Acquire::Languages "none";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
Acquire::Retries "2";
Dir::State "$PWD/state";
Dir::State::status "$PWD/status";
Dir::Cache "$PWD/cache";
Dir::Cache::pkgcache "pkgcache.bin";
Dir::Cache::srcpkgcache "srcpkgcache.bin";
Dir::Etc::sourcelist "/dev/null";
Dir::Etc::sourceparts "$PWD/sources";
Dir::Etc::preferences "$PWD/preferences";
Dir::Etc::preferencesparts "/dev/null";
CONF
}

# private_tree SUITE DIR KEEP PACKAGE...: unpacks what the packages need in that suite into DIR: all libraries, and packages whose
# name matches the pattern KEEP; no accounts, init scripts or compilers for queries.
# Works without root. Scripts of the packages are not run: programs are called by the tree's loader (programs.sh).
private_tree() {
  local suite=$1 dir=$2 keep=$3 work
  shift 3
  work=$(mktemp -d "$deps/work.XXXXXX")
  (
    cd "$work"
    open_suite deb "$suite" || die "the Debian suite $suite cannot be reached with this machine's apt sources and $* is not cached"
    apt-get "${apt_options[@]}" --no-install-recommends --simulate install "$@" >plan 2>>"$setup_log" ||
      die "the Debian suite $suite has no $*"
    awk -v keep="^($keep)$" '$1 == "Inst" && ($2 ~ keep || $2 ~ /^lib/) && $2 !~ /^lib(c-bin|c-dev|c-l10n|llvm|z3-|pam-|semanage|.*-perl$|perl)/ {
      print $2 "=" substr($3, 2) }' plan >wanted
    mkdir debs tree
    (cd debs && logged "downloading $*" xargs -a ../wanted apt-get "${apt_options[@]}" download)
    for package in debs/*.deb; do dpkg-deb -x "$package" tree; done
    rm -rf tree/usr/share/{doc,man,info,locale,lintian,bug,doc-base} tree/etc/init.d tree/usr/lib/systemd tree/lib/systemd tree/usr/lib/postgresql/*/lib/bitcode
    cp wanted tree/packages
    rm -rf "$dir"
    mv tree "$dir"
  )
  rm -rf "$work"
}
