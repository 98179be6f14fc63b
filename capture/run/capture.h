#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "analysis/base/core/progress.h"
#include "analysis/base/system/user_files.h"
#include "analysis/policy/kit/spec.h"
#include "analysis/replay/cache/evicting_layer.h"
#include "analysis/trace/trace_size.h"
#include "capture/model/block_attention.h"
#include "capture/model/model_choice.h"
#include "capture/run/probe_kind.h"
#include "capture/tokenizer/prompt.h"

namespace kvloupe {

class Transformer;

/// Whether a trace gets attention matrices, which only other programs read; automatic: where they
/// take at most kMostAutomaticAttention bytes.
enum class AttentionStorage { automatic, full, none };
inline constexpr std::uint64_t kMostAutomaticAttention = 64'000'000;

/// One run of `kvloupe-capture run`. Exactly one of prompt, text, ids and tokens is given.
struct CaptureRequest {
  ModelChoice model = {};
  std::filesystem::path target = {};  // the trace
  std::optional<std::filesystem::path> prompt = {};
  std::optional<std::string> text = {};
  std::optional<std::filesystem::path> ids = {};
  std::optional<TokenSequence> tokens = {};  // ready, with their segments
  std::filesystem::path tokens_of = {};      // the trace that they are of; empty: of none
  std::string chat = {};  // of tokens: how they were written as messages (ChatTemplate::facts)
  std::optional<int> prompt_length = {};  // with ids and tokens: the rest is forced as generated
  std::optional<int> question = {};       // with ids: where the segment "question" begins
  int block = 128;                        // B; kWholePrompt: the prompt as one block
  int generate = 0;                       // most tokens to generate
  /// Of tokens given after the prompt: the model also writes its own answer, in a second run of the
  /// prompt that is not written, and the trace holds the ids.
  bool own_answer = false;
  AttentionStorage attention = AttentionStorage::none;
  std::string dtype = "auto";
  Storage storage = Storage::float16;
  std::string device = "cpu";
  int threads = 0;       // 0: see use_threads()
  bool lm_head = false;  // stored in any case; else as holds_lm_head() says, or the tokens' rows
  /// The trace takes W_O and the output head from a file in the cache folder, which the run writes
  /// if it is not there (analysis/trace/shared_weights.h). Where there is no such folder, or the
  /// model has no fingerprint, the trace holds them itself, and a note says so.
  bool shared_weights = false;
  /// Closed loop: the policy evicts from every layer's cache after each block. Without a policy:
  /// the full cache. A share of the budget is a share of the prompt.
  std::optional<PolicySpec> policy = {};
  Budget budget = {};
  Positions positions = Positions::original;
  /// With a policy: context_only stops before the segment "question", or at the prompt's end where
  /// there is none.
  Compression compression = Compression::regular;
  /// Reads the context a second time and stores the states of this reading; so does a policy that
  /// needs it. The context ends at the segment "question", or at the prompt's end.
  std::optional<ProbeKind> probe = {};
  /// Free space for the trace, asked before the model is loaded.
  std::function<std::optional<std::uint64_t>(const std::filesystem::path&)> free_space =
      kvloupe::free_space;
};

/// Reports of a run during its work. Calls come from the thread that runs the capture.
class CaptureObserver {
 public:
  virtual ~CaptureObserver() = default;
  /// `done` of at most `total` tokens have been run; the first `prompt_length` of them in blocks.
  virtual void on_tokens(int done, int prompt_length, int total) = 0;
  /// A note for the user.
  virtual void on_note(const std::string& note) = 0;
  /// How large the trace will be, before the model is loaded; `text` says it in one line.
  virtual void on_size(const TraceSize& /*size*/, const std::string& text) { on_note(text); }
};

/// Time and memory of a run, as far as known before the model is loaded.
struct CaptureForecast {
  TraceSize size;
  std::string size_text;              // in one line
  std::optional<std::uint64_t> free;  // bytes that the target's file system has left
  std::string dtype;                  // in which the model will compute: "f32", "bf16"
  Storage storage = Storage::float16;
  int prompt_length = 0;
  int generated = 0;              // at most
  std::optional<double> seconds;  // at the speed of the last run of this model on this machine
  std::string time_text;          // in words, also where it is not known
};

/// Foresees a run without running it. Throws UsageError and FileError where the run would, except
/// for a disk that is too full; WorkError, and Cancelled through progress.
CaptureForecast forecast_capture(const CaptureRequest& request, Progress& progress,
                                 CaptureObserver& observer);

struct CaptureSummary {
  std::string fingerprint;  // of the model
  int prompt_length = 0;
  int generated = 0;              // tokens after the prompt
  int given = 0;                  // the first of them: not chosen by the model
  double prompt_seconds = 0.0;    // running the prompt, writing included
  double generate_seconds = 0.0;  // running the generated tokens
  double seconds = 0.0;           // all, loading and finishing the file included
  std::string generated_text;     // after the prompt; empty without a tokenizer
  std::string own_answer;         // what the model wrote by itself; the same
};

/// Loads the model, runs the prompt in blocks and the generated tokens one by one, and writes the
/// trace on the way. At the end there is either a complete trace or none. Throws UsageError,
/// FileError (at once where the disk has no room for the trace), WorkError, and Cancelled through
/// progress. `loaded`: the request's model, where it is in memory already, with the dtype and on
/// the device that the request asks for.
CaptureSummary run_capture(const CaptureRequest& request, Progress& progress,
                           CaptureObserver& observer, const Transformer* loaded = nullptr);

}  // namespace kvloupe
