/* chat.h - chat templates: the Jinja2 that real templates use, rendered as transformers does (trim_blocks, lstrip_blocks,
 * no trailing newline kept), and the ONE function that turns messages into prompt ids: rollout, sft-collect, update and
 * eval all call spar_chat_encode, so their prompts cannot differ. */
#ifndef SPAR_TEXT_CHAT_H
#define SPAR_TEXT_CHAT_H

#include "base/err.h"
#include "base/str.h"
#include "text/tokenizer.h"
#include <jv.h>
#include <stdbool.h>

struct spar_chat; /* opaque */

/*! Load chat_template.jinja, else tokenizer_config.json's chat_template (a string, or a list of named ones: "default").
 *  A folder with none gives the minimal fallback "{role}: {content}\n ... assistant: " and *fallback true (warn once). */
int spar_chat_load(struct spar_chat **out, const char *dir, bool *fallback, struct spar_err *err);

/*! The source that spar_chat_load takes, appended to `out`; *found: the folder has one. */
int spar_chat_source(const char *dir, struct spar_str *out, bool *found, struct spar_err *err);

/*! From template text (for `spar text render --template`); bos/eos may be NULL. */
int spar_chat_new(struct spar_chat **out, const char *source, size_t n, const char *bos, const char *eos,
		  struct spar_err *err);
/*! Replace the template of a chat, leaving its bos and eos. */
int spar_chat_use(struct spar_chat *c, const char *source, size_t n, struct spar_err *err);
void spar_chat_free(struct spar_chat *c);

/*! Render `messages` (an array, borrowed), appended to `out`; `content` (may be NULL) gets the byte spans that came from
 *  the messages. `extra` is an object of further variables (tools, ...), borrowed, or jv_invalid(). As in transformers, a
 *  message's reasoning_content, thinking or reasoning goes by the first two names, whichever of the three it has. */
int spar_chat_render(const struct spar_chat *c, jv messages, bool add_generation_prompt, jv extra, struct spar_str *out,
		     struct spar_spans *content, struct spar_err *err);

/*! messages -> rendered text (appended to `text` if not NULL) -> ids: markers of the template become ids, the same
 *  bytes inside content stay text unless `content_markers`. No BOS is added beyond what the template wrote. */
int spar_chat_encode(const struct spar_chat *c, const struct spar_tokenizer *t, jv messages, bool add_generation_prompt,
		     bool content_markers, struct spar_str *text, struct spar_ids *ids, struct spar_err *err);

#endif
