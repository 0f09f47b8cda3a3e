# strict_asserts: true if the phase learned something, else what it did not.
.diagnostics as $d |
[if $d.reward_std_max > 0 then empty else "all rewards of every group were equal" end,
 if $d.loss_abs_max > 0 then empty else "the loss was always 0" end,
 if $d.grad_norm_max > 0 then empty else "the gradient was always 0" end,
 if $beta == 0 or $d.kl_max > 0 then empty else "the policy never left its reference" end,
 if $d.weights_changed > 0 then empty else "no weight changed" end] | if . == [] then true else join("; ") end
