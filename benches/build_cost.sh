#!/usr/bin/env bash
# What the types cost at build time: this crate, a user's model of 12 layers (benches/user12), and a user's
# crate with layers of 20 widths (benches/user20). Usage: benches/build_cost.sh [ROUNDS], 3 by default. Prints
# the least time by the clock and the least processor time (all threads, the system's share too), which other
# work on the machine disturbs less, in seconds; and the budget of processor time, which it fails beyond.
set -euo pipefail
cd "$(dirname "$0")/.."

rounds=${1:-3}
export CARGO_INCREMENTAL=0
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/target}/build-cost"

TIMEFORMAT='%R %U %S'
over=0

# cost NAME BUDGET PREPARE COMMAND…: prints one line; PREPARE runs before each round, off the clock.
cost() {
    local name=$1 budget=$2 prepare=$3 times='' line
    shift 3
    for ((round = 0; round < rounds; round++)); do
        $prepare
        times+=$({ time "$@" >/dev/null 2>&1; } 2>&1)$'\n' || {
            printf 'failed: %s\n' "$*" >&2
            return 1
        }
    done
    line=$(awk -v name="$name" -v budget="$budget" '
        NF == 3 && (clock == "" || $1 < clock) { clock = $1 }
        NF == 3 && (cpu == "" || $2 + $3 < cpu) { cpu = $2 + $3 }
        END {
            printf "| %s | %.2f | %.2f | %s |%s", name, clock, cpu, budget, (cpu > budget ? " OVER" : "")
        }' <<<"$times")
    printf '%s\n' "$line"
    [[ $line != *OVER ]] || over=1
}

# size NAME BUDGET FILE: the bytes of a program without its debug information.
size() {
    local stripped
    stripped=$(mktemp)
    strip -o "$stripped" "$3"
    printf '| %s | %s bytes | | %s |\n' "$1" "$(wc -c <"$stripped")" "$2"
    [ "$(wc -c <"$stripped")" -le "$2" ] || over=1
    rm -f "$stripped"
}

from_nothing() { rm -rf "$CARGO_TARGET_DIR"; }
touch_crate() { touch src/lib.rs; }
touch_layers() { touch "$layers/src/main.rs"; }
touch_widths() { touch benches/user20/src/main.rs; }

# Another number in the model's first line of numbers: an edit that changes what is compiled.
edit_layers() {
    edits=$((${edits:-0} + 1))
    sed -i "s/^const LAYERS: usize = .*/const LAYERS: usize = $((12 + edits));/" "$layers/src/main.rs"
}

# The user's model where it may be edited.
layers=$(mktemp -d)
trap 'rm -rf "$layers"' EXIT
cp -r benches/user12/. "$layers"
rm -rf "$layers/target"
sed -i "s|path = \"../..\"|path = \"$PWD\"|" "$layers/Cargo.toml"

twelve=(--manifest-path "$layers/Cargo.toml")
twenty=(--manifest-path benches/user20/Cargo.toml)
cargo fetch --quiet
cargo fetch --quiet "${twelve[@]}"
cargo fetch --quiet "${twenty[@]}"
printf '| of %s rounds the best | clock | processor | budget |\n|---|---|---|---|\n' "$rounds"
cost 'check, from nothing, dependencies too' 60 from_nothing cargo check
cost 'check, this crate alone' 8 touch_crate cargo check
cargo check --quiet "${twelve[@]}" 2>/dev/null
cost 'check, the model of 12 layers alone' 2 touch_layers cargo check "${twelve[@]}"
CARGO_INCREMENTAL=1 cost 'check, the same, incremental, after an edit' 2 edit_layers cargo check "${twelve[@]}"
cargo check --quiet "${twenty[@]}" 2>/dev/null
cost 'check, 20 widths alone' 2 touch_widths cargo check "${twenty[@]}"
cargo build --quiet --release "${twelve[@]}" 2>/dev/null
cost 'release build, this crate alone' 110 touch_crate cargo build --release
cost 'release build, the model of 12 layers alone' 20 touch_layers cargo build --release "${twelve[@]}"
size 'its program, stripped' 3000000 "$CARGO_TARGET_DIR/release/user12"
cargo build --quiet --release "${twenty[@]}" 2>/dev/null
cost 'release build, 20 widths alone' 40 touch_widths cargo build --release "${twenty[@]}"
size 'its program, stripped' 3000000 "$CARGO_TARGET_DIR/release/user20"
exit "$over"
