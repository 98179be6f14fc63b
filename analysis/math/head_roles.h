#pragma once
// Roles of an attention head, measured on the full cache: how much of its attention goes to the
// first token, to the neighbours, to the tokens that followed the same word before, and so on.

#include <cstdint>
#include <limits>
#include <span>

#include "analysis/base/core/matrix.h"
#include "analysis/base/core/progress.h"
#include "analysis/math/numeric/logit_rule.h"
#include "analysis/trace/model_info.h"
#include "analysis/trace/segments.h"

namespace kvloupe {

/// A trace's tokens as far as roles need them.
struct RoleTokens {
  std::span<const std::int32_t> ids;  // [T]
  int prompt_length = 0;
  TokenRange question;  // the segment "question"
  TokenRange needle;    // the segment "needle": where an answer is copied from
};
RoleTokens role_tokens(const TokenTable& tokens, const RunInfo& run);

/// Shares of attention (means over queries) and of answer tokens, of one query head. NaN where the
/// trace has no query to take a mean of. A[q,i]: the attention of query q to token i.
struct HeadRoles {
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  /// Mean of A[q,0] over q > 0 that see token 0.
  double sink = kUnknown;
  /// Mean of A[q,q−1] over q > 0.
  double previous = kUnknown;
  /// Mean over q >= 16 of Σ A[q,i] over the last 16 tokens i, q itself included.
  double recent = kUnknown;
  /// Mean over the q whose token occurred before, at some i <= q − 2: Σ over these i of A[q,i+1],
  /// each followed-by token counted once (Olsson et al. 2022, prefix matching).
  double induction = kUnknown;
  /// A share of the generated tokens that occur in the needle (or, without a needle, in the
  /// prompt): those whose predicting query gives its largest attention to such a place (Wu et al.
  /// 2024).
  double retrieval = kUnknown;
  /// Mean over the queries after the question of their attention to the question.
  double question = kUnknown;
};

/// One role: its name, its value's member, and its threshold.
struct RoleInfo {
  const char* name;   // of the measure
  const char* label;  // one word for a head
  const char* title;
  const char* formula;
  const char* source;
  double threshold;
  double HeadRoles::*value;
  bool beside = false;  // stands beside a head's name: the sink, on which heads of all roles rest
};
/// In the order of measures, figures and docs.
std::span<const RoleInfo> role_catalog();
/// A head's role by name: the index in role_catalog() of the role whose value exceeds its threshold
/// by the largest factor, without roles that stand beside a name; −1 if none reaches its threshold.
int strongest_role(const HeadRoles& roles);
/// Whether the head rests on token 0, whatever its role is called. A head with nothing to look up
/// leaves its attention there (StreamingLLM section 3.1). Most heads of real models do so; the
/// remaining attention does the work.
bool rests_on_sink(const HeadRoles& roles);
/// How many of the heads reach `factor` times the threshold of a role of the catalogue.
int heads_reaching(std::span<const HeadRoles> heads, std::size_t role, double factor);

/// The roles of one query head. queries, keys [T,d]; logsumexp [T] of the logits that each query
/// sees. O(T · d) and the pairs of equal tokens. Checks progress.
HeadRoles head_roles(const MatrixView& queries, const MatrixView& keys,
                     std::span<const float> logsumexp, const LogitRule& rule, const Reach& reach,
                     const RoleTokens& tokens, Progress& progress);

}  // namespace kvloupe
