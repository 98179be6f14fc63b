#include "analysis/metric/joint_error.h"

#include <limits>

namespace kvloupe {

double joint_eviction_error(std::span<const double> attention, const MatrixView& values,
                            std::span<const std::int32_t> evicted, double sink_share) {
  std::vector<bool> leaves(attention.size(), false);
  for (const std::int32_t row : evicted) leaves[static_cast<std::size_t>(row)] = true;
  Eigen::VectorXd gone = Eigen::VectorXd::Zero(values.cols());
  Eigen::VectorXd rest = gone;
  double gone_mass = 0.0, rest_mass = sink_share;
  for (std::size_t i = 0; i < attention.size(); ++i) {
    if (attention[i] == 0.0) continue;
    const auto value = values.row(static_cast<Eigen::Index>(i)).cast<double>().transpose();
    if (leaves[i]) {
      gone += attention[i] * value;
      gone_mass += attention[i];
    } else {
      rest += attention[i] * value;
      rest_mass += attention[i];
    }
  }
  if (gone_mass == 0.0) return 0.0;
  if (rest_mass == 0.0) return std::numeric_limits<double>::infinity();
  return gone_mass / (gone_mass + rest_mass) * (gone / gone_mass - rest / rest_mass).norm();
}

}  // namespace kvloupe
