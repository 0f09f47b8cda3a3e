#!/bin/bash
# Make env-cern.replies.jsonl anew, from the repository root after a build; review the difference.
#	tests/golden/env-cern.sh [BUILD]
set -eu
build=${1:-build}
cd "$(dirname "$0")/../.."
"$build/bin/spar" env-cern --oracle <tests/golden/env-cern.requests.jsonl >tests/golden/env-cern.replies.jsonl
