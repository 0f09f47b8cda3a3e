# A round as the summary has it.
$config[0] as $c |
($tasks | map(select(.source == "fallback")) | length) as $fallback |
{round: $round, dry_run: $c.dry_run, pipeline_mode: $c.pipeline_mode, phase_schedule: $c.phase_schedule,
 generator: $generator[0], answerer: $answerer[0], answerer_pre: $pre[0],
 generated_task_count: ($tasks | length), fallback_task_count: $fallback,
 fallback_share: ($fallback / ([$tasks | length, 1] | max)),
 valid_rate: (($reports | map(select(.posed)) | length) / ([$reports | length, 1] | max)),
 answerer_task_count: ($dataset | length), answerer_pre_task_count: $pre[0].train_rows,
 artifacts: {generator_dataset: "\($dir)/generator_dataset.jsonl", answerer_dataset: "\($dir)/answerer_dataset.jsonl",
	generated_tasks: "\($dir)/generated_tasks.jsonl",
	answerer_pre_dataset: (if $pre[0] then "\($dir)/answerer_pre_dataset.jsonl" else "" end),
	canonical_graph_candidates: "\($dir)/canonical_graph_candidates.jsonl", replay_traces: "\($dir)/replay_traces.jsonl",
	validation_reports: "\($dir)/validation_reports.jsonl"}}
