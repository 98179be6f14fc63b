#include "trainer/retention.h"

#include <torch/types.h>

#include <algorithm>
#include <chrono>
#include <fstream>

#include "analysis/error.h"
#include "analysis/policy/kit/spec.h"
#include "analysis/replay/replay.h"
#include "analysis/trace/trace.h"
#include "capture/run/capture.h"
#include "tests/capture/whole_model.h"

namespace kvloupe::train {
namespace {

constexpr double kReads = 0.2;
constexpr std::uint64_t kFirstPrompt = 5000;

class Silent : public CaptureObserver {
 public:
  void on_tokens(int, int, int) override {}
  void on_note(const std::string&) override {}
};

/// (layer, query head) of every head that reads the needle.
std::vector<std::pair<int, int>> reading_heads(const Transformer& model,
                                               const NeedlePrompt& prompt) {
  const at::NoGradGuard no_gradients;
  at::Tensor ids = at::empty({1, static_cast<std::int64_t>(prompt.ids.size())}, at::kLong);
  std::copy(prompt.ids.begin(), prompt.ids.end(), ids.data_ptr<std::int64_t>());
  std::vector<std::pair<int, int>> found;
  run_whole(model, ids, [&](int layer, const StateTensors& states) {
    const at::Tensor last =
        causal_attention(states, model.attention_scale())[0].select(1, -1);  // [Hq,T]
    for (std::int64_t head = 0; head < last.size(0); ++head) {
      if (last[head][prompt.answer_positions.front()].item<double>() >= kReads) {
        found.emplace_back(layer, static_cast<int>(head));
      }
    }
  });
  return found;
}

/// Captures a text given as token ids, BOS first. Returns the trace's path.
std::filesystem::path capture_ids(const std::filesystem::path& model_folder,
                                  const std::vector<TokenId>& ids,
                                  const std::filesystem::path& work_folder) {
  CaptureRequest capture;
  capture.model = model_folder;
  capture.target = work_folder / "prompt.h5";
  capture.ids = work_folder / "prompt.txt";
  {
    std::ofstream file(*capture.ids);
    // The tokenizer puts BOS first again.
    for (std::size_t t = 1; t < ids.size(); ++t) file << ids[t] << '\n';
  }
  capture.attention = AttentionStorage::none;
  Progress progress;
  Silent observer;
  run_capture(capture, progress, observer);
  return capture.target;
}

}  // namespace

double measure_capture_seconds(const std::filesystem::path& model_folder,
                               const std::vector<TokenId>& ids,
                               const std::filesystem::path& work_folder) {
  const auto begin = std::chrono::steady_clock::now();
  capture_ids(model_folder, ids, work_folder);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

std::vector<Retention> measure_retention(const std::filesystem::path& model_folder,
                                         const Transformer& model, const Corpus& corpus,
                                         const std::vector<std::string>& policies,
                                         const std::string& budget, int length, int prompts,
                                         const std::filesystem::path& work_folder, int& readers) {
  const int group = static_cast<int>(model.config().group_size());
  std::vector<Retention> retention;
  for (const std::string& policy : policies) {
    retention.push_back({parse_policy(policy).text(), 0.0});
  }
  readers = 0;
  Progress progress;
  for (int i = 0; i < prompts; ++i) {
    const NeedlePrompt prompt =
        corpus.needle_prompt(kFirstPrompt + static_cast<std::uint64_t>(i), length, 1);
    const auto heads = reading_heads(model, prompt);
    readers += static_cast<int>(heads.size());
    if (heads.empty()) continue;

    const std::filesystem::path file = capture_ids(model_folder, prompt.ids, work_folder);
    const Trace trace(file);
    if (trace.length() != static_cast<int>(prompt.ids.size())) {
      throw WorkError("the captured prompt has " + std::to_string(trace.length()) +
                      " tokens instead of " + std::to_string(prompt.ids.size()));
    }
    for (std::size_t p = 0; p < policies.size(); ++p) {
      ReplayRequest request;
      request.policy = parse_policy(policies[p]);
      request.budget = parse_budget(budget).resolve(trace.length());
      request.metrics = false;
      const Replay result = replay(trace, request, progress);
      const int last = static_cast<int>(result.blocks.size()) - 1;
      for (const auto& [layer, query_head] : heads) {
        const HeadReplay* head = result.find(layer, query_head / group);
        if (head == nullptr) continue;
        const auto kept = result.retained_at(*head, last);
        if (std::binary_search(kept.begin(), kept.end(), prompt.answer_positions.front())) {
          retention[p].share += 1.0;
        }
      }
    }
  }
  for (Retention& line : retention) line.share /= static_cast<double>(readers);
  return retention;
}

}  // namespace kvloupe::train
