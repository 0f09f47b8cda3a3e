// tensor.cpp - tensor.h over libtorch. The only file that sees libtorch; 1.13 and 2.x build from it.
#include "tensor/tensor.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/grad_mode.h>
#include <torch/version.h>

#include <dlfcn.h>
#include <malloc.h>

#include <cmath>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

using at::Tensor;

struct spar_tensor {
	Tensor t;
};

struct spar_scope {
	at::Device device = at::kCPU;
	bool record = true;
	std::deque<spar_tensor> made; // a deque: handles stay where they are
	std::string error;
};

namespace
{

// Runs one operation under the scope's rules: errors stick, nothing is thrown, recording as the scope says.
template <class F> spar_tensor *make(spar_scope *s, std::initializer_list<const spar_tensor *> operands, F &&body)
{
	if (!s->error.empty())
		return nullptr;
	try {
		for (const spar_tensor *o : operands)
			TORCH_CHECK(o, "an operand is missing");
		at::AutoGradMode mode(s->record);
		s->made.push_back(spar_tensor{body()});
		return &s->made.back();
	} catch (const std::exception &e) {
		s->error = e.what();
	} catch (...) {
		s->error = "unknown C++ exception";
	}
	return nullptr;
}

// The same for what gives no tensor; never recorded.
template <class F> void run(spar_scope *s, std::initializer_list<const spar_tensor *> operands, F &&body)
{
	make(s, operands, [&]() {
		at::NoGradGuard guard;
		body();
		return Tensor();
	});
}

at::IntArrayRef sizes(const int64_t *shape, size_t n)
{
	return at::IntArrayRef(shape, n);
}

Tensor product(const Tensor &a, const Tensor &b, bool bf16)
{
	if (!bf16)
		return at::matmul(a, b);
	return at::matmul(a.to(at::kBFloat16), b.to(at::kBFloat16)).to(at::kFloat);
}

void to_host(const Tensor &t, float *out)
{
	Tensor host = t.detach().to(at::kCPU, at::kFloat).contiguous();
	memcpy(out, host.data_ptr<float>(), (size_t)host.numel() * sizeof(float));
}

} // namespace

extern "C" {

int spar_tensor_setup(const char *device, int threads, struct spar_err *err)
{
	mallopt(M_MMAP_THRESHOLD, 1 << 30);
	mallopt(M_TRIM_THRESHOLD, 2000000000);
	mallopt(M_TOP_PAD, 64 << 20);
	std::string what;
	try {
		if (threads > 0)
			at::set_num_threads(threads);
		at::zeros({1}, at::TensorOptions().device(at::Device(device)));
		return 0;
	} catch (const std::exception &e) {
		what = e.what();
	} catch (...) {
		what = "unknown C++ exception";
	}
	return spar_fail(err, SPAR_USAGE, "--device=%s: %.300s", device, what.substr(0, what.find('\n')).c_str());
}

bool spar_tensor_blas_fights(void)
{
	// openblas_get_parallel: 0 sequential, 1 its own threads, 2 OpenMP
	void *f = dlsym(RTLD_DEFAULT, "openblas_get_parallel");
	return f && reinterpret_cast<int (*)(void)>(f)() == 1;
}

const char *spar_tensor_version(void)
{
	return TORCH_VERSION;
}

struct spar_scope *spar_scope_new(const char *device, bool record)
{
	auto *s = new spar_scope;
	s->record = record;
	try {
		s->device = at::Device(device);
	} catch (const std::exception &e) {
		s->error = e.what();
	}
	return s;
}

void spar_scope_free(struct spar_scope *s)
{
	delete s;
}

int spar_scope_check(const struct spar_scope *s, struct spar_err *err)
{
	if (s->error.empty())
		return 0;
	return spar_fail(err, SPAR_FAIL, "libtorch: %s", s->error.substr(0, s->error.find('\n')).c_str());
}

struct spar_tensor *spar_tensor_f32(struct spar_scope *s, const float *data, int n_dims, const int64_t *shape)
{
	return make(s, {}, [&] {
		Tensor host = at::from_blob(const_cast<float *>(data), sizes(shape, (size_t)n_dims), at::kFloat);
		return host.to(s->device, at::kFloat, false, true);
	});
}

struct spar_tensor *spar_tensor_ids(struct spar_scope *s, const int32_t *data, int64_t n)
{
	return make(s, {}, [&] {
		return at::from_blob(const_cast<int32_t *>(data), {n}, at::kInt).to(s->device, at::kLong, false, true);
	});
}

struct spar_tensor *spar_tensor_zeros(struct spar_scope *s, int n_dims, const int64_t *shape)
{
	return make(s, {},
		    [&] { return at::zeros(sizes(shape, (size_t)n_dims), at::TensorOptions().device(s->device)); });
}

void spar_tensor_read(struct spar_scope *s, const struct spar_tensor *t, float *out)
{
	run(s, {t}, [&] { to_host(t->t, out); });
}

void spar_tensor_write_into(struct spar_scope *s, struct spar_tensor *t, const float *data)
{
	run(s, {t}, [&] { t->t.copy_(at::from_blob(const_cast<float *>(data), t->t.sizes(), at::kFloat)); });
}

int64_t spar_tensor_size(const struct spar_tensor *t, int dim)
{
	return t->t.size(dim);
}

int64_t spar_tensor_elements(const struct spar_tensor *t)
{
	return t->t.numel();
}

struct spar_tensor *spar_tensor_keep(struct spar_tensor *t)
{
	return t ? new spar_tensor{t->t} : nullptr;
}

void spar_tensor_free(struct spar_tensor *t)
{
	delete t;
}

struct spar_tensor *spar_tensor_param(struct spar_scope *s, struct spar_tensor *t)
{
	return spar_tensor_keep(make(s, {t}, [&] { return t->t.detach().clone().set_requires_grad(true); }));
}

struct spar_tensor *spar_tensor_keep_bf16(struct spar_scope *s, struct spar_tensor *t)
{
	return spar_tensor_keep(make(s, {t}, [&] { return t->t.detach().to(at::kBFloat16); }));
}

struct spar_tensor *spar_reshape(struct spar_scope *s, struct spar_tensor *t, int n_dims, const int64_t *shape)
{
	return make(s, {t}, [&] { return t->t.reshape(sizes(shape, (size_t)n_dims)); });
}

struct spar_tensor *spar_cat(struct spar_scope *s, struct spar_tensor *const *parts, size_t n, int dim)
{
	return make(s, {}, [&] {
		std::vector<Tensor> list;
		list.reserve(n);
		for (size_t i = 0; i < n; i++) {
			TORCH_CHECK(parts[i], "an operand is missing");
			list.push_back(parts[i]->t);
		}
		return at::cat(list, dim);
	});
}

void spar_split(struct spar_scope *s, struct spar_tensor *t, const int64_t *part_sizes, size_t n,
		struct spar_tensor **parts)
{
	std::vector<Tensor> list;
	make(s, {t}, [&] {
		list = at::split_with_sizes(t->t, sizes(part_sizes, n), 0);
		return Tensor();
	});
	for (size_t i = 0; i < n; i++)
		parts[i] = i < list.size() ? make(s, {}, [&] { return list[i]; }) : nullptr;
}

struct spar_tensor *spar_rows(struct spar_scope *s, struct spar_tensor *t, struct spar_tensor *index)
{
	return make(s, {t, index}, [&] { return at::index_select(t->t, 0, index->t); });
}

struct spar_tensor *spar_narrow(struct spar_scope *s, struct spar_tensor *t, int64_t from, int64_t n)
{
	return make(s, {t}, [&] { return t->t.narrow(0, from, n); });
}

struct spar_tensor *spar_add(struct spar_scope *s, struct spar_tensor *a, struct spar_tensor *b)
{
	return make(s, {a, b}, [&] { return a->t + b->t; });
}

struct spar_tensor *spar_mul(struct spar_scope *s, struct spar_tensor *a, struct spar_tensor *b)
{
	return make(s, {a, b}, [&] { return a->t * b->t; });
}

struct spar_tensor *spar_scale(struct spar_scope *s, struct spar_tensor *a, double factor)
{
	return make(s, {a}, [&] { return a->t * factor; });
}

void spar_add_into(struct spar_scope *s, struct spar_tensor *a, struct spar_tensor *b)
{
	run(s, {a, b}, [&] { a->t.add_(b->t); });
}

struct spar_tensor *spar_linear(struct spar_scope *s, struct spar_tensor *x, struct spar_tensor *w, bool bf16)
{
	return make(s, {x, w}, [&] { return product(x->t, w->t.t(), bf16); });
}

struct spar_tensor *spar_matmul(struct spar_scope *s, struct spar_tensor *a, struct spar_tensor *b, bool trans_a,
				bool bf16)
{
	return make(s, {a, b}, [&] { return product(trans_a ? a->t.t() : a->t, b->t, bf16); });
}

struct spar_tensor *spar_silu(struct spar_scope *s, struct spar_tensor *a)
{
	return make(s, {a}, [&] { return at::silu(a->t); });
}

struct spar_tensor *spar_rms_norm(struct spar_scope *s, struct spar_tensor *x, struct spar_tensor *weight, double eps)
{
	return make(s, {x, weight}, [&] { return x->t * at::rsqrt(x->t.square().mean(-1, true) + eps) * weight->t; });
}

struct spar_tensor *spar_rotary(struct spar_scope *s, struct spar_tensor *x, struct spar_tensor *cos,
				struct spar_tensor *sin)
{
	return make(s, {x, cos, sin}, [&] {
		std::vector<Tensor> half = x->t.chunk(2, -1);
		return at::cat({half[0] * cos->t - half[1] * sin->t, half[1] * cos->t + half[0] * sin->t}, -1);
	});
}

struct spar_tensor *spar_attention(struct spar_scope *s, struct spar_tensor *q, struct spar_tensor *k,
				   struct spar_tensor *v)
{
	return make(s, {q, k, v}, [&] {
		int64_t n = q->t.size(0), heads = q->t.size(1), d = q->t.size(2), len = k->t.size(0), kv = k->t.size(1);
		int64_t share = heads / kv; // query heads that read one key head: their queries are rows of one product
		Tensor rows = (q->t * (1.0 / std::sqrt((double)d)))
				  .view({n, kv, share, d})
				  .permute({1, 2, 0, 3})
				  .reshape({kv, share * n, d});
		Tensor scores = at::bmm(rows, k->t.permute({1, 2, 0})).view({kv, share, n, len});
		if (n > 1) {
			Tensor later = at::ones({n, len}, at::TensorOptions().dtype(at::kBool).device(q->t.device()))
					   .triu(len - n + 1);
			scores = scores.masked_fill(later, -INFINITY);
		}
		Tensor mixed = at::bmm(at::softmax(scores, -1).view({kv, share * n, len}), v->t.permute({1, 0, 2}));
		return mixed.view({kv, share, n, d}).permute({2, 0, 1, 3}).reshape({n, heads * d});
	});
}

struct spar_tensor *spar_dropout(struct spar_scope *s, struct spar_tensor *x, double p, uint64_t seed)
{
	return make(s, {x}, [&] {
		auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
		Tensor keep =
		    at::empty(x->t.sizes(), at::TensorOptions().dtype(at::kFloat)).bernoulli_(1 - p, generator);
		return x->t * keep.div_(1 - p).to(x->t.device());
	});
}

void spar_head_into(struct spar_scope *s, struct spar_tensor *logits, struct spar_tensor *ids, double temperature,
		    int64_t limit, float *logp, float *entropy)
{
	run(s, {logits, ids}, [&] {
		Tensor &z = logits->t;
		if (temperature != 1)
			z.div_(temperature);
		if (limit > 0 && limit < z.size(1))
			z.narrow(1, limit, z.size(1) - limit).fill_(-INFINITY);
		z.sub_(at::logsumexp(z, {1}, true));
		to_host(z.gather(1, ids->t.unsqueeze(1)), logp);
		if (entropy)
			to_host((z.exp() * z.clamp_min(-1e30)).sum(1).neg(), entropy);
		z.exp_();
	});
}

void spar_head_grad_into(struct spar_scope *s, struct spar_tensor *p, struct spar_tensor *ids, const float *g,
			 double temperature)
{
	run(s, {p, ids}, [&] {
		Tensor weight = at::from_blob(const_cast<float *>(g), {p->t.size(0), 1}, at::kFloat).to(p->t.device()) /
				temperature;
		p->t.mul_(-weight);
		p->t.scatter_add_(1, ids->t.unsqueeze(1), weight);
	});
}

void spar_backward(struct spar_scope *s, struct spar_tensor *y, struct spar_tensor *dy)
{
	make(s, {y, dy}, [&] {
		torch::autograd::backward({y->t}, {dy->t});
		return Tensor();
	});
}

struct spar_tensor *spar_grad(struct spar_scope *s, struct spar_tensor *param)
{
	if (!param || !param->t.grad().defined())
		return nullptr;
	return make(s, {param}, [&] { return param->t.grad(); });
}

void spar_grad_add(struct spar_scope *s, struct spar_tensor *param, struct spar_tensor *g)
{
	run(s, {param, g}, [&] {
		Tensor &have = param->t.mutable_grad();
		if (have.defined())
			have.add_(g->t.view_as(have));
		else
			have = g->t.detach().clone().view_as(param->t);
	});
}

void spar_grad_clear(struct spar_tensor *param)
{
	param->t.mutable_grad() = Tensor();
}

double spar_sum_squares(struct spar_scope *s, struct spar_tensor *t)
{
	double sum = 0;
	run(s, {t}, [&] { sum = t->t.detach().square().sum(at::kDouble).item<double>(); });
	return sum;
}

int64_t spar_adamw_into(struct spar_scope *s, struct spar_tensor *param, struct spar_tensor *m, struct spar_tensor *v,
			const struct spar_adamw_rates *r)
{
	int64_t changed = 0;
	run(s, {param, m, v}, [&] {
		TORCH_CHECK(param->t.grad().defined(), "a parameter has no gradient");
		Tensor before = param->t.detach().clone();
		Tensor g = r->grad_scale == 1 ? param->t.grad() : param->t.grad() * r->grad_scale;
		double correct1 = 1 - std::pow(r->beta1, (double)r->step),
		       correct2 = 1 - std::pow(r->beta2, (double)r->step);
		if (r->weight_decay != 0)
			param->t.mul_(1 - r->learning_rate * r->weight_decay);
		m->t.mul_(r->beta1).add_(g, 1 - r->beta1);
		v->t.mul_(r->beta2).addcmul_(g, g, 1 - r->beta2);
		param->t.addcdiv_(m->t, (v->t.sqrt() / std::sqrt(correct2)).add_(r->eps), -r->learning_rate / correct1);
		changed = at::ne(param->t, before).sum().item<int64_t>();
	});
	return changed;
}

} // extern "C"
