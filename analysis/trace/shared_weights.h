#pragma once
// The output projections W_O and the output head of a model, kept once in the cache folder: traces
// of one model need not each hold them. docs/trace-format.md says how a trace names them.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "analysis/trace/model_info.h"

namespace kvloupe {

class Trace;
class TraceWriter;

/// How the numbers came to be: the precision in which the model computed with them ("f32", "bf16"),
/// and the one in which they are stored: "bf16-f16". Other words are no form.
std::string weights_form(const std::string& dtype, bool store_f32);
bool is_weights_form(std::string_view text);

/// The file of a model's weights in a cache folder: weights/DIGITS-FORM.h5, with the digits of its
/// fingerprint. Empty for another fingerprint or form, so that neither can lead out of the folder,
/// and for an empty folder.
std::filesystem::path weights_path(const std::filesystem::path& cache,
                                   const std::string& fingerprint, const std::string& form);

/// Bytes of such a file.
std::uint64_t weights_size(const ModelInfo& model, bool store_f32, bool half_output_weight);

/// The model and the form that a file of weights says, in one line: "SmolLM2, bf16-f16". Throws
/// FileError.
std::string weights_model(const std::filesystem::path& file);

/// Whether the file is there, and holds the weights of this model in this form, all of them with
/// the right shapes. `problem`: else why not, in words behind the file's name.
bool holds_weights(const std::filesystem::path& file, const ModelInfo& model,
                   const std::string& fingerprint, const std::string& form,
                   std::string* problem = nullptr);

/// Writes such a file; it appears when it is whole (UnfinishedFile). Throws FileError naming it.
class WeightsWriter {
 public:
  WeightsWriter(const std::filesystem::path& target, const ModelInfo& model,
                const std::string& fingerprint, const std::string& form);
  ~WeightsWriter();
  WeightsWriter(const WeightsWriter&) = delete;
  WeightsWriter& operator=(const WeightsWriter&) = delete;

  /// W_O of a layer cut by query head: [Hq,d,D]. `as_half`: float16, unless that would overflow.
  void write_output_weight(int layer, std::span<const float> weight, bool as_half);
  /// [vocab,D], stored as float16 unless that would overflow.
  void write_lm_head(std::span<const float> weight);
  void finish();

 private:
  ModelInfo model_;
  std::string fingerprint_, form_;
  std::unique_ptr<TraceWriter> writer_;
};

/// The parts that a trace lacks because its weights, kept elsewhere, are missing, with the remedy,
/// in one line; empty: nothing is missing.
std::string missing_weights(const Trace& trace);
/// The form of the weights that it takes from elsewhere; empty: none.
std::string named_weights_form(const Trace& trace);
/// Whether it stores its keys as float16, those of layer 0.
bool keys_are_halves(const Trace& trace);
/// Whether it takes its weights from the cache folder.
bool uses_shared_weights(const Trace& trace);

/// From now on this process looks for no weights outside a trace: for the trial of an unknown file.
void leave_shared_weights_alone();
bool shared_weights_left_alone();

/// Copies a trace with the weights that it takes from elsewhere into one file that needs nothing
/// else: what `kvloupe-capture run` would have written. `whole_head`: with the whole output head,
/// however large. A trace that holds its weights is copied as it is. Throws FileError where the
/// weights are missing or the target cannot be written.
void pack_trace(const std::filesystem::path& source, const std::filesystem::path& target,
                bool whole_head);

}  // namespace kvloupe
