/* graph_json.c - graphs and edges as JSON, see graph.h */
#include "env/osint/graph.h"
#include "record/record.h"
#include <string.h>

static void add_name(struct spar_str *out, const char *name)
{
	spar_str_add_json(out, name, strlen(name));
}

static void add_parts(const struct spar_osint_graph *g, struct spar_osint_edge e, const char *const between[3],
		      struct spar_str *out)
{
	spar_str_adds(out, between[0]);
	add_name(out, spar_osint_node_name(g, e.src));
	spar_str_adds(out, between[1]);
	add_name(out, spar_osint_relation_name(g, e.rel));
	spar_str_adds(out, between[2]);
	add_name(out, spar_osint_node_name(g, e.dst));
}

static const char *const object_parts[] = {"{\"src\":", ",\"rel\":", ",\"dst\":"};
static const char *const array_parts[] = {"[", ",", ","};

void spar_osint_edge_object(const struct spar_osint_graph *g, struct spar_osint_edge e, struct spar_str *out)
{
	add_parts(g, e, object_parts, out);
	spar_str_addc(out, '}');
}

void spar_osint_edge_array(const struct spar_osint_graph *g, struct spar_osint_edge e, struct spar_str *out)
{
	add_parts(g, e, array_parts, out);
	spar_str_addc(out, ']');
}

void spar_osint_graph_json(const struct spar_osint_graph *g, struct spar_str *out)
{
	spar_str_adds(out, "{\"nodes\":[");
	for (int32_t i = 0; i < g->nodes.n; i++) {
		spar_str_adds(out, i ? ",{\"id\":" : "{\"id\":");
		add_name(out, spar_osint_node_name(g, i));
		spar_str_addf(out, ",\"kind\":\"%s\"}", spar_osint_kind_name((enum spar_osint_kind)g->kinds[i]));
	}
	spar_str_adds(out, "],\"edges\":[");
	for (int32_t i = 0; i < g->n_edges; i++) {
		spar_str_adds(out, i ? "," : "");
		add_parts(g, g->edges[i], object_parts, out);
		spar_str_adds(out, ",\"confidence\":");
		spar_str_add_float(out, g->confidence[i]);
		spar_str_addc(out, '}');
	}
	spar_str_adds(out, "]}");
}

/* The three names of an edge as NEW references: false if it has no such shape. */
static bool edge_names(jv value, jv names[3])
{
	static const char *const keys[] = {"src", "rel", "dst"};
	bool array = jv_get_kind(value) == JV_KIND_ARRAY && jv_array_length(jv_copy(value)) == 3, good = true;
	for (int i = 0; i < 3; i++) {
		names[i] = array                                  ? jv_array_get(jv_copy(value), i)
			   : jv_get_kind(value) == JV_KIND_OBJECT ? jv_object_get(jv_copy(value), jv_string(keys[i]))
								  : jv_invalid();
		good &= jv_get_kind(names[i]) == JV_KIND_STRING && jv_string_length_bytes(jv_copy(names[i])) > 0;
	}
	return good;
}

static size_t bytes_of(jv string)
{
	return (size_t)jv_string_length_bytes(jv_copy(string));
}

bool spar_osint_edge_read(const struct spar_osint_graph *g, jv value, struct spar_osint_edge *e)
{
	jv names[3];
	bool good = edge_names(value, names);
	if (good)
		*e = (struct spar_osint_edge){spar_osint_node(g, jv_string_value(names[0]), bytes_of(names[0])),
					      spar_osint_relation(g, jv_string_value(names[1]), bytes_of(names[1])),
					      spar_osint_node(g, jv_string_value(names[2]), bytes_of(names[2]))};
	for (int i = 0; i < 3; i++)
		jv_free(names[i]);
	return good;
}

static int read_edge(struct spar_osint_graph *g, jv value, const char *path, struct spar_err *err)
{
	jv names[3];
	double confidence = 1;
	int rc = 0;
	if (!edge_names(value, names))
		rc = spar_fail(err, SPAR_INPUT, ".%s: expected an edge: src, rel and dst", path);
	else if (jv_get_kind(value) == JV_KIND_OBJECT && spar_has(value, "confidence"))
		rc = spar_get_double(value, path, "confidence", &confidence, err);
	struct spar_osint_edge e;
	if (rc == 0) {
		e.src = spar_osint_graph_name(g, jv_string_value(names[0]), bytes_of(names[0]));
		e.rel = spar_osint_graph_relation(g, jv_string_value(names[1]), bytes_of(names[1]));
		e.dst = spar_osint_graph_name(g, jv_string_value(names[2]), bytes_of(names[2]));
		if (e.src < 0 || e.rel < 0 || e.dst < 0)
			rc = spar_fail(err, SPAR_INPUT, ".%s: a name is too long", path);
		else
			spar_osint_graph_add(g, e, (float)confidence);
	}
	for (int i = 0; i < 3; i++)
		jv_free(names[i]);
	return rc;
}

static int read_node(struct spar_osint_graph *g, jv value, const char *path, struct spar_err *err)
{
	const char *id, *kind;
	size_t n, n_kind;
	if (jv_get_kind(value) != JV_KIND_OBJECT)
		return spar_fail(err, SPAR_INPUT, ".%s: expected object, got %s", path, spar_kind_name(value));
	if (spar_get_str(value, path, "id", &id, &n, err) < 0)
		return -SPAR_INPUT;
	int32_t node = n ? spar_osint_graph_name(g, id, n) : -1;
	if (node < 0)
		return spar_fail(err, SPAR_INPUT, ".%s.id: is empty or too long", path);
	if (!spar_has(value, "kind"))
		return 0;
	if (spar_get_str(value, path, "kind", &kind, &n_kind, err) < 0)
		return -SPAR_INPUT;
	for (int k = 0; k < SPAR_OSINT_KINDS; k++) {
		const char *name = spar_osint_kind_name((enum spar_osint_kind)k);
		if (strlen(name) == n_kind && !memcmp(name, kind, n_kind)) {
			g->kinds[node] = (uint8_t)k;
			return 0;
		}
	}
	return spar_fail(err, SPAR_INPUT, ".%s.kind: there is no such kind", path);
}

/* `list` is borrowed. */
static int read_each(struct spar_osint_graph *g, jv list, const char *key,
		     int (*read)(struct spar_osint_graph *, jv, const char *, struct spar_err *), struct spar_err *err)
{
	int rc = 0, n = jv_array_length(jv_copy(list));
	for (int i = 0; i < n && rc == 0; i++) {
		char path[32];
		jv value = jv_array_get(jv_copy(list), i);
		snprintf(path, sizeof path, "%.16s[%d]", key, i);
		rc = read(g, value, path, err);
		jv_free(value);
	}
	return rc;
}

int spar_osint_graph_read_edges(struct spar_osint_graph *g, jv list, const char *path, struct spar_err *err)
{
	return read_each(g, list, path, read_edge, err);
}

int spar_osint_graph_read(struct spar_osint_graph *g, jv object, struct spar_err *err)
{
	jv list;
	int rc = 0;
	if (spar_has(object, "nodes") && (rc = spar_get_kind(object, "", "nodes", JV_KIND_ARRAY, &list, err)) == 0) {
		rc = read_each(g, list, "nodes", read_node, err);
		jv_free(list);
	}
	if (rc == 0 && (rc = spar_get_kind(object, "", "edges", JV_KIND_ARRAY, &list, err)) == 0) {
		rc = read_each(g, list, "edges", read_edge, err);
		jv_free(list);
	}
	spar_osint_graph_index(g);
	return rc;
}
