/* spar text - the tokenizer and the chat template by hand: encode, decode, render. No weights are needed. */
#include "base/file.h"
#include "base/json.h"
#include "base/opt.h"
#include "record/jq.h"
#include "record/record.h"
#include "rl/policy.h"
#include "text/chat.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct spar_usage usage = {"text", "encode|decode|render [options]",
					"encode: text on standard input to a JSON array of token ids. decode: an array "
					"of ids per line to text. render: records "
					"with messages through the chat template to text, a JSON string or ids."};

struct opts {
	const char *model, *template, *variables;
	bool lines, no_markers, add_special, skip_special, json, ids, no_prompt, content_markers;
};

/* What the subcommands work with. */
struct text {
	const struct opts *o;
	struct spar_tokenizer *tokenizer; /* NULL: --template alone */
	struct spar_chat *chat;           /* render only */
	struct spar_jq *variables;        /* render only; NULL: none */
	struct spar_str out;
	struct spar_ids token_ids;
	bool warned;
	struct spar_err err;
};

static int put(struct text *t)
{
	if (fwrite(t->out.data, 1, t->out.len, stdout) != t->out.len)
		return spar_fail(&t->err, SPAR_FAIL, "<stdout>: %s", strerror(errno));
	spar_str_clear(&t->out);
	return 0;
}

/* The text in t->out, as it is or as a JSON string on a line of its own. */
static int put_text(struct text *t)
{
	if (!t->o->json)
		return put(t);
	struct spar_str plain = t->out;
	spar_str_init(&t->out);
	spar_str_add_json(&t->out, plain.data, plain.len);
	spar_str_addc(&t->out, '\n');
	spar_str_release(&plain);
	return put(t);
}

static int put_ids(struct text *t)
{
	const int32_t *ids = t->token_ids.data;
	size_t n = t->token_ids.n;
	int32_t bos = spar_tokenizer_bos(t->tokenizer);
	if (n > 1 && bos >= 0 && ids[0] == bos && ids[1] == bos && !t->warned) {
		spar_warn("text", "the ids begin with two BOS tokens");
		t->warned = true;
	}
	spar_str_clear(&t->out);
	spar_str_addc(&t->out, '[');
	for (size_t i = 0; i < n; i++)
		spar_str_addf(&t->out, "%s%d", i ? "," : "", (int)ids[i]);
	spar_str_adds(&t->out, "]\n");
	return put(t);
}

static int encode_text(struct text *t, const char *text, size_t n)
{
	int flags = (t->o->no_markers ? 0 : SPAR_ENCODE_MARKERS) | (t->o->add_special ? SPAR_ENCODE_ADD : 0);
	t->token_ids.n = 0;
	int rc = spar_tokenizer_encode(t->tokenizer, text, n, NULL, flags, &t->token_ids, &t->err);
	return rc < 0 ? rc : put_ids(t);
}

static int encode_whole(struct text *t)
{
	struct spar_str text = SPAR_STR_INIT;
	char block[1 << 16];
	size_t n;
	while ((n = fread(block, 1, sizeof block, stdin)) > 0)
		spar_str_add(&text, block, n);
	int rc = encode_text(t, text.data, text.len);
	spar_str_release(&text);
	return rc;
}

/* Each line as a text: empty lines and blanks count, so this is no record stream. */
static int encode_lines(struct text *t)
{
	char *line = NULL;
	size_t size = 0;
	ssize_t n;
	int rc = 0;
	while (rc == 0 && (n = getline(&line, &size, stdin)) >= 0)
		rc = encode_text(t, line, (size_t)(n - (n && line[n - 1] == '\n')));
	free(line);
	return rc;
}

static int encode(struct text *t)
{
	int rc = t->o->lines ? encode_lines(t) : encode_whole(t);
	return rc == 0 && ferror(stdin) ? spar_fail(&t->err, SPAR_FAIL, "<stdin>: %s", strerror(errno)) : rc;
}

/* A JSON array of ids of this tokenizer. */
static int decode_line(struct text *t, const char *line, size_t len)
{
	const char *what;
	size_t at, n;
	int32_t *ids;
	if (spar_json_skip(line, len, 16, false, &what, &at) != len)
		return spar_fail(&t->err, SPAR_INPUT, "not a JSON array of ids");
	jv box = jv_object_set(jv_object(), jv_string("ids"), jv_parse_sized(line, (int)len));
	int rc = spar_get_ids(box, "", "ids", &ids, &n, &t->err);
	jv_free(box);
	if (rc < 0)
		return rc;
	for (size_t i = 0; rc == 0 && i < n; i++)
		if ((size_t)ids[i] >= spar_tokenizer_size(t->tokenizer))
			rc = spar_fail(&t->err, SPAR_INPUT, ".ids[%zu]: %d is beyond the tokenizer's %zu ids", i,
				       (int)ids[i], spar_tokenizer_size(t->tokenizer));
	if (rc == 0)
		spar_tokenizer_decode(t->tokenizer, ids, n, t->o->skip_special ? SPAR_DECODE_SKIP_SPECIAL : 0, &t->out);
	free(ids);
	return rc < 0 ? rc : put_text(t);
}

/* What --variables makes of the record: an object. */
static int variables_of(struct text *t, jv record, jv *out)
{
	if (!t->variables)
		return 0;
	int n = spar_jq_run(t->variables, jv_copy(record), out, &t->err);
	if (n < 0)
		return spar_fail_at(&t->err, "--variables");
	return n == 1 && jv_get_kind(*out) == JV_KIND_OBJECT
		   ? 0
		   : spar_fail(&t->err, SPAR_INPUT, "--variables: expected one object");
}

static int render_line(struct text *t, const char *line, size_t len)
{
	struct spar_record rec;
	struct spar_spans content = {0};
	jv messages = jv_invalid(), variables = jv_invalid();
	spar_record_init(&rec);
	int rc = spar_record_parse(&rec, line, len, &t->err);
	if (rc == 0)
		rc = spar_get_kind(rec.value, "", "messages", JV_KIND_ARRAY, &messages, &t->err);
	if (rc == 0)
		rc = variables_of(t, rec.value, &variables);
	if (rc == 0)
		rc = spar_chat_render(t->chat, messages, !t->o->no_prompt, variables, &t->out, &content, &t->err);
	if (rc == 0 && t->o->ids) {
		t->token_ids.n = 0;
		rc = spar_tokenizer_encode(t->tokenizer, t->out.data, t->out.len,
					   t->o->content_markers ? NULL : &content, SPAR_ENCODE_MARKERS, &t->token_ids,
					   &t->err);
	}
	if (rc == 0)
		rc = t->o->ids ? put_ids(t) : put_text(t);
	free(content.data);
	jv_free(variables);
	jv_free(messages);
	spar_record_release(&rec);
	return rc;
}

static int each_line(struct text *t, int (*work)(struct text *t, const char *line, size_t len))
{
	struct spar_reader *in = NULL;
	const char *line;
	size_t len;
	int rc = spar_reader_open(&in, NULL, &t->err);
	while (rc >= 0 && (rc = spar_reader_next(in, &line, &len, &t->err)) > 0)
		if ((rc = work(t, line, len)) < 0)
			spar_fail_at(&t->err, "%s:%zu", spar_reader_name(in), spar_reader_line(in));
	spar_reader_close(in);
	return rc;
}

/* `model`: the folder with the tokenizer and the template; NULL: none. */
static int open_chat(struct text *t, const char *model)
{
	struct spar_str source = SPAR_STR_INIT;
	bool fallback = false;
	int rc = model ? spar_chat_load(&t->chat, model, &fallback, &t->err) : 0;
	if (rc == 0 && t->o->template &&
	    (rc = spar_file_read(t->o->template, (size_t)1 << 20, &source, &t->err)) == 0) {
		rc = t->chat ? spar_chat_use(t->chat, source.data, source.len, &t->err)
			     : spar_chat_new(&t->chat, source.data, source.len, NULL, NULL, &t->err);
		if (rc < 0)
			spar_fail_at(&t->err, "%s", t->o->template);
	} else if (rc == 0 && fallback) {
		spar_warn("text", "%s has no chat template; roles and contents are written plainly", model);
	}
	if (rc == 0 && t->o->variables)
		rc = spar_jq_new(&t->variables, t->o->variables, &t->err);
	spar_str_release(&source);
	return rc;
}

static int run(struct text *t, const char *what)
{
	bool render = !strcmp(what, "render");
	char *model = NULL;
	int rc = t->o->model ? spar_policy_text_dir(&model, t->o->model, &t->err) : 0;
	if (rc == 0 && (!render || t->o->ids))
		rc = spar_tokenizer_load(&t->tokenizer, model, &t->err);
	if (rc == 0 && render)
		rc = open_chat(t, model);
	free(model);
	if (rc < 0)
		return rc;
	return render ? each_line(t, render_line) : !strcmp(what, "decode") ? each_line(t, decode_line) : encode(t);
}

int main(int argc, char **argv)
{
	struct opts o = {0};
	const struct spar_opt table[] = {
	    SPAR_OPT_STR("model", 'm', &o.model, "DIR", "model, adapter or policy folder: its tokenizer and template"),
	    SPAR_OPT_GROUP("encode"),
	    SPAR_OPT_FLAG("lines", 0, &o.lines, "each line is a text, without its newline"),
	    SPAR_OPT_FLAG("no-markers", 0, &o.no_markers, "special markers in the text stay text"),
	    SPAR_OPT_FLAG("add-special-tokens", 0, &o.add_special, "add BOS and the like, as the tokenizer says"),
	    SPAR_OPT_GROUP("decode"),
	    SPAR_OPT_FLAG("skip-special-tokens", 0, &o.skip_special, "leave special tokens out of the text"),
	    SPAR_OPT_FLAG("json", 0, &o.json, "a JSON string per line (also for render)"),
	    SPAR_OPT_GROUP("render"),
	    SPAR_OPT_STR("template", 0, &o.template, "FILE", "use this Jinja template in place of the model's"),
	    SPAR_OPT_STR("variables", 0, &o.variables, "JQ", "jq program: record to an object of further variables"),
	    SPAR_OPT_FLAG("no-add-generation-prompt", 0, &o.no_prompt, "do not open the assistant's turn"),
	    SPAR_OPT_FLAG("ids", 0, &o.ids, "print ids; only markers written by the template become special tokens"),
	    SPAR_OPT_FLAG("content-markers", 0, &o.content_markers, "with --ids: markers inside messages too"),
	    SPAR_OPT_END};
	bool named = argc > 1 && argv[1][0] != '-';
	int rest = spar_opt_parse(&usage, table, argc - named, argv + named);
	if (rest < 0)
		return -1 - rest;
	const char *what = named ? argv[1] : "";
	bool render = !strcmp(what, "render");
	if (!render && strcmp(what, "encode") != 0 && strcmp(what, "decode") != 0)
		return spar_usage_error(&usage, "expected encode, decode or render");
	if (argv[named + rest])
		return spar_usage_error(&usage, "unexpected operand '%s'", argv[named + rest]);
	if (!o.model && (!render || !o.template || o.ids))
		return spar_usage_error(&usage, "--model is needed");
	struct text t = {.o = &o, .out = SPAR_STR_INIT};
	int rc = run(&t, what);
	if (rc == 0 && fflush(stdout) != 0)
		rc = spar_fail(&t.err, SPAR_FAIL, "<stdout>: %s", strerror(errno));
	spar_jq_free(t.variables);
	spar_chat_free(t.chat);
	spar_tokenizer_free(t.tokenizer);
	spar_str_release(&t.out);
	free(t.token_ids.data);
	return rc < 0 ? spar_die("text", &t.err) : SPAR_OK;
}
