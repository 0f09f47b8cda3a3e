# The worker that looks for paths: its prompt.
[{role: "system", content: "You help another agent. Name two edges of which the second begins where the first ends. An edge is [from, relation, to]. One line."},
 .messages[-1]]
