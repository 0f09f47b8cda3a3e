/* prompt.h - from messages to the ids that a model reads, by its own tokenizer and chat template.
 *
 *	struct spar_prompter p;
 *	spar_prompter_load(&p, folder, &err);
 *	p.limit = 2048;
 *	spar_prompt_encode(&p, messages, NULL, &ids, &err);
 *	spar_prompter_release(&p);
 * Thread-safe once loaded. */
#ifndef SPAR_RL_PROMPT_H
#define SPAR_RL_PROMPT_H

#include "base/err.h"
#include "base/str.h"
#include "record/rollout.h"
#include "text/chat.h"
#include "text/tokenizer.h"
#include <jv.h>
#include <stdbool.h>
#include <stddef.h>

struct spar_prompter {
	struct spar_tokenizer *tokenizer;
	struct spar_chat *chat;
	bool no_template; /* the folder has none: messages become 'role: content' lines */
	size_t limit;     /* tokens of prompt and completion; the caller sets it */
};
/* What to tell a person when there is no template. */
#define SPAR_PROMPT_NO_TEMPLATE "no chat template: messages are written as 'role: content' lines"

int spar_prompter_load(struct spar_prompter *p, const char *dir, struct spar_err *err);
void spar_prompter_release(struct spar_prompter *p);

/*! Append the prompt's ids, and its text if `text` is not NULL. Chat messages (array, borrowed) get their template; a raw
 *  text (string) gets what the tokenizer puts around texts. SPAR_INPUT if it is empty or leaves no room for a token. */
int spar_prompt_encode(const struct spar_prompter *p, jv prompt, struct spar_str *text, struct spar_ids *ids,
		       struct spar_err *err);

/*! The same for the turn after `last`, whose prompt was made of `before` and whose completion reads `text`. Where
 *  `messages` goes on from there (they are `before`, then `text` as the assistant's, then more), the ids are those of `last`
 *  with what is new behind them: what the model read and wrote is carried on, never encoded again. SPAR_INPUT if the
 *  template does not keep what came before as it was (B09). */
int spar_prompt_extend(const struct spar_prompter *p, jv before, const struct spar_turn *last,
		       const struct spar_str *text, jv messages, struct spar_ids *ids, struct spar_err *err);

#endif
