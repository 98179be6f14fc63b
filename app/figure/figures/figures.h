#pragma once
// One function per figure, one file each, listed once in figure_catalog.cpp.

#include "app/figure/figure.h"

namespace kvloupe::figure {

FigureInfo overview_figure();
FigureInfo similarity_figure();
FigureInfo attention_figure();
FigureInfo pca_figure();
FigureInfo filmstrip_figure();
FigureInfo tokens_figure();
FigureInfo head_budgets_figure();
FigureInfo policy_diff_figure();
FigureInfo agreement_figure();
FigureInfo budget_curve_figure();
FigureInfo sinks_figure();
FigureInfo why_figure();
FigureInfo keydiff_stages_figure();
FigureInfo pca_panel_figure();
FigureInfo gram_volume_figure();
FigureInfo angles_figure();
FigureInfo mean_key_query_figure();
FigureInfo norms_figure();
FigureInfo distinct_keys_query_figure();
FigureInfo diversity_figure();
FigureInfo retained_share_figure();
FigureInfo block_overlap_figure();
FigureInfo cost_figure();
FigureInfo local_similarity_figure();
FigureInfo pair_rotation_figure();
FigureInfo compression_layers_figure();
FigureInfo kernel_figure();
FigureInfo sigma_sweep_figure();
FigureInfo merge_sets_figure();
FigureInfo attention_mass_figure();
FigureInfo perturbation_heads_figure();
FigureInfo perturbation_layers_figure();
FigureInfo perturbation_budgets_figure();
FigureInfo bound_figure();
FigureInfo output_error_layers_figure();
FigureInfo block_size_figure();
FigureInfo drift_figure();
FigureInfo needle_grid_figure();
FigureInfo perplexity_budget_figure();
FigureInfo layer_drift_figure();
FigureInfo eviction_error_figure();
FigureInfo logit_effect_figure();

}  // namespace kvloupe::figure
