
# bash cuts `-D dur=60` into three words. They are one: together again they do not look like scripts.
_netesto() {
  local -a joined=()
  local index at=$COMP_CWORD
  for ((index = 0; index < ${#COMP_WORDS[@]}; index++)); do
    joined+=("${COMP_WORDS[index]}")
    if ((index > 0 && index + 2 < COMP_CWORD)) &&
      [[ ${COMP_WORDS[index - 1]} == -D && ${COMP_WORDS[index + 1]} == = ]]; then
      joined[-1]+="=${COMP_WORDS[index + 2]}"
      ((index += 2, at -= 2))
    fi
  done
  COMP_WORDS=("${joined[@]}")
  COMP_CWORD=$at
  _shtab_netesto
}

complete -o filenames -F _netesto netesto
