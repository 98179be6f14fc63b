#include "capture/run/capture_set.h"

#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <system_error>
#include <vector>

#include "analysis/base/core/error.h"
#include "analysis/base/text/text.h"
#include "analysis/replay/typed_values.h"
#include "analysis/trace/model_files.h"
#include "analysis/trace/trace.h"
#include "capture/model/load_transformer.h"
#include "capture/run/compute.h"
#include "capture/run/model_description.h"
#include "capture/tokenizer/kinds/tokenizer_catalog.h"

namespace kvloupe {

namespace {
constexpr std::size_t kLongestName = 40;
constexpr std::size_t kLongestNames = 300;
}  // namespace

Prompt read_set_prompt(const PromptPlace& place) {
  if (place.line < 0) return read_prompt(place.path);
  Prompt prompt;
  const PromptParts parts = read_prompt_line(place);
  for (const auto& [name, text] : parts.segments) {
    prompt.segments.push_back({prompt.text.size(), name});
    prompt.text += text;
  }
  prompt.answer_begin = prompt.text.size() - parts.prefix;
  std::string names;
  for (const std::string& name : parts.unread) {
    names += (names.empty() ? "" : ", ") + in_one_line(name, kLongestName);
  }
  if (!names.empty()) {
    prompt.notes.push_back(place.path.filename().string() +
                           ": the prompts and answers have nothing of the fields " +
                           in_one_line(names, kLongestNames));
  }
  if (!parts.doubt.empty())
    prompt.notes.push_back(place.path.filename().string() + ": " + parts.doubt);
  return prompt;
}

namespace {
namespace fs = std::filesystem;

/// "notes.txt" gives notes.h5, line 3 of set.jsonl set-00003.h5, its question 1 set-00003-q1.h5.
std::string trace_name(const PromptPlace& place) {
  const std::string stem = place.path.stem().string();
  if (place.line < 0) return stem + ".h5";
  return fmt::format("{}-{:05}{}.h5", stem, place.line,
                     place.question < 0 ? "" : fmt::format("-q{}", place.question));
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

/// Throws FileError where a trace that is there already is not the one that would be made.
void check_existing(const fs::path& path, const CaptureRequest& each, const TokenSequence& prompt,
                    const ModelConfig& config, const std::string& fingerprint, const char* dtype) {
  const Trace trace(path);
  const RunInfo& run = trace.run();
  const std::string known = stored_model_fingerprint(path);
  const int length = static_cast<int>(prompt.ids.size());
  const int block = each.block == kWholePrompt ? length : each.block;
  const auto budget = [&] {
    return budget_entries(each.budget, *each.policy,
                          layer_models(describe_model(config, each.model.path), config), length,
                          length + each.generate);
  };
  const std::vector<std::int32_t>& ids = trace.tokens().ids;
  const bool other_prompt =
      run.prompt_length != length || !std::equal(prompt.ids.begin(), prompt.ids.end(), ids.begin());
  const char* other =
      !known.empty() && !fingerprint.empty() && known != fingerprint   ? "model"
      : other_prompt                                                   ? "prompt"
      : run.policy != (each.policy ? each.policy->text() : kFullCache) ? "policy"
      : each.policy && run.budget != budget()                          ? "budget"
      : each.policy && (run.compression != each.compression ||
                        (run.positions == "compact") != (each.positions == Positions::compact))
          ? "way of evicting"
      : run.block_size != block ? "block"
      : run.dtype != dtype      ? "precision"
      : (run.generated > 0) != (each.generate > 0) || run.generated > each.generate
          ? "number of generated tokens"
          : nullptr;
  if (other == nullptr) return;
  throw FileError(path.string(), fmt::format("is there already, with another {}; name another "
                                             "folder with -o, or remove the trace",
                                             other));
}
}  // namespace

void run_capture_set(const CaptureSetRequest& request, Progress& progress,
                     CaptureObserver& observer, const CaptureSetReport& report) {
  const c10::InferenceMode no_gradients;
  const std::map<std::string, PromptPlace> traces = traces_of(request.set);
  const ModelChoice& choice = request.each.model;
  const std::unique_ptr<Tokenizer> tokenizer =
      open_tokenizer(choice.tokenizer_place(), choice.chat, choice.system);
  std::error_code error;
  fs::create_directories(request.folder, error);
  if (error) {
    throw FileError(request.folder.string(),
                    "cannot be used as a folder (" + error.message() + "); choose another");
  }
  const int total = static_cast<int>(traces.size());
  const ModelConfig config = read_model_config(request.each.model.path);
  const at::Device device = parse_device(request.each.device);
  const at::ScalarType type = parse_compute_type(request.each.dtype, device);
  std::vector<const std::pair<const std::string, PromptPlace>*> missing;
  std::string fingerprint;
  for (const auto& trace : traces) {
    progress.check();
    const fs::path path = request.folder / trace.first;
    if (!fs::exists(path, error)) {
      missing.push_back(&trace);
      continue;
    }
    if (fingerprint.empty()) fingerprint = model_fingerprint(request.each.model.path, progress);
    check_existing(path, request.each, encode_prompt(read_set_prompt(trace.second), *tokenizer),
                   config, fingerprint, compute_type_name(type).c_str());
  }
  int done = total - static_cast<int>(missing.size());
  if (done > 0 && report.found) report.found(done);
  if (missing.empty()) return;
  use_threads(request.each.threads, device, type);
  const Transformer model =
      load_transformer(request.each.model.path, config, type, device, request.each.model.weights);
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
    if (tokenizer->chat) one.chat = tokenizer->chat->facts;
    const CaptureSummary summary = run_capture(one, progress, observer, &model);
    ++done;
    if (report.done) report.done(one.target, summary, done, total);
  }
}

}  // namespace kvloupe
