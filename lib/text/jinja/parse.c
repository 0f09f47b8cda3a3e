#include "text/jinja/parse.h"
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 64

/* ---- tokens ---- */

enum token_kind {
	T_TEXT,
	T_OPEN_OUTPUT,
	T_CLOSE_OUTPUT,
	T_OPEN_BLOCK,
	T_CLOSE_BLOCK,
	T_NAME,
	T_STRING,
	T_NUMBER,
	T_SIGN,
	T_END
};

struct token {
	enum token_kind kind;
	const char *s;
	size_t n, line;
};

struct parser {
	struct tree *tree;
	struct spar_err *err;
	struct token *tokens;
	size_t n, cap, at;
	size_t line;
	int depth, in_loop;
};

static void fail(struct parser *p, size_t line, const char *what, const char *s, size_t n)
{
	if (!p->err->code)
		spar_fail(p->err, SPAR_INPUT, "template:%zu: %s%s%.*s%s", line, what, n ? " '" : "",
			  (int)(n < 40 ? n : 40), s, n ? "'" : "");
}

static bool failed(const struct parser *p)
{
	return p->err->code != SPAR_OK;
}

static bool is_blank(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool is_name_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static void add_token(struct parser *p, enum token_kind kind, const char *s, size_t n)
{
	if (p->n == p->cap) {
		p->cap = p->cap ? 2 * p->cap : 64;
		p->tokens = spar_realloc(p->tokens, p->cap * sizeof *p->tokens);
	}
	p->tokens[p->n++] = (struct token){kind, s, n, p->line};
}

static void count_lines(struct parser *p, const char *s, const char *end)
{
	for (; s < end; s++)
		p->line += *s == '\n';
}

/* Length of the token that is no name and no number at s. */
static size_t sign_length(const char *s, const char *end)
{
	static const char *const two[] = {"==", "!=", "<=", ">=", "//", "**"};
	for (size_t i = 0; i < sizeof two / sizeof *two; i++)
		if (end - s > 1 && !memcmp(s, two[i], 2))
			return 2;
	return 1;
}

static const char *string_end(const char *s, const char *end)
{
	const char *c = s + 1;
	while (c < end && *c != *s)
		c += *c == '\\' ? 2 : 1;
	return c < end ? c + 1 : NULL;
}

/* The tokens of one tag; returns what stands behind its closing mark, which may have a sign before it. */
static const char *lex_tag(struct parser *p, const char *s, const char *end, const char *mark)
{
	int depth = 0;
	while (s < end && !failed(p)) {
		bool signed_mark = (*s == '-' || *s == '+') && end - s > 2 && !memcmp(s + 1, mark, 2);
		if (depth == 0 && (signed_mark || (end - s > 1 && !memcmp(s, mark, 2))))
			return s + signed_mark;
		const char *begin = s;
		if (is_blank(*s)) {
			p->line += *s++ == '\n';
		} else if (is_digit(*s)) {
			while (s < end && (is_digit(*s) || (*s == '.' && s + 1 < end && is_digit(s[1]))))
				s++;
			add_token(p, T_NUMBER, begin, (size_t)(s - begin));
		} else if (is_name_char(*s)) {
			while (s < end && is_name_char(*s))
				s++;
			add_token(p, T_NAME, begin, (size_t)(s - begin));
		} else if (*s == '\'' || *s == '"') {
			s = string_end(s, end);
			if (!s) {
				fail(p, p->line, "a string is not closed", "", 0);
				return end;
			}
			add_token(p, T_STRING, begin, (size_t)(s - begin));
			count_lines(p, begin, s);
		} else {
			depth += (*s == '(' || *s == '[' || *s == '{') - (*s == ')' || *s == ']' || *s == '}');
			s += sign_length(s, end);
			add_token(p, T_SIGN, begin, (size_t)(s - begin));
		}
	}
	fail(p, p->line, "a tag is not closed", "", 0);
	return end;
}

static const char *comment_end(struct parser *p, const char *s, const char *end)
{
	for (const char *c = s; c + 1 < end; c++)
		if (c[0] == '#' && c[1] == '}') {
			count_lines(p, s, c);
			return c;
		}
	fail(p, p->line, "a comment is not closed", "", 0);
	return end;
}

/* The text before a tag, less what the tag's sign and lstrip_blocks take from it. */
static void add_text(struct parser *p, const char *s, const char *end, const char *tag, bool line_start)
{
	const char *cut = end;
	if (tag[2] == '-') {
		while (cut > s && is_blank(cut[-1]))
			cut--;
	} else if (tag[1] != '{' && tag[2] != '+') {
		while (cut > s && (cut[-1] == ' ' || cut[-1] == '\t' || cut[-1] == '\v' || cut[-1] == '\f'))
			cut--;
		if (cut > s ? cut[-1] != '\n' : !line_start)
			cut = end;
	}
	if (cut > s)
		add_token(p, T_TEXT, s, (size_t)(cut - s));
	count_lines(p, s, end);
}

static void lex(struct parser *p, const char *s, const char *end)
{
	bool line_start = true;
	p->line = 1;
	while (s < end && !failed(p)) {
		const char *tag = s;
		while (tag + 1 < end && !(tag[0] == '{' && (tag[1] == '{' || tag[1] == '%' || tag[1] == '#')))
			tag++;
		if (tag + 1 >= end) {
			add_token(p, T_TEXT, s, (size_t)(end - s));
			break;
		}
		add_text(p, s, tag, tag, line_start);
		char type = tag[1];
		const char *inner = tag + 2, *close;
		inner +=
		    inner < end && (*inner == '-' || *inner == '+') && type != '{' ? 1 : inner < end && *inner == '-';
		if (type == '#') {
			close = comment_end(p, inner, end);
		} else {
			add_token(p, type == '{' ? T_OPEN_OUTPUT : T_OPEN_BLOCK, tag, 2);
			close = lex_tag(p, inner, end, type == '{' ? "}}" : "%}");
			add_token(p, type == '{' ? T_CLOSE_OUTPUT : T_CLOSE_BLOCK, tag, 0);
		}
		if (failed(p))
			return;
		s = close + 2;
		if (close[-1] == '-' && close - 1 >= inner) {
			const char *from = s;
			while (s < end && is_blank(*s))
				s++;
			count_lines(p, from, s);
		} else if (type != '{' && s < end && *s == '\n' && !(close[-1] == '+' && close - 1 >= inner)) {
			s++; /* trim_blocks */
			p->line++;
		}
		line_start = s[-1] == '\n';
	}
	add_token(p, T_END, end, 0);
}

/* ---- tree ---- */

static struct node *new_node(struct parser *p, enum node_kind kind)
{
	struct node *n = spar_calloc(1, sizeof *n);
	n->kind = kind;
	n->line = p->tokens[p->at].line;
	n->all = p->tree->all;
	p->tree->all = n;
	return n;
}

static const struct token *peek(const struct parser *p)
{
	return &p->tokens[p->at];
}

static bool is_token(const struct parser *p, enum token_kind kind, const char *text)
{
	const struct token *t = peek(p);
	return t->kind == kind && strlen(text) == t->n && !memcmp(t->s, text, t->n);
}

static bool take_sign(struct parser *p, const char *sign)
{
	bool is = is_token(p, T_SIGN, sign);
	p->at += is;
	return is;
}

static bool take_word(struct parser *p, const char *word)
{
	bool is = is_token(p, T_NAME, word);
	p->at += is;
	return is;
}

static void unexpected(struct parser *p, const char *wanted)
{
	const struct token *t = peek(p);
	bool end = t->kind == T_END || t->kind == T_CLOSE_BLOCK || t->kind == T_CLOSE_OUTPUT;
	if (!failed(p))
		spar_fail(p->err, SPAR_INPUT, "template:%zu: expected %s, got %s%.*s%s", t->line, wanted,
			  end ? "the end" : "'", end ? 0 : (int)(t->n < 40 ? t->n : 40), t->s, end ? "" : "'");
}

static void need_sign(struct parser *p, const char *sign)
{
	if (!take_sign(p, sign))
		unexpected(p, sign);
}

static const char *take_name(struct parser *p)
{
	const struct token *t = peek(p);
	if (t->kind != T_NAME) {
		unexpected(p, "a name");
		return "";
	}
	p->at++;
	return new_string(&p->tree->pool, t->s, t->n)->text;
}

static void add_arg(struct node *n, const char *name, struct node *value)
{
	if (n->n == n->cap) {
		n->cap = n->cap ? 2 * n->cap : 4;
		n->args = spar_realloc(n->args, n->cap * sizeof *n->args);
		n->names = spar_realloc(n->names, n->cap * sizeof *n->names);
	}
	n->names[n->n] = name;
	n->args[n->n++] = value;
}

static struct node *expression(struct parser *p);

static struct node *with(struct parser *p, enum node_kind kind, int op, struct node *a, struct node *b)
{
	struct node *n = new_node(p, kind);
	n->op = op;
	n->a = a;
	n->b = b;
	return n;
}

static struct node *literal(struct parser *p, struct value *v)
{
	struct node *n = new_node(p, N_LITERAL);
	n->literal = v;
	return n;
}

static struct node *string_literal(struct parser *p)
{
	struct builder b = BUILDER_INIT;
	for (; peek(p)->kind == T_STRING; p->at++) { /* neighbours are one string */
		const char *s = peek(p)->s + 1, *end = peek(p)->s + peek(p)->n - 1;
		for (; s < end; s++) {
			static const char from[] = "ntr\\'\"", to[] = "\n\t\r\\'\"";
			const char *known = *s == '\\' && s + 1 < end ? strchr(from, s[1]) : NULL;
			if (known && *known)
				s++;
			add_bytes(&b, known && *known ? &to[known - from] : s, 1, false);
		}
	}
	return literal(p, built(&p->tree->pool, &b));
}

static struct node *number_literal(struct parser *p)
{
	const struct token *t = peek(p);
	char text[40];
	size_t n = t->n < sizeof text - 1 ? t->n : sizeof text - 1;
	memcpy(text, t->s, n);
	text[n] = 0;
	struct value *v = new_number(&p->tree->pool, strtod(text, NULL));
	v->is_float = strchr(text, '.') != NULL;
	p->at++;
	return literal(p, v);
}

/* "a, b, name=c)" */
static void arguments(struct parser *p, struct node *call)
{
	while (!failed(p) && !take_sign(p, ")")) {
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
	while (!failed(p) && !take_sign(p, "}")) {
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
	struct node *n = new_node(p, N_LIST);
	bool comma = false;
	while (!failed(p) && !take_sign(p, close)) {
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
	while (!failed(p) && !take_sign(p, "]")) {
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

static struct node *postfix(struct parser *p, struct node *n)
{
	while (!failed(p)) {
		if (take_sign(p, ".")) {
			n = with(p, N_ATTRIBUTE, 0, n, NULL);
			n->name = take_name(p);
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
	return k == T_NAME || k == T_STRING || k == T_NUMBER;
}

static struct node *filters(struct parser *p, struct node *n)
{
	while (!failed(p)) {
		if (take_sign(p, "|")) {
			n = with(p, N_FILTER, 0, n, NULL);
			n->name = take_name(p);
			if (take_sign(p, "("))
				arguments(p, n);
		} else if (take_word(p, "is")) {
			n = with(p, N_TEST, take_word(p, "not"), n, NULL);
			n->name = take_name(p);
			if (take_sign(p, "("))
				arguments(p, n);
			else if (starts_value(p))
				add_arg(n, NULL, postfix(p, primary(p)));
		} else {
			break;
		}
	}
	return n;
}

static struct node *unary(struct parser *p, bool with_filters)
{
	struct node *n;
	if (++p->depth > DEPTH_MAX)
		fail(p, peek(p)->line, "nested too deeply", "", 0);
	if (failed(p))
		n = new_node(p, N_NAME);
	else if (take_sign(p, "-"))
		n = with(p, N_NEGATE, 0, unary(p, false), NULL);
	else if (take_sign(p, "+"))
		n = unary(p, false);
	else
		n = primary(p);
	n = postfix(p, n);
	p->depth--;
	return with_filters ? filters(p, n) : n;
}

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
	for (size_t i = 0; !failed(p) && i < sizeof signs / sizeof *signs; i++)
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

/* a < b < c is (a < b) and (b < c). */
static struct node *comparison(struct parser *p)
{
	struct node *left = binary(p, 0), *all = NULL;
	int op;
	while (!failed(p) && (op = comparison_op(p)) >= 0) {
		struct node *right = binary(p, 0), *one = with(p, N_COMPARE, op, left, right);
		all = all ? with(p, N_AND, 0, all, one) : one;
		left = right;
	}
	return all ? all : left;
}

static struct node *negation(struct parser *p)
{
	if (!take_word(p, "not"))
		return comparison(p);
	if (++p->depth > DEPTH_MAX) {
		fail(p, peek(p)->line, "nested too deeply", "", 0);
		return new_node(p, N_NAME);
	}
	struct node *n = with(p, N_NOT, 0, negation(p), NULL);
	p->depth--;
	return n;
}

static struct node *conjunction(struct parser *p)
{
	struct node *n = negation(p);
	while (!failed(p) && take_word(p, "and"))
		n = with(p, N_AND, 0, n, negation(p));
	return n;
}

static struct node *disjunction(struct parser *p)
{
	struct node *n = conjunction(p);
	while (!failed(p) && take_word(p, "or"))
		n = with(p, N_OR, 0, n, conjunction(p));
	return n;
}

static struct node *expression(struct parser *p)
{
	if (++p->depth > DEPTH_MAX)
		fail(p, peek(p)->line, "nested too deeply", "", 0);
	struct node *n = failed(p) ? new_node(p, N_NAME) : disjunction(p);
	while (!failed(p) && take_word(p, "if")) {
		n = with(p, N_COND, 0, n, disjunction(p));
		if (take_word(p, "else"))
			n->c = expression(p);
	}
	p->depth--;
	return n;
}

/* ---- statements ---- */

static struct node *block(struct parser *p, const char *const *ends);

static void close_block(struct parser *p)
{
	if (peek(p)->kind == T_CLOSE_BLOCK)
		p->at++;
	else
		unexpected(p, "the end of the tag");
}

/* At "{% word" with one of these words: take it, leaving what follows the word. */
static bool take_end(struct parser *p, const char *word)
{
	if (peek(p)->kind != T_OPEN_BLOCK || peek(p)[1].n != strlen(word) ||
	    memcmp(peek(p)[1].s, word, peek(p)[1].n) != 0)
		return false;
	p->at += 2;
	return true;
}

static void need_end(struct parser *p, size_t line, const char *word)
{
	if (failed(p))
		return;
	if (take_end(p, word))
		close_block(p);
	else
		fail(p, line, "this is not closed by", word, strlen(word));
}

static struct node *parse_if(struct parser *p)
{
	static const char *const ends[] = {"elif", "else", "endif", NULL};
	struct node *n = new_node(p, N_IF);
	size_t line = n->line;
	n->a = expression(p);
	close_block(p);
	n->body = block(p, ends);
	for (struct node *last = n; !failed(p);) {
		if (take_end(p, "elif")) {
			last->orelse = new_node(p, N_IF);
			last = last->orelse;
			last->a = expression(p);
			close_block(p);
			last->body = block(p, ends);
			continue;
		}
		if (take_end(p, "else")) {
			close_block(p);
			last->orelse = block(p, (const char *const[]){"endif", NULL});
		}
		need_end(p, line, "endif");
		break;
	}
	return n;
}

static struct node *parse_for(struct parser *p)
{
	struct node *n = new_node(p, N_FOR);
	bool parenthesis = take_sign(p, "(");
	do
		add_arg(n, take_name(p), NULL);
	while (take_sign(p, ",") && !failed(p));
	if (parenthesis)
		need_sign(p, ")");
	if (!failed(p) && !take_word(p, "in"))
		unexpected(p, "in");
	n->a = failed(p) ? NULL : disjunction(p);
	if (!failed(p) && take_word(p, "if"))
		n->b = expression(p);
	close_block(p);
	p->in_loop++;
	n->body = block(p, (const char *const[]){"endfor", "else", NULL});
	p->in_loop--;
	if (!failed(p) && take_end(p, "else")) {
		close_block(p);
		n->orelse = block(p, (const char *const[]){"endfor", NULL});
	}
	need_end(p, n->line, "endfor");
	return n;
}

static struct node *parse_set(struct parser *p)
{
	struct node *n = new_node(p, N_SET);
	n->name = take_name(p);
	add_arg(n, n->name, NULL);
	if (take_sign(p, "."))
		n->attribute = take_name(p);
	while (!failed(p) && !n->attribute && take_sign(p, ","))
		add_arg(n, take_name(p), NULL);
	if (take_sign(p, "=")) {
		n->a = expression(p);
		if (is_token(p, T_SIGN, ",")) { /* a tuple without parenthesis */
			struct node *tuple = new_node(p, N_LIST);
			add_arg(tuple, NULL, n->a);
			while (!failed(p) && take_sign(p, ","))
				add_arg(tuple, NULL, expression(p));
			n->a = tuple;
		}
		close_block(p);
		return n;
	}
	close_block(p);
	n->body = block(p, (const char *const[]){"endset", NULL});
	need_end(p, n->line, "endset");
	return n;
}

static struct node *parse_macro(struct parser *p)
{
	struct node *n = new_node(p, N_MACRO);
	int in_loop = p->in_loop;
	n->name = take_name(p);
	need_sign(p, "(");
	while (!failed(p) && !take_sign(p, ")")) {
		const char *name = take_name(p);
		add_arg(n, name, take_sign(p, "=") ? expression(p) : NULL);
		if (!is_token(p, T_SIGN, ")"))
			need_sign(p, ",");
	}
	close_block(p);
	p->in_loop = 0;
	n->body = block(p, (const char *const[]){"endmacro", NULL});
	p->in_loop = in_loop;
	need_end(p, n->line, "endmacro");
	return n;
}

/* {% generation %} marks what an assistant wrote; what is in it counts as if it stood without. */
static struct node *parse_generation(struct parser *p)
{
	struct node *n = new_node(p, N_IF);
	n->a = literal(p, new_bool(&p->tree->pool, true));
	close_block(p);
	n->body = block(p, (const char *const[]){"endgeneration", NULL});
	need_end(p, n->line, "endgeneration");
	return n;
}

static struct node *statement(struct parser *p)
{
	static const struct {
		const char *word;
		struct node *(*parse)(struct parser *p);
	} known[] = {{"if", parse_if},
		     {"for", parse_for},
		     {"set", parse_set},
		     {"macro", parse_macro},
		     {"generation", parse_generation}};
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (take_word(p, known[i].word))
			return known[i].parse(p);
	if (p->in_loop && (is_token(p, T_NAME, "break") || is_token(p, T_NAME, "continue"))) {
		struct node *n = new_node(p, is_token(p, T_NAME, "break") ? N_BREAK : N_CONTINUE);
		p->at++;
		close_block(p);
		return n;
	}
	fail(p, peek(p)->line, "this statement is not supported:", peek(p)->s, peek(p)->n);
	return NULL;
}

static bool at_end(const struct parser *p, const char *const *ends)
{
	if (peek(p)->kind != T_OPEN_BLOCK)
		return false;
	const struct token *word = peek(p) + 1;
	for (; ends && *ends; ends++)
		if (word->kind == T_NAME && strlen(*ends) == word->n && !memcmp(word->s, *ends, word->n))
			return true;
	return false;
}

static struct node *block(struct parser *p, const char *const *ends)
{
	struct node *first = NULL, **last = &first;
	if (++p->depth > DEPTH_MAX)
		fail(p, peek(p)->line, "nested too deeply", "", 0);
	while (!failed(p) && peek(p)->kind != T_END && !at_end(p, ends)) {
		struct node *n = NULL;
		const struct token *t = peek(p);
		if (t->kind == T_TEXT) {
			n = new_node(p, N_TEXT);
			n->literal = new_string(&p->tree->pool, t->s, t->n);
			p->at++;
		} else if (t->kind == T_OPEN_OUTPUT) {
			p->at++;
			n = new_node(p, N_OUTPUT);
			n->a = expression(p);
			if (peek(p)->kind == T_CLOSE_OUTPUT)
				p->at++;
			else
				unexpected(p, "the end of the tag");
		} else {
			p->at++;
			n = statement(p);
		}
		if (n) {
			*last = n;
			last = &n->next;
		}
	}
	p->depth--;
	return first;
}

int tree_parse(struct tree *t, const char *source, size_t n, struct spar_err *err)
{
	struct spar_err inner = {0};
	struct parser p = {.tree = t, .err = &inner};
	struct spar_str text = SPAR_STR_INIT; /* every kind of line end as \n, the last one dropped */
	for (size_t i = 0; i < n; i++)
		if (source[i] != '\r')
			spar_str_addc(&text, source[i]);
		else if (i + 1 == n || source[i + 1] != '\n')
			spar_str_addc(&text, '\n');
	if (text.len && text.data[text.len - 1] == '\n')
		text.len--;
	lex(&p, text.data, text.data + text.len);
	if (!failed(&p))
		t->first = block(&p, NULL);
	free(p.tokens);
	spar_str_release(&text);
	return inner.code ? spar_fail(err, inner.code, "%s", inner.msg) : 0;
}

void tree_free(struct tree *t)
{
	while (t->all) {
		struct node *n = t->all;
		t->all = n->all;
		free(n->args);
		free(n->names);
		free(n);
	}
	pool_free(&t->pool);
}
