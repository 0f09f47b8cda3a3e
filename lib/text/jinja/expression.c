/* The parser of expressions; statements are parse.c's. */
#include "text/chars.h"
#include "text/jinja/parse.h"
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

static struct node *with(struct parser *p, enum node_kind kind, int op, struct node *a, struct node *b)
{
	struct node *n = new_node(p, kind);
	n->op = op;
	n->a = a;
	n->b = b;
	return n;
}

/* One level deeper; false, and failed, when that is too deep. Pairs with a p->depth--. */
static bool deeper(struct parser *p)
{
	if (++p->depth > PARSE_DEPTH_MAX)
		parser_fail(p, peek(p)->line, "nested too deeply", "", 0);
	return !parser_failed(p);
}

/* ---- literals ---- */

static struct node *literal(struct parser *p, struct value *v)
{
	struct node *n = new_node(p, N_LITERAL);
	n->literal = v;
	return n;
}

/* The escape at s (a backslash and more), appended as Python reads it; its length. */
static size_t add_escape(struct spar_marked *b, const char *s, const char *end)
{
	static const char from[] = "ntr\\'\"abfv", to[] = "\n\t\r\\'\"\a\b\f\v";
	const char *known = s + 1 < end && s[1] ? strchr(from, s[1]) : NULL;
	size_t digits = s + 1 >= end ? 0 : s[1] == 'x' ? 2 : s[1] == 'u' ? 4 : s[1] == 'U' ? 8 : 0, len = 1;
	bool octal = s + 1 < end && s[1] >= '0' && s[1] <= '7';
	if (s + 1 < end && s[1] == '\n') /* a line that goes on */
		return 2;
	if (known) {
		spar_marked_add(b, &to[known - from], 1, false);
		return 2;
	}
	char text[9] = {0}, *stop = text;
	if (octal)
		while (len < 4 && s + len < end && s[len] >= '0' && s[len] <= '7')
			len++;
	else if (digits && (size_t)(end - s) >= 2 + digits)
		len = 2 + digits;
	memcpy(text, s + (octal ? 1 : 2), len > 1 ? len - (octal ? 1 : 2) : 0);
	unsigned long c = len > 1 ? strtoul(text, &stop, octal ? 8 : 16) : 0;
	utf8proc_uint8_t bytes[4];
	if (len == 1 || *stop || c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) {
		spar_marked_add(b, s, 1, false);
		return 1;
	}
	spar_marked_add(b, (char *)bytes, (size_t)utf8proc_encode_char((utf8proc_int32_t)c, bytes), false);
	return len;
}

static struct node *string_literal(struct parser *p)
{
	struct spar_marked b = SPAR_MARKED_INIT;
	for (; peek(p)->kind == T_STRING; p->at++) { /* neighbours are one string */
		const char *s = peek(p)->s + 1, *end = peek(p)->s + peek(p)->n - 1;
		while (s < end) {
			if (*s == '\\')
				s += add_escape(&b, s, end);
			else
				spar_marked_add(&b, s++, 1, false);
		}
	}
	return literal(p, built(&p->tree->pool, &b));
}

static struct node *number_literal(struct parser *p)
{
	const struct token *t = peek(p);
	char text[64];
	size_t n = 0;
	for (size_t i = 0; i < t->n && n < sizeof text - 1; i++)
		if (t->s[i] != '_')
			text[n++] = t->s[i];
	text[n] = 0;
	int base = n > 1 && text[0] == '0' && strchr("xX", text[1])   ? 16
		   : n > 1 && text[0] == '0' && strchr("oO", text[1]) ? 8
		   : n > 1 && text[0] == '0' && strchr("bB", text[1]) ? 2
								      : 10;
	char *end;
	double d = base == 10 ? strtod(text, &end) : (double)strtoul(text + 2, &end, base);
	if (*end)
		unexpected(p, "a number");
	struct value *v = new_number(&p->tree->pool, d);
	v->is_float = base == 10 && strpbrk(text, ".eE") != NULL;
	p->at++;
	return literal(p, v);
}

/* ---- operands ---- */

/* "a, b, name=c)" */
static void arguments(struct parser *p, struct node *call)
{
	while (!parser_failed(p) && !take_sign(p, ")")) {
		const char *name = NULL;
		const struct token *next = peek(p) + 1;
		if (peek(p)->kind == T_NAME && next->kind == T_SIGN && next->n == 1 && *next->s == '=') {
			name = take_name(p);
			p->at++;
		}
		add_arg(call, name, expression(p));
		if (!is_token(p, T_SIGN, ")"))
			need_sign(p, ",");
	}
}

static struct node *dict_literal(struct parser *p)
{
	struct node *n = new_node(p, N_DICT);
	while (!parser_failed(p) && !take_sign(p, "}")) {
		add_arg(n, NULL, expression(p));
		need_sign(p, ":");
		add_arg(n, NULL, expression(p));
		if (!is_token(p, T_SIGN, "}"))
			need_sign(p, ",");
	}
	return n;
}

/* A list, or the tuple of a parenthesis: "(a, b)", "(a)" being a itself. */
static struct node *list_literal(struct parser *p, const char *close, bool tuple)
{
	struct node *n = new_node(p, tuple ? N_TUPLE : N_LIST);
	bool comma = false;
	while (!parser_failed(p) && !take_sign(p, close)) {
		add_arg(n, NULL, expression(p));
		if (!is_token(p, T_SIGN, close)) {
			need_sign(p, ",");
			comma = true;
		}
	}
	return tuple && n->n == 1 && !comma ? n->args[0] : n;
}

static struct node *primary(struct parser *p)
{
	static const struct {
		const char *word;
		enum kind kind;
		bool truth;
	} words[] = {{"true", BOOL, true},   {"True", BOOL, true},  {"false", BOOL, false},
		     {"False", BOOL, false}, {"none", NONE, false}, {"None", NONE, false}};
	if (peek(p)->kind == T_STRING)
		return string_literal(p);
	if (peek(p)->kind == T_NUMBER)
		return number_literal(p);
	if (take_sign(p, "("))
		return list_literal(p, ")", true);
	if (take_sign(p, "["))
		return list_literal(p, "]", false);
	if (take_sign(p, "{"))
		return dict_literal(p);
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (take_word(p, words[i].word)) {
			struct value *v = new_value(&p->tree->pool, words[i].kind);
			v->number = words[i].truth;
			return literal(p, v);
		}
	struct node *n = new_node(p, N_NAME);
	if (peek(p)->kind == T_NAME)
		n->name = take_name(p);
	else
		unexpected(p, "a value");
	return n;
}

static struct node *subscript(struct parser *p, struct node *of)
{
	struct node *parts[3] = {0};
	int colons = 0;
	while (!parser_failed(p) && !take_sign(p, "]")) {
		if (take_sign(p, ":")) {
			if (++colons > 2)
				unexpected(p, "]");
		} else {
			parts[colons] = expression(p);
			if (!is_token(p, T_SIGN, "]") && !is_token(p, T_SIGN, ":"))
				unexpected(p, "]");
		}
	}
	struct node *n = with(p, colons ? N_SLICE : N_ITEM, 0, of, parts[0]);
	n->c = parts[1];
	n->d = parts[2];
	if (!colons && !parts[0])
		unexpected(p, "a subscript");
	return n;
}

static struct node *attribute(struct parser *p, struct node *of)
{
	if (peek(p)->kind == T_NUMBER)
		return with(p, N_ITEM, 0, of, number_literal(p));
	struct node *n = with(p, N_ATTRIBUTE, 0, of, NULL);
	n->name = take_name(p);
	return n;
}

static struct node *postfix(struct parser *p, struct node *n)
{
	while (!parser_failed(p)) {
		if (take_sign(p, ".")) {
			n = attribute(p, n);
		} else if (take_sign(p, "[")) {
			n = subscript(p, n);
		} else if (take_sign(p, "(")) {
			n = with(p, N_CALL, 0, n, NULL);
			arguments(p, n);
		} else {
			break;
		}
	}
	return n;
}

/* What may follow "is name" without a parenthesis. */
static bool starts_value(const struct parser *p)
{
	static const char *const words[] = {"else", "or", "and", "if", "is", "in", "not"};
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (is_token(p, T_NAME, words[i]))
			return false;
	enum token_kind k = peek(p)->kind;
	return k == T_NAME || k == T_STRING || k == T_NUMBER || is_token(p, T_SIGN, "[") || is_token(p, T_SIGN, "{");
}

static struct node *filter(struct parser *p, struct node *of)
{
	struct node *n = with(p, N_FILTER, 0, of, NULL);
	n->name = take_name(p);
	n->filter = find_filter(n->name);
	if (!n->filter && !p->conditional)
		parser_fail(p, n->line, "this filter is not supported:", n->name, strlen(n->name));
	if (take_sign(p, "("))
		arguments(p, n);
	return n;
}

static struct node *test(struct parser *p, struct node *of)
{
	struct node *n = with(p, N_TEST, take_word(p, "not"), of, NULL);
	n->name = take_name(p);
	n->test = find_test(n->name);
	if (!n->test && !p->conditional)
		parser_fail(p, n->line, "this test is not supported:", n->name, strlen(n->name));
	if (take_sign(p, "("))
		arguments(p, n);
	else if (starts_value(p))
		add_arg(n, NULL, postfix(p, primary(p)));
	return n;
}

struct node *filters_of(struct parser *p, struct node *n)
{
	while (!parser_failed(p)) {
		if (take_sign(p, "|"))
			n = filter(p, n);
		else if (take_word(p, "is"))
			n = test(p, n);
		else
			break;
	}
	return n;
}

static struct node *unary(struct parser *p, bool with_filters)
{
	struct node *n;
	if (!deeper(p))
		n = new_node(p, N_NAME);
	else if (take_sign(p, "-"))
		n = with(p, N_NEGATE, 0, unary(p, false), NULL);
	else if (take_sign(p, "+"))
		n = unary(p, false);
	else
		n = primary(p);
	n = postfix(p, n);
	p->depth--;
	return with_filters ? filters_of(p, n) : n;
}

/* ---- operators ---- */

/* Binary operators by how tightly they bind: + - before ~ before * / // % before **. */
static struct node *binary(struct parser *p, int level)
{
	static const struct {
		const char *sign;
		int level;
		enum op op;
	} signs[] = {{"+", 0, OP_ADD}, {"-", 0, OP_SUB},    {"~", 1, OP_CONCAT}, {"*", 2, OP_MUL},
		     {"/", 2, OP_DIV}, {"//", 2, OP_FLOOR}, {"%", 2, OP_MOD},    {"**", 3, OP_POW}};
	if (level == 4)
		return unary(p, true);
	struct node *n = binary(p, level + 1);
	for (size_t i = 0; !parser_failed(p) && i < sizeof signs / sizeof *signs; i++)
		if (signs[i].level == level && take_sign(p, signs[i].sign)) {
			n = with(p, N_BINARY, signs[i].op, n, binary(p, level + 1));
			i = (size_t)-1; /* look for another one */
		}
	return n;
}

static int comparison_op(struct parser *p)
{
	static const char *const signs[] = {"==", "!=", "<", "<=", ">", ">="};
	for (int i = 0; i < 6; i++)
		if (take_sign(p, signs[i]))
			return OP_EQ + i;
	if (take_word(p, "in"))
		return OP_IN;
	if (is_token(p, T_NAME, "not") && peek(p)[1].kind == T_NAME && peek(p)[1].n == 2 &&
	    !memcmp(peek(p)[1].s, "in", 2)) {
		p->at += 2;
		return OP_NOT_IN;
	}
	return -1;
}

/* a < b < c is (a < b) and (b < c), with b looked at once. */
static struct node *comparison(struct parser *p)
{
	struct node *first = binary(p, 0), *last = NULL;
	int op;
	while (!parser_failed(p) && (op = comparison_op(p)) >= 0) {
		struct node *n = with(p, N_COMPARE, op, last ? NULL : first, NULL);
		n->b = binary(p, 0);
		if (last)
			last->c = n;
		else
			first = n;
		last = n;
	}
	return first;
}

static struct node *negation(struct parser *p)
{
	if (!take_word(p, "not"))
		return comparison(p);
	struct node *n = new_node(p, N_NOT);
	if (deeper(p))
		n->a = negation(p);
	p->depth--;
	return n;
}

static struct node *conjunction(struct parser *p)
{
	struct node *n = negation(p);
	while (!parser_failed(p) && take_word(p, "and"))
		n = with(p, N_AND, 0, n, negation(p));
	return n;
}

struct node *expression_without_if(struct parser *p)
{
	struct node *n = conjunction(p);
	while (!parser_failed(p) && take_word(p, "or"))
		n = with(p, N_OR, 0, n, conjunction(p));
	return n;
}

struct node *expression(struct parser *p)
{
	struct node *n = deeper(p) ? expression_without_if(p) : new_node(p, N_NAME);
	while (!parser_failed(p) && take_word(p, "if")) {
		p->conditional++;
		n = with(p, N_COND, 0, n, expression_without_if(p));
		if (take_word(p, "else"))
			n->c = expression(p);
		p->conditional--;
	}
	p->depth--;
	return n;
}

struct node *expression_or_tuple(struct parser *p)
{
	struct node *n = expression(p), *tuple;
	if (!is_token(p, T_SIGN, ","))
		return n;
	tuple = new_node(p, N_TUPLE);
	add_arg(tuple, NULL, n);
	while (!parser_failed(p) && take_sign(p, ",") && peek(p)->kind != T_CLOSE_BLOCK &&
	       peek(p)->kind != T_CLOSE_OUTPUT)
		add_arg(tuple, NULL, expression(p));
	return tuple;
}
