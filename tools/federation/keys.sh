#!/bin/sh
# Certificates and keys of a deployment: sh keys.sh FOLDER SERVER_NAME N_CLIENTS
#
# FOLDER/ca.crt        to every client: it says who the server is
# FOLDER/ca.key        to nobody; keep it off the server
# FOLDER/server.*      to the server
# FOLDER/client-I      the key of client I, to that client alone; FOLDER/client-I.pub to the server
#
# In a real deployment each client makes its own key (the last line of the loop) and sends the
# .pub file only. The group secret is not made here: see docs/deployment.md.
set -eu
folder=$1 name=$2 clients=$3
umask 077
mkdir -p "$folder"
cd "$folder"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-384 -nodes -sha384 -days 3650 \
    -keyout ca.key -out ca.crt -subj "/CN=fedclust study" 2>/dev/null
openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-384 -nodes -sha384 \
    -keyout server.key -out server.csr -subj "/CN=$name" 2>/dev/null
printf 'subjectAltName=DNS:%s,DNS:localhost,IP:127.0.0.1\n' "$name" > server.ext
openssl x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 365 -sha384 \
    -extfile server.ext -out server.crt 2>/dev/null
rm -f server.csr server.ext
i=0
while [ "$i" -lt "$clients" ]; do
    ssh-keygen -q -t ecdsa -b 384 -N "" -C "client $i" -f "client-$i"
    i=$((i + 1))
done
