# How each valid proposal is derived from its graph: one look at the neighbors for each hop, then path, answer, question.
select(.posed) | .posed as $t |
{type: "trace", candidate_id: .group, sample, question: $t.question, replayed_edges: $t.supporting_edges,
 tool_trace: ([$t.supporting_edges | to_entries[] |
	{tool_name: "enumerate_neighbors", args: {node_id: .value[0], hop_index: .key, expected_edge: .value}}] +
	[{tool_name: "trace_path", args: {path: $t.supporting_edges}, output: {path: $t.supporting_edges}},
	 {tool_name: "select_answer", args: {strategy: "path_dst"}, output: {answer: $t.answer}},
	 {tool_name: "emit_question", args: {style: "relation_path_v1"}, output: {question: $t.question}}])}
