# shellcheck shell=bash
# What every script of this folder shares: where things are, how to speak, how to stop. Sourced, never run.

root=$(cd "${BASH_SOURCE[0]%/*}/../../.." && pwd -P)
# Everything that set-up downloads or builds lies below this one folder; several checkouts may share it.
deps=${PRESENCE_DEPS_DIR:-$root/.local/deps}
setup_log=$deps/setup.log

die() {
  printf '\n%s: %s\n' "${program:-set-up}" "$*" >&2
  exit 3
}

# Runs a command with its output in the log; on failure stops with one line and the end of the log.
logged() {
  local what=$1
  shift
  if ! "$@" >>"$setup_log" 2>&1 </dev/null; then
    printf '\n' >&2
    tail -n 8 "$setup_log" | cut -c 1-200 >&2
    die "$what failed; all of its output is in $setup_log"
  fi
}

as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@" # asks for a password on the terminal where it must
  else
    die "Debian packages are missing and neither root nor sudo is there to install them: $*"
  fi
}

version_at_least() { dpkg --compare-versions "$1" ge "$2"; }
