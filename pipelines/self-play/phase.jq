# What a phase came to, from its metric records.
def most(f): map(f | select(. != null)) | max;
def least(f): map(f | select(. != null)) | min;
if $dry == "" then
{role: $role, model_path: ($dir + "/final_model"), final_model_path: ($dir + "/final_model"), phase_output_dir: $dir,
 start_model: $start, reference_model: $reference, global_step: (last.step // 0), training_loss: (map(.loss) | add / length),
 checkpoint_dirs: ($checkpoints | split(" ") | map(select(. != ""))),
 diagnostics: {reward_min: least(.reward), reward_max: most(.reward), reward_std_max: most(.reward_std), kl_max: most(.kl),
	loss_abs_max: most(.loss | fabs), grad_norm_max: most(.grad_norm), entropy_min: least(.entropy), entropy_max: most(.entropy),
	weights_changed: most(.weights_changed)}}
else {role: $role, model_path: $start, global_step: 0, training_loss: 0, skipped: true} end +
{train_rows: ($rows | tonumber), tuning_mode: $tuning, is_full_finetune: ($tuning == "full")} +
if $role == "generator" then {frozen_answerer_model: $judge} else {} end
