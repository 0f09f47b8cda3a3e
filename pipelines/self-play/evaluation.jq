# post_training_evaluation.json: the tasks of the trained generator, and a held-out suite of graphs never trained on.
def valid_rate: (map(select(.verdict.rung == "valid")) | length) / ([length, 1] | max);
def mean(f): if length == 0 then null else map(f) | add / length end;
def text: .turns[-1].completion;
def episode: {task_id: .group, task_type: .task.family, source: .task.source, question: .task.question,
	task_answer: .task.answer, raw_completion: text, reward, graph_f1: .verdict.graph_f1,
	success: (if .verdict.correct then 1 else 0 end), support_edge_count: (.task.supporting_edges | length),
	completion_length: (text | length)};
def figures: {episodes: length, task_success_rate: mean(if .verdict.correct then 1 else 0 end), avg_reward: mean(.reward),
	avg_graph_f1: mean(.verdict.graph_f1), avg_completion_length: mean(text | length)};
def rated(model): {model_path: model, episodes: map(episode), summary: figures};
def side(s; who): {success_rate: s.reward.models[who].success_rate, success_rate_ci: s.reward.models[who].success_rate_ci,
	avg_reward: s.reward.models[who].mean_return, avg_reward_ci: s.reward.models[who].mean_return_ci,
	avg_graph_f1: s.evidence.models[who].mean_return, avg_graph_f1_ci: s.evidence.models[who].mean_return_ci};
def delta(s): {tasks: s.reward.delta_vs_original.tasks,
	task_success_rate: s.reward.delta_vs_original.success_rate, success_rate_ci: s.reward.delta_vs_original.success_rate_ci,
	avg_reward: s.reward.delta_vs_original.mean_return, avg_reward_ci: s.reward.delta_vs_original.mean_return_ci,
	avg_graph_f1: s.evidence.delta_vs_original.mean_return, avg_graph_f1_ci: s.evidence.delta_vs_original.mean_return_ci};
def suite(s; path): {tasks_path: path, finetuned_answerer: side(s; "finetuned"), original_answerer: side(s; "original"),
	delta_vs_original: delta(s)};
{pipeline_mode: $config[0].pipeline_mode, skipped: false, generator_model: $generator,
 answerer_models: {finetuned_answerer: $answerer, original_answerer: $original},
 generated_tasks_path: "\($at)_generated_tasks.jsonl", validation_reports_path: "\($at)_validation_reports.jsonl",
 model_evaluations: {finetuned_answerer: ($finetuned | rated($answerer)), original_answerer: ($base | rated($original))},
 generated: suite($generated[0]; "\($at)_generated_tasks.jsonl"),
 held_out: suite($heldout[0]; "\($at)_heldout_tasks.jsonl"),
 summary: ({generated_task_count: ($tasks | length),
	fallback_task_count: ($tasks | map(select(.source == "fallback")) | length),
	generator_valid_rate: ($reports | valid_rate), original_generator_valid_rate: ($before | valid_rate),
	compared_models: ["finetuned_answerer", "original_answerer"],
	finetuned_answerer: ($finetuned | figures), original_answerer: ($base | figures),
	delta_vs_original: delta($generated[0]),
	top_generator_invalid_reasons: ([$reports[].verdict.reasons[]] | group_by(.) | map([.[0], length]) | sort_by(-.[1]) | .[:5])})}
