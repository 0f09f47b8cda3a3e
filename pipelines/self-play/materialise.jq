# The tasks of a round: of each prompt the first valid proposal, none that asks what another does; the oracle's ($spare) fill up
# what is missing of $n, for prompts that gave nothing first.
def first_of_each: reduce .[] as $r ({}; if .[$r.group] then . else .[$r.group] = $r.posed end) | [.[]];
def asks: [.question, .graph];
def distinct: reduce .[] as $t ({asked: {}, tasks: []};
	($t | asks | tojson) as $key | if .asked[$key] then . else .asked[$key] = true | .tasks += [$t] end) | .tasks;
[$reports[] | select(.posed)] as $valid |
($valid | map({key: .group, value: true}) | from_entries) as $served |
($spare | map(select(.posed)) | sort_by($served[.group] // false) | map(.posed + {source: "fallback"})) as $more |
if $dry == "" then ($valid | first_of_each) + $more else $more end | distinct | .[:$n][]
