#!/usr/bin/env bash
# Rows per second of `optfilter filter`, CSV file to CSV file: two tables of two million rows, each command three times.
#
#     cargo build --release && bench/rows/run.sh
#
# Prints a table with the slowest and the fastest of the three. Needs awk and about a gigabyte in $TMPDIR.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
optfilter=${OPTFILTER:-$root/target/release/optfilter}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rows=2000000

# What a sensor gives: the measurements alone, with a few decimals.
"$optfilter" simulate "$root/bench/rows/track.toml" --steps $rows --seed 1 --out - |
    awk -F, 'NR == 1 { print $1 "," $5; next } { printf "%s,%.3f\n", $1, $5 }' > "$work/track.csv"
"$optfilter" simulate lorenz63 --steps $rows --seed 1 --out - |
    awk -F, 'NR == 1 { print $5 "," $6 "," $7; next } { printf "%.4f,%.4f,%.4f\n", $5, $6, $7 }' > "$work/lorenz.csv"

echo "| model | filter | million rows/s |"
echo "|---|---|---|"
for model in track lorenz; do
    file=$root/bench/rows/track.toml name="3 states, 1 observation"
    if [ $model = lorenz ]; then file=lorenz63 name="Lorenz, 3 states and 3 observations"; fi
    for flags in "--method ekf" "--optimizer gd --steps 3 --lr 0.05" "--optimizer gd --steps 3 --lr 0.05 --no-std"; do
        rates=$(for _ in 1 2 3; do
            rm -f "$work/out.csv" # cutting off an old file takes as long as filtering
            begin=$(date +%s.%N)
            # shellcheck disable=SC2086 # flags are words
            "$optfilter" filter "$file" "$work/$model.csv" $flags --quiet --out "$work/out.csv"
            echo "$(date +%s.%N) $begin" | awk "{ printf \"%.2f\\n\", $rows / (\$1 - \$2) / 1e6 }"
        done | sort -n)
        echo "| $name | \`$flags\` | $(echo "$rates" | head -1) to $(echo "$rates" | tail -1) |"
    done
done
