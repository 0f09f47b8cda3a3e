# What the environment's configuration of other trainers (blocks environment, dataset, seeding, swarm, spawn_reward, llm, runtime)
# comes to here: lines "set KEY=VALUE", "note TEXT" for what has no effect, "stop TEXT" for what cannot be.
def block(k): (.[k] // .environment[k]? // {});
{n_users: "environment.n_users", alias_density: "environment.alias_density", noise_level: "environment.noise_level",
 red_herring_rate: "environment.red_herring_rate", seed: "seed"} as $keys |
["dataset", "swarm", "spawn_reward", "seeding", "llm", "runtime"] as $blocks |
{swarm: "agents are those of swarm_v2", spawn_reward: "the bonus for agents is at most 0.05, and counts what ran",
 llm: "the models that train are the only ones", runtime: "there is no dashboard"} as $idle |
((.environment // {}) | to_entries[] | select(.key as $k | $blocks | index([$k]) | not) |
	if $keys[.key] then "set \($keys[.key])=\(.value | tojson)" else "note environment.\(.key) has no effect" end),
(if (block("dataset").mode // "canonical") == "canonical" then empty else "stop dataset.mode: \(block("dataset").mode): there is no generator for its questions" end),
(if block("seeding") | [(.seeded_edges, .seeded_nodes, .seeded_questions) // []] | add == [] then empty else "set environment.seed_file=\($path)" end),
(. as $all | $idle | to_entries[] | select(.key as $k | $all | block($k) != {}) | "note \(.key) has no effect: \(.value)")
