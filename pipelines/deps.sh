#!/bin/bash
# Install what spar needs and does not find (Debian, Ubuntu): through apt-get, with sudo when not root. Quiet and quick
# when nothing is missing.	pipelines/deps.sh [libtorch-is-there]
set -eu -o pipefail

packages=(gcc g++ make libjq-dev jq zstd libzstd-dev libpcre2-dev libutf8proc-dev bats mandoc git
	clang-format cppcheck shellcheck)
[ "${1:-}" ] || packages+=(libtorch-dev libopenblas0-openmp)

missing=()
for p in "${packages[@]}"; do
	[ "$(dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null)" = installed ] || missing+=("$p")
done
[ ${#missing[@]} -eq 0 ] && exit 0

echo "deps: installing ${missing[*]}" >&2
root=()
[ "$(id -u)" -eq 0 ] || root=(sudo)
"${root[@]}" apt-get update -q
"${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}"
