/* self_play_keys.c - the keys and their defaults, see self_play_keys.h */
#include "rl/self_play_keys.h"

/* As the table calls them. */
#define INT SPAR_PLAY_INT
#define NUM SPAR_PLAY_NUM
#define BOOL SPAR_PLAY_BOOL
#define STR SPAR_PLAY_STR
#define NAME SPAR_PLAY_NAME
#define LIST SPAR_PLAY_LIST

#define COUNT 1e9 /* no count is larger */
#define TASKS 1e4 /* of one purpose in a round: so many seeds it has (seed_of, pipelines/self-play/steps.sh) */
#define NOT_PYTHON "it steers machinery that is not here"

#define SWARM(block, agents, breadth) \
	{block ".shared_context", BOOL, 0, 0, "true", NULL, "the prompt always carries the context"}, \
	    {block ".max_agents", INT, 1, 64, agents, NULL, NULL}, \
	    {block ".max_breadth", INT, 1, 64, breadth, NULL, NULL}, \
	    {block ".max_depth", INT, 1, 64, "2", NULL, NULL}, \
	    {block ".planner_rounds", INT, 1, 64, "2", NULL, "workers run once"}, \
	{ \
		block ".tools_per_agent", INT, 1, 64, "2", NULL, "workers call no tools" \
	}

#define PHASE(block, rate, length, subdir) \
	{block ".model_name_or_path", NAME, 0, 0, "\"Qwen/Qwen2.5-0.5B-Instruct\"", NULL, NULL}, \
	    {block ".learning_rate", NUM, 0, 1, rate, NULL, NULL}, \
	    {block ".max_steps", INT, 1, COUNT, "64", NULL, NULL}, \
	    {block ".per_device_train_batch_size", INT, 1, COUNT, "2", NULL, NULL}, \
	    {block ".gradient_accumulation_steps", INT, 1, COUNT, "4", NULL, NULL}, \
	    {block ".num_generations", INT, 1, 4096, "4", NULL, NULL}, \
	    {block ".max_completion_length", INT, 1, COUNT, length, NULL, NULL}, \
	    {block ".temperature", NUM, 0, 1e6, "1.0", NULL, NULL}, {block ".top_p", NUM, 0, 1, "1.0", NULL, NULL}, \
	    {block ".repetition_penalty", NUM, 1, 1e6, "1.0", NULL, "it fights JSON, which must repeat names"}, \
	    {block ".beta", NUM, 0, 1e6, "0.01", NULL, NULL}, {block ".epsilon", NUM, 0, 1, "0.2", NULL, NULL}, \
	    {block ".num_iterations", INT, 1, 1000, "1", NULL, NULL}, \
	    {block ".loss_type", NAME, 0, 0, "\"dapo\"", " grpo bnpo dr_grpo dapo cispo sapo luspo vespo ", NULL}, \
	    {block ".scale_rewards", NAME, 0, 0, "\"none\"", " group batch none ", NULL}, \
	    {block ".logging_steps", INT, 1, COUNT, "10", NULL, "every step is logged"}, \
	    {block ".save_steps", INT, 1, COUNT, "50", NULL, NULL}, \
	    {block ".save_total_limit", INT, 1, COUNT, "2", NULL, NULL}, \
	    {block ".output_subdir", NAME, 0, 0, "\"" subdir "\"", NULL, NULL}, \
	    {block ".optim", STR, 0, 0, "\"adamw_torch_fused\"", NULL, "AdamW it is"}, \
	    {block ".bf16", BOOL, 0, 0, "true", NULL, NULL}, {block ".tf32", BOOL, 0, 0, "true", NULL, NOT_PYTHON}, \
	    {block ".gradient_checkpointing", BOOL, 0, 0, "false", NULL, NULL}, \
	    {block ".dataloader_num_workers", INT, 0, COUNT, "2", NULL, NOT_PYTHON}, \
	    {block ".dataloader_persistent_workers", BOOL, 0, 0, "true", NULL, NOT_PYTHON}, \
	    {block ".dataloader_prefetch_factor", INT, 1, COUNT, "2", NULL, NOT_PYTHON}, \
	    {block ".generation_batch_size", INT, 1, COUNT, "8", NULL, NULL}, \
	    {block ".max_prompt_length", INT, 32, COUNT, "1024", NULL, NULL}, \
	    {block ".use_vllm", BOOL, 0, 0, "false", NULL, NOT_PYTHON}, \
	{ \
		block ".vllm_mode", NAME, 0, 0, "\"colocate\"", " colocate server ", NOT_PYTHON \
	}

/* clang-format off */
const struct spar_play_key spar_play_keys[] = {
	{"rounds", INT, 1, 999, "3", NULL, NULL},
	{"output_dir", NAME, 0, 0, "\"artifacts/self_play\"", NULL, NULL},
	{"dry_run", BOOL, 0, 0, "true", NULL, NULL},
	{"wandb_enabled", BOOL, 0, 0, "false", NULL, "metrics are files: spar report shows them"},
	{"wandb_project", STR, 0, 0, "\"osint-self-play\"", NULL, NULL},
	{"wandb_entity", STR, 0, 0, "\"\"", NULL, NULL},
	{"wandb_run_name_prefix", STR, 0, 0, "\"self-play\"", NULL, NULL},
	{"canonical_graph_mode", NAME, 0, 0, "\"generate\"", " generate fixed ", NULL},
	{"pipeline_mode", NAME, 0, 0, "\"legacy\"", " legacy swarm_v2 ", NULL},
	{"model_topology", NAME, 0, 0, "\"dual\"", " dual shared ", NULL},
	{"phase_schedule", NAME, 0, 0, "\"generator_answerer\"",
	 " generator_answerer answerer_generator_answerer ", NULL},
	{"tuning_mode", NAME, 0, 0, "\"full\"", " full lora ", NULL},
	{"shared_model_name_or_path", NAME, 0, 0, "\"\"", NULL, NULL},
	{"seed_tasks_per_round", INT, 1, TASKS, "16", NULL, NULL},
	{"generated_tasks_per_round", INT, 1, TASKS, "24", NULL, NULL},
	{"generator_prompts_per_round", INT, 1, TASKS, "24", NULL, NULL},
	{"max_graph_context_nodes", INT, 1, COUNT, "100", NULL, NULL},
	{"max_graph_context_edges", INT, 1, COUNT, "100", NULL, NULL},
	{"max_support_edges", INT, 1, COUNT, "8", NULL, NULL},
	{"answerer_judge_max_new_tokens", INT, 1, COUNT, "48", NULL, NULL},
	{"generated_task_max_new_tokens", INT, 32, COUNT, "512", NULL, NULL},
	{"post_training_eval_questions", INT, 1, COUNT, "24", NULL, NULL},
	{"post_training_eval_answer_max_new_tokens", INT, 1, COUNT, "128", NULL, NULL},
	{"generator_reward_weights.validity", NUM, 0, 1e6, "0.45", NULL, NULL},
	{"generator_reward_weights.hardness", NUM, 0, 1e6, "0.20", NULL, NULL},
	{"generator_reward_weights.diversity", NUM, 0, 1e6, "0.15", NULL, NULL},
	{"generator_reward_weights.consistency", NUM, 0, 1e6, "0.20", NULL, NULL},
	{"lora.r", INT, 1, 65536, "16", NULL, NULL},
	{"lora.alpha", INT, 1, 65536, "32", NULL, NULL},
	{"lora.dropout", NUM, 0, 0.99, "0.05", NULL, NULL},
	{"lora.target_modules", LIST, 0, 0, "[\"q_proj\",\"k_proj\",\"v_proj\",\"o_proj\"]", NULL, NULL},
	{"lora.bias", NAME, 0, 0, "\"none\"", " none ", NULL},
	{"lora.task_type", NAME, 0, 0, "\"CAUSAL_LM\"", " CAUSAL_LM ", NULL},
	SWARM("swarm_v2.generator_swarm", "4", "3"),
	SWARM("swarm_v2.answerer_swarm", "3", "2"),
	{"swarm_v2.validation.max_support_edges", INT, 1, COUNT, "8", NULL, NULL},
	{"swarm_v2.validation.max_path_hops", INT, 1, 4, "4", NULL, NULL},
	{"swarm_v2.validation.max_context_nodes", INT, 1, COUNT, "14", NULL, NULL},
	{"swarm_v2.validation.max_context_edges", INT, 1, COUNT, "8", NULL, NULL},
	{"swarm_v2.validation.duplicate_similarity_threshold", NUM, 0, 1, "0.8", NULL, NULL},
	{"swarm_v2.shared_context.shared_by_default", BOOL, 0, 0, "true", NULL, "the prompt always carries the context"},
	{"swarm_v2.shared_context.max_nodes", INT, 1, COUNT, "14", NULL, NULL},
	{"swarm_v2.shared_context.max_edges", INT, 1, COUNT, "8", NULL, NULL},
	{"swarm_v2.shared_context.target_pressure", NUM, 0, 1, "0.85", NULL, NULL},
	PHASE("generator_phase", "5e-6", "384", "generator"),
	PHASE("answerer_phase", "3e-6", "192", "answerer"),
	/* spar's own */
	{"seed", INT, 0, 1000000000, "7", NULL, NULL},
	{"profile", NAME, 0, 0, "\"sound\"", " sound reference ", NULL},
	{"strict_asserts", BOOL, 0, 0, "false", NULL, NULL},
	{"max_fallback_share", NUM, 0, 1, "0.5", NULL, NULL},
	{"judge_samples", INT, 1, 4096, "4", NULL, NULL},
	{"environment.n_users", INT, 4, 512, "40", NULL, NULL},
	{"environment.alias_density", NUM, 0, 1, "0.35", NULL, NULL},
	{"environment.noise_level", NUM, 0, 1, "0.15", NULL, NULL},
	{"environment.red_herring_rate", NUM, 0, 1, "0.1", NULL, NULL},
	{"environment.seed_file", NAME, 0, 0, "\"\"", NULL, NULL},
	{"warm_start.episodes", INT, 0, COUNT, "0", NULL, NULL},
	{"warm_start.epochs", NUM, 0, 1e6, "1", NULL, NULL},
	{"warm_start.learning_rate", NUM, 0, 1, "1e-5", NULL, NULL},
	{"warm_start.batch_size", INT, 1, COUNT, "8", NULL, NULL},
	{"warm_start.n_users", INT, 0, 512, "0", NULL, NULL},
	{"warm_start.max_graph_context_edges", INT, 0, 64, "0", NULL, NULL},
	{"post_training_eval_heldout_questions", INT, 1, COUNT, "200", NULL, NULL},
	{"post_training_eval_samples", INT, 1, 4096, "1", NULL, NULL},
};
/* clang-format on */

const size_t spar_play_n_keys = sizeof spar_play_keys / sizeof *spar_play_keys;
