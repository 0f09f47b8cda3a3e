#include "tensor/tensor.h"
#include "tensor/fused.h"
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <deque>
#include <dlfcn.h>
#include <malloc.h>
#include <memory>
#include <string>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/version.h>
#include <unistd.h>
#include <utility>
#include <vector>

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

struct spar_tensor {
	Tensor t;
};

/* A run of consecutive query rows computed together, and the keys they may need between them. */
struct Chunk {
	int64_t row, n_rows;
	std::vector<std::pair<int64_t, int64_t>> keys; /* (begin, n), ascending */
	int64_t n_keys;
	int64_t first_hidden; /* keys before this column are seen by every row ... */
	Tensor hidden; /* ... (n_rows, n_keys - first_hidden) bool: the others, where the row must not see them */
};

struct spar_tree {
	int64_t n_nodes;
	std::vector<Chunk> chunks;
	std::vector<size_t> shares; /* chunks [shares[i], shares[i + 1]) are worker i's; about equal work */
};

struct spar_scope {
	at::Device device{at::kCPU};
	bool grad = false;
	struct spar_scope *outer = nullptr;
	struct spar_err err = {};
	std::deque<spar_tensor> tensors; /* deques: addresses stay */
	std::deque<spar_tree> trees;
};

namespace
{

/* ---- the guard: every body that calls libtorch runs in here ---- */

int failed(struct spar_err *err, const char *what)
{
	std::string line(what, strcspn(what, "\n")); /* libtorch adds a stack trace */
	return spar_fail(err, SPAR_FAIL, "libtorch: %s", line.c_str());
}

template <class Body> int guard(struct spar_err *err, Body body)
{
	try {
		body();
		return 0;
	} catch (const std::exception &e) {
		return failed(err, e.what());
	} catch (...) {
		return failed(err, "unknown exception");
	}
}

using Operands = std::initializer_list<const spar_tensor *>;

/* Run `body` unless the scope has failed; true if it ran to its end. */
template <class Body> bool run(struct spar_scope *s, Operands operands, Body body)
{
	if (s->err.code != SPAR_OK)
		return false;
	for (const spar_tensor *t : operands)
		if (!t)
			return spar_fail(&s->err, SPAR_FAIL, "libtorch: an operand is missing"), false;
	return guard(&s->err, [&] {
		       c10::AutoGradMode mode(s->grad);
		       body();
	       }) == 0;
}

template <class Body> struct spar_tensor *make(struct spar_scope *s, Operands operands, Body body)
{
	struct spar_tensor *made = nullptr;
	run(s, operands, [&] {
		s->tensors.push_back({body()});
		made = &s->tensors.back();
	});
	return made;
}

at::ScalarType scalar_type(enum spar_tensor_type type)
{
	return type == SPAR_TENSOR_F32 ? at::kFloat : type == SPAR_TENSOR_BF16 ? at::kBFloat16 : at::kLong;
}

std::vector<int64_t> sizes(int n_dims, const size_t *shape)
{
	return std::vector<int64_t>(shape, shape + n_dims);
}

/* ---- operations with a backward of their own: fewer passes over memory and less kept than the composed ones ---- */

struct RmsNorm : Function<RmsNorm> {
	static Tensor forward(AutogradContext *ctx, Tensor x, Tensor gain, double eps, int64_t type)
	{
		Tensor inverse = at::norm(x, 2, {-1}, true).square_().div_(x.size(-1)).add_(eps).rsqrt_();
		ctx->save_for_backward({x, gain, inverse});
		return at::mul(x, inverse).mul_(gain).to(static_cast<at::ScalarType>(type));
	}

	/* With n = x / rms and c = mean(dy gain n): dx = (dy gain - c n) / rms, dgain = sum over rows of dy n. */
	static variable_list backward(AutogradContext *ctx, variable_list dys)
	{
		variable_list saved = ctx->get_saved_variables();
		const Tensor &x = saved[0], &gain = saved[1], &inverse = saved[2];
		Tensor dy = dys[0].to(at::kFloat), normed = at::mul(x, inverse), product = at::mul(dy, normed);
		Tensor mean = at::mv(product, gain).div_(x.size(-1)).unsqueeze_(-1);
		Tensor dx = at::mul(dy, gain).sub_(normed.mul_(mean)).mul_(inverse);
		return {dx, ctx->needs_input_grad(1) ? product.sum(0) : Tensor(), Tensor(), Tensor()};
	}
};

Tensor activate(const Tensor &x, int64_t kind)
{
	return kind == SPAR_TENSOR_SILU ? at::silu(x) : at::gelu(x, "tanh");
}

Tensor activate_backward(const Tensor &dy, const Tensor &x, int64_t kind)
{
	return kind == SPAR_TENSOR_SILU ? at::silu_backward(dy, x) : at::gelu_backward(dy, x, "tanh");
}

/* body(begin, n) over ranges of n_all numbers, on a CPU. */
template <class Body> void each_range(int64_t n_all, Body body)
{
	at::parallel_for(0, n_all, 1 << 14,
			 [&](int64_t begin, int64_t end) { body(begin, static_cast<size_t>(end - begin)); });
}

char *bytes(const Tensor &t, int64_t at)
{
	return static_cast<char *>(t.data_ptr()) + at * static_cast<int64_t>(t.element_size());
}

struct Gated : Function<Gated> {
	static spar_fused how(const Tensor &x, int64_t kind)
	{
		return {x.scalar_type() == at::kBFloat16, kind == SPAR_TENSOR_GELU_TANH};
	}

	static Tensor forward(AutogradContext *ctx, Tensor gate, Tensor up, int64_t kind)
	{
		gate = gate.contiguous(), up = up.contiguous();
		ctx->save_for_backward({gate, up});
		ctx->saved_data["kind"] = kind;
		if (!gate.is_cpu())
			return activate(gate, kind).mul_(up);
		Tensor out = at::empty_like(gate);
		each_range(gate.numel(), [&](int64_t at, size_t n) {
			spar_fused_gated(how(gate, kind), n, bytes(gate, at), bytes(up, at), bytes(out, at));
		});
		return out;
	}

	static variable_list backward(AutogradContext *ctx, variable_list dys)
	{
		variable_list saved = ctx->get_saved_variables();
		const Tensor &gate = saved[0], &up = saved[1];
		int64_t kind = ctx->saved_data["kind"].toInt();
		if (!gate.is_cpu())
			return {activate_backward(at::mul(dys[0], up), gate, kind), activate(gate, kind).mul_(dys[0]),
				Tensor()};
		Tensor dy = dys[0].contiguous(), dgate = at::empty_like(gate), dup = at::empty_like(gate);
		each_range(gate.numel(), [&](int64_t at, size_t n) {
			spar_fused_gated_backward(how(gate, kind), n, bytes(gate, at), bytes(up, at), bytes(dy, at),
						  bytes(dgate, at), bytes(dup, at));
		});
		return {dgate, dup, Tensor()};
	}
};

/* out[i] = x[i], or 0 where the i-th sixteen bits of SplitMix64 (Steele, Lea, Flood 2014) are below the threshold. */
template <class T> void drop_range(const T *x, T *out, int64_t begin, int64_t end, uint64_t seed, uint32_t threshold)
{
	for (int64_t block = begin / 4; 4 * block < end; block++) {
		uint64_t z = seed + (static_cast<uint64_t>(block) + 1) * 0x9E3779B97F4A7C15u;
		z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
		z = (z ^ z >> 27) * 0x94D049BB133111EBu;
		z ^= z >> 31;
		for (int64_t i = 4 * block; i < std::min(4 * block + 4, end); i++, z >>= 16)
			out[i] = (z & 0xFFFF) < threshold ? T(0) : x[i];
	}
}

Tensor drop(const Tensor &x, double p, int64_t seed)
{
	if (!x.is_cpu()) {
		at::Generator generator = at::globalContext().defaultGenerator(x.device());
		generator.set_current_seed(static_cast<uint64_t>(seed));
		return at::mul(x, at::empty_like(x).bernoulli_(1 - p, generator));
	}
	Tensor from = x.contiguous(), out = at::empty_like(from);
	auto work = [&](auto *to) {
		const auto *data = from.data_ptr<std::decay_t<decltype(*to)>>();
		at::parallel_for(0, (from.numel() + 3) / 4, 1 << 14, [&](int64_t begin, int64_t end) {
			drop_range(data, to, 4 * begin, std::min(4 * end, from.numel()), static_cast<uint64_t>(seed),
				   static_cast<uint32_t>(std::lround(p * 65536)));
		});
	};
	if (from.scalar_type() == at::kBFloat16)
		work(out.data_ptr<at::BFloat16>());
	else
		work(out.data_ptr<float>());
	return out;
}

struct DroppedLinear : Function<DroppedLinear> {
	static Tensor forward(AutogradContext *ctx, Tensor x, Tensor w, double p, int64_t seed)
	{
		ctx->save_for_backward({x, w});
		ctx->saved_data["p"] = p;
		ctx->saved_data["seed"] = seed;
		return at::linear(drop(x, p, seed), w).div_(1 - p);
	}

	static variable_list backward(AutogradContext *ctx, variable_list dys)
	{
		variable_list saved = ctx->get_saved_variables();
		double p = ctx->saved_data["p"].toDouble();
		int64_t seed = ctx->saved_data["seed"].toInt();
		Tensor dy = at::mul(dys[0], 1 / (1 - p));
		return {ctx->needs_input_grad(0) ? drop(at::mm(dy, saved[1]), p, seed) : Tensor(),
			at::mm(dy.t(), drop(saved[0], p, seed)), Tensor(), Tensor()};
	}
};

/* A shape without values: one zero in memory. */
Tensor blank(at::IntArrayRef shape, const at::TensorOptions &options)
{
	return at::zeros({1}, options).expand(shape);
}

/* In place of an operand that is not there. */
Tensor nothing()
{
	return at::empty({0}, at::kFloat);
}

struct PromisedLinear : Function<PromisedLinear> {
	static Tensor forward(AutogradContext *ctx, Tensor x, Tensor w, Tensor bias)
	{
		(void)bias;
		ctx->save_for_backward({x, w});
		return blank({x.size(0), w.size(0)}, x.options());
	}

	static variable_list backward(AutogradContext *ctx, variable_list dys)
	{
		variable_list saved = ctx->get_saved_variables();
		const Tensor &dy = dys[0];
		return {ctx->needs_input_grad(0) ? at::mm(dy, saved[1]) : Tensor(),
			ctx->needs_input_grad(1) ? at::mm(dy.t(), saved[0]) : Tensor(),
			ctx->needs_input_grad(2) ? dy.sum(0) : Tensor()};
	}
};

struct Settle : Function<Settle> {
	static Tensor forward(AutogradContext *ctx, Tensor value, Tensor a, Tensor b)
	{
		ctx->saved_data["a"] = static_cast<int64_t>(a.scalar_type());
		ctx->saved_data["b"] = static_cast<int64_t>(b.scalar_type());
		return value.detach();
	}

	static variable_list backward(AutogradContext *ctx, variable_list dys)
	{
		auto a = static_cast<at::ScalarType>(ctx->saved_data["a"].toInt());
		auto b = static_cast<at::ScalarType>(ctx->saved_data["b"].toInt());
		return {Tensor(), ctx->needs_input_grad(1) ? dys[0].to(a) : Tensor(),
			ctx->needs_input_grad(2) ? dys[0].to(b) : Tensor()};
	}
};

/* out(h, i, :) = x(i, h, :) with its halves turned by the row's angles. Strides of x and out are arbitrary. */
void rotate(const Tensor &x, const Tensor &out, const Tensor &cos, const Tensor &sin, double direction)
{
	int64_t half = cos.size(-1);
	Tensor x1 = x.narrow(-1, 0, half), x2 = x.narrow(-1, half, half);
	Tensor y1 = out.narrow(-1, 0, half), y2 = out.narrow(-1, half, half);
	at::mul_out(y1, x1, cos).addcmul_(x2, sin, -direction);
	at::mul_out(y2, x2, cos).addcmul_(x1, sin, direction);
}

struct Rotary : Function<Rotary> {
	static Tensor forward(AutogradContext *ctx, Tensor x, Tensor cos, Tensor sin, int64_t n_heads)
	{
		ctx->save_for_backward({cos, sin});
		ctx->saved_data["type"] = static_cast<int64_t>(x.scalar_type());
		Tensor heads = x.to(at::kFloat).view({x.size(0), n_heads, -1}).transpose(0, 1);
		Tensor out = at::empty({n_heads, x.size(0), heads.size(-1)}, heads.options());
		rotate(heads, out, cos, sin, 1);
		return out;
	}

	static variable_list backward(AutogradContext *ctx, variable_list dys)
	{
		variable_list saved = ctx->get_saved_variables();
		const Tensor &dy = dys[0];
		Tensor dx = at::empty({dy.size(1), dy.size(0), dy.size(2)}, dy.options());
		rotate(dy, dx.transpose(0, 1), saved[0], saved[1], -1);
		auto type = static_cast<at::ScalarType>(ctx->saved_data["type"].toInt());
		return {dx.flatten(1).to(type), Tensor(), Tensor(), Tensor()};
	}
};

/* ---- tree attention ---- */

const int64_t MAX_CHUNK_ROWS = 256;
const int64_t CHUNK_OVERHEAD = 16384; /* scores whose time equals the fixed cost of one more chunk */

/* What a tree is made of. */
struct Forest {
	const spar_branch *spans;
	std::vector<int64_t> positions; /* of each span's first node */
	int64_t window;                 /* a row sees the keys of this many positions up to its own; 0: all */
	at::Device device;
};

Forest new_forest(const spar_branch *spans, size_t n_spans, size_t window, at::Device device)
{
	Forest f = {spans, {}, static_cast<int64_t>(window), device};
	for (size_t i = 0; i < n_spans; i++) {
		int32_t up = spans[i].parent;
		f.positions.push_back(up < 0 ? 0 : f.positions[up] + static_cast<int64_t>(spans[up].n));
	}
	return f;
}

/* The spans that rows of spans [first, last] see some of: the ancestors of the first one, and themselves. */
std::vector<size_t> seen_spans(const spar_branch *spans, size_t first, size_t last)
{
	std::vector<size_t> seen;
	for (int32_t a = spans[first].parent; a >= 0; a = spans[a].parent)
		seen.push_back(static_cast<size_t>(a));
	std::reverse(seen.begin(), seen.end());
	for (size_t i = first; i <= last; i++)
		seen.push_back(i);
	return seen;
}

int64_t count_keys(const spar_branch *spans, size_t first, size_t last)
{
	int64_t n = 0;
	for (size_t i : seen_spans(spans, first, last))
		n += static_cast<int64_t>(spans[i].n);
	return n;
}

/* The positions of rows [row, row + n_rows), which lie in spans [first, last]. */
std::vector<int64_t> row_positions(const Forest &f, size_t first, size_t last, int64_t row, int64_t n_rows)
{
	std::vector<int64_t> positions;
	for (size_t i = first; i <= last; i++)
		for (size_t j = 0; j < f.spans[i].n; j++) {
			int64_t node = static_cast<int64_t>(f.spans[i].begin + j);
			if (node >= row && node < row + n_rows)
				positions.push_back(f.positions[i] + static_cast<int64_t>(j));
		}
	return positions;
}

/* The rows [from, to) below a key, and its position. */
struct Key {
	int64_t from, to, position;
};

/* Rows [row, row + n_rows) of spans [first, last]. Key j of a span is seen by the rows in [j, the span's end) that are
 * less than a window away. */
Chunk new_chunk(const Forest &f, size_t first, size_t last, int64_t row, int64_t n_rows)
{
	Chunk c = {row, n_rows, {}, 0, 0, Tensor()};
	std::vector<int64_t> at = row_positions(f, first, last, row, n_rows);
	int64_t lowest = f.window ? *std::min_element(at.begin(), at.end()) - f.window + 1 : 0;
	std::vector<Key> keys;
	for (size_t i : seen_spans(f.spans, first, last)) {
		int64_t begin = static_cast<int64_t>(f.spans[i].begin), end = static_cast<int64_t>(f.spans[i].end);
		int64_t n = std::min(static_cast<int64_t>(f.spans[i].n), row + n_rows - begin);
		if (n <= 0)
			break;
		int64_t passed = std::min(n, std::max<int64_t>(0, lowest - f.positions[i]));
		if (passed < n)
			c.keys.emplace_back(begin + passed, n - passed);
		for (int64_t j = passed; j < n; j++)
			keys.push_back({begin + j, end, f.positions[i] + j});
	}
	auto sees = [&](int64_t r, const Key &k) {
		return r >= k.from && r < k.to && (!f.window || at[r - row] - k.position < f.window);
	};
	auto seen_by_all = [&](const Key &k) {
		for (int64_t r = row; r < row + n_rows; r++)
			if (!sees(r, k))
				return false;
		return true;
	};
	c.n_keys = static_cast<int64_t>(keys.size());
	while (c.first_hidden < c.n_keys && seen_by_all(keys[c.first_hidden]))
		c.first_hidden++;
	if (c.first_hidden == c.n_keys)
		return c;
	Tensor hidden = at::empty({n_rows, c.n_keys - c.first_hidden}, at::kBool);
	bool *out = hidden.data_ptr<bool>();
	for (int64_t r = row; r < row + n_rows; r++)
		for (int64_t k = c.first_hidden; k < c.n_keys; k++)
			*out++ = !sees(r, keys[k]);
	c.hidden = hidden.to(f.device);
	return c;
}

/* Cut the rows into chunks: a long span into equal parts; short neighbours together while that wastes few scores. */
void cut_chunks(spar_tree &tree, const Forest &f, size_t n_spans)
{
	const spar_branch *spans = f.spans;
	for (size_t first = 0, last; first < n_spans; first = last + 1) {
		int64_t row = static_cast<int64_t>(spans[first].begin), n = static_cast<int64_t>(spans[first].n);
		int64_t work = n * count_keys(spans, first, first);
		for (last = first; last + 1 < n_spans; last++) {
			int64_t more = static_cast<int64_t>(spans[last + 1].n);
			int64_t apart = work + more * count_keys(spans, last + 1, last + 1) + CHUNK_OVERHEAD;
			int64_t together = (n + more) * count_keys(spans, first, last + 1);
			if (n + more > MAX_CHUNK_ROWS || together > apart)
				break;
			n += more;
			work = together;
		}
		int64_t parts = (n + MAX_CHUNK_ROWS - 1) / MAX_CHUNK_ROWS;
		for (int64_t p = 0; p < parts; p++) {
			int64_t begin = n * p / parts, end = n * (p + 1) / parts;
			tree.chunks.push_back(new_chunk(f, first, last, row + begin, end - begin));
		}
	}
}

/* On a CPU chunks run side by side, each on one thread: their products are too small to be shared out. */
void share_out(spar_tree &tree, size_t n_workers)
{
	int64_t total = 0, done = 0;
	for (const Chunk &c : tree.chunks)
		total += c.n_rows * c.n_keys;
	tree.shares.push_back(0);
	for (size_t i = 0; i < tree.chunks.size(); i++) {
		done += tree.chunks[i].n_rows * tree.chunks[i].n_keys;
		if (tree.shares.size() < n_workers &&
		    done * static_cast<int64_t>(n_workers) >= total * static_cast<int64_t>(tree.shares.size()))
			tree.shares.push_back(i + 1);
	}
	tree.shares.push_back(tree.chunks.size());
}

template <class Body> void each_chunk(const spar_tree &tree, Body body)
{
	auto work = [&](int64_t begin, int64_t end) {
		c10::AutoGradMode no_grad(false); /* the mode is a thread's own */
		for (int64_t w = begin; w < end; w++)
			for (size_t i = tree.shares[w]; i < tree.shares[w + 1]; i++)
				body(w, tree.chunks[i]);
	};
	int64_t n_workers = tree.shares.size() - 1;
	if (n_workers == 1)
		work(0, 1);
	else
		at::parallel_for(0, n_workers, 1, work);
}

/* The chunk's keys or values out of (heads, n, d), contiguous. */
Tensor collect(const Tensor &t, const Chunk &c)
{
	if (c.keys.size() == 1)
		return t.narrow(1, c.keys[0].first, c.keys[0].second).contiguous();
	std::vector<Tensor> parts;
	for (const auto &range : c.keys)
		parts.push_back(t.narrow(1, range.first, range.second));
	return at::cat(parts, 1);
}

/* The reverse of collect: t += part, each range in its place. */
void spread(const Tensor &t, const Tensor &part, const Chunk &c)
{
	int64_t at = 0;
	for (const auto &range : c.keys) {
		t.narrow(1, range.first, range.second).add_(part.narrow(1, at, range.second));
		at += range.second;
	}
}

/* Rows of (heads, n, d) as (kv heads, query heads of each * rows, d), scaled. */
Tensor queries(const Tensor &q, const Chunk &c, int64_t n_kv, double scale)
{
	return at::mul(q.narrow(1, c.row, c.n_rows), scale).reshape({n_kv, -1, q.size(2)});
}

/* Softmax of the scores; *bend, if there is a cap: tanh(score / cap), which its slope is made of. */
Tensor weights(const Tensor &q, const Tensor &k, const Chunk &c, double cap, Tensor *bend)
{
	Tensor scores = at::bmm(q, k.transpose(1, 2));
	if (cap > 0) {
		*bend = scores.mul_(1 / cap).tanh_();
		scores = at::mul(*bend, cap);
	}
	if (c.hidden.defined())
		scores.view({-1, c.n_rows, c.n_keys})
		    .narrow(2, c.first_hidden, c.n_keys - c.first_hidden)
		    .masked_fill_(c.hidden, -INFINITY);
	return at::softmax(scores, -1);
}

struct Attend : Function<Attend> {
	static Tensor forward(AutogradContext *ctx, Tensor q, Tensor k, Tensor v, int64_t tree_address, double scale,
			      double cap, bool promised)
	{
		ctx->save_for_backward({q, k, v});
		ctx->saved_data["tree"] = tree_address;
		ctx->saved_data["scale"] = scale;
		ctx->saved_data["cap"] = cap;
		int64_t n_kv = k.size(0), n = q.size(1), d = q.size(2);
		if (promised)
			return blank({n, q.size(0) * d}, v.options());
		Tensor values = v.detach().to(at::kFloat).view({n, n_kv, d}).transpose(0, 1);
		Tensor qs = q.detach(), ks = k.detach();
		Tensor out = at::empty({n, q.size(0), d}, q.options());
		each_chunk(*reinterpret_cast<const spar_tree *>(tree_address), [&](int64_t, const Chunk &c) {
			Tensor bend, p = weights(queries(qs, c, n_kv, scale), collect(ks, c), c, cap, &bend);
			Tensor o = at::bmm(p, collect(values, c)).view({-1, c.n_rows, d});
			out.narrow(0, c.row, c.n_rows).copy_(o.transpose(0, 1));
		});
		return out.flatten(1).to(v.scalar_type());
	}

	/* The weights p are computed again: keeping them would cost rows * keys * heads per layer.
	 * dv = p^T do, ds = p (do v^T - rowsum(p do v^T)) (1 - bend^2), dq = ds k, dk = ds^T q. */
	static variable_list backward(AutogradContext *ctx, variable_list dys)
	{
		variable_list saved = ctx->get_saved_variables();
		Tensor q = saved[0].detach(), k = saved[1].detach(), v = saved[2].detach();
		int64_t n_heads = q.size(0), n_kv = k.size(0), n = q.size(1), d = q.size(2);
		auto type = v.scalar_type(); /* of all products but the scores */
		Tensor values = v.view({n, n_kv, d}).transpose(0, 1);
		Tensor dout = dys[0].reshape({n, n_heads, d}).transpose(0, 1);
		Tensor dq = at::empty_like(q);
		const auto &tree = *reinterpret_cast<const spar_tree *>(ctx->saved_data["tree"].toInt());
		std::vector<Tensor> dks(tree.shares.size() - 1),
		    dvs(dks.size()); /* a worker's own, added up in order */
		double scale = ctx->saved_data["scale"].toDouble(), cap = ctx->saved_data["cap"].toDouble();
		each_chunk(tree, [&](int64_t w, const Chunk &c) {
			if (!dks[w].defined()) {
				dks[w] = at::zeros_like(k);
				dvs[w] = at::zeros({n_kv, n, d}, k.options());
			}
			Tensor qc = queries(q, c, n_kv, scale), kc = collect(k, c), vc = collect(values, c), bend;
			Tensor p = weights(qc, kc, c, cap, &bend);
			Tensor dc = dout.narrow(1, c.row, c.n_rows).reshape({n_kv, -1, d});
			spread(dvs[w], at::bmm(p.to(type).transpose(1, 2), dc), c);
			Tensor dp = at::bmm(dc, vc.transpose(1, 2)).to(at::kFloat);
			Tensor ds = at::_softmax_backward_data(dp, p, -1, at::kFloat);
			if (cap > 0)
				ds = ds.sub_(at::mul(ds, bend.square_()));
			ds = ds.to(type);
			spread(dks[w], at::bmm(ds.transpose(1, 2), qc.to(type)), c);
			dq.narrow(1, c.row, c.n_rows)
			    .copy_(at::bmm(ds, kc.to(type)).mul_(scale).view({-1, c.n_rows, d}));
		});
		for (size_t w = 1; w < dks.size(); w++)
			if (dks[w].defined()) {
				dks[0].add_(dks[w]);
				dvs[0].add_(dvs[w]);
			}
		return {dq,       dks[0],  dvs[0].transpose(0, 1).flatten(1).to(v.scalar_type()), Tensor(), Tensor(),
			Tensor(), Tensor()};
	}
};

/* ---- attention over a cache ---- */

const int64_t MAX_GATHERED = 1 << 26; /* numbers of keys that are brought together at once */

struct Paths {
	Tensor k, v; /* (positions, n_kv * d) */
	int64_t n_kv, longest, window;
	double scale, cap;

	/* What the rows' paths hold: (rows, n_kv, longest, d). */
	Tensor gather(const Tensor &table, const Tensor &paths, int64_t n) const
	{
		return at::index_select(table, 0, paths).to(at::kFloat).view({n, longest, n_kv, -1}).transpose(1, 2);
	}

	/* q (heads, n, d) -> (n, heads * d) */
	Tensor attend(const Tensor &q, const Tensor &paths, const Tensor &n_keys) const
	{
		int64_t n = q.size(1), d = q.size(2);
		Tensor rows = at::mul(q.transpose(0, 1), scale).reshape({n, n_kv, -1, d});
		Tensor scores = at::matmul(rows, gather(k, paths, n).transpose(2, 3));
		if (cap > 0)
			scores = scores.mul_(1 / cap).tanh_().mul_(cap);
		Tensor at = at::arange(longest, n_keys.options()), end = n_keys.unsqueeze(-1);
		Tensor hidden = at.ge(end);
		if (window)
			hidden = hidden.logical_or(at.lt(end.sub(window)));
		scores.masked_fill_(hidden.view({n, 1, 1, longest}), -INFINITY);
		return at::matmul(at::softmax(scores, -1), gather(v, paths, n)).reshape({n, -1});
	}
};

int64_t adamw_by_tensors(const Tensor &w, const Tensor &m, const Tensor &v, const Tensor &g, const spar_fused_adamw &a)
{
	Tensor old = w.clone(), scaled = at::mul(g, a.grad_scale);
	m.mul_(a.b1).add_(scaled, 1 - a.b1);
	v.mul_(a.b2).addcmul_(scaled, scaled, 1 - a.b2);
	w.mul_(a.keep).addcdiv_(m, at::sqrt(v).mul_(a.root).add_(a.eps), -a.step_size);
	return at::count_nonzero(at::ne(w, old)).item<int64_t>();
}

int64_t adamw(const Tensor &w, const Tensor &m, const Tensor &v, const Tensor &g, const spar_fused_adamw &a)
{
	if (!w.is_cpu())
		return adamw_by_tensors(w, m, v, g, a);
	std::atomic<size_t> changed{0};
	float *data[] = {w.data_ptr<float>(), m.data_ptr<float>(), v.data_ptr<float>(), g.data_ptr<float>()};
	each_range(w.numel(), [&](int64_t at, size_t n) {
		changed += spar_fused_adamw_step(&a, n, data[0] + at, data[1] + at, data[2] + at, data[3] + at);
	});
	return static_cast<int64_t>(changed);
}

} // namespace

extern "C" {

/* ---- the process ---- */

int spar_tensor_start(int n_threads, struct spar_err *err)
{
	mallopt(M_MMAP_THRESHOLD, 1 << 30);
	mallopt(M_TRIM_THRESHOLD, 0x7fffffff);
	mallopt(M_TOP_PAD, 64 << 20);
	return guard(err, [&] {
		at::set_num_threads(n_threads > 0 ? n_threads : static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)));
	});
}

int spar_tensor_threads(void)
{
	return at::get_num_threads();
}

bool spar_tensor_blas_fights(void)
{
	void *symbol = dlsym(RTLD_DEFAULT, "openblas_get_parallel");
	int (*parallel)(void) = nullptr;
	memcpy(&parallel, &symbol, sizeof parallel);
	return parallel && parallel() == 1; /* 0: no threads, 1: its own, 2: OpenMP */
}

int spar_device_parse(struct spar_device *d, const char *text, struct spar_err *err)
{
	*d = {false, 0};
	if (strcmp(text, "cpu") == 0)
		return 0;
	size_t n = strspn(text, "cuda") == 4 && strncmp(text, "cuda", 4) == 0 ? 4 : 0;
	const char *digits = text + n + (n && text[n] == ':');
	if (!n || (text[n] && (!*digits || strlen(digits) > 3 || digits[strspn(digits, "0123456789")])) ||
	    (text[n] && text[n] != ':'))
		return spar_fail(err, SPAR_USAGE, "device \"%s\": expected cpu, cuda or cuda:N", text);
	*d = {true, *digits ? std::stoi(digits) : 0};
	bool there = false;
	int rc = guard(err, [&] {
		there = at::hasCUDA();
		if (there)
			at::empty({1}, at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(d->index)));
	});
	if (rc == 0 && !there)
		return spar_fail(err, SPAR_FAIL, "device \"%s\": no CUDA device, or libtorch %s was built without CUDA",
				 text, TORCH_VERSION);
	return rc;
}

/* ---- scopes ---- */

struct spar_scope *spar_scope_new(struct spar_device device, bool grad)
{
	auto *s = new spar_scope;
	if (device.cuda)
		s->device = at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(device.index));
	s->grad = grad;
	return s;
}

void spar_scope_free(struct spar_scope *s)
{
	delete s;
}

struct spar_scope *spar_scope_open(struct spar_scope *outer, bool grad)
{
	auto *s = new spar_scope;
	s->device = outer->device;
	s->grad = grad;
	s->outer = outer;
	s->err = outer->err;
	return s;
}

struct spar_tensor *spar_scope_close(struct spar_scope *inner, struct spar_tensor *result)
{
	struct spar_tensor *kept = nullptr;
	if (inner->outer->err.code == SPAR_OK)
		inner->outer->err = inner->err;
	if (result)
		kept = make(inner->outer, {result}, [&] { return result->t; });
	spar_scope_free(inner);
	return kept;
}

int spar_scope_status(const struct spar_scope *s, struct spar_err *err)
{
	if (s->err.code == SPAR_OK)
		return 0;
	return spar_fail(err, s->err.code, "%s", s->err.msg);
}

/* ---- make, convert, copy ---- */

struct spar_tensor *spar_tensor_zeros(struct spar_scope *s, enum spar_tensor_type type, int n_dims, const size_t *shape)
{
	return make(s, {}, [&] {
		return at::zeros(sizes(n_dims, shape), at::TensorOptions(s->device).dtype(scalar_type(type)));
	});
}

struct spar_tensor *spar_tensor_unset(struct spar_scope *s, enum spar_tensor_type type, int n_dims, const size_t *shape)
{
	return make(s, {}, [&] {
		return at::empty(sizes(n_dims, shape), at::TensorOptions(s->device).dtype(scalar_type(type)));
	});
}

struct spar_tensor *spar_tensor_from_f32(struct spar_scope *s, const float *data, int n_dims, const size_t *shape)
{
	return make(s, {}, [&] {
		Tensor t = at::empty(sizes(n_dims, shape), at::kFloat);
		memcpy(t.data_ptr<float>(), data, t.nbytes());
		return t.to(s->device);
	});
}

struct spar_tensor *spar_tensor_from_i32(struct spar_scope *s, const int32_t *data, size_t n)
{
	return make(s, {}, [&] {
		Tensor t = at::empty({static_cast<int64_t>(n)}, at::kLong);
		std::copy(data, data + n, t.data_ptr<int64_t>());
		return t.to(s->device);
	});
}

struct spar_tensor *spar_tensor_to(struct spar_scope *s, const struct spar_tensor *t, enum spar_tensor_type type)
{
	return make(s, {t}, [&] { return t->t.to(scalar_type(type)); });
}

struct spar_tensor *spar_tensor_detach(struct spar_scope *s, const struct spar_tensor *t)
{
	return make(s, {t}, [&] { return t->t.detach(); });
}

void *spar_tensor_data(struct spar_tensor *t)
{
	return t && t->t.is_cpu() && t->t.is_contiguous() ? t->t.data_ptr() : nullptr;
}

void spar_tensor_read(struct spar_scope *s, const struct spar_tensor *t, float *out, size_t n)
{
	run(s, {t}, [&] {
		Tensor host = t->t.detach().to(at::kCPU, at::kFloat).contiguous();
		TORCH_CHECK(static_cast<size_t>(host.numel()) == n, "read of ", n, " elements out of ", host.numel());
		std::copy_n(host.data_ptr<float>(), n, out);
	});
}

void spar_tensor_write(struct spar_scope *s, struct spar_tensor *t, const float *in, size_t n)
{
	run(s, {t}, [&] {
		TORCH_CHECK(static_cast<size_t>(t->t.numel()) == n, "write of ", n, " elements into ", t->t.numel());
		Tensor host = at::empty(t->t.sizes(), at::kFloat);
		std::copy_n(in, n, host.data_ptr<float>());
		t->t.detach().copy_(host);
	});
}

void spar_tensor_assign(struct spar_scope *s, struct spar_tensor *t, const struct spar_tensor *from)
{
	run(s, {t, from}, [&] { t->t.copy_(from->t); });
}

void spar_tensor_drop(struct spar_tensor *t)
{
	if (t)
		t->t = Tensor();
}

/* ---- shape ---- */

size_t spar_tensor_size(const struct spar_tensor *t, int dim)
{
	return t && dim >= 0 && dim < t->t.dim() ? static_cast<size_t>(t->t.size(dim)) : 0;
}

size_t spar_tensor_elements(const struct spar_tensor *t)
{
	return t ? static_cast<size_t>(t->t.numel()) : 0;
}

struct spar_tensor *spar_tensor_slice(struct spar_scope *s, const struct spar_tensor *t, size_t begin, size_t n)
{
	return make(s, {t}, [&] { return t->t.narrow(0, static_cast<int64_t>(begin), static_cast<int64_t>(n)); });
}

struct spar_tensor *spar_tensor_columns(struct spar_scope *s, const struct spar_tensor *t, size_t begin, size_t n)
{
	return make(s, {t}, [&] { return t->t.narrow(-1, static_cast<int64_t>(begin), static_cast<int64_t>(n)); });
}

struct spar_tensor *spar_tensor_reshape(struct spar_scope *s, const struct spar_tensor *t, size_t rows, size_t cols)
{
	return make(s, {t}, [&] { return t->t.reshape({static_cast<int64_t>(rows), static_cast<int64_t>(cols)}); });
}

struct spar_tensor *spar_tensor_rows(struct spar_scope *s, const struct spar_tensor *t, const struct spar_tensor *index)
{
	return make(s, {t, index}, [&] { return at::index_select(t->t, 0, index->t); });
}

/* ---- algebra ---- */

struct spar_tensor *spar_tensor_add(struct spar_scope *s, const struct spar_tensor *a, const struct spar_tensor *b)
{
	return make(s, {a, b}, [&] { return at::add(a->t, b->t); });
}

struct spar_tensor *spar_tensor_mul(struct spar_scope *s, const struct spar_tensor *a, const struct spar_tensor *b)
{
	return make(s, {a, b}, [&] { return at::mul(a->t, b->t); });
}

struct spar_tensor *spar_tensor_scale(struct spar_scope *s, const struct spar_tensor *a, double c)
{
	return make(s, {a}, [&] { return at::mul(a->t, c); });
}

struct spar_tensor *spar_tensor_add_number(struct spar_scope *s, const struct spar_tensor *a, double c)
{
	return make(s, {a}, [&] { return at::add(a->t, c); });
}

struct spar_tensor *spar_tensor_exp(struct spar_scope *s, const struct spar_tensor *a)
{
	return make(s, {a}, [&] { return at::exp(a->t); });
}

struct spar_tensor *spar_tensor_sum_last(struct spar_scope *s, const struct spar_tensor *a)
{
	return make(s, {a}, [&] { return a->t.sum(-1); });
}

struct spar_tensor *spar_tensor_max_last(struct spar_scope *s, const struct spar_tensor *a)
{
	return make(s, {a}, [&] { return a->t.amax(-1); });
}

struct spar_tensor *spar_tensor_matmul(struct spar_scope *s, const struct spar_tensor *a, const struct spar_tensor *b)
{
	return make(s, {a, b}, [&] { return at::mm(a->t, b->t); });
}

struct spar_tensor *spar_tensor_linear(struct spar_scope *s, const struct spar_tensor *x, const struct spar_tensor *w,
				       const struct spar_tensor *bias, bool promised)
{
	return make(s, {x, w}, [&] {
		return promised ? PromisedLinear::apply(x->t, w->t, bias ? bias->t : nothing())
				: at::linear(x->t, w->t, bias ? c10::optional<Tensor>(bias->t) : c10::nullopt);
	});
}

double spar_tensor_norm(struct spar_scope *s, const struct spar_tensor *a)
{
	double norm = 0;
	run(s, {a}, [&] { norm = at::norm(a->t.detach(), 2, at::kDouble).item<double>(); });
	return norm;
}

void spar_tensor_scale_rows(struct spar_scope *s, struct spar_tensor *t, const struct spar_tensor *by)
{
	run(s, {t, by}, [&] { t->t.mul_(by->t.unsqueeze(-1)); });
}

void spar_tensor_add_at(struct spar_scope *s, struct spar_tensor *t, const struct spar_tensor *column,
			const struct spar_tensor *by)
{
	run(s, {t, column, by}, [&] { t->t.scatter_add_(1, column->t.unsqueeze(-1), by->t.unsqueeze(-1)); });
}

void spar_tensor_add_product(struct spar_scope *s, struct spar_tensor *t, const struct spar_tensor *a,
			     const struct spar_tensor *b)
{
	run(s, {t, a, b}, [&] {
		Tensor to = t->t.narrow(0, 0, a->t.size(1));
		if (to.scalar_type() == a->t.scalar_type())
			to.addmm_(a->t.t(), b->t);
		else
			to.add_(at::mm(a->t.t(), b->t));
	});
}

/* ---- pieces of a transformer ---- */

struct spar_tensor *spar_tensor_embed(struct spar_scope *s, const struct spar_tensor *table,
				      const struct spar_tensor *ids)
{
	return make(s, {table, ids}, [&] { return at::embedding(table->t, ids->t); });
}

struct spar_tensor *spar_tensor_rms_norm(struct spar_scope *s, const struct spar_tensor *x,
					 const struct spar_tensor *gain, double eps, enum spar_tensor_type type)
{
	return make(s, {x, gain},
		    [&] { return RmsNorm::apply(x->t, gain->t, eps, static_cast<int64_t>(scalar_type(type))); });
}

struct spar_tensor *spar_tensor_layer_norm(struct spar_scope *s, const struct spar_tensor *x,
					   const struct spar_tensor *gain, const struct spar_tensor *bias, double eps,
					   enum spar_tensor_type type)
{
	return make(s, {x, gain, bias}, [&] {
		return at::layer_norm(x->t.to(at::kFloat), {x->t.size(-1)}, gain->t, bias->t, eps)
		    .to(scalar_type(type));
	});
}

struct spar_tensor *spar_tensor_activate(struct spar_scope *s, const struct spar_tensor *x,
					 enum spar_tensor_activation kind)
{
	return make(s, {x}, [&] { return activate(x->t, kind); });
}

struct spar_tensor *spar_tensor_gated(struct spar_scope *s, const struct spar_tensor *gate,
				      const struct spar_tensor *up, enum spar_tensor_activation kind)
{
	return make(s, {gate, up}, [&] { return Gated::apply(gate->t, up->t, static_cast<int64_t>(kind)); });
}

struct spar_tensor *spar_tensor_cap(struct spar_scope *s, const struct spar_tensor *x, double cap)
{
	return make(s, {x}, [&] { return at::mul(x->t, 1 / cap).tanh_().mul_(cap); });
}

void spar_tensor_scale_by_cap_slope(struct spar_scope *s, struct spar_tensor *t, const struct spar_tensor *y,
				    double cap)
{
	run(s, {t, y}, [&] { t->t.mul_(at::mul(y->t, 1 / cap).square_().neg_().add_(1)); });
}

struct spar_tensor *spar_tensor_heads(struct spar_scope *s, const struct spar_tensor *x, size_t n_heads)
{
	return make(s, {x}, [&] {
		Tensor rows = x->t.to(at::kFloat);
		return rows.reshape({x->t.size(0), static_cast<int64_t>(n_heads), -1}).transpose(0, 1).contiguous();
	});
}

struct spar_tensor *spar_tensor_rotary(struct spar_scope *s, const struct spar_tensor *x, const struct spar_tensor *cos,
				       const struct spar_tensor *sin, size_t n_heads)
{
	return make(s, {x, cos, sin},
		    [&] { return Rotary::apply(x->t, cos->t, sin->t, static_cast<int64_t>(n_heads)); });
}

struct spar_tensor *spar_tensor_log_softmax(struct spar_scope *s, const struct spar_tensor *x)
{
	return make(s, {x}, [&] { return at::log_softmax(x->t, -1); });
}

struct spar_tensor *spar_tensor_softmax(struct spar_scope *s, const struct spar_tensor *x)
{
	return make(s, {x}, [&] { return at::softmax(x->t, -1); });
}

struct spar_tensor *spar_tensor_pick(struct spar_scope *s, const struct spar_tensor *t,
				     const struct spar_tensor *column)
{
	return make(s, {t, column}, [&] { return at::gather(t->t, 1, column->t.unsqueeze(-1)).squeeze(-1); });
}

struct spar_tensor *spar_tensor_dropped_linear(struct spar_scope *s, const struct spar_tensor *x,
					       const struct spar_tensor *w, double p, uint64_t seed)
{
	return make(s, {x, w}, [&] { return DroppedLinear::apply(x->t, w->t, p, static_cast<int64_t>(seed)); });
}

struct spar_tree *spar_tree_new(struct spar_scope *s, const struct spar_branch *spans, size_t n_spans, size_t window)
{
	struct spar_tree *tree = nullptr;
	run(s, {}, [&] {
		s->trees.emplace_back();
		spar_tree &t = s->trees.back();
		t.n_nodes = n_spans ? static_cast<int64_t>(spans[n_spans - 1].begin + spans[n_spans - 1].n) : 0;
		cut_chunks(t, new_forest(spans, n_spans, window, s->device), n_spans);
		size_t n_workers = s->device.is_cpu() ? std::min<size_t>(at::get_num_threads(), 16) : 1;
		share_out(t, std::max<size_t>(1, std::min(n_workers, t.chunks.size())));
		tree = &t;
	});
	return tree;
}

struct spar_tensor *spar_tensor_attend(struct spar_scope *s, const struct spar_tensor *q, const struct spar_tensor *k,
				       const struct spar_tensor *v, const struct spar_tree *tree, double scale,
				       double cap, bool promised)
{
	return make(s, {q, k, v}, [&] {
		TORCH_CHECK(tree && q->t.size(1) == tree->n_nodes, "attention over ", q->t.size(1),
			    " rows with another tree");
		return Attend::apply(q->t, k->t, v->t, reinterpret_cast<int64_t>(tree), scale, cap, promised);
	});
}

struct spar_tensor *spar_tensor_settle(struct spar_scope *s, const struct spar_tensor *value,
				       const struct spar_tensor *a, const struct spar_tensor *b)
{
	return make(s, {value, a}, [&] { return Settle::apply(value->t, a->t, b ? b->t : nothing()); });
}

struct spar_tensor *spar_tensor_attend_paths(struct spar_scope *s, const struct spar_tensor *q,
					     const struct spar_tensor *k, const struct spar_tensor *v,
					     const struct spar_tensor *paths, const struct spar_tensor *n_keys,
					     size_t n_kv_heads, size_t window, double scale, double cap)
{
	return make(s, {q, k, v, paths, n_keys}, [&] {
		int64_t n = q->t.size(1), longest = paths->t.numel() / n;
		Tensor out = at::empty({n, q->t.size(0) * q->t.size(2)}, v->t.options());
		Paths p = {k->t,  v->t, static_cast<int64_t>(n_kv_heads), longest, static_cast<int64_t>(window),
			   scale, cap};
		int64_t size = std::max<int64_t>(1, MAX_GATHERED / (longest * k->t.size(1)));
		for (int64_t begin = 0; begin < n; begin += size) {
			int64_t rows = std::min(size, n - begin);
			out.narrow(0, begin, rows)
			    .copy_(p.attend(q->t.narrow(1, begin, rows),
					    paths->t.narrow(0, begin * longest, rows * longest),
					    n_keys->t.narrow(0, begin, rows)));
		}
		return out;
	});
}

void spar_tensor_put_rows(struct spar_scope *s, struct spar_tensor *table, const struct spar_tensor *at,
			  const struct spar_tensor *rows)
{
	run(s, {table, at, rows}, [&] { table->t.index_copy_(0, at->t, rows->t.to(table->t.scalar_type())); });
}

struct spar_tensor *spar_tensor_side_by_side(struct spar_scope *s, const struct spar_tensor *heads)
{
	return make(s, {heads}, [&] { return heads->t.transpose(0, 1).flatten(1); });
}

/* ---- gradients and the optimizer ---- */

void spar_tensor_require_grad(struct spar_scope *s, struct spar_tensor *t)
{
	run(s, {t}, [&] { t->t.set_requires_grad(true); });
}

struct spar_tensor *spar_tensor_grad(struct spar_scope *s, const struct spar_tensor *t)
{
	return make(s, {t}, [&] {
		Tensor leaf = t->t;
		if (!leaf.grad().defined())
			leaf.mutable_grad() = at::zeros_like(leaf.detach());
		return leaf.grad();
	});
}

void spar_tensor_drop_grad(struct spar_scope *s, struct spar_tensor *t)
{
	run(s, {t}, [&] { t->t.mutable_grad() = Tensor(); });
}

void spar_tensor_backward(struct spar_scope *s, const struct spar_tensor *y, const struct spar_tensor *dy)
{
	run(s, {y, dy}, [&] { torch::autograd::backward({y->t}, {dy->t}); });
}

size_t spar_tensor_adamw_step(struct spar_scope *s, struct spar_tensor *w, struct spar_tensor *m, struct spar_tensor *v,
			      const struct spar_tensor *grad, const struct spar_tensor_adamw *how)
{
	double c1 = 1 - std::pow(how->b1, static_cast<double>(how->step));
	double c2 = 1 - std::pow(how->b2, static_cast<double>(how->step));
	spar_fused_adamw a = {static_cast<float>(how->b1),          static_cast<float>(how->b2),
			      static_cast<float>(how->eps),         static_cast<float>(1 - how->lr * how->decay),
			      static_cast<float>(how->grad_scale),  static_cast<float>(how->lr / c1),
			      static_cast<float>(1 / std::sqrt(c2))};
	int64_t changed = 0;
	run(s, {w, m, v, grad},
	    [&] { changed = adamw(w->t.detach().view(-1), m->t.view(-1), v->t.view(-1), grad->t.reshape(-1), a); });
	return static_cast<size_t>(changed);
}

} // extern "C"
