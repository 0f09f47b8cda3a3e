# The worker that sorts out the context: its prompt.
[{role: "system", content: "You help another agent. Name the edges that matter most. An edge is [from, relation, to]. One line."},
 .messages[-1]]
