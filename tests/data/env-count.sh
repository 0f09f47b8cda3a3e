#!/bin/bash
# An environment for tests: an episode of seed % 3 + 1 turns that pays 0.5 a turn. Its prompts tell seed and turn.
#	env-count.sh [MODE [SEED]]      what goes wrong, at the first step of an episode with that seed:
# die (exit 7), mute (no reply), twice (two lines for one request), junk (not JSON), refuse (an error reply)
# Or MODE talk: nothing; prompts are the whole conversation. Or one: it says that it holds one session.
mode=${1:-} bad=${2:-}
declare -A seed turn talk
sessions=$([ "$mode" = one ] && echo 1 || echo 4096)
reply() { # session, fields
	echo "{\"id\":null,\"op\":\"$op\",\"session\":\"$1\",\"error\":null,$2}"
}
show() { # session, reward
	local s=$1 done=false messages left=$((seed[$1] % 3 + 1 - turn[$1]))
	messages="{\"role\":\"user\",\"content\":\"seed ${seed[$s]} turn ${turn[$s]}\"}"
	[ "$mode" != talk ] || messages="${talk[$s]}$messages"
	talk[$s]=$messages
	messages="[$messages]"
	local info="\"seed\":\"${seed[$s]}\",\"difficulty\":\"d$((seed[$s] % 2))\",\"valid\":true"
	if [ $left = 0 ]; then
		done=true messages='[]'
		info+=",\"end\":\"counted\",\"success\":$([ $((seed[$s] % 2)) = 0 ] && echo true || echo false)"
	fi
	reply "$s" "\"observation\":{},\"messages\":$messages,\"reward\":$2,\"done\":$done,\"info\":{$info}"
}
while IFS= read -r line; do
	[[ $line =~ \"op\":\"([a-z]+)\" ]] && op=${BASH_REMATCH[1]}
	s=
	[[ $line =~ \"session\":\"([^\"]*)\" ]] && s=${BASH_REMATCH[1]}
	case $op in
	describe)
		echo '{"id":null,"op":"describe","session":null,"error":null,"protocol":1,"env":"count","version":"1","oracle":false,"policies":["talk"],"max_sessions":'"$sessions"',"difficulties":["d0","d1"],"defaults":{},"actions":{},"system":null}'
		;;
	reset)
		[[ $line =~ \"seed\":\"([0-9]+)\" ]] && seed[$s]=${BASH_REMATCH[1]}
		turn[$s]=0 talk[$s]=
		show "$s" 0
		;;
	step)
		[[ $line =~ \"text\":(\"([^\"\\]|\\.)*\") ]] &&
			talk[$s]+=",{\"role\":\"assistant\",\"content\":${BASH_REMATCH[1]}},"
		if [ "$bad" ] && [ "${seed[$s]}" = "$bad" ]; then
			case $mode in
			die) exit 7 ;;
			mute) continue ;;
			twice) show "$s" 0 ;;
			junk) echo 'thinking...' && continue ;;
			refuse)
				echo "{\"id\":null,\"op\":\"step\",\"session\":\"$s\",\"error\":{\"code\":\"internal\",\"message\":\"no more dice\"}}"
				continue
				;;
			esac
		fi
		turn[$s]=$((turn[$s] + 1))
		show "$s" 0.5
		;;
	oracle) reply "$s" '"action":{},"text":"hello"' ;;
	esac
done
