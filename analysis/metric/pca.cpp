#include "analysis/metric/pca.h"

#include <fmt/format.h>

#include <Eigen/Eigenvalues>
#include <cmath>
#include <nlohmann/json.hpp>

#include "analysis/error.h"

namespace kvloupe {

Matrix PrincipalComponents::project(const MatrixView& rows) const {
  return (rows.rowwise() - mean) * basis.transpose();
}

PrincipalComponents fit_principal_components(const MatrixView& keys) {
  const Eigen::Index n = keys.rows(), d = keys.cols();
  PrincipalComponents result;
  result.basis = Matrix::Zero(2, d);
  result.mean = Eigen::RowVectorXf::Zero(d);
  if (n == 0 || d == 0) return result;
  Eigen::MatrixXd centred = keys.cast<double>();
  const Eigen::RowVectorXd mean = centred.colwise().mean();
  centred.rowwise() -= mean;
  result.mean = mean.cast<float>();
  Eigen::MatrixXd covariance = Eigen::MatrixXd::Zero(d, d);
  covariance.selfadjointView<Eigen::Lower>().rankUpdate(centred.transpose(),
                                                        1.0 / static_cast<double>(n));
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(covariance);  // ascending
  const double total = covariance.diagonal().sum();
  for (Eigen::Index component = 0; component < std::min<Eigen::Index>(2, d); ++component) {
    Eigen::VectorXd direction = solver.eigenvectors().col(d - 1 - component);
    Eigen::Index largest = 0;
    direction.cwiseAbs().maxCoeff(&largest);
    if (direction[largest] < 0.0) direction = -direction;
    result.basis.row(component) = direction.cast<float>().transpose();
    const double variance = std::max(0.0, solver.eigenvalues()[d - 1 - component]);
    result.explained[component] = total > 0.0 ? variance / total : 0.0;
  }
  return result;
}

namespace {
void check_rope(const ModelInfo& model) {
  using nlohmann::json;
  if (!(model.rope_theta > 0.0)) throw WorkError("the trace has no rope_theta: RoPE cannot be undone");
  if (model.head_dim % 2 != 0) throw WorkError("an odd head dimension: RoPE cannot be undone");
  const std::string& text = model.rope_scaling;
  const json scaling = json::parse(text.empty() ? "null" : text, nullptr, false);
  const auto word = [&](const char* name) {
    return scaling.is_object() && scaling.contains(name) && scaling[name].is_string()
               ? scaling[name].get<std::string>()
               : std::string();
  };
  const std::string type = word("rope_type").empty() ? word("type") : word("rope_type");
  if (!scaling.is_null() && type != "default") {
    throw WorkError(fmt::format("RoPE with scaling '{}' cannot be undone; keys are shown after RoPE only",
                                type.empty() ? text : type));
  }
  const json config = json::parse(model.config, nullptr, false);
  if (config.is_object() && config.contains("partial_rotary_factor") &&
      config["partial_rotary_factor"].is_number() &&
      config["partial_rotary_factor"].get<double>() != 1.0) {
    throw WorkError("RoPE with partial_rotary_factor cannot be undone; keys are shown after RoPE only");
  }
}
}  // namespace

Matrix undo_rope(const MatrixView& keys, const ModelInfo& model, int first_position) {
  check_rope(model);
  const Eigen::Index d = keys.cols(), half = d / 2;
  const bool halves = model.rope_pairing == RopePairing::half;
  Matrix result(keys.rows(), d);
  for (Eigen::Index j = 0; j < half; ++j) {
    const double frequency =
        std::pow(model.rope_theta, -2.0 * static_cast<double>(j) / static_cast<double>(d));
    const Eigen::Index a = halves ? j : 2 * j, b = halves ? j + half : 2 * j + 1;
    for (Eigen::Index i = 0; i < keys.rows(); ++i) {
      const double angle = frequency * static_cast<double>(first_position + i);
      const double cosine = std::cos(angle), sine = std::sin(angle);
      const double x = keys(i, a), y = keys(i, b);
      result(i, a) = static_cast<float>(x * cosine + y * sine);
      result(i, b) = static_cast<float>(y * cosine - x * sine);
    }
  }
  return result;
}

}  // namespace kvloupe
