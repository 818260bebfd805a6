#!/usr/bin/env bash
# Makes the certificates that tests use; they hold for a hundred years and protect nothing.
set -euo pipefail
cd "$(dirname "$0")"
authority() {
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 36500 -subj "/CN=$1" \
    -keyout "$1-key.pem" -out "$1.pem" 2>/dev/null
}
leaf() { # authority, name, subject alternative names
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "/CN=$2" -keyout "$2-key.pem" -out "$2.csr" 2>/dev/null
  openssl x509 -req -in "$2.csr" -CA "$1.pem" -CAkey "$1-key.pem" -CAcreateserial -days 36500 \
    -extfile <(printf 'subjectAltName=%s' "$3") -out "$2.pem" 2>/dev/null
  rm "$2.csr"
}
authority ca
authority other-ca
leaf ca server DNS:localhost,IP:127.0.0.1
leaf ca renewed DNS:localhost,IP:127.0.0.1
leaf ca node DNS:node.test
leaf ca client DNS:client.test
leaf other-ca stranger DNS:localhost,IP:127.0.0.1
rm ./*.srl ca-key.pem other-ca-key.pem
