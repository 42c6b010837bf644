#compdef presenced presencectl presence-sim
# Completion for presenced, presencectl and presence-sim, below the tables that the build puts on top: those of presence.bash.

# The words that are no flags and no flags' values, before the one at the cursor.
_presence_given() {
  local i
  given=()
  for ((i = 2; i < CURRENT; i++)); do
    if [[ $words[i] != --* ]]; then
      given+=("$words[i]")
    elif [[ " $_presence_switches " != *" $words[i] "* ]]; then
      ((i++)) # its value
    fi
  done
}

_presence_control() {
  local -a given
  local name
  _presence_given
  if [[ $words[CURRENT] == -* ]]; then
    name=${given[1]-}
    [[ -n ${_presence_commands[$name]-} ]] || name=${given[1]-}_${given[2]-}
    compadd -- ${=_presence_commands[$name]-} ${=_presence_options}
    return
  fi
  for name in ${(k)_presence_commands}; do
    if ((${#given} == 0)); then
      compadd -- ${name%%_*}
    elif ((${#given} == 1)) && [[ $name == $given[1]_* ]]; then
      compadd -- ${name#*_}
    fi
  done
}

_presence() {
  local before=$words[CURRENT-1] choices
  choices=$(_presence_choices $before)
  if [[ " $_presence_paths " == *" $before "* ]]; then
    _files
  elif [[ -n $choices ]]; then
    compadd -- ${=choices}
  elif [[ $service == presencectl ]]; then
    _presence_control
  elif [[ $service == presence-sim ]]; then
    compadd -- ${=_presence_simulator} replay
  else
    compadd -- ${=_presence_options}
  fi
}

_presence
