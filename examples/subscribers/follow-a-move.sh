#!/bin/sh
# Tells the last engine move by its causes: pod bound -> wants -> processes started -> socket answered, with times.
# Needs the NATS CLI (`nats`) and awk. NATS_URL names the server. Waits up to SECONDS (60) for the cache to answer:
#   sh follow-a-move.sh [SECONDS]
set -eu
deadline=$(($(date +%s) + ${1:-60}))

# All that both streams hold. --wait ends the command where a stream holds nothing.
read_stream() {
    nats sub --stream "$1" --all --terminate-at-end --wait 2s "$2" 2>/dev/null
}

# Blocks of header lines, an empty line, and the body. Prints the chain of the newest engine binding once it is complete.
tell='
function field(name) { return match($0, "\"" name "\":\"[^\"]*\"") ? substr($0, RSTART + length(name) + 4, RLENGTH - length(name) - 5) : "" }
function join(a, b, c, d, e, line) { line = a " " b " " c " " d " " e; gsub(/ +/, " ", line); sub(/ $/, "", line); return line }
function ms(time, part) { split(substr(time, 12), part, /[:Z]/); return ((part[1] * 60 + part[2]) * 60 + part[3]) * 1000 }
function leads_to_root(id, steps) { for (; steps < 20 && id != ""; steps++) { if (id == root) return 1; id = cause[id] } return 0 }
/^ce-id: /         { id = $2 }
/^ce-type: /       { type = $2 }
/^ce-time: /       { time = $2 }
/^ce-source: /     { split($2, who, "/") }
/^kvberth-cause: / { because = $2 }
/^[{]/ {
    kind[id] = type; at[id] = time; cause[id] = because; source[id] = who[3]
    name = field("pod_name"); if (name == "") name = field("name"); if (name == "") name = field("cache"); if (name == "") name = field("kvcache")
    text[id] = join(name, field("node") field("to"), field("state"), field("incarnation"), /"ready":true/ ? "answering" : "")
    pod = field("uid")
    if (type == "kvberth.pod.scheduled.v1" && /"role":"engine"/ && !/"deleting":true/ && (!(pod in bound) || time < bound[pod])) {
        binding[pod] = id; bound[pod] = time # what is said of it again, at its gate for one, is no binding
    }
    because = ""
}
END {
    for (pod in bound) if (bound[pod] > newest) { root = binding[pod]; newest = bound[pod] }
    for (id in kind) if (leads_to_root(id, 0) && kind[id] == "kvberth.socket.ready.v1") complete = 1
    if (!complete) exit 1
    for (id in kind) if (leads_to_root(id, 0)) {
        after = ms(at[id]) - ms(newest); if (after < -43200000) after += 86400000
        printf "%8.1f ms  %-11s %-26s %s\n", after, source[id], kind[id], text[id]
    }
}'

until chain=$({ read_stream KVBERTH_EVENTS 'kvberth.evt.v1.>'; read_stream KVBERTH_WANTS 'kvberth.want.v1.>'; } | awk "$tell"); do
    if [ "$(date +%s)" -ge "$deadline" ]; then
        echo "no engine was bound whose cache then answered" >&2
        exit 1
    fi
    sleep 0.2
done
echo "$chain" | sort -n
