# shellcheck shell=bash
# Debian packages, by group. None of them brings a service: servers are unpacked privately (suite.sh, programs.sh), since
# installing their packages would start or enable them. Sourced, never run.

packages_of() {
  case $1 in
    libraries | servers | redis7 | valkey8 | valkey9 | pgbouncer | haproxy | bench | bench-npm) ;; # these need no more than "packages"
    packages)
      echo gcc libc6-dev make pkg-config libjansson-dev libpq-dev libcmocka-dev libssl-dev libgnutls28-dev \
        libxxhash-dev libjs-chart.js zlib1g-dev libcurl4-openssl-dev dpkg-dev xz-utils patch curl ca-certificates tzdata
      ;;
    system-libs) echo libmicrohttpd-dev libhiredis-dev ;;
    lint) echo clang clang-format clang-tidy cppcheck shellcheck ;;
    fuzz) echo clang llvm libclang-rt-dev ;;
    model) echo spin ;;
    browser) # node and npm may be there without being Debian's
      echo chromium fonts-dejavu-core
      command -v node >/dev/null || echo nodejs
      command -v npm >/dev/null || echo npm
      ;;
    ops) echo python3 python3-yaml mandoc zsh ;;
    examples) echo python3-psycopg2 ;;
    package) echo mmdebstrap ;;
    valgrind) echo valgrind libc6-dbg ;;
    *) die "no such group of packages: $1" ;;
  esac
}

# Those of the named packages that are not installed. dpkg-query answers in milliseconds, apt does not.
missing_packages() {
  local installed package
  installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "$@" 2>/dev/null | sed -n 's/^installed //p') || true
  for package in "$@"; do
    grep -qxF "$package" <<<"$installed" || echo "$package"
  done
}

install_packages() {
  local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300)
  logged "apt-get update" as_root "${apt[@]}" update
  logged "installing $*" as_root "${apt[@]}" install --no-install-recommends "$@"
}
