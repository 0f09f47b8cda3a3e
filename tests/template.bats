# Chat templates, a small one for each thing that real ones do. What was expected was also given by Jinja2 with transformers'
# settings.
load common

CHAT='{"messages":[{"role":"user","content":" Hi <b> "},{"role":"assistant","content":null,"tool_calls":[{"function":{"name":"f","arguments":{"x":[1,2.5,true,null],"y":"é\"\n"}}}]},{"role":"tool","content":"ok"}],"tools":[{"name":"a","items":[]}]}'

# is TEMPLATE WANTED: the template, as printf reads it, renders so.
is() {
	printf '%b' "$1" >"$SCRATCH/t.jinja"
	spar text render --template="$SCRATCH/t.jinja" --variables='{tools}' --json <<<"$CHAT" >"$SCRATCH/got"
	if [ "$(jq -r . "$SCRATCH/got")" != "$(printf '%b' "$2")" ]; then
		printf 'template: %s\ngot:      %s\nexpected: %s\n' "$1" "$(cat "$SCRATCH/got")" "$2"
		return 1
	fi
}

# stops TEMPLATE MESSAGE
stops() {
	printf '%b' "$1" >"$SCRATCH/t.jinja"
	run -3 --separate-stderr spar text render --template="$SCRATCH/t.jinja" --variables='{tools}' <<<"$CHAT"
	echo "$stderr"
	[[ $stderr == *"$2" ]]
}

@test "whitespace: trim_blocks, lstrip_blocks, signs, comments, raw" {
	is '  {% if true %}\n  x\n  {% endif %}\ny\n' '  x\ny'
	is 'a  {%- if true -%}  \n x {%- endif %}\n b' 'ax b'
	is 'a\n  {%+ if true %}\nb{% endif %}' 'a\n  b'
	is 'a\n  {{ 1 }}\nb' 'a\n  1\nb'
	is 'a {#- no\n -#} b' 'ab'
	is '{% raw %}\n{{ x }} {% if %}{% endraw %}\nb' '\n{{ x }} {% if %}b'
	is 'a\r\nb\r' 'a\nb'
}

@test "loops: loop, else, filters, unpacking, break and continue, scopes" {
	is '{% for m in messages %}{{ loop.index }}/{{ loop.length }}{{ loop.first }}{{ loop.revindex0 }} {% endfor %}' '1/3True2 2/3False1 3/3False0 '
	is '{% for m in messages if m.role != "tool" %}{{ m.role }}{{ "," if not loop.last }}{% else %}none{% endfor %}' 'user,assistant'
	is '{% for x in [] %}{% else %}none{% endfor %}' 'none'
	is '{% for k, v in {"a": 1, "b": 2}.items() %}{{ k }}{{ v }}{% endfor %}' 'a1b2'
	is '{% for (a, (b, c)) in [(1, (2, 3))] %}{{ a + b + c }}{% endfor %}' '6'
	is '{% for i in range(9) %}{% if i == 1 %}{% continue %}{% elif i > 3 %}{% break %}{% endif %}{{ i }}{% endfor %}' '023'
	is '{% for m in messages %}{{ (loop.previtem | default({})).role }}<{{ (loop.nextitem | default({})).role }} {% endfor %}' '<assistant user<tool assistant< '
	is '{% set x = 1 %}{% for i in [1] %}{% set x = 2 %}{% endfor %}{{ x }}{% if true %}{% set x = 3 %}{% endif %}{{ x }}' '13'
	is '{% set ns = namespace(n=0) %}{% for i in range(3) %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}' '3'
	is '{% for c in "aé" %}[{{ c }}]{% endfor %}' '[a][é]'
	stops '{% for a, b in [(1, 2, 3)] %}{% endfor %}' 'template:1: a value does not come apart into as many names'
	stops '{% for a in 3 %}{% endfor %}' 'template:1: this cannot be looped over'
	stops '{% break %}' 'template:1: this stands in no loop'
}

@test "macros, call, filter, with, generation, set of blocks" {
	is '{% macro f(a, b="B", c=a) %}<{{ a }}{{ b }}{{ c }}{{ varargs }}{{ kwargs }}>{% endmacro %}{{ f(1) }}{{ f(1, 2, 3, 4, d=5) }}' "<1B1(){}><123(4,){'d': 5}>"
	is '{% macro f(x) %}[{{ caller(x) }}]{% endmacro %}{% call(y) f(7) %}y={{ y }}{% endcall %}' '[y=7]'
	is '{% macro f() %}{{ x }}{% endmacro %}{% set x = 2 %}{{ f() }}' '2'
	is '{% filter upper | trim %} ab {% endfilter %}' 'AB'
	is '{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{{ a is defined }}' '3False'
	is '{% set x | trim | upper %} a {% endset %}{{ x }}' 'A'
	is '{% generation %}{% set x = 1 %}a{% endgeneration %}{{ x is defined }}' 'aFalse'
	is '{% set a, b = 1, "x" %}{{ b * 3 ~ a }}' 'xxx1'
	stops '{% macro f() %}{{ f() }}{% endmacro %}\n{{ f() }}' 'template:1: calls are nested too deeply'
}

@test "values as Python prints them, and as JSON" {
	is '{{ [1, 2.0, "a", none, true, (1,), {"k": "it\x27s"}] }}' "[1, 2.0, 'a', None, True, (1,), {'k': \"it's\"}]"
	is '{{ 7 / 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 2 ** 3 }} {{ 1e3 }} {{ 0x1F + 0b11 + 1_000 }}' '3.5 3 -4 2 8 1000.0 1034'
	is '{{ messages[1].tool_calls[0].function.arguments | tojson }}' '{"x": [1, 2.5, true, null], "y": "é\\"\\n"}'
	is '{{ {"b": 1, "a": []} | tojson(indent=2, sort_keys=true) }}' '{\n  "a": [],\n  "b": 1\n}'
	is '{{ "é😀" | tojson(ensure_ascii=true, separators=(",", ":")) }}' '"\\u00e9\\ud83d\\ude00"'
	is '{{ "\\x41\\u00e9\\t|\\d" }}' 'Aé\t|\\d'
	is '{{ messages[1].content }}{{ messages[1].content is none }}{{ messages[0].nothing }}{{ nothing is defined }}' 'NoneTrueFalse'
	is '{{ "a" "b" ~ 1 ~ none }}{{ 1 < 2 < 3 }}{{ 1 < 2 > 3 }}{{ not 1 in [1] }}{{ "x" not in "abc" }}' 'ab1NoneTrueFalseFalseTrue'
}

@test "subscripts, slices, attributes: methods before keys, keys before methods" {
	is '{{ "aéb"[1] }}{{ "aéb"[-1] }}{{ "aéb"[::-1] }}{{ [1,2,3][1:] }}{{ [1,2,3][:-1:2] }}{{ (1,2)[0] }}{{ [5].0 }}' 'ébbéa[2, 3][1]15'
	is '{{ tools[0].items is callable }}{{ tools[0]["items"] }}{{ {"a": 1}["items"] is callable }}{{ {"a": 1}.get("b", 2) }}' 'True[]True2'
	is '{{ [1].append is defined }}{{ "a".nothing is defined }}{{ none.x is defined }}' 'FalseFalseFalse'
	stops '{{ nothing.x }}' 'template:1: nothing is undefined'
	stops 'a\n{{ [1].append(2) }}' 'template:2: append is no function that is supported'
	stops '{{ "a" + 1 }}' 'template:1: an operator does not fit its operands'
}

@test "string methods" {
	is '{{ " a b ".strip() }}|{{ "xaxx".strip("x") }}|{{ "éaé".lstrip("é") }}|{{ "a,b,,c".split(",") }}|{{ " a  b ".split() }}|{{ "a,b,c".split(",", 1) }}|{{ "a,b,c".rsplit(",", 1) }}' "a b|a|aé|['a', 'b', '', 'c']|['a', 'b']|['a', 'b,c']|['a,b', 'c']"
	is '{{ "aXb".partition("X") }}{{ "a\\nb\\r\\nc".splitlines() }}{{ "ab".startswith(("x", "a")) }}{{ "ab".endswith("b") }}' "('a', 'X', 'b')['a', 'b', 'c']TrueTrue"
	is '{{ "éab".find("b") }}{{ "aa".replace("a", "b", 1) }}{{ "-".join(["a", "b"]) }}{{ "{} {x} {}".format(1, 3, x=2) }}{{ "%s=%d%%" % ("a", 3) }}' '2baa-b1 2 3a=3%'
	is '{{ "straße".upper() }}{{ "aB".title() }}{{ "aB".capitalize() }}{{ "7".zfill(3) }}{{ "ab".center(5, "*") }}{{ "a1".isalnum() }}{{ "".isdigit() }}{{ "abcab".count("ab") }}' 'STRASSEAbAb007**ab*TrueFalse2'
	is '{{ "prefix-x".removeprefix("prefix-") }}{{ "a.txt".removesuffix(".txt") }}' 'xa'
}

@test "filters" {
	is '{{ messages | map(attribute="role") | join(",") }} {{ messages | selectattr("role", "equalto", "tool") | list | length }} {{ messages | rejectattr("content") | map(attribute="role") | first }}' 'user,assistant,tool 1 assistant'
	is '{{ [3,1,2] | sort }}{{ ["b","A"] | sort }}{{ {"b":1,"a":2} | dictsort }}{{ [1,2,1] | unique | list }}{{ [1,2,3] | batch(2) | list }}{{ [3,1] | min }}{{ ["a","b"] | max }}{{ [1,2.5] | sum }}' "[1, 2, 3]['A', 'b'][('a', 2), ('b', 1)][1, 2][[1, 2], [3]]1b3.5"
	is '{{ "a\\nb\\n\\nc" | indent(2) }}|{{ "a" | indent(2, first=true) }}|{{ " a " | trim }}|{{ "abc" | reverse }}|{{ [1,2] | reverse | list }}|{{ "a b" | wordcount }}' 'a\n  b\n\n  c|  a|a|cba|[2, 1]|2'
	is '{{ nothing | default("d") }}{{ "" | default("e", true) }}{{ "7x" | int(3) }}{{ "2.5" | float }}{{ 2.567 | round(1) }}{{ -3 | abs }}{{ "<a>" | e }}{{ "x" | replace("x", "y") }}{{ "%s!" | format("a") }}' 'de32.52.63&lt;a&gt;ya!'
	is '{% for g, l in [{"k":1,"v":2},{"k":0,"v":3},{"k":1,"v":4}] | groupby("k") %}{{ g }}:{{ l | map(attribute="v") | list }}{% endfor %}' '0:[3]1:[2, 4]'
	is '{{ ("<b>" | safe) + "<i>" }}{{ ("<b>" | safe) ~ "<i>" }}' '<b>&lt;i&gt;<b><i>'
	is '{% set g = [1] | map("string") %}{{ "yes" if [] | select else "no" }}{{ g | list }}{{ g | list }}' "yes['1'][]"
	stops '{{ {"a": 1}.items() | tojson }}' 'template:1: tojson takes no generator or view; make a list of it'
	stops 'a\n{{ 1 | nothing }}' "template:2: this filter is not supported: 'nothing'"
	is '{% if false %}{{ 1 | nothing }}{% endif %}ok' 'ok'
	stops '{{ 1 is nothing }}' "template:1: this test is not supported: 'nothing'"
}

@test "tests" {
	is '{{ 1 is number }}{{ true is number }}{{ true is integer }}{{ 1.0 is float }}{{ "a" is string }}{{ [] is sequence }}{{ {} is mapping }}{{ {} is iterable }}{{ nothing is iterable }}' 'TrueTrueFalseTrueTrueTrueTrueTrueTrue'
	is '{{ 3 is odd }}{{ 4 is divisibleby 2 }}{{ 1 is in [1] }}{{ 1 is not none }}{{ 2 is eq 2 }}{{ 1 is lt 2 }}{{ "AB" is upper }}{{ namespace is callable }}{{ strftime_now is defined }}' 'TrueTrueTrueTrueTrueTrueTrueTrueTrue'
}

@test "what transformers gives every template: null tools and documents, reasoning by its names" {
	is '{{ documents is none }}{{ tools is none }}' 'TrueFalse'
	printf '%s' '{{ tools is none }}{{ messages[0].reasoning_content }}{{ messages[0].thinking }}' >"$SCRATCH/r.jinja"
	[ "$(spar text render --template="$SCRATCH/r.jinja" <<<'{"messages":[{"role":"a","reasoning":"r"}]}')" = Truerr ]
	[ "$(spar text render --template="$SCRATCH/r.jinja" <<<'{"messages":[{"role":"a","thinking":"t"}]}')" = Truett ]
}

@test "limits: steps, depth, text, nesting of values" {
	stops '{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}' 'too many steps or too much memory'
	stops '{{ "x" * 99999999 }}' 'a text is longer than 64 MiB'
	stops '{% set s = namespace(v=[]) %}{% for i in range(9999) %}{% set s.v = [s.v] %}{% endfor %}{{ s.v }}' 'too many steps or too much memory'
	stops '{% set s = namespace(v=[0]) %}{% for i in range(64) %}{% set s.v = [s.v, s.v] %}{% endfor %}{{ s.v }}' 'longer than 64 MiB'
	stops '{{ range(10 ** 9) }}' 'range is too long, or has no end'
	stops "$(printf '{{ %s1%s }}' "$(printf '(%.0s' {1..200})" "$(printf ')%.0s' {1..200})")" 'nested too deeply'
}
