// A run that branches computes what a run does that reads the same tokens from its beginning: the
// same logits, bit by bit, with every policy of the catalogue that runs in a model.
#include <c10/core/InferenceMode.h>

#include "analysis/policy/kit/policy_catalog.h"
#include "capture/eval/eval_run.h"
#include "capture/model/load_transformer.h"
#include "capture/run/model_description.h"
#include "tests/capture/tiny_checkpoint.h"
#include "tests/support/catalogue_parts.h"
#include "tests/support/test.h"

namespace kvloupe::test {
namespace {

constexpr int kCommon = 40;

struct BranchedRuns : testing::Test {
  BranchedRuns() {
    tiny_.layers = 3;
    tiny_.write(folder_.path());
    config_ = read_model_config(folder_.path());
    info_ = describe_model(config_, folder_.path());
    model_.emplace(load_transformer(folder_.path(), config_, at::kFloat, at::kCPU));
    std::mt19937 random(7);
    for (int i = 0; i < 80; ++i) {
      ids_.push_back(static_cast<std::int32_t>(random() % 40));
      others_.push_back(static_cast<std::int32_t>(random() % 40));
      structural_.push_back(i % 6 == 0);
    }
  }
  EvalRun run(const std::string& spec, Positions positions) const {
    EvalRun::Options options;
    options.most_tokens = 80;
    options.block = 16;
    if (!spec.empty()) {
      options.loop = ClosedLoop{parse_policy(spec), 14, positions, nullptr, kCommon, &structural_};
    }
    return {*model_, info_, options};
  }
  /// Reads a question and an answer; says every token's log-probability after each of its parts.
  std::string asked(EvalRun& run, const std::vector<std::int32_t>& ids, bool cut) const {
    std::ostringstream said;
    said << std::hexfloat;
    const auto say = [&] {
      for (int token = 0; token < tiny_.vocab_size; ++token) said << run.logprob(token) << " ";
      said << run.choice() << "/" << run.length() << "\n";
    };
    run.read(std::span(ids).subspan(kCommon, 20), cut, progress_);
    for (int at = kCommon + 20; at < kCommon + 25; ++at) {
      say();
      run.read(std::span(ids).subspan(static_cast<std::size_t>(at), 1), cut, progress_);
    }
    say();
    return said.str();
  }
  void expect_branches(const std::string& spec, bool cut, Positions positions) const {
    SCOPED_TRACE(spec + (cut ? ", acts on" : ", context alone") +
                 (positions == Positions::compact ? ", compact" : ""));
    const auto common = std::span(ids_).first(kCommon);
    EvalRun branched = run(spec, positions), anew = run(spec, positions);
    branched.read(common, true, progress_);
    const auto mark = branched.mark(cut);
    ASSERT_TRUE(mark);
    const std::string other = asked(branched, others_, cut);
    branched.return_to(*mark);
    const std::string own = asked(branched, ids_, cut);
    branched.return_to(*mark);
    EXPECT_EQ(asked(branched, ids_, cut), own);
    anew.read(common, true, progress_);
    EXPECT_EQ(asked(anew, ids_, cut), own);
    EXPECT_NE(other, own);
  }

  TinyCheckpoint tiny_;
  const TemporaryFolder folder_;
  ModelConfig config_;
  ModelInfo info_;
  std::optional<Transformer> model_;
  std::vector<std::int32_t> ids_, others_;
  std::vector<char> structural_;
  const Progress progress_;
  const c10::InferenceMode no_gradients_;
};

TEST_F(BranchedRuns, ABranchIsARunThatStartsAnew) {
  std::vector<std::string> specs = examples_for_a_model();
  for (const char* more :
       {"", "h2o+boundaries", "h2o+quant(2,group=8,residual=3)", "epikv(recent=0)+every(2)",
        "thinkv(segment=4,reasoning=2,execution=1,transition=0,recent=2)", "tova+slack(3)",
        "h2o+kvmerger(0.5,log_size=1)", "attentionmatching(keys=omp)+sinks(2)"})
    specs.emplace_back(more);
  EXPECT_GT(specs.size(), 45U);
  for (const std::string& spec : specs) {
    for (const bool cut : {true, false}) expect_branches(spec, cut, Positions::original);
    if (testing::Test::HasFailure()) return;
  }
  expect_branches("h2o+sinks(2)", true, Positions::compact);
  expect_branches("keydiff", false, Positions::compact);
}

TEST_F(BranchedRuns, APolicyWithAStateElsewhereIsNotCopiedButStopsWithTheContext) {
  const fs::path file = folder_ / "score.py";
  write_file(file, "def last(step):\n    return list(range(step.n))\n");
  EvalRun run = this->run("python(\"" + file.string() + ":last\")", Positions::original);
  EXPECT_FALSE(run.mark(/*cuts=*/true));
  EXPECT_TRUE(run.mark(/*cuts=*/false));
}

}  // namespace
}  // namespace kvloupe::test
