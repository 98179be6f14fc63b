#pragma once
// Measures of CriticalKV and CAOTE in plain double loops that read like the formulas.

#include <map>
#include <set>
#include <vector>

#include "analysis/replay/record/layer_states.h"
#include "analysis/trace/layer_attention.h"
#include "analysis/trace/model_info.h"

namespace kvloupe::naive {

/// One query head's states: everything by token.
struct QueryHeadStates {
  const LayerStates& states;
  const ModelInfo& model;
  LayerAttention attention_rule;
  int query_head = 0;

  /// Softmax of the query at `token` over these tokens.
  std::map<int, double> attention(int token, const std::vector<int>& tokens) const;
  std::vector<double> value(int token) const;
  /// ‖v_i W_O‖₁ and ‖v_i W_O‖₂.
  double out_norm_l1(int token) const;
  double out_norm_l2(int token) const;
};

struct TwoStages {
  double mass = 0.0, bound_l1 = 0.0, relaxed_l1 = 0.0, bound_l2 = 0.0, relaxed_l2 = 0.0;
};
/// The two stages for the query at `token` over the prefix 0 … token, or the part of it in the
/// model's window.
TwoStages two_stages(const QueryHeadStates& head, int token, const std::set<int>& stage_one,
                     const std::set<int>& stage_two);

/// The least number of the largest that exceeds `mass`.
int entries_for_mass(const std::map<int, double>& attention, double mass);

struct EvictionError {
  double sum = 0.0, joint = 0.0;
};
/// h by token over the cache before the eviction; the output is computed twice, before and after.
EvictionError eviction_error(const QueryHeadStates& head, const std::map<int, double>& h,
                             const std::set<int>& retained);

/// ‖A V‖₂ of the query at `token` over the same.
double output_norm(const QueryHeadStates& head, int token);

}  // namespace kvloupe::naive
