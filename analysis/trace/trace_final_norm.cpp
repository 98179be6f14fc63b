#include "analysis/trace/trace_final_norm.h"

#include <fmt/format.h>

#include <algorithm>

#include "analysis/base/core/error.h"
#include "analysis/trace/hdf5.h"
#include "analysis/trace/trace_datasets.h"
#include "analysis/trace/trace_layout.h"

namespace kvloupe {

using Kind = TraceDatasets::Kind;

namespace {
constexpr const char* kHidden = "/predictions/hidden";

Eigen::VectorXd wide(const std::vector<float>& numbers) {
  return Eigen::Map<const Eigen::VectorXf>(numbers.data(),
                                           static_cast<Eigen::Index>(numbers.size()))
      .cast<double>();
}
}  // namespace

std::vector<std::int32_t> find_head_rows(const TraceDatasets& datasets, const ModelInfo& model,
                                         const TokenTable& tokens) {
  if (!hdf5::exists(datasets.file(), layout::kHeadRows) ||
      !hdf5::exists(datasets.file(), layout::kHeadRowIds)) {
    return {};
  }
  const TraceDatasets::Shape shape = datasets.dataset(layout::kHeadRowIds).shape;
  const hsize_t count = shape.size() == 1 ? shape[0] : 0;
  if (count < 1 || count > tokens.ids.size()) {
    throw hdf5::Failure(fmt::format("{} has the shape {}, but the trace has {} tokens",
                                    layout::kHeadRowIds, hdf5::shape_text(shape),
                                    tokens.ids.size()));
  }
  datasets.open(layout::kHeadRows, Kind::real, {count, hdf5::extent(model.hidden_size)});
  const std::vector<std::int32_t> ids = datasets.read_all<std::int32_t>(
      layout::kHeadRowIds, Kind::integer, {count}, H5T_NATIVE_INT32);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= model.vocab_size) {
      throw hdf5::Failure(fmt::format("{}: row {} is of id {}, outside the vocabulary of {}",
                                      layout::kHeadRowIds, i, ids[i], model.vocab_size));
    }
    if (i > 0 && ids[i] <= ids[i - 1]) {
      throw hdf5::Failure(fmt::format("{}: id {} comes after id {}; they must ascend",
                                      layout::kHeadRowIds, ids[i], ids[i - 1]));
    }
  }
  for (const std::int32_t id : tokens.ids) {
    if (!std::binary_search(ids.begin(), ids.end(), id)) {
      throw hdf5::Failure(
          fmt::format("{} lacks the id {} of the sequence", layout::kHeadRowIds, id));
    }
  }
  return ids;
}

bool find_final_norm(const TraceDatasets& datasets, const ModelInfo& model, const RunInfo& run) {
  const hsize_t width = hdf5::extent(model.hidden_size), count = hdf5::extent(run.tokens());
  const bool weight = datasets.found(layout::kFinalNorm, Kind::real, {width});
  datasets.found(layout::kFinalNormBias, Kind::real, {width});
  const bool rms = datasets.found(layout::kFinalRms, Kind::real, {count});
  return weight && rms && datasets.found(kHidden, Kind::real, {count, width});
}

TraceFinalNorm::TraceFinalNorm(const Trace& trace) : trace_(trace) {
  if (!known()) return;
  const TraceDatasets& file = trace.file();
  file.guarded([&] {
    const ModelInfo& model = trace.model();
    const hsize_t width = hdf5::extent(model.hidden_size);
    const auto read = [&](const char* name) {
      Eigen::VectorXd numbers =
          wide(file.read_all<float>(name, Kind::real, {width}, H5T_NATIVE_FLOAT));
      if (!numbers.allFinite()) {
        throw hdf5::Failure(fmt::format("{} has a number that is not finite", name));
      }
      return numbers;
    };
    weight_ = read(layout::kFinalNorm);
    bias_ = file.found(layout::kFinalNormBias, Kind::real, {width})
                ? read(layout::kFinalNormBias)
                : Eigen::VectorXd::Zero(model.hidden_size);
    const hdf5::Dataset dataset = file.open(layout::kFinalNorm, Kind::real, {width});
    centred_ = hdf5::read_integer(dataset.id, layout::kFinalNormCentred).value_or(0) != 0;
  });
}

Eigen::VectorXd TraceFinalNorm::row(const char* name, int rows, int index, const char* what) const {
  if (index < 0 || index >= rows) {
    throw UsageError(fmt::format("{} {}: {} has {}s 0 to {}", what, index, trace_.path().string(),
                                 what, rows - 1));
  }
  Eigen::VectorXd numbers =
      wide(trace_.file().read_row(name, rows, trace_.model().hidden_size, index));
  if (!numbers.allFinite()) {
    throw FileError(trace_.path().string(),
                    fmt::format("{}: {} {} has a number that is not finite", name, what, index));
  }
  return numbers;
}

double TraceFinalNorm::rms(int token) const {
  if (token < 0 || token >= trace_.length()) {
    throw UsageError(fmt::format("token {}: {} has tokens 0 to {}", token, trace_.path().string(),
                                 trace_.length() - 1));
  }
  const double rms = trace_.file().read_part(layout::kFinalRms, {hdf5::extent(trace_.length())},
                                             {hdf5::extent(token)}, {1}, 1, 1)(0, 0);
  if (!(rms > 0.0) || !std::isfinite(rms)) {
    throw FileError(trace_.path().string(), fmt::format("{}: token {} has {}, not a number above 0",
                                                        layout::kFinalRms, token, rms));
  }
  return rms;
}

Eigen::VectorXd TraceFinalNorm::normed(int token) const {
  Eigen::VectorXd normed = row(kHidden, trace_.length(), token, "token") - bias_;
  for (Eigen::Index i = 0; i < normed.size(); ++i) {
    normed[i] = weight_[i] == 0.0 ? 0.0 : normed[i] / weight_[i];
  }
  return normed;
}

Eigen::VectorXd TraceFinalNorm::head_row(std::int32_t id) const {
  if (trace_.has_lm_head()) return row(layout::kHead, trace_.model().vocab_size, id, "id");
  const std::vector<std::int32_t>& ids = trace_.head_row_ids();
  const auto at = std::lower_bound(ids.begin(), ids.end(), id);
  if (at == ids.end() || *at != id) {
    throw UsageError(
        fmt::format("id {}: {} has no row of the output head for it", id, trace_.path().string()));
  }
  return row(layout::kHeadRows, static_cast<int>(ids.size()), static_cast<int>(at - ids.begin()),
             "row");
}

}  // namespace kvloupe
