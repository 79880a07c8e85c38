#!/bin/sh
# One SuperLink and N SuperNodes on this machine, with TLS and node authentication:
#
#     sh start.sh FOLDER N_CLIENTS PORT
#
# FOLDER is that of keys.sh and holds room-I/room.toml for each client. What runs on which machine
# in a deployment is marked below. Everything stops with this script (Ctrl-C, or TERM).
set -eu
folder=$(cd "$1" && pwd) clients=$2 port=$3
python=${PYTHON:-python}
bin=$(dirname "$(command -v "$python")")
PATH=$bin:$PATH
export PATH FLWR_HOME="$folder/flwr"
umask 077  # logs and the link.db are for this account alone
export FLWR_TELEMETRY_ENABLED=0 FLWR_DISABLE_UPDATE_CHECK=1
export FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION=1
export FLWR_SUPEREXEC_TASK_POLL_INTERVAL=${FLWR_SUPEREXEC_TASK_POLL_INTERVAL:-0.1}
mkdir -p "$FLWR_HOME" "$folder/log"
pids=
stop() {
    trap - EXIT INT TERM
    for pid in $pids; do kill "$pid" 2>/dev/null || true; done
    wait
}
trap stop EXIT
trap 'exit 0' INT TERM

# --- on the server ---
printf '[superlink]\ndefault = "study"\n\n[superlink.study]\naddress = "127.0.0.1:%s"\n' "$port" \
    > "$FLWR_HOME/config.toml"
printf 'root-certificates = "%s/ca.crt"\n' "$folder" >> "$FLWR_HOME/config.toml"
flower-superlink --host 127.0.0.1 --port "$port" --enable-supernode-auth \
    --ssl-ca-certfile "$folder/ca.crt" --ssl-certfile "$folder/server.crt" \
    --ssl-keyfile "$folder/server.key" --database "$folder/link.db" \
    --disable-runtime-dependency-installation > "$folder/log/link.txt" 2>&1 &
pids="$pids $!"

i=0
while [ "$i" -lt "$clients" ]; do
    until flwr supernode register "$folder/client-$i.pub" study \
        > "$folder/log/register-$i.txt" 2>&1 ||
        grep -q "already" "$folder/log/register-$i.txt"; do
        sleep 0.5
    done
    i=$((i + 1))
done

# --- on each client: its room, and the node that carries messages to it, which runs the program that
# the server sends: in a deployment under another account than the room (see group in room.toml) ---
i=0
while [ "$i" -lt "$clients" ]; do
    "$python" -m fedclust_helpers.flower room "$folder/room-$i/room.toml" \
        > "$folder/log/room-$i.txt" 2>&1 &
    pids="$pids $!"
    flower-supernode --root-certificates "$folder/ca.crt" --superlink "127.0.0.1:$port" \
        --auth-supernode-private-key "$folder/client-$i" --port "$((port + 1 + i))" \
        --node-config "room=\"$folder/room-$i/room.sock\"" > "$folder/log/node-$i.txt" 2>&1 &
    pids="$pids $!"
    i=$((i + 1))
done
echo "started: $pids"
wait
