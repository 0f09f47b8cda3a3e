/* spar self-play - check the configuration of a self-play run and say what it comes to. */
#include "base/opt.h"
#include "record/print.h"
#include "rl/self_play.h"
#include <stdlib.h>
#include <string.h>

#define TOOL "self-play"

static const struct spar_usage usage = {
    TOOL, "[options] CONFIG",
    "Check the configuration of an adversarial self-play run (make self-play) and print it whole, with every default "
    "filled in. Unknown keys, wrong types and values that contradict each other are errors."};

static void warn(void *ctx, const char *text)
{
	spar_warn(TOOL, "%s: %s", (const char *)ctx, text);
}

/* The configuration as one would write it, or as a shell reads it. `config` is consumed. */
static void write_out(jv config, bool variables, struct spar_str *out)
{
	if (variables) {
		spar_self_play_variables(config, out);
		out->data[--out->len] = 0; /* the writer ends the last line */
		jv_free(config);
		return;
	}
	jv text = jv_dump_string(config, JV_PRINT_INDENT_FLAGS(2));
	spar_str_adds(out, jv_string_value(text));
	jv_free(text);
}

int main(int argc, char **argv)
{
	bool variables = false, quiet = false, dry = false, wet = false;
	struct spar_opt_list sets = {0};
	struct spar_str out = SPAR_STR_INIT;
	struct spar_err err = {0};
	jv config;
	const struct spar_opt table[] = {
	    SPAR_OPT_LIST("set", 's', &sets, "KEY=VALUE",
			  "over what the file says; KEY is a path such as generator_phase.max_steps"),
	    SPAR_OPT_FLAG("dry-run", 0, &dry, "the same as --set dry_run=true"),
	    SPAR_OPT_FLAG("no-dry-run", 0, &wet, "the same as --set dry_run=false"),
	    SPAR_OPT_FLAG("variables", 0, &variables, "print shell variables, not JSON"),
	    SPAR_OPT_FLAG("quiet", 'q', &quiet, "no warnings about keys that have no effect"),
	    SPAR_OPT_END};
	int rest = spar_opt_parse(&usage, table, argc, argv);
	if (rest >= 0 && (rest + 1 != argc || (dry && wet)))
		rest = -1 - spar_usage_error(&usage, dry && wet ? "--dry-run and --no-dry-run contradict each other"
								: "give one configuration file");
	if (rest < 0) {
		free(sets.items);
		return -1 - rest;
	}
	sets.items = spar_realloc(sets.items, (sets.n + 1) * sizeof *sets.items);
	if (dry || wet)
		sets.items[sets.n++] = dry ? "dry_run=true" : "dry_run=false";
	int rc = spar_self_play_read(&config, argv[rest], &sets, &err);
	if (rc == 0) {
		if (!quiet)
			spar_self_play_warn(config, warn, argv[rest]);
		write_out(config, variables, &out);
		rc = spar_print_text(out.data, out.len, &err);
	}
	spar_str_release(&out);
	free(sets.items);
	return rc < 0 ? spar_die(TOOL, &err) : SPAR_OK;
}
