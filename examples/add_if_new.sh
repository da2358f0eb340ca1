#!/usr/bin/env bash
# Adds what is new, one document at a time, from a shell: through one process that answers a line with a line.
#
#     printf '9f3a5c0012ab44de 17\n9f3a5c0012ab44df 18\n' | examples/add_if_new.sh web.fpstore
#
# Reads a fingerprint and an id from each line, and prints the ids of those that were new.
set -euo pipefail
store=$1

coproc FPSTORE { exec "${FPSTORE_COMMAND:-fpstore}" add "$store" - --if-new --unbuffered; }
# bash forgets them when the process ends, so they are kept under numbers of their own.
exec {answers}<&"${FPSTORE[0]}" {questions}>&"${FPSTORE[1]}"
eval "exec ${FPSTORE[0]}<&- ${FPSTORE[1]}>&-"

while read -r fingerprint id; do
    echo "{\"fingerprint\": \"$fingerprint\", \"id\": \"$id\"}" >&"$questions"
    read -r answer <&"$answers"
    case $answer in
    *'"error": '*) echo "$fingerprint $id: $answer" >&2 ;;
    *'"stored": true'*) echo "$id" ;;
    esac
done

exec {questions}>&-
wait "$FPSTORE_PID"
