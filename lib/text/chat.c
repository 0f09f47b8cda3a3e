/* chat.c - see chat.h. */
#include "text/chat.h"

#include "base/file.h"
#include "record/object.h"
#include "record/record.h"
#include "text/jinja.h"
#include <stdlib.h>
#include <string.h>

#define TEMPLATE_MAX ((size_t)1 << 20) /* bytes */

/* For folders without a template: enough to train and sample a base model. */
static const char FALLBACK[] = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
			       "{% if add_generation_prompt %}assistant: {% endif %}";

struct spar_chat {
	struct spar_jinja *template;
	jv names; /* bos_token, eos_token */
};

int spar_chat_new(struct spar_chat **out, const char *source, size_t n, const char *bos, const char *eos,
		  struct spar_err *err)
{
	struct spar_jinja *template;
	*out = NULL;
	int rc = spar_jinja_new(&template, source, n, err);
	if (rc < 0)
		return rc;
	struct spar_chat *c = spar_calloc(1, sizeof *c);
	c->template = template;
	c->names = jv_object();
	c->names = jv_object_set(c->names, jv_string("bos_token"), jv_string(bos ? bos : ""));
	c->names = jv_object_set(c->names, jv_string("eos_token"), jv_string(eos ? eos : ""));
	*out = c;
	return 0;
}

int spar_chat_use(struct spar_chat *c, const char *source, size_t n, struct spar_err *err)
{
	struct spar_jinja *template;
	int rc = spar_jinja_new(&template, source, n, err);
	if (rc < 0)
		return rc;
	spar_jinja_free(c->template);
	c->template = template;
	return 0;
}

/* The text of "bos_token" and the like; the empty string if there is none. New reference. */
static jv token_text(jv config, const char *key)
{
	jv v = spar_object_token(config, key);
	if (jv_get_kind(v) == JV_KIND_STRING)
		return v;
	jv_free(v);
	return jv_string("");
}

/* tokenizer_config.json's chat_template: a string, or the "default" of a list of {"name", "template"}. */
static jv config_template(jv config)
{
	jv v = jv_object_get(jv_copy(config), jv_string("chat_template"));
	if (jv_get_kind(v) != JV_KIND_ARRAY)
		return v;
	jv found = jv_null();
	jv_array_foreach(v, i, item)
	{
		jv name =
		    jv_get_kind(item) == JV_KIND_OBJECT ? jv_object_get(jv_copy(item), jv_string("name")) : jv_null();
		if (jv_get_kind(name) == JV_KIND_STRING && !strcmp(jv_string_value(name), "default")) {
			jv_free(found);
			found = jv_object_get(jv_copy(item), jv_string("template"));
		}
		jv_free(name);
		jv_free(item);
	}
	jv_free(v);
	return found;
}

/* tokenizer_config.json; an empty object if it is not there. *out is a NEW reference, also after a failure. */
static int read_config(const char *dir, jv *out, struct spar_err *err)
{
	char *path = spar_path_join(dir, "tokenizer_config.json");
	int rc = spar_file_exists(path) ? spar_object_read(path, out, err) : 1;
	if (rc != 0)
		*out = jv_object();
	free(path);
	return rc < 0 ? rc : 0;
}

int spar_chat_source(const char *dir, struct spar_str *out, bool *found, struct spar_err *err)
{
	char *path = spar_path_join(dir, "chat_template.jinja");
	int rc;
	*found = spar_file_exists(path);
	if (*found) {
		rc = spar_file_read(path, TEMPLATE_MAX, out, err);
	} else {
		jv config;
		rc = read_config(dir, &config, err);
		jv text = config_template(config);
		*found = jv_get_kind(text) == JV_KIND_STRING;
		if (*found)
			spar_str_adds(out, jv_string_value(text));
		jv_free(text);
		jv_free(config);
	}
	free(path);
	return rc;
}

int spar_chat_load(struct spar_chat **out, const char *dir, bool *fallback, struct spar_err *err)
{
	struct spar_str source = SPAR_STR_INIT;
	jv config;
	bool found = false;
	*out = NULL;
	int rc = read_config(dir, &config, err);
	if (rc == 0)
		rc = spar_chat_source(dir, &source, &found, err);
	*fallback = rc == 0 && !found;
	if (*fallback)
		spar_str_adds(&source, FALLBACK);
	if (rc == 0) {
		jv bos = token_text(config, "bos_token"), eos = token_text(config, "eos_token");
		rc = spar_chat_new(out, source.data, source.len, jv_string_value(bos), jv_string_value(eos), err);
		if (rc < 0)
			spar_fail_at(err, "%s", dir);
		jv_free(bos);
		jv_free(eos);
	}
	jv_free(config);
	spar_str_release(&source);
	return rc;
}

void spar_chat_free(struct spar_chat *c)
{
	if (!c)
		return;
	spar_jinja_free(c->template);
	jv_free(c->names);
	free(c);
}

static int check_messages(jv messages, struct spar_err *err)
{
	if (jv_get_kind(messages) != JV_KIND_ARRAY)
		return spar_fail(err, SPAR_INPUT, ".messages: expected array, got %s", spar_kind_name(messages));
	int rc = 0;
	jv_array_foreach(messages, i, m)
	{
		if (rc == 0 && jv_get_kind(m) != JV_KIND_OBJECT)
			rc = spar_fail(err, SPAR_INPUT, ".messages[%d]: expected object, got %s", i, spar_kind_name(m));
		if (rc == 0) {
			jv role = jv_object_get(jv_copy(m), jv_string("role"));
			if (jv_get_kind(role) != JV_KIND_STRING)
				rc = spar_fail(err, SPAR_INPUT, ".messages[%d].role: expected string, got %s", i,
					       jv_is_valid(role) ? spar_kind_name(role) : "nothing");
			jv_free(role);
		}
		jv_free(m);
	}
	return rc;
}

/* The message (consumed) with its reasoning under the names that templates read. */
static jv with_reasoning(jv message)
{
	static const char *const names[] = {"reasoning_content", "thinking", "reasoning"};
	jv reasoning = jv_null();
	for (size_t i = 0; i < sizeof names / sizeof *names && jv_get_kind(reasoning) == JV_KIND_NULL; i++)
		if (spar_has(message, names[i])) {
			jv_free(reasoning);
			reasoning = jv_object_get(jv_copy(message), jv_string(names[i]));
		}
	if (jv_get_kind(reasoning) != JV_KIND_NULL) {
		message = jv_object_set(message, jv_string("reasoning_content"), jv_copy(reasoning));
		jv thinking = jv_object_get(jv_copy(message), jv_string("thinking"));
		if (!jv_is_valid(thinking))
			message = jv_object_set(message, jv_string("thinking"), jv_copy(reasoning));
		jv_free(thinking);
	}
	jv_free(reasoning);
	return message;
}

int spar_chat_render(const struct spar_chat *c, jv messages, bool add_generation_prompt, jv extra, struct spar_str *out,
		     struct spar_spans *content, struct spar_err *err)
{
	int rc = check_messages(messages, err);
	if (rc < 0)
		return rc;
	jv trusted =
	    jv_object_set(jv_copy(c->names), jv_string("add_generation_prompt"), jv_bool(add_generation_prompt));
	jv outside = jv_get_kind(extra) == JV_KIND_OBJECT ? jv_copy(extra) : jv_object();
	static const char *const absent[] = {"tools", "documents"}; /* are null, as in transformers */
	for (size_t i = 0; i < sizeof absent / sizeof *absent; i++)
		if (!spar_has(outside, absent[i]))
			outside = jv_object_set(outside, jv_string(absent[i]), jv_null());
	jv given = jv_array();
	jv_array_foreach(messages, i, m) given = jv_array_append(given, with_reasoning(m));
	outside = jv_object_set(outside, jv_string("messages"), given);
	rc = spar_jinja_render(c->template, trusted, outside, out, content, err);
	jv_free(trusted);
	jv_free(outside);
	return rc;
}

int spar_chat_encode(const struct spar_chat *c, const struct spar_tokenizer *t, jv messages, bool add_generation_prompt,
		     bool content_markers, struct spar_str *text, struct spar_ids *ids, struct spar_err *err)
{
	struct spar_str rendered = SPAR_STR_INIT;
	struct spar_spans content = {0};
	int rc = spar_chat_render(c, messages, add_generation_prompt, jv_invalid(), &rendered, &content, err);
	if (rc == 0 && ids)
		rc = spar_tokenizer_encode(t, rendered.data, rendered.len, content_markers ? NULL : &content,
					   SPAR_ENCODE_MARKERS, ids, err);
	if (rc == 0 && text)
		spar_str_add(text, rendered.data, rendered.len);
	spar_str_release(&rendered);
	free(content.data);
	return rc;
}
