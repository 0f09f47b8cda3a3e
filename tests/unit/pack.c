/* The prefix tree: its shape on known sets, and on random ones what must hold of any layout. */
#include "model/pack.h"
#include "base/philox.h"
#include "unit.h"
#include <stdlib.h>

static const struct spar_segment *segment_of(const struct spar_pack *p, size_t node)
{
	for (size_t i = 0; i < p->n_segments; i++)
		if (node >= p->segments[i].begin && node < p->segments[i].begin + p->segments[i].n)
			return &p->segments[i];
	return NULL;
}

/* The tokens from the root to `node`; returns how many. */
static size_t path_to(const struct spar_pack *p, size_t node, int32_t *out, size_t max)
{
	size_t n = 0;
	const struct spar_segment *s = segment_of(p, node);
	for (; s; s = s->parent < 0 ? NULL : &p->segments[s->parent]) {
		for (size_t k = node + 1; k-- > s->begin && n < max;)
			out[n++] = p->tokens[k];
		node = s->parent < 0 ? 0 : p->segments[s->parent].begin + p->segments[s->parent].n - 1;
	}
	for (size_t i = 0; i < n / 2; i++) {
		int32_t t = out[i];
		out[i] = out[n - 1 - i];
		out[n - 1 - i] = t;
	}
	return n;
}

static void check_layout(const struct spar_pack *p)
{
	for (size_t i = 0; i < p->n_segments; i++) {
		const struct spar_segment *s = &p->segments[i];
		CHECK(s->parent < (int32_t)i && s->n > 0 && s->subtree_end >= s->begin + s->n);
		CHECK(i == 0 ? s->begin == 0 : s->begin == p->segments[i - 1].begin + p->segments[i - 1].n);
		if (s->parent >= 0) {
			const struct spar_segment *up = &p->segments[s->parent];
			CHECK(s->depth == up->depth + up->n && s->subtree_end <= up->subtree_end);
		} else {
			CHECK(s->depth == 0);
		}
		for (size_t k = 0; k < s->n; k++)
			CHECK(p->positions[s->begin + k] == (int32_t)(s->depth + k));
	}
	for (size_t i = 1; i < p->n_targets; i++)
		CHECK(p->target_node[i - 1] <= p->target_node[i]);
}

/* Each loss token's target must predict that token behind that very prefix. */
static void check_refs(const struct spar_pack *p, size_t ref, const int32_t *ids, const uint8_t *mask, size_t n)
{
	int32_t path[64];
	for (size_t i = 1; i < n; i++) {
		if (!mask[i])
			continue;
		int32_t t = p->ref_target[ref++];
		CHECK(p->target_id[t] == ids[i]);
		size_t len = path_to(p, (size_t)p->target_node[t], path, 64);
		CHECK(len == i && !memcmp(path, ids, i * sizeof *ids));
	}
}

static void known_shapes(void)
{
	static const int32_t a[] = {1, 2, 3, 4}, b[] = {1, 2, 3, 5}, c[] = {1, 2, 6, 7}, d[] = {9, 9};
	static const uint8_t end[] = {0, 0, 1, 1}, tail[] = {0, 1}, none[] = {1, 0, 0, 0};
	struct spar_pack_builder *pb = spar_pack_begin();
	CHECK(spar_pack_add(pb, a, end, 4) == 0);
	CHECK(spar_pack_nodes(pb) == 3);
	CHECK(spar_pack_add(pb, b, end, 4) == 2);
	CHECK(spar_pack_nodes(pb) == 3);
	CHECK(spar_pack_add(pb, c, end, 4) == 4);
	CHECK(spar_pack_add(pb, d, tail, 2) == 6);
	CHECK(spar_pack_add(pb, a, none, 4) == 7); /* no loss token: a first token has no prefix */
	struct spar_pack *p = spar_pack_end(pb, 1);
	check_layout(p);
	CHECK(p->n_nodes == 5 && p->n_tokens_in == 10); /* 1 2 | 3 | 6 and 9 */
	CHECK(p->n_segments == 4 && p->n_refs == 7);
	CHECK(p->n_targets == 6 && p->ref_target[0] == p->ref_target[2]); /* 3 behind 1 2, wanted twice */
	CHECK(p->segments[0].subtree_end == 4 && p->segments[3].parent == -1);
	spar_pack_free(p);

	p = spar_pack_end(spar_pack_begin(), 1);
	CHECK(p->n_nodes == 0 && p->n_segments == 0 && p->n_targets == 0);
	spar_pack_free(p);
}

enum { SEQUENCES = 40, LONGEST = 12 };

static void random_sets(void)
{
	static int32_t ids[SEQUENCES][LONGEST];
	static uint8_t mask[SEQUENCES][LONGEST];
	size_t n[SEQUENCES], first[SEQUENCES], n_nodes[2] = {0, 0}, n_in = 0;
	struct spar_rng rng;
	spar_rng_init(&rng, 7, "pack", 4);
	for (uint32_t round = 0; round < 20; round++) {
		for (int share = 0; share < 2; share++) {
			struct spar_pack_builder *b = spar_pack_begin();
			for (uint32_t s = 0; s < SEQUENCES; s++) {
				n[s] = (size_t)(spar_rng_uniform(&rng, round, s, 0, 0) * (LONGEST + 1));
				for (uint32_t i = 0; i < n[s]; i++) {
					ids[s][i] = (int32_t)(spar_rng_uniform(&rng, round, s, i, 1) * 2.2);
					mask[s][i] = spar_rng_uniform(&rng, round, s, i, 2) < 0.4;
				}
				first[s] = spar_pack_add(b, ids[s], mask[s], n[s]);
			}
			size_t counted = spar_pack_nodes(b);
			struct spar_pack *p = spar_pack_end(b, share);
			check_layout(p);
			for (size_t s = 0; s < SEQUENCES; s++)
				check_refs(p, first[s], ids[s], mask[s], n[s]);
			n_nodes[share] = p->n_nodes;
			n_in = p->n_tokens_in;
			CHECK(!share || counted == p->n_nodes);
			spar_pack_free(p);
		}
		CHECK(n_nodes[0] == n_in && n_nodes[1] < n_nodes[0]);
	}
}

int main(void)
{
	known_shapes();
	random_sets();
	return unit_done();
}
