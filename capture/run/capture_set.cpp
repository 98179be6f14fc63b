#include "capture/run/capture_set.h"

#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <system_error>
#include <vector>

#include "analysis/error.h"
#include "capture/model/load_transformer.h"
#include "capture/run/compute.h"
#include "capture/run/set_prompt.h"
#include "capture/tokenizer/kinds/tokenizer_catalog.h"

namespace kvloupe {

namespace {
namespace fs = std::filesystem;

/// "notes.txt" gives notes.h5, line 3 of set.jsonl set-00003.h5.
std::string trace_name(const PromptPlace& place) {
  const std::string stem = place.path.stem().string();
  return place.line < 0 ? stem + ".h5" : fmt::format("{}-{:05}.h5", stem, place.line);
}

/// The trace of each prompt.
std::map<std::string, PromptPlace> traces_of(const fs::path& set) {
  std::map<std::string, PromptPlace> traces;
  for (const PromptPlace& place : find_prompts(set, set.filename().string())) {
    const auto [known, fresh] = traces.emplace(trace_name(place), place);
    if (!fresh) {
      throw FileError(place.path.string(), "would be written to the same trace as " +
                                               known->second.path.filename().string() +
                                               "; rename one of them");
    }
  }
  return traces;
}
}  // namespace

void run_capture_set(const CaptureSetRequest& request, Progress& progress,
                     CaptureObserver& observer, const CaptureSetReport& report) {
  const c10::InferenceMode no_gradients;
  const std::map<std::string, PromptPlace> traces = traces_of(request.set);
  std::error_code error;
  fs::create_directories(request.folder, error);
  if (error) {
    throw FileError(request.folder.string(),
                    "cannot be used as a folder (" + error.message() + "); choose another");
  }
  const int total = static_cast<int>(traces.size());
  std::vector<const std::pair<const std::string, PromptPlace>*> missing;
  for (const auto& trace : traces) {
    if (!fs::exists(request.folder / trace.first, error)) missing.push_back(&trace);
  }
  int done = total - static_cast<int>(missing.size());
  if (done > 0 && report.found) report.found(done);
  if (missing.empty()) return;
  const ModelConfig config = read_model_config(request.each.model.path);
  const at::Device device = parse_device(request.each.device);
  const at::ScalarType type = parse_compute_type(request.each.dtype, device);
  use_threads(request.each.threads, device, type);
  const Transformer model =
      load_transformer(request.each.model.path, config, type, device, request.each.model.weights);
  const std::unique_ptr<Tokenizer> tokenizer = open_tokenizer(request.each.model.tokenizer_place());
  std::set<std::string> noted;
  for (const auto* trace : missing) {
    progress.check();
    CaptureRequest one = request.each;
    one.target = request.folder / trace->first;
    const Prompt prompt = read_set_prompt(trace->second);
    for (const std::string& note : prompt.notes) {
      if (noted.insert(note).second && report.note) report.note(note);
    }
    one.tokens = encode_prompt(prompt, *tokenizer);
    const CaptureSummary summary = run_capture(one, progress, observer, &model);
    ++done;
    if (report.done) report.done(one.target, summary, done, total);
  }
}

}  // namespace kvloupe
