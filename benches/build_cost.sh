#!/usr/bin/env bash
# What the types cost at build time: this crate, and a user's crate with layers of 20 widths
# (benches/user20). Usage: benches/build_cost.sh [ROUNDS], 3 by default. Prints the least time by the
# clock and the least processor time (all threads, the system's share too), which other work on the
# machine disturbs less; in seconds.
set -euo pipefail
cd "$(dirname "$0")/.."

rounds=${1:-3}
export CARGO_INCREMENTAL=0
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/target}/build-cost"

TIMEFORMAT='%R %U %S'

# cost NAME PREPARE COMMAND…: prints one line; PREPARE runs before each round, off the clock.
cost() {
    local name=$1 prepare=$2 times=''
    shift 2
    for ((round = 0; round < rounds; round++)); do
        $prepare
        times+=$({ time "$@" >/dev/null 2>&1; } 2>&1)$'\n' || {
            printf 'failed: %s\n' "$*" >&2
            return 1
        }
    done
    awk -v name="$name" '
        NF == 3 && (clock == "" || $1 < clock) { clock = $1 }
        NF == 3 && (cpu == "" || $2 + $3 < cpu) { cpu = $2 + $3 }
        END { printf "| %s | %.2f | %.2f |\n", name, clock, cpu }' <<<"$times"
}

from_nothing() { rm -rf "$CARGO_TARGET_DIR"; }
touch_crate() { touch src/lib.rs; }
touch_user() { touch benches/user20/src/main.rs; }

user=(--manifest-path benches/user20/Cargo.toml)
cargo fetch --quiet
cargo fetch --quiet "${user[@]}"
printf '| clean, of %s rounds the best | clock | processor |\n|---|---|---|\n' "$rounds"
cost 'check, from nothing, dependencies too' from_nothing cargo check
cost 'check, this crate alone' touch_crate cargo check
cargo check --quiet "${user[@]}" 2>/dev/null
cost 'check, the user crate with 20 widths alone' touch_user cargo check "${user[@]}"
cargo build --quiet --release "${user[@]}" 2>/dev/null
cost 'release build, this crate alone' touch_crate cargo build --release
cost 'release build, the user crate with 20 widths alone' touch_user cargo build --release "${user[@]}"
