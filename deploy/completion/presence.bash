# shellcheck shell=bash
# Completion for presenced, presencectl and presence-sim, below the tables that the build puts on top.

_presence_words() { mapfile -t COMPREPLY < <(compgen -W "$1" -- "$2"); }

# The words that are no flags and no flags' values, before the one at the cursor.
_presence_given() {
  local i
  given=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    if [[ ${COMP_WORDS[i]} != --* ]]; then
      given+=("${COMP_WORDS[i]}")
    elif [[ " $_presence_switches " != *" ${COMP_WORDS[i]} "* ]]; then
      i=$((i + 1)) # its value
    fi
  done
}

_presence_control() {
  local given words='' command
  _presence_given
  if [[ $1 == -* ]]; then
    command=${given[0]:-}
    [ -n "${_presence_commands[$command]:-}" ] || command=${given[0]:-}_${given[1]:-}
    _presence_words "${_presence_commands[$command]:-} $_presence_options" "$1"
    return
  fi
  for command in "${!_presence_commands[@]}"; do
    if [ ${#given[@]} = 0 ]; then
      words+=" ${command%%_*}"
    elif [ ${#given[@]} = 1 ] && [[ $command == "${given[0]}"_* ]]; then
      words+=" ${command#*_}"
    fi
  done
  _presence_words "$words" "$1"
}

# bash calls it with the program, the word at the cursor and the one before.
_presence() {
  local choices
  COMPREPLY=()
  choices=$(_presence_choices "$3")
  if [[ " $_presence_paths " == *" $3 "* ]]; then
    mapfile -t COMPREPLY < <(compgen -f -- "$2")
  elif [ -n "$choices" ]; then
    _presence_words "$choices" "$2"
  elif [ "${1##*/}" = presencectl ]; then
    _presence_control "$2"
  elif [ "${1##*/}" = presence-sim ]; then
    _presence_words "$_presence_simulator replay" "$2"
  else
    _presence_words "$_presence_options" "$2"
  fi
}

complete -F _presence presenced presencectl presence-sim
