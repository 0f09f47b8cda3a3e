# The graph that a generator's prompt shows, as a candidate of its own.
{type: "candidate", candidate_id: .id, graph,
 canonical_graph: {nodes: ([.context[] | .[0], .[2]] | unique), edges: .context},
 path: .supporting_edges, question, answer}
