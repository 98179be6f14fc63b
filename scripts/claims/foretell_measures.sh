# The measures of the studies of foretell.sh and foretell-demo.sh; sourced by both.
asked() { # of later queries, of a kind: answer, question or later
  local name
  for name in residual_change worst_layer_error layer_error residual_part kept_attention output_error \
    perturbation_l1 bound_l1 logit_change; do
    printf '"%s_%s", ' "$1" "$name"
  done
}
