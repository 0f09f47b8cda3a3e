#include "text/jinja/lex.h"
#include <stdlib.h>
#include <string.h>

struct lexer {
	struct tokens *out;
	const char *at, *end;
	size_t line;
	struct spar_err *err;
};

static bool failed(const struct lexer *l)
{
	return l->err->code != SPAR_OK;
}

static void fail(struct lexer *l, const char *what)
{
	if (!failed(l))
		spar_fail(l->err, SPAR_INPUT, "template:%zu: %s", l->line, what);
}

static bool is_blank(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_name_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_';
}

static bool starts(const struct lexer *l, const char *s)
{
	return (size_t)(l->end - l->at) >= strlen(s) && !memcmp(l->at, s, strlen(s));
}

static void add_token(struct lexer *l, enum token_kind kind, const char *s, size_t n)
{
	struct tokens *t = l->out;
	if (t->n == t->cap) {
		t->cap = t->cap ? 2 * t->cap : 64;
		t->data = spar_realloc(t->data, t->cap * sizeof *t->data);
	}
	t->data[t->n++] = (struct token){kind, s, n, l->line};
}

/* Go on to `to`, counting lines. */
static void move(struct lexer *l, const char *to)
{
	for (; l->at < to; l->at++)
		l->line += *l->at == '\n';
}

/* ---- inside a tag ---- */

static void lex_number(struct lexer *l)
{
	const char *s = l->at;
	bool other_base = *s == '0' && s + 1 < l->end && strchr("xXoObB", s[1]);
	for (s++; s < l->end; s++) {
		bool exponent = !other_base && (*s == 'e' || *s == 'E') && s + 1 < l->end &&
				(is_digit(s[1]) || (strchr("+-", s[1]) && s + 2 < l->end && is_digit(s[2])));
		bool point = !other_base && *s == '.' && s + 1 < l->end && is_digit(s[1]);
		if (exponent)
			s++; /* and its sign */
		else if (!point && !is_digit(*s) && *s != '_' && !(other_base && is_name_char(*s)))
			break;
	}
	add_token(l, T_NUMBER, l->at, (size_t)(s - l->at));
	l->at = s;
}

static void lex_string(struct lexer *l)
{
	const char *s = l->at + 1;
	while (s < l->end && *s != *l->at)
		s += *s == '\\' ? 2 : 1;
	if (s >= l->end) {
		fail(l, "a string is not closed");
		return;
	}
	add_token(l, T_STRING, l->at, (size_t)(s + 1 - l->at));
	move(l, s + 1);
}

static void lex_sign(struct lexer *l)
{
	static const char *const two[] = {"==", "!=", "<=", ">=", "//", "**"};
	size_t n = 1;
	for (size_t i = 0; i < sizeof two / sizeof *two; i++)
		n = starts(l, two[i]) ? 2 : n;
	add_token(l, T_SIGN, l->at, n);
	l->at += n;
}

/* The tokens of one tag, up to its closing mark or the sign before it. */
static void lex_tag(struct lexer *l, const char *mark)
{
	int depth = 0;
	while (l->at < l->end && !failed(l)) {
		char c = *l->at;
		bool sign = (c == '-' || c == '+') && l->end - l->at > 2 && !memcmp(l->at + 1, mark, 2);
		if (depth == 0 && (sign || starts(l, mark)))
			return;
		if (is_blank(c)) {
			move(l, l->at + 1);
		} else if (is_digit(c)) {
			lex_number(l);
		} else if (is_name_char(c)) {
			const char *begin = l->at;
			while (l->at < l->end && is_name_char(*l->at))
				l->at++;
			add_token(l, T_NAME, begin, (size_t)(l->at - begin));
		} else if (c == '\'' || c == '"') {
			lex_string(l);
		} else {
			depth += (c == '(' || c == '[' || c == '{') - (c == ')' || c == ']' || c == '}');
			lex_sign(l);
		}
	}
	fail(l, "a tag is not closed");
}

/* ---- between tags ---- */

/* The text before a tag, less what the tag's sign and lstrip_blocks take from it. */
static void add_text(struct lexer *l, const char *tag, bool line_start)
{
	const char *cut = tag;
	char sign = tag + 2 < l->end ? tag[2] : 0;
	if (sign == '-') {
		while (cut > l->at && is_blank(cut[-1]))
			cut--;
	} else if (tag[1] != '{' && sign != '+') {
		while (cut > l->at && cut[-1] != '\n' && is_blank(cut[-1]))
			cut--;
		if (cut > l->at ? cut[-1] != '\n' : !line_start)
			cut = tag;
	}
	if (cut > l->at)
		add_token(l, T_TEXT, l->at, (size_t)(cut - l->at));
	move(l, tag);
}

/* Behind a tag's closing mark, which may have a sign before it. */
static void close_tag(struct lexer *l, bool output)
{
	char sign = *l->at == '-' || *l->at == '+' ? *l->at : 0;
	l->at += sign ? 3 : 2;
	if (sign == '-') {
		const char *s = l->at;
		while (s < l->end && is_blank(*s))
			s++;
		move(l, s);
	} else if (!sign && !output && l->at < l->end && *l->at == '\n') {
		move(l, l->at + 1); /* trim_blocks */
	}
}

static void skip_comment(struct lexer *l)
{
	const char *s = l->at;
	while (s + 1 < l->end && !(s[0] == '#' && s[1] == '}'))
		s++;
	if (s + 1 >= l->end) {
		fail(l, "a comment is not closed");
		return;
	}
	move(l, s > l->at && (s[-1] == '-' || s[-1] == '+') ? s - 1 : s);
}

/* At "{% word %}", signs allowed: where what is behind it begins, or NULL. */
static const char *tag_of(const struct lexer *l, const char *s, const char *word)
{
	size_t n = strlen(word);
	s += 2;
	s += s < l->end && (*s == '-' || *s == '+');
	while (s < l->end && is_blank(*s))
		s++;
	if ((size_t)(l->end - s) < n || memcmp(s, word, n) != 0)
		return NULL;
	for (s += n; s < l->end && is_blank(*s);)
		s++;
	const char *close = s + (s < l->end && (*s == '-' || *s == '+'));
	return l->end - close >= 2 && !memcmp(close, "%}", 2) ? s : NULL;
}

/* {% raw %}: all up to {% endraw %} is text. */
static void lex_raw(struct lexer *l, const char *close)
{
	move(l, close);
	close_tag(l, true); /* trim_blocks does not reach here */
	for (const char *s = l->at; s + 1 < l->end; s++)
		if (s[0] == '{' && s[1] == '%' && (close = tag_of(l, s, "endraw"))) {
			add_text(l, s, false);
			move(l, close);
			close_tag(l, false);
			return;
		}
	fail(l, "raw is not closed");
}

static void lex(struct lexer *l)
{
	bool line_start = true;
	while (l->at < l->end && !failed(l)) {
		const char *tag = l->at, *raw;
		while (tag + 1 < l->end && !(tag[0] == '{' && strchr("{%#", tag[1])))
			tag++;
		if (tag + 1 >= l->end) {
			add_token(l, T_TEXT, l->at, (size_t)(l->end - l->at));
			break;
		}
		add_text(l, tag, line_start);
		char type = tag[1];
		if (type == '%' && (raw = tag_of(l, tag, "raw"))) {
			lex_raw(l, raw);
		} else {
			l->at += 2;
			l->at += l->at < l->end && (*l->at == '-' || (*l->at == '+' && type != '{'));
			if (type == '#') {
				skip_comment(l);
			} else {
				add_token(l, type == '{' ? T_OPEN_OUTPUT : T_OPEN_BLOCK, tag, 2);
				lex_tag(l, type == '{' ? "}}" : "%}");
				add_token(l, type == '{' ? T_CLOSE_OUTPUT : T_CLOSE_BLOCK, tag, 0);
			}
			if (!failed(l))
				close_tag(l, type == '{');
		}
		line_start = l->at[-1] == '\n';
	}
	add_token(l, T_END, l->end, 0);
}

int tokens_read(struct tokens *t, const char *source, size_t n, struct spar_err *err)
{
	struct spar_err inner = {0};
	spar_str_init(&t->text);
	for (size_t i = 0; i < n; i++)
		if (source[i] != '\r')
			spar_str_addc(&t->text, source[i]);
		else if (i + 1 == n || source[i + 1] != '\n')
			spar_str_addc(&t->text, '\n');
	if (t->text.len && t->text.data[t->text.len - 1] == '\n')
		t->text.len--;
	struct lexer l = {t, t->text.data, t->text.data + t->text.len, 1, &inner};
	lex(&l);
	return inner.code ? spar_fail(err, inner.code, "%s", inner.msg) : 0;
}

void tokens_release(struct tokens *t)
{
	if (t->text.data)
		spar_str_release(&t->text);
	free(t->data);
}
