#pragma once
// CAOTE: how much the attention output changes without an entry, from any score and the values.

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "analysis/policy/kit/stages.h"

namespace kvloupe {

/// h [n]: scores as attention. Shifted by their minimum only if some are negative, then divided by
/// their sum; if all are zero: 1/n (CAOTE eq. 20 to 22).
std::vector<double> as_attention(std::span<const float> scores);

/// c_j = h_j/(1 − h_j)·‖o − v_j‖₂ with o = Σ h_i v_i (CAOTE eq. 8): exactly how far the output
/// moves if only j is removed and the rest renormalised (thm 3.2). Computed without cancellation as
/// h_j·‖(Σ_{i≠j} h_i v_i)/(Σ_{i≠j} h_i) − v_j‖; infinite ("never evict") if the other mass is 0.
/// `attention` [n], not negative, sum 1; `values` [n,d]. Result [n].
std::vector<double> caote_scores(std::span<const double> attention, const MatrixView& values);
/// The same for some rows alone: [rows].
std::vector<double> caote_scores(std::span<const double> attention, const MatrixView& values,
                                 std::span<const std::int32_t> rows);

/// c_j / h_j: the factor of an entry's attention. [rows]
std::vector<double> caote_factors(std::span<const double> attention, const MatrixView& values,
                                  std::span<const std::int32_t> rows);

/// The same with the plain mean of the values in place of o, and 1 − h_j at least 1e-6 (FastCAOTE,
/// eq. 23).
std::vector<double> fastcaote_scores(std::span<const double> attention, const MatrixView& values);
/// The same divided by h_j: [n].
std::vector<double> fastcaote_factors(std::span<const double> attention, const MatrixView& values);

enum class ValueAwareForm { caote, fastcaote };

/// The value-aware form of a score.
std::unique_ptr<Score> make_value_aware_score(ValueAwareForm form, std::unique_ptr<Score> base);

/// Why a value-aware form makes no sense in a spec; empty where it does.
std::string value_aware_refusal(const SpecPart& part, const PolicySpec& spec);

/// Warnings about a value-aware form over a spec's score.
std::vector<std::string> value_aware_doubts(const SpecPart& part, const PolicySpec& spec);

}  // namespace kvloupe
