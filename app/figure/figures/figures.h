#pragma once
// Every figure, one line each, in the order of lists and galleries. A line FIGURE(name) declares
// `FigureInfo name::entry()`, which one file of this folder defines, and puts it into the
// catalogue. A namespace for each figure lets several files be compiled together. With it each file
// has what figures are made of.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "analysis/base/core/error.h"
#include "app/figure/comparison.h"
#include "app/figure/figures/line_panels.h"
#include "app/figure/panel_figure.h"
#include "app/plot/cell_map.h"
#include "app/plot/marks.h"

// clang-format off
#define KVLOUPE_FIGURES(FIGURE) \
  FIGURE(similarity_figure)           \
  FIGURE(attention_figure)            \
  FIGURE(pca_figure)                  \
  FIGURE(filmstrip_figure)            \
  FIGURE(tokens_figure)               \
  FIGURE(follow_figure)               \
  FIGURE(survival_figure)             \
  FIGURE(loops_figure)                \
  FIGURE(why_figure)                  \
  FIGURE(policy_diff_figure)          \
  FIGURE(agreement_figure)            \
  FIGURE(budget_curve_figure)         \
  FIGURE(loss_table_figure)           \
  FIGURE(frontier_figure)             \
  FIGURE(realisable_figure)           \
  FIGURE(head_budgets_figure)         \
  FIGURE(sinks_figure)                \
  FIGURE(roles_figure)                \
  FIGURE(role_cost_figure)            \
  FIGURE(distance_kernel_figure)      \
  FIGURE(attention_lost_figure)       \
  FIGURE(score_vs_attention_figure)   \
  FIGURE(overview_figure)             \
  FIGURE(keydiff_stages_figure)       \
  FIGURE(pca_panel_figure)            \
  FIGURE(gram_volume_figure)          \
  FIGURE(angles_figure)               \
  FIGURE(mean_key_query_figure)       \
  FIGURE(norms_figure)                \
  FIGURE(distinct_keys_query_figure)  \
  FIGURE(diversity_figure)            \
  FIGURE(retained_share_figure)       \
  FIGURE(block_overlap_figure)        \
  FIGURE(cost_figure)                 \
  FIGURE(local_similarity_figure)     \
  FIGURE(pair_rotation_figure)        \
  FIGURE(compression_layers_figure)   \
  FIGURE(kernel_figure)               \
  FIGURE(sigma_sweep_figure)          \
  FIGURE(merge_sets_figure)           \
  FIGURE(attention_mass_figure)       \
  FIGURE(perturbation_heads_figure)   \
  FIGURE(perturbation_layers_figure)  \
  FIGURE(perturbation_budgets_figure) \
  FIGURE(bound_figure)                \
  FIGURE(predicted_loss_figure)       \
  FIGURE(output_error_layers_figure)  \
  FIGURE(output_error_heads_figure)   \
  FIGURE(block_size_figure)           \
  FIGURE(eviction_error_figure)       \
  FIGURE(logit_effect_figure)         \
  FIGURE(drift_figure)                \
  FIGURE(needle_grid_figure)          \
  FIGURE(perplexity_budget_figure)    \
  FIGURE(layer_drift_figure)          \
  FIGURE(rescue_figure)               \
  FIGURE(cause_scatter_figure)        \
  FIGURE(study_budget_figure)         \
  FIGURE(board_figure)                \
  FIGURE(certificate_figure)          \
  FIGURE(study_ranks_figure)          \
  FIGURE(study_heads_figure)          \
  FIGURE(study_head_scatter_figure)   \
  FIGURE(head_profile_figure)         \
  FIGURE(study_prompts_figure)        \
  FIGURE(study_layers_figure)         \
  FIGURE(study_loops_figure)
// clang-format on

namespace kvloupe::figure {

#define KVLOUPE_DECLARE_FIGURE(name) \
  namespace name {                   \
  FigureInfo entry();                \
  }
KVLOUPE_FIGURES(KVLOUPE_DECLARE_FIGURE)
#undef KVLOUPE_DECLARE_FIGURE

}  // namespace kvloupe::figure
