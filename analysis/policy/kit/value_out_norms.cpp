#include "analysis/policy/kit/value_out_norms.h"

#include <algorithm>

#include "analysis/error.h"
#include "analysis/policy/kit/kept_rows.h"

namespace kvloupe {

namespace {
constexpr float kUnknown = -1.0F;
constexpr Eigen::Index kTileRows = 64;
}  // namespace

ValueOutNorms::ValueOutNorms(const LayerContext& context, Norm norm)
    : output_weights_(context.output_weights),
      layer_(context.layer),
      num_heads_(context.model.num_heads),
      group_size_(context.model.group_size()),
      norm_(norm),
      norms_(static_cast<std::size_t>(context.model.num_kv_heads)) {}

void ValueOutNorms::check(const std::string& who) const {
  if (output_weights_.size() == static_cast<std::size_t>(num_heads_)) return;
  throw WorkError(who + " needs the output weights of layer " + std::to_string(layer_) +
                  ", which the trace does not have; capture it again, or leave " + who + " out");
}

const std::vector<float>& ValueOutNorms::of(const StepView& view, int head) {
  const MatrixView& values = view.caches[static_cast<std::size_t>(head)].values;
  std::vector<float>& norms = norms_[static_cast<std::size_t>(head)];
  norms.resize(static_cast<std::size_t>(values.rows()), kUnknown);
  const auto known = [](float norm) { return norm >= 0.0F; };
  for (auto first = std::find_if_not(norms.begin(), norms.end(), known); first != norms.end();) {
    const auto end = std::find_if(first, norms.end(), known);
    compute(values, head, first - norms.begin(), end - first);
    first = std::find_if_not(end, norms.end(), known);
  }
  return norms;
}

void ValueOutNorms::compute(const MatrixView& values, int head, Eigen::Index first,
                            Eigen::Index count) {
  std::vector<float>& norms = norms_[static_cast<std::size_t>(head)];
  Eigen::VectorXd sum = Eigen::VectorXd::Zero(count);
  Matrix outputs, room;
  for (int query_head = head * group_size_; query_head < (head + 1) * group_size_; ++query_head) {
    const Matrix& weight = output_weights_[static_cast<std::size_t>(query_head)].floats(room);
    for (Eigen::Index tile = 0; tile < count; tile += kTileRows) {
      const Eigen::Index rows = std::min(kTileRows, count - tile);
      outputs.noalias() = values.middleRows(first + tile, rows) * weight;
      for (Eigen::Index row = 0; row < rows; ++row) {
        const auto output = outputs.row(row);
        sum[tile + row] +=
            static_cast<double>(norm_ == Norm::l1 ? output.lpNorm<1>() : output.norm());
      }
    }
  }
  for (Eigen::Index row = 0; row < count; ++row) {
    norms[static_cast<std::size_t>(first + row)] = static_cast<float>(sum[row] / group_size_);
  }
}

void ValueOutNorms::retain(const StepView& view, int head, const HeadDecision& decision) {
  std::vector<float>& norms = norms_[static_cast<std::size_t>(head)];
  norms.resize(view.caches[static_cast<std::size_t>(head)].tokens.size(), kUnknown);
  for (const Merge& merge : decision.merges) {
    norms[static_cast<std::size_t>(merge.into)] = kUnknown;
  }
  keep_rows(norms, decision.kept);
}

}  // namespace kvloupe
