#!/usr/bin/env bash
# check_server.sh PROGRAM MODEL PROMPT: prints what examples/serve answers to a prompt over HTTP.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkfifo "$folder/input"
"$1" "$2" < "$folder/input" > "$folder/output" &
exec 4> "$folder/input"  # the server's standard input ends when this is closed
until [ -s "$folder/output" ]; do
  kill -0 $! || exit 1
  sleep 0.05
done
port=$(sed 's/.*://' "$folder/output")
body="{\"messages\": [{\"role\": \"user\", \"content\": \"$3\"}]}"
exec 5<> "/dev/tcp/127.0.0.1/$port"
printf 'POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s' \
  "${#body}" "$body" >&5
cat <&5
exec 4>&-
wait $!
