#include "analysis/trace/shared_weights.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>
#include <vector>

#include "analysis/base/core/error.h"
#include "analysis/base/system/descriptor.h"
#include "analysis/base/system/output_file.h"
#include "analysis/base/text/text.h"
#include "analysis/trace/hdf5.h"
#include "analysis/trace/hdf5_output.h"
#include "analysis/trace/kept_files.h"
#include "analysis/trace/model_files.h"
#include "analysis/trace/trace.h"
#include "analysis/trace/trace_check.h"
#include "analysis/trace/trace_datasets.h"
#include "analysis/trace/trace_layout.h"
#include "analysis/trace/trace_size.h"
#include "analysis/trace/trace_writer.h"
#include "version.h"

namespace kvloupe {

namespace fs = std::filesystem;
using hdf5::Handle;
using hdf5::Shape;
using WeightKind = TraceDatasets::Kind;

namespace {

constexpr std::array kForms = {"bf16-f16", "bf16-f32", "f32-f16", "f32-f32"};

std::atomic<bool>& left_alone() {
  static std::atomic<bool> alone = false;
  return alone;
}

Shape slices_shape(const ModelInfo& model) {
  return {hdf5::extent(model.num_heads), hdf5::extent(model.head_dim),
          hdf5::extent(model.hidden_size)};
}
Shape head_shape(const ModelInfo& model) {
  return {hdf5::extent(model.vocab_size), hdf5::extent(model.hidden_size)};
}

/// Throws hdf5::Failure where the open file is not these weights.
void check_weights(const TraceDatasets& weights, const ModelInfo& model,
                   const std::string& fingerprint, const std::string& form) {
  const Handle root = hdf5::open_group(weights.file(), "/");
  if (hdf5::read_text(root, "format").value_or("") != layout::kWeightsFormat ||
      hdf5::read_integer(root, "format_version").value_or(0) != layout::kWeightsVersion) {
    throw hdf5::Failure("does not hold weights");
  }
  if (hdf5::read_integer(root, "complete").value_or(0) != 1) throw hdf5::Failure("is not complete");
  const Handle group = hdf5::open_group(weights.file(), "/model");
  if (hdf5::read_text(group, layout::kFingerprint).value_or("") != fingerprint ||
      hdf5::read_text(group, layout::kSharedWeights).value_or("") != form) {
    throw hdf5::Failure("holds the weights of another model");
  }
  for (int layer = 0; layer < model.num_layers; ++layer) {
    weights.open(layout::layer_dataset(layer, "output_weight"), WeightKind::real,
                 slices_shape(model));
  }
  weights.open(layout::kHead, WeightKind::real, head_shape(model));
}

}  // namespace

std::string weights_form(const std::string& dtype, bool store_f32) {
  return dtype + (store_f32 ? "-f32" : "-f16");
}

bool is_weights_form(std::string_view text) {
  return std::find(kForms.begin(), kForms.end(), text) != kForms.end();
}

fs::path weights_path(const fs::path& cache, const std::string& fingerprint,
                      const std::string& form) {
  if (cache.empty() || !is_model_fingerprint(fingerprint) || !is_weights_form(form)) return {};
  const std::string digits = fingerprint.substr(fingerprint.find(':') + 1);
  return cache / "weights" / (digits + "-" + form + ".h5");
}

std::uint64_t weights_size(const ModelInfo& model, bool store_f32, bool half_output_weight) {
  const auto count = [](int number) { return static_cast<std::uint64_t>(number); };
  const std::uint64_t projections = count(model.num_layers) * count(model.num_heads) *
                                    count(model.head_dim) * count(model.hidden_size);
  return projections * (store_f32 && !half_output_weight ? 4 : 2) + lm_head_size(model);
}

std::string weights_model(const fs::path& file) {
  check_trace(file);
  const TraceDatasets weights(file);
  return weights.guarded([&] {
    const Handle group = hdf5::open_group(weights.file(), "/model");
    return in_one_line(hdf5::read_text(group, "name").value_or("") + ", " +
                           hdf5::read_text(group, layout::kSharedWeights).value_or(""),
                       200);
  });
}

bool holds_weights(const fs::path& file, const ModelInfo& model, const std::string& fingerprint,
                   const std::string& form, std::string* problem) {
  const auto tell = [&](const std::string& text) {
    if (problem != nullptr) *problem = text;
    return false;
  };
  std::error_code error;
  if (!fs::is_regular_file(fs::symlink_status(file, error))) return tell("is not there");
  try {
    check_trace(file);
    const TraceDatasets weights(file);
    weights.guarded([&] { check_weights(weights, model, fingerprint, form); });
    return true;
  } catch (const Cancelled&) {
    throw;
  } catch (const std::exception& failure) {
    std::string text = failure.what();
    const std::string name = file.string() + ": ";
    if (text.starts_with(name)) text.erase(0, name.size());
    return tell(text.substr(0, text.find(';')));
  }
}

WeightsWriter::WeightsWriter(const fs::path& target, const ModelInfo& model,
                             const std::string& fingerprint, const std::string& form)
    : model_(model), fingerprint_(fingerprint), form_(form) {
  std::error_code error;
  fs::create_directories(target.parent_path(), error);
  writer_ = std::make_unique<TraceWriter>(target, 1);
}

WeightsWriter::~WeightsWriter() = default;

void WeightsWriter::write_output_weight(int layer, std::span<const float> weight, bool as_half) {
  writer_->write_weight(layout::layer_dataset(layer, "output_weight"), slices_shape(model_), weight,
                        as_half);
}

void WeightsWriter::write_lm_head(std::span<const float> weight) {
  writer_->write_weight(layout::kHead, head_shape(model_), weight, true);
}

void WeightsWriter::finish() {
  const nlohmann::json root = {{"format", layout::kWeightsFormat},
                               {"format_version", layout::kWeightsVersion},
                               {"generator", "kvloupe " KVLOUPE_VERSION}};
  const nlohmann::json of_model = {
      {"name", model_.name}, {layout::kFingerprint, fingerprint_}, {layout::kSharedWeights, form_}};
  writer_->finish(1, {{"attributes", {{"/", root}, {"/model", of_model}}}});
}

std::string missing_weights(const Trace& trace) { return trace.file().missing_weights(); }
std::string named_weights_form(const Trace& trace) {
  return trace.file().guarded([&] {
    return hdf5::read_text(hdf5::open_group(trace.file().file(), "/model"), layout::kSharedWeights)
        .value_or("");
  });
}
bool keys_are_halves(const Trace& trace) {
  const std::string key = layout::layer_dataset(trace.storing_layers().front(), "key");
  return trace.file().guarded([&] { return trace.file().dataset(key).is_half; });
}
bool uses_shared_weights(const Trace& trace) { return trace.file().weights() != nullptr; }

void leave_shared_weights_alone() { left_alone() = true; }
bool shared_weights_left_alone() { return left_alone(); }

namespace {

/// All bytes of a file to the end of another. Throws hdf5::Failure.
void copy_bytes(const fs::path& from, int to) {
  const Descriptor source(open(from.c_str(), O_RDONLY | O_CLOEXEC));
  std::vector<char> piece(std::size_t{1} << 20);
  for (;;) {
    const ssize_t got = source.value() < 0 ? -1 : read(source.value(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw hdf5::Failure(std::string("cannot copy the trace: ") + std::strerror(errno));
    if (got == 0) return;
    for (ssize_t done = 0; done < got;) {
      const ssize_t put = write(to, piece.data() + done, static_cast<std::size_t>(got - done));
      if (put < 0 && errno == EINTR) continue;
      if (put <= 0)
        throw hdf5::Failure(std::string("cannot write it (") + std::strerror(errno) + ")");
      done += put;
    }
  }
}

void copy_object(hid_t from, const std::string& path, hid_t to) {
  hdf5::check(H5Ocopy(from, path.c_str(), to, path.c_str(), H5P_DEFAULT, H5P_DEFAULT),
              "cannot copy " + path);
}

}  // namespace

void pack_trace(const fs::path& source, const fs::path& target, bool whole_head) {
  refuse_own_input(target, {source});
  const Trace trace(source);  // checks all of it
  if (const std::string missing = missing_weights(trace); !missing.empty())
    throw FileError(source.string(), missing);
  if (whole_head && !trace.has_lm_head())
    throw FileError(source.string(), "has no output head; capture the prompt with --lm-head");
  const TraceDatasets& from = trace.file();
  UnfinishedFile unfinished(target.string());
  if (unfinished.error() != 0) {
    throw FileError(target.string(), std::string("cannot create it: ") +
                                         std::strerror(unfinished.error()) +
                                         "; choose a folder that exists and is writable");
  }
  try {
    const hdf5::Lock lock;
    const std::uint64_t failed_closings = hdf5::failed_closings();
    // H5Ocopy of a group crashes in HDF5 1.10 where it has many attributes with texts: of the trace
    // the bytes are copied, and by the library the weights alone.
    copy_bytes(source, unfinished.descriptor());
    Handle file = hdf5::change_file(unfinished.path());
    if (const TraceDatasets* weights = from.weights()) {
      const ModelInfo& model = trace.model();
      for (int layer = 0; layer < model.num_layers; ++layer)
        copy_object(weights->file(), layout::layer_dataset(layer, "output_weight"), file);
      if (whole_head || holds_lm_head(model, trace.length(), !keys_are_halves(trace))) {
        for (const char* rows : {layout::kHeadRows, layout::kHeadRowIds}) {
          if (hdf5::exists(file, rows))
            hdf5::check(H5Ldelete(file, rows, H5P_DEFAULT), std::string("cannot remove ") + rows);
        }
        copy_object(weights->file(), layout::kHead, file);
      }
      hdf5::check(H5Adelete(hdf5::open_group(file, "/model"), layout::kSharedWeights),
                  "cannot change /model");
    }
    hdf5::check(H5Fflush(file, H5F_SCOPE_GLOBAL), "cannot write it");
    file.reset();
    if (hdf5::failed_closings() != failed_closings) hdf5::check(-1, "cannot write it");
    if (const int error = unfinished.put_in_place(); error != 0)
      throw hdf5::Failure(std::string("cannot write it (") + std::strerror(error) + ")");
    remember_trace(unfinished.descriptor());
  } catch (const hdf5::Failure& failure) {
    throw FileError(target.string(),
                    std::string(failure.what()) + "; free some space or choose another folder");
  }
}

}  // namespace kvloupe
