# The worker that looks at what is asked, or could be: its prompt.
[{role: "system", content: "You help another agent. Name the node that a path should start from, and the relations to follow. One line."},
 .messages[-1]]
