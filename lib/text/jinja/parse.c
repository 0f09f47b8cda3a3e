/* The parser of statements; expressions are expression.c's. */
#include "text/jinja/parse.h"
#include <stdlib.h>
#include <string.h>

/* ---- tokens ---- */

bool parser_failed(const struct parser *p)
{
	return p->err->code != SPAR_OK;
}

void parser_fail(struct parser *p, size_t line, const char *what, const char *s, size_t n)
{
	if (!p->err->code)
		spar_fail(p->err, SPAR_INPUT, "template:%zu: %s%s%.*s%s", line, what, n ? " '" : "",
			  (int)(n < 40 ? n : 40), s, n ? "'" : "");
}

const struct token *peek(const struct parser *p)
{
	return &p->tokens.data[p->at];
}

bool is_token(const struct parser *p, enum token_kind kind, const char *text)
{
	const struct token *t = peek(p);
	return t->kind == kind && strlen(text) == t->n && !memcmp(t->s, text, t->n);
}

bool take_sign(struct parser *p, const char *sign)
{
	bool is = is_token(p, T_SIGN, sign);
	p->at += is;
	return is;
}

bool take_word(struct parser *p, const char *word)
{
	bool is = is_token(p, T_NAME, word);
	p->at += is;
	return is;
}

void unexpected(struct parser *p, const char *wanted)
{
	const struct token *t = peek(p);
	bool end = t->kind == T_END || t->kind == T_CLOSE_BLOCK || t->kind == T_CLOSE_OUTPUT;
	if (!parser_failed(p))
		spar_fail(p->err, SPAR_INPUT, "template:%zu: expected %s, got %s%.*s%s", t->line, wanted,
			  end ? "the end" : "'", end ? 0 : (int)(t->n < 40 ? t->n : 40), t->s, end ? "" : "'");
}

void need_sign(struct parser *p, const char *sign)
{
	if (!take_sign(p, sign))
		unexpected(p, sign);
}

const char *take_name(struct parser *p)
{
	const struct token *t = peek(p);
	if (t->kind != T_NAME) {
		unexpected(p, "a name");
		return "";
	}
	p->at++;
	return new_string(&p->tree->pool, t->s, t->n)->text;
}

/* ---- tree ---- */

struct node *new_node(struct parser *p, enum node_kind kind)
{
	struct node *n = spar_calloc(1, sizeof *n);
	n->kind = kind;
	n->line = peek(p)->line;
	n->all = p->tree->all;
	p->tree->all = n;
	return n;
}

void add_arg(struct node *n, const char *name, struct node *value)
{
	if (n->n == n->cap) {
		n->cap = n->cap ? 2 * n->cap : 4;
		n->args = spar_realloc(n->args, n->cap * sizeof *n->args);
		n->names = spar_realloc(n->names, n->cap * sizeof *n->names);
	}
	n->names[n->n] = name;
	n->args[n->n++] = value;
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
	if (parser_failed(p))
		return;
	if (take_end(p, word))
		close_block(p);
	else
		parser_fail(p, line, "this is not closed by", word, strlen(word));
}

/* "{% word ... %}" is behind us: its body, and its end. */
static struct node *body_until(struct parser *p, size_t line, const char *end)
{
	close_block(p);
	struct node *body = block(p, (const char *const[]){end, NULL});
	need_end(p, line, end);
	return body;
}

static struct node *parse_if(struct parser *p)
{
	static const char *const ends[] = {"elif", "else", "endif", NULL};
	struct node *n = new_node(p, N_IF);
	size_t line = n->line;
	n->a = expression(p);
	close_block(p);
	p->conditional++;
	n->body = block(p, ends);
	for (struct node *last = n; !parser_failed(p);) {
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
	p->conditional--;
	return n;
}

/* "a", "a, b", "(a, b), c"; with_attributes: "a.b" too. */
static struct node *one_target(struct parser *p, bool with_attributes);

static struct node *target(struct parser *p, bool with_attributes)
{
	struct node *n = one_target(p, with_attributes), *all;
	if (!is_token(p, T_SIGN, ","))
		return n;
	all = new_node(p, N_TARGET);
	add_arg(all, NULL, n);
	while (!parser_failed(p) && take_sign(p, ","))
		add_arg(all, NULL, one_target(p, with_attributes));
	return all;
}

static struct node *one_target(struct parser *p, bool with_attributes)
{
	struct node *n;
	if (take_sign(p, "(")) {
		if (++p->depth > PARSE_DEPTH_MAX)
			parser_fail(p, peek(p)->line, "nested too deeply", "", 0);
		n = parser_failed(p) ? new_node(p, N_TARGET) : target(p, with_attributes);
		p->depth--;
		need_sign(p, ")");
		return n;
	}
	n = new_node(p, N_TARGET);
	n->name = take_name(p);
	if (with_attributes && take_sign(p, "."))
		n->attribute = take_name(p);
	return n;
}

static struct node *parse_for(struct parser *p)
{
	struct node *n = new_node(p, N_FOR);
	n->target = target(p, false);
	if (!parser_failed(p) && !take_word(p, "in"))
		unexpected(p, "in");
	n->a = parser_failed(p) ? NULL : expression_without_if(p);
	if (!parser_failed(p) && take_word(p, "if"))
		n->b = expression(p);
	close_block(p);
	int conditional = p->conditional; /* a loop's body is looked at anew */
	p->conditional = 0;
	p->in_loop++;
	n->body = block(p, (const char *const[]){"endfor", "else", NULL});
	p->in_loop--;
	if (!parser_failed(p) && take_end(p, "else")) {
		close_block(p);
		n->orelse = block(p, (const char *const[]){"endfor", NULL});
	}
	p->conditional = conditional;
	need_end(p, n->line, "endfor");
	return n;
}

/* {% set a = b %}, or {% set a | filter %}..{% endset %}. */
static struct node *parse_set(struct parser *p)
{
	struct node *n = new_node(p, N_SET);
	n->target = target(p, true);
	if (take_sign(p, "=")) {
		n->a = expression_or_tuple(p);
		close_block(p);
		return n;
	}
	struct node *text = new_node(p, N_BLOCK);
	n->a = filters_of(p, text);
	text->body = body_until(p, n->line, "endset");
	return n;
}

static struct node *parse_with(struct parser *p)
{
	struct node *n = new_node(p, N_WITH);
	while (peek(p)->kind == T_NAME && !parser_failed(p)) {
		const char *name = take_name(p);
		need_sign(p, "=");
		add_arg(n, name, parser_failed(p) ? NULL : expression(p));
		if (!take_sign(p, ","))
			break;
	}
	n->body = body_until(p, n->line, "endwith");
	return n;
}

/* "(a, b=1)" of a macro, the parenthesis being behind us. */
static void parameters(struct parser *p, struct node *macro)
{
	while (!parser_failed(p) && !take_sign(p, ")")) {
		const char *name = take_name(p);
		add_arg(macro, name, take_sign(p, "=") ? expression(p) : NULL);
		if (!is_token(p, T_SIGN, ")"))
			need_sign(p, ",");
	}
}

/* A body that stands for itself: no loop around it can be left from inside. */
static struct node *own_body(struct parser *p, size_t line, const char *end)
{
	int in_loop = p->in_loop, conditional = p->conditional;
	p->in_loop = p->conditional = 0;
	struct node *body = body_until(p, line, end);
	p->in_loop = in_loop;
	p->conditional = conditional;
	return body;
}

static struct node *parse_macro(struct parser *p)
{
	struct node *n = new_node(p, N_MACRO);
	n->name = take_name(p);
	need_sign(p, "(");
	parameters(p, n);
	n->body = own_body(p, n->line, "endmacro");
	return n;
}

/* {% call(a) f(x) %}..{% endcall %}: f is called with a macro `caller` that has the body. */
static struct node *parse_call(struct parser *p)
{
	struct node *n = new_node(p, N_CALL_BLOCK);
	n->b = new_node(p, N_MACRO);
	n->b->name = "caller";
	if (take_sign(p, "("))
		parameters(p, n->b);
	n->a = parser_failed(p) ? n : expression(p);
	if (n->a->kind != N_CALL)
		parser_fail(p, n->line, "a call is expected", "", 0);
	n->b->body = own_body(p, n->line, "endcall");
	return n;
}

/* {% filter a | b %}..{% endfilter %} */
static struct node *parse_filter(struct parser *p)
{
	struct node *n = new_node(p, N_OUTPUT), *text = new_node(p, N_BLOCK);
	p->at--; /* "filter" stands where "|" would */
	p->tokens.data[p->at] = (struct token){T_SIGN, "|", 1, n->line};
	n->a = filters_of(p, text);
	text->body = body_until(p, n->line, "endfilter");
	return n;
}

/* {% generation %} marks what an assistant wrote; it is rendered as a block of its own. */
static struct node *parse_generation(struct parser *p)
{
	struct node *n = new_node(p, N_OUTPUT);
	n->a = new_node(p, N_BLOCK);
	n->a->body = own_body(p, n->line, "endgeneration");
	return n;
}

static struct node *parse_leave(struct parser *p, enum node_kind kind)
{
	struct node *n = new_node(p, kind);
	if (!p->in_loop)
		parser_fail(p, n->line, "this stands in no loop", "", 0);
	close_block(p);
	return n;
}

static struct node *parse_break(struct parser *p)
{
	return parse_leave(p, N_BREAK);
}

static struct node *parse_continue(struct parser *p)
{
	return parse_leave(p, N_CONTINUE);
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
		     {"call", parse_call},
		     {"with", parse_with},
		     {"filter", parse_filter},
		     {"break", parse_break},
		     {"continue", parse_continue},
		     {"generation", parse_generation}};
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (take_word(p, known[i].word))
			return known[i].parse(p);
	parser_fail(p, peek(p)->line, "this statement is not supported:", peek(p)->s, peek(p)->n);
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
	if (++p->depth > PARSE_DEPTH_MAX)
		parser_fail(p, peek(p)->line, "nested too deeply", "", 0);
	while (!parser_failed(p) && peek(p)->kind != T_END && !at_end(p, ends)) {
		struct node *n = NULL;
		const struct token *t = peek(p);
		if (t->kind == T_TEXT) {
			n = new_node(p, N_TEXT);
			n->literal = new_string(&p->tree->pool, t->s, t->n);
			p->at++;
		} else if (t->kind == T_OPEN_OUTPUT) {
			p->at++;
			n = new_node(p, N_OUTPUT);
			n->a = expression_or_tuple(p);
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
	if (tokens_read(&p.tokens, source, n, &inner) == 0)
		t->first = block(&p, NULL);
	tokens_release(&p.tokens);
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
