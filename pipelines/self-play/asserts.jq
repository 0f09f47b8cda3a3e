# strict_asserts: what a phase did not do that a phase that learns does; empty if nothing.
.diagnostics as $d |
[if $d.reward_std_max > 0 then empty else "all rewards of every group were equal" end,
 if $d.loss_abs_max > 0 then empty else "the loss was always 0" end,
 if $d.grad_norm_max > 0 then empty else "the gradient was always 0" end,
 if $beta == 0 or $d.kl_max > 0 then empty else "the policy never left its reference" end,
 if $d.weights_changed > 0 then empty else "no weight changed" end] | join("; ")
