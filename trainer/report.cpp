#include "trainer/report.h"

#include <fmt/format.h>
#include <torch/types.h>
#include <unistd.h>

#include <sstream>

#include "capture/model/load_transformer.h"
#include "trainer/measure.h"
#include "trainer/retention.h"

namespace kvloupe::train {
namespace {

constexpr std::uint64_t kSeed = 20260101;  // of the report's prompts, unlike any recipe's
constexpr int kSinkPrompts = 4;

/// A temporary folder that its destructor removes.
struct TemporaryFolder {
  TemporaryFolder()
      : path(std::filesystem::temp_directory_path() /
             fmt::format("kvloupe-train-{}", static_cast<long>(getpid()))) {
    std::filesystem::create_directories(path);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  std::filesystem::path path;
};

using Say = std::function<void(const std::string&)>;

void report_sinks(const Transformer& model, const Corpus& corpus, const Say& line) {
  for (int i = 0; i < kSinkPrompts; ++i) {
    const NeedlePrompt prompt = corpus.needle_prompt(static_cast<std::uint64_t>(i), 1000, 1);
    const SinkReport sinks = measure_sinks(model, prompt.ids, at::kCPU);
    const SinkRemoval removal = measure_sink_removal(model, prompt.ids, at::kCPU);
    line(
        fmt::format("sinks, prompt {} ({} tokens): {:.0f} % of the query heads give token 0 more "
                    "than 0.3, the strongest {:.2f}",
                    i, prompt.ids.size(), 100.0 * sinks.sink_head_share(), sinks.strongest()));
    line(fmt::format("  value norm of token 0 over the median, in heads with a sink: {:.2f}",
                     sinks.sink_value_ratio()));
    line(fmt::format("  loss of later tokens: {:.3f} nats, {:.3f} without token 0 ({:+.3f})",
                     removal.loss, removal.loss_without, removal.loss_without - removal.loss));
    if (i == 0) line(sinks.picture());
  }
}

void report_needles(const Transformer& model, const Corpus& corpus, const Say& line) {
  for (const int needles : {1, 4}) {
    for (const int length : {256, 512, 1024}) {
      const NeedleTest test{.length = length, .needles = needles, .prompts = 100 / needles};
      line(fmt::format("{}, {} tokens: {:.0f} % right", needles == 1 ? "needle" : "four needles",
                       length, 100.0 * needle_accuracy(model, corpus, test, at::kCPU)));
    }
  }
}

void report_policies(const std::filesystem::path& model_folder, const Transformer& model,
                     const Corpus& corpus, const std::filesystem::path& work_folder,
                     const Say& line) {
  int readers = 0;
  const auto retention =
      measure_retention(model_folder, model, corpus,
                        {"full", "sink", "tova", "h2o", "snapkv", "keydiff", "keynorm", "random"},
                        "25%", 1000, 10, work_folder, readers);
  line(
      fmt::format("the needle's number, kept at a budget of 25 % in the {} query heads that attend "
                  "to it in 10 prompts of 1000 tokens (replay, blocks of 128):",
                  readers));
  for (const Retention& policy : retention) {
    line(fmt::format("  {:<8} {:.0f} %", policy.policy, 100.0 * policy.share));
  }
}

}  // namespace

void report(const std::filesystem::path& model_folder, const Say& line) {
  const ModelConfig config = read_model_config(model_folder);
  const Transformer model = load_transformer(model_folder, config, at::kFloat, at::kCPU);
  const Vocabulary vocabulary;
  const Corpus corpus(vocabulary, kSeed);
  report_sinks(model, corpus, line);
  report_needles(model, corpus, line);
  const TemporaryFolder folder;
  report_policies(model_folder, model, corpus, folder.path, line);
  const NeedlePrompt prompt = corpus.needle_prompt(0, 1000, 1);
  line(fmt::format("captured {} tokens in {:.2f} s", prompt.ids.size(),
                   measure_capture_seconds(model_folder, prompt.ids, folder.path)));
}

}  // namespace kvloupe::train
