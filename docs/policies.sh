#!/usr/bin/env bash
# Walks through what can be decided about runs, on a node of its own on loopback: pausing, overlap, misfires, retries and redriving, deadlines,
# cancelling, backfills, quotas, ends. Takes half a minute, leaves nothing behind, and ends with an error as soon as something is not as it says.
#
#   make .venv/.installed && PATH="$PWD/.venv/bin:$PATH" docs/policies.sh
set -euo pipefail

port=${1:-8109}
home=$(mktemp -d)
export HORAE_URL=http://127.0.0.1:$port
horae dev --data-dir "$home" --http "127.0.0.1:$port" --allow-commands >"$home/log" 2>&1 &
node=$!
trap 'kill $node 2>/dev/null; wait $node 2>/dev/null || true; rm -rf "$home"' EXIT

say() { printf '\n--- %s\n' "$*"; }

# within SECONDS WHAT COMMAND...: repeat the command until its output has WHAT in it, and show that line
within() {
    local limit=$((SECONDS + $1)) what=$2
    shift 2
    until "$@" 2>/dev/null | grep -m1 -E "$what"; do
        [ $SECONDS -lt $limit ] || { echo "never: $what, of: $*" >&2; "$@" >&2; exit 1; }
        sleep 0.2
    done
}

runs() { horae run list "$1" -o table; }
latest() { horae run list "$1" -o json | python3 -c 'import json, sys; print(json.load(sys.stdin)["items"][0]["run_id"])'; }

within 20 ready curl -s "$HORAE_URL/readyz"

say "pause: what is not started is withdrawn; resume: one record for all that was due meanwhile"
horae job create --name beat --schedule '@every 1s' --noop -o json >/dev/null
within 10 succeeded runs beat
horae job pause beat --reason 'the warehouse is being moved' -o table
horae job show beat -o table | grep -i paused
horae job resume beat -o table
within 10 'skipped.*paused' runs beat
horae job delete beat

say "overlap: skip names the run that it was skipped for"
horae job create --name careful --schedule '@every 1d' --command 'sleep 30' --overlap-policy skip -o json >/dev/null
horae job run careful -o json >/dev/null
within 10 running runs careful
horae job run careful -o json >/dev/null
within 5 'skipped.*overlap' runs careful

say "overlap: queue_one keeps one, and lets it go when the one before has ended"
horae job run careful --overlap-policy queue_one -o json >/dev/null
within 5 queued runs careful

say "cancel: the attempt is killed, nothing follows; the one that waited begins"
horae run list careful -o json | python3 -c 'import json, sys
print(*(run["run_id"] for run in json.load(sys.stdin)["items"] if run["state"] == "running"))' | xargs horae run cancel -o table
within 10 running runs careful

say "overlap: replace ends what is active"
horae job run careful --overlap-policy replace -o json >/dev/null
within 10 'cancelled.*replaced' runs careful
horae job delete careful

say "retries: attempts used up is dead; dead runs are listed and redriven"
horae job create --name broken --schedule '@every 1d' --command 'sh -c "exit 3"' --max-retries 0 -o json >/dev/null
horae job run broken -o json >/dev/null
within 10 dead runs broken
horae run list --state dead --team default -o table | grep dead
horae run redrive --job broken -o table
within 10 dead runs broken
horae run show "$(latest broken)" -o table | grep -i attempt

say "deadlines: an attempt has its timeout, a run its own"
horae job create --name slow --schedule '@every 1d' --command 'sleep 30' --run-timeout 1 -o json >/dev/null
horae job run slow -o json >/dev/null
within 15 'dead.*run_timeout' runs slow

say "misfire: what was missed is judged, here after a pause, by run_once: the latest runs, the others are one record"
horae job create --name report --schedule '@every 1s' --noop --misfire-policy run_once -o json >/dev/null
within 10 succeeded runs report
horae job pause report -o json >/dev/null
sleep 2
horae job resume report --from paused_at -o table
within 10 succeeded runs report
horae job delete report

say "ends: after so many ticks there are no more"
horae job create --name thrice --schedule '@every 1s' --noop --max-runs 3 -o json >/dev/null
within 15 '3 succeeded|succeeded.*3' horae job show thrice -o table

say "backfill: a range that is past; first how much that is"
horae job create --name daily --schedule '@daily' --tz UTC --noop -o json >/dev/null
horae job backfill daily --from 2026-11-01T00:00:00Z --to 2026-11-08T00:00:00Z --dry-run -o table
horae job backfill daily --from 2026-11-01T00:00:00Z --to 2026-11-08T00:00:00Z -o table
within 15 'succeeded.*backfill' runs daily

say "quotas: a team has so many runs under way, and the others wait, with the reason"
horae team set billing --max-concurrent 1 -o table
horae job create --name invoice --team billing --schedule '@every 1d' --command 'sleep 30' -o json >/dev/null
horae job run invoice --team billing -o json >/dev/null
horae job run invoice --team billing -o json >/dev/null
within 10 'queued.*waits' runs invoice
within 10 running runs invoice

say "all of it as it should be"
