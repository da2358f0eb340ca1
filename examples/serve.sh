#!/usr/bin/env bash
# Asks a store over HTTP with curl, by its Unix socket, which `fpstore serve web.fpstore` listens at.
#
#     examples/serve.sh web.fpstore.sock 9f3a5c0012ab44de
set -euo pipefail
socket=$1 fingerprint=$2

curl --silent --show-error --fail-with-body --unix-socket "$socket" --header 'Content-Type: application/json' \
    --data "{\"fingerprints\": [\"$fingerprint\"]}" 'http://localhost/probe?max_distance=3'
echo
