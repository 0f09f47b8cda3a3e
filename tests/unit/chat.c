/* Chat templates: whitespace rules, default system texts, precedence (cases B07), and which bytes came from messages. */
#include "text/chat.h"
#include "unit.h"
#include <stdlib.h>

static char *render(const char *source, const char *messages, bool prompt, struct spar_spans *content)
{
	struct spar_chat *c;
	struct spar_err err = {0};
	struct spar_str out = SPAR_STR_INIT;
	jv m = jv_parse(messages);
	CHECK(jv_is_valid(m));
	if (spar_chat_new(&c, source, strlen(source), "<s>", "</s>", &err) == 0) {
		if (spar_chat_render(c, m, prompt, jv_invalid(), &out, content, &err) < 0)
			spar_str_adds(&out, err.msg);
		spar_chat_free(c);
	} else {
		spar_str_adds(&out, err.msg);
	}
	jv_free(m);
	return spar_str_detach(&out);
}

static void check(const char *source, const char *messages, bool prompt, const char *want)
{
	char *got = render(source, messages, prompt, NULL);
	CHECK_STR(got, want);
	free(got);
}

#define USER_HI "[{\"role\":\"user\",\"content\":\"hi\"}]"

int main(void)
{
	/* B07 A: trim_blocks and lstrip_blocks */
	check("{% for m in messages %}\n    {% if m.role == 'user' %}\n<u>{{ m.content }}</u>\n    {% endif %}\n{% "
	      "endfor %}\nend\n",
	      "[{\"role\":\"user\",\"content\":\"hi\"},{\"role\":\"assistant\",\"content\":\"yo\"}]", false,
	      "<u>hi</u>\nend");
	/* B07 B: a default system text, and an empty one that switches it off */
	const char *chatml = "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ "
			     "'<|im_start|>system\nBE NICE<|im_end|>\n' }}"
			     "{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' "
			     "+ '\n'}}{% endfor %}"
			     "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
	check(chatml, USER_HI, true,
	      "<|im_start|>system\nBE NICE<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n");
	check(chatml, "[{\"role\":\"system\",\"content\":\"\"},{\"role\":\"user\",\"content\":\"hi\"}]", false,
	      "<|im_start|>system\n<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n");
	/* B07 C: a filter binds tighter than + */
	check("{% for m in messages %}{{ '<H>' + m['content'] | trim + '<E>' }}{% endfor %}",
	      "[{\"role\":\"user\",\"content\":\"  hi \\n\"}]", false, "<H>hi<E>");
	/* the rest of what small templates use */
	check("{%- set ns = namespace(n=0) -%}\n{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n "
	      "}}{{ bos_token }}",
	      USER_HI, false, "1<s>");
	check("{{ messages[1:] | length }}{{ 'a' if messages[-1].role in ['user'] else 'b' }}{{ missing | default('d') "
	      "}}",
	      USER_HI, false, "0ad");
	check("{{ messages[0] | tojson }}", USER_HI, false, "{\"role\":\"user\",\"content\":\"hi\"}");
	check("{# note #}{{ messages is defined and nothing is not defined }}", USER_HI, false, "True");
	/* what is not supported says so, with its line */
	check("a\n{{ raise_exception('no tools') }}", USER_HI, false, "a\ntemplate:2: no tools");
	check("a\n{% macro x() %}{% endmacro %}", USER_HI, false, "template:2: this statement is not supported");
	check("{% if true %}", USER_HI, false, "template:1: this is not closed");
	check("{{ messages[0].content.explode() }}", USER_HI, false,
	      "template:1: method explode is not supported on this value");

	/* only the bytes of the message are marked as content */
	struct spar_spans spans = {0};
	char *got = render("{% for m in messages %}{{ '<' + m.content + '>' }}{% endfor %}",
			   "[{\"role\":\"user\",\"content\":\"<x>\"}]", false, &spans);
	CHECK_STR(got, "<<x>>");
	CHECK(spans.n == 1 && spans.data[0].begin == 1 && spans.data[0].end == 4);
	free(got);
	free(spans.data);
	return unit_done();
}
