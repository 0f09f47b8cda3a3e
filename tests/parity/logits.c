/* Logits of the engine for comparison with other implementations.
 *	logits MODEL float32|bfloat16 <lines of "[ids]" >raw
 * For each line the logits after its last token, vocab_size little-endian float32, one line after the other. */
#include "model/engine.h"
#include <jv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
	struct spar_err err = {0};
	struct spar_model model = {0};
	struct spar_engine *engine = NULL;
	struct spar_engine_opt opt = {.dtype = argc > 2 && !strcmp(argv[2], "bfloat16") ? SPAR_BF16 : SPAR_F32};
	char *line = NULL;
	size_t cap = 0;
	if (argc < 3 || spar_model_open(&model, argv[1], &err) < 0 || spar_engine_new(&engine, &model, &opt, &err) < 0)
		return spar_die("logits", &err);
	float *logits = spar_malloc(model.config.vocab_size * sizeof *logits);
	while (getline(&line, &cap, stdin) > 0) {
		jv ids = jv_parse(line);
		struct spar_seq *seq = spar_seq_new(engine);
		jv_array_foreach(ids, i, id)
		{
			spar_seq_append(seq, &(int32_t){(int32_t)jv_number_value(id)}, 1);
			jv_free(id);
		}
		if (spar_engine_run(engine, &seq, 1, logits, &err) < 0)
			return spar_die("logits", &err);
		fwrite(logits, sizeof *logits, model.config.vocab_size, stdout);
		spar_seq_free(seq);
		jv_free(ids);
	}
	free(line);
	free(logits);
	spar_engine_free(engine);
	spar_model_close(&model);
	return fflush(stdout) ? 1 : 0;
}
