// Evaluations of a tiny model: losses and hidden states against the naive model in double
// precision, which follows the evictions of a closed-loop trace of the same tokens; and what must
// hold exactly.
#include <c10/core/InferenceMode.h>

#include "capture/eval/eval_run.h"
#include "capture/eval/evaluate.h"
#include "capture/eval/haystack.h"
#include "capture/model/load_transformer.h"
#include "capture/run/model_description.h"
#include "capture/tokenizer/kinds/tokenizer_catalog.h"
#include "tests/capture/capture_check.h"
#include "tests/capture/follow_trace.h"
#include "tests/capture/results_file.h"
#include "tests/capture/tiny_checkpoint.h"
#include "tests/support/catalogue_parts.h"
#include "tests/support/test.h"

namespace kvloupe::test {
namespace {

using Json = nlohmann::ordered_json;
using Task = Evaluation::Task;

constexpr int kBlock = 16;
constexpr double kNear = 2e-3;  // float32 against double, of numbers around 1

/// A tokenizer of 40 characters, one to a token.
std::string character_tokenizer() {
  Json vocabulary = Json::object();
  for (const char c : std::string("abcdefghijklmnopqrstuvwxyz0123456789 .?:")) {
    vocabulary[std::string(1, c)] = vocabulary.size();
  }
  return Json{{"version", "1.0"},
              {"added_tokens", Json::array()},
              {"normalizer", nullptr},
              {"pre_tokenizer", nullptr},
              {"post_processor", nullptr},
              {"decoder", {{"type", "Fuse"}}},
              {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", Json::array()}}}}
      .dump();
}

class EvalNaiveTest : public testing::Test {
 protected:
  EvalNaiveTest() {
    tiny_.layers = 3;
    tiny_.max_position_embeddings = 512;
    tiny_.write(folder_.path());
    write_file(folder_ / "tokenizer.json", character_tokenizer());
    write_file(folder_ / "filler.txt",
               "the fox runs. a bird sings? my dog sleeps in the sun. cats eat fish. rain falls.");
    const Json needle{{"needle", " key of {word}: {number}."},
                      {"question", " key of {word}:"},
                      {"words", {"ann", "bob", "cy"}},
                      {"numbers", {10, 99}},
                      {"answer_tokens", 3},
                      {"filler", "filler.txt"}};
    write_file(folder_ / "needle.json", needle.dump());
    naive_ = std::make_unique<NaiveModel>(folder_.path());
    tokenizer_ = open_tokenizer(folder_.path());
    needles_ = read_needle_template(folder_ / "needle.json");
  }

  EvalRequest request(Task task, int length) const {
    return EvalRequest{
        .model = folder_.path(),
        .output = (folder_ / "results.json").string(),
        .task = task,
        .policies = {parse_policy("h2o"), parse_policy("keydiff+recent(20%)"),
                     parse_policy("snapkv(4)+adakv"), parse_policy("h2o+kvmerger(0.3)")},
        .budgets = {parse_budget("12")},
        .lengths = {length},
        .depths = {30},
        .block = kBlock,
        .dtype = "f32"};
  }
  /// Runs anew, whatever an earlier evaluation left.
  std::vector<Json> evaluated(const EvalRequest& request) {
    std::filesystem::remove(request.output);
    return continued(request);
  }
  std::vector<Json> continued(const EvalRequest& request) {
    Progress progress;
    EvalReport report;
    notes_.clear();
    report.note = [&](const std::string& note) { notes_.push_back(note); };
    evaluate(request, progress, report);
    return runs_in(request.output);
  }
  /// The first `count` tokens run with a policy in the cache.
  Trace closed(std::vector<std::int32_t> ids, std::size_t count, const Json& run) const {
    std::string text;
    for (std::size_t i = 0; i < count; ++i) text += std::to_string(ids[i]) + " ";
    write_file(folder_ / "ids.txt", text);
    CaptureRequest request{.model = folder_.path(),
                           .target = folder_ / "closed.h5",
                           .ids = folder_ / "ids.txt",
                           .block = kBlock,
                           .dtype = "f32",
                           .storage = Storage::float32,
                           .policy = parse_policy(run["policy"].get<std::string>()),
                           .budget = parse_budget(run["budget"].get<std::string>())};
    capture(request);
    return Trace(request.target);
  }
  NaiveModel::Result naive_closed(const std::vector<std::int32_t>& ids, const Trace& trace,
                                  const std::vector<Block>& blocks) const {
    const bool merges = trace.run().policy.find("kvmerger") != std::string::npos;
    return naive_->run(ids, blocks, follow(trace, {merges, false, merges}), false);
  }

  TinyCheckpoint tiny_;
  const TemporaryFolder folder_;
  std::unique_ptr<NaiveModel> naive_;
  std::unique_ptr<Tokenizer> tokenizer_;
  NeedleTemplate needles_;
  std::vector<std::string> notes_;
};

struct Apart {
  double distance = 0.0, cosine = 0.0;
};

/// Means over tokens from `first` on, by the definitions.
Apart apart(const Rows& other, const Rows& full, std::size_t first) {
  Apart mean;
  for (std::size_t t = first; t < full.size(); ++t) {
    double squared = 0, product = 0, of_other = 0, of_full = 0;
    for (std::size_t c = 0; c < full[t].size(); ++c) {
      squared += (other[t][c] - full[t][c]) * (other[t][c] - full[t][c]);
      product += other[t][c] * full[t][c];
      of_other += other[t][c] * other[t][c];
      of_full += full[t][c] * full[t][c];
    }
    const auto count = static_cast<double>(full.size() - first);
    mean.distance += std::sqrt(squared) / std::sqrt(of_full) / count;
    mean.cosine += (1.0 - product / std::sqrt(of_other * of_full)) / count;
  }
  return mean;
}

void expect_hidden(const Json& run, const NaiveModel::Result& other, const NaiveModel::Result& full,
                   std::size_t first) {
  ASSERT_EQ(run["hidden_distance"].size(), full.hidden.size());
  ASSERT_EQ(run["hidden_cosine_distance"].size(), full.hidden.size());
  for (std::size_t layer = 0; layer < full.hidden.size(); ++layer) {
    const Apart mean = apart(other.hidden[layer], full.hidden[layer], first);
    EXPECT_NEAR(run["hidden_distance"][layer].get<double>(), mean.distance,
                kNear * mean.distance + 1e-6)
        << "layer " << layer;
    EXPECT_NEAR(run["hidden_cosine_distance"][layer].get<double>(), mean.cosine,
                kNear * mean.cosine + 1e-6);
  }
  const Apart mean = apart(other.normed, full.normed, first);
  EXPECT_NEAR(run["normed_distance"].get<double>(), mean.distance, kNear * mean.distance + 1e-6);
  EXPECT_NEAR(run["normed_cosine_distance"].get<double>(), mean.cosine, kNear * mean.cosine + 1e-6);
}

TEST_F(EvalNaiveTest, PerplexityIsTheNaiveModels) {
  const int length = 90;
  const auto runs = evaluated(request(Task::perplexity, length));
  ASSERT_EQ(runs.size(), 5U);
  const auto ids = Haystack(needles_, *tokenizer_, 1).text(length, 0).ids;
  ASSERT_EQ(ids.size(), 90U);
  const NaiveModel::Result full = naive_->run(ids);
  const auto loss_of = [&](const NaiveModel::Result& result) {
    double sum = 0;
    for (std::size_t t = 0; t + 1 < ids.size(); ++t) {
      sum -= result.log_probabilities[t][static_cast<std::size_t>(ids[t + 1])];
    }
    return sum / (length - 1);
  };
  for (const Json& run : runs) {
    SCOPED_TRACE(run["policy"].get<std::string>());
    if (run["budget"] == "full") {
      EXPECT_NEAR(run["loss"].get<double>(), loss_of(full), kNear);
      EXPECT_FALSE(run.contains("hidden_distance"));
      continue;
    }
    const Trace trace = closed(ids, ids.size(), run);
    const NaiveModel::Result other = naive_closed(ids, trace, trace.blocks());
    double kl = 0;
    for (std::size_t t = 0; t < ids.size(); ++t) {
      for (std::size_t v = 0; v < full.log_probabilities[t].size(); ++v) {
        const double p = full.log_probabilities[t][v];
        kl += std::exp(p) * (p - other.log_probabilities[t][v]) / length;
      }
    }
    EXPECT_NEAR(run["loss"].get<double>(), loss_of(other), kNear * loss_of(other));
    EXPECT_NEAR(run["loss_difference"].get<double>(), loss_of(other) - loss_of(full), 5e-3);
    EXPECT_NEAR(run["kl"].get<double>(), kl, kNear * kl);
    expect_hidden(run, other, full, 0);
    EXPECT_GT(run["hidden_distance"][2].get<double>(), 0.05) << "nothing drifts: nothing is tested";
  }
}

TEST_F(EvalNaiveTest, NeedlesAreComparedAtThePromptsLastToken) {
  const int length = 90;
  const NeedleTask task = Haystack(needles_, *tokenizer_, 1).needle({length, 30, 0}, 1);
  const std::vector<std::int32_t>& ids = task.tokens.ids;
  const NaiveModel::Result full = naive_->run(ids);
  for (const Compression compression : {Compression::regular, Compression::context_only}) {
    EvalRequest wanted = request(Task::needle, length);
    wanted.compression = compression;
    const auto runs = evaluated(wanted);
    ASSERT_EQ(runs.size(), 5U);
    for (const Json& run : runs) {
      if (run["budget"] == "full") continue;
      SCOPED_TRACE(run["policy"].get<std::string>());
      const bool regular = compression == Compression::regular;
      const int cut = regular ? static_cast<int>(ids.size()) : task.question_begin;
      const Trace trace = closed(ids, static_cast<std::size_t>(cut), run);
      std::vector<Block> blocks = trace.blocks();
      for (Block block : make_blocks(static_cast<int>(ids.size()) - cut, 0, kBlock)) {
        blocks.push_back({block.first + cut, block.end + cut});
      }
      expect_hidden(run, naive_closed(ids, trace, blocks), full, ids.size() - 1);
      EXPECT_GT(run["hidden_distance"][2].get<double>(), 0.05);
    }
  }
}

TEST_F(EvalNaiveTest, ATokenTheModelDoesNotKnowIsNamed) {
  std::string larger = character_tokenizer();
  larger.replace(larger.find("\"e\":4,"), 6, "\"e\":923,");
  write_file(folder_ / "tokenizer.json", larger);
  for (const Task task : {Task::perplexity, Task::needle}) {
    EXPECT_THAT(error_of<FileError>([&] { evaluated(request(task, 90)); }),
                HasSubstr("token 923, outside the model's vocabulary"));
  }
}

TEST_F(EvalNaiveTest, NothingDriftsBeforeTheFirstEviction) {
  for (const Task task : {Task::perplexity, Task::needle}) {
    EvalRequest whole = request(task, 90);
    whole.budgets = {parse_budget("100%")};
    for (const Positions positions : {Positions::original, Positions::compact}) {
      whole.positions = positions;
      for (const Json& run : evaluated(whole)) {
        if (run["budget"] == "full") continue;
        EXPECT_THAT(run["hidden_distance"], Each(0.0)) << run;
        EXPECT_THAT(run["hidden_cosine_distance"], Each(0.0)) << run;
        EXPECT_EQ(run["normed_distance"], 0.0);
      }
    }
  }
  // With N = B the first cut is after the second block: the token after it is the first to drift.
  EvalRequest text = request(Task::perplexity, 2 * kBlock);
  text.budgets = {parse_budget(std::to_string(kBlock))};
  for (const Json& run : evaluated(text)) {
    if (run["budget"] == "full") continue;
    EXPECT_THAT(run["hidden_distance"], Each(0.0)) << run;
    EXPECT_EQ(run["kl"], 0.0);
    EXPECT_EQ(run["same_top1"], 1.0);
    EXPECT_EQ(run["loss_difference"], 0.0);
  }
  text.lengths = {2 * kBlock + 1};
  for (const Json& run : evaluated(text)) {
    if (run["budget"] == "full") continue;
    EXPECT_GT(run["hidden_distance"][0].get<double>(), 0.0) << run;
    EXPECT_GT(run["kl"].get<double>(), 0.0);
  }
}

TEST_F(EvalNaiveTest, MoreTokensThanPositionsAreSaid) {
  tiny_.max_position_embeddings = 92;
  tiny_.write(folder_.path());
  for (const auto& [task, length, text] : {std::tuple{Task::perplexity, 92, ""},
                                           {Task::perplexity, 93, "93 tokens"},
                                           {Task::needle, 90, "93 tokens"}}) {
    EvalRequest wanted = request(task, length);
    wanted.policies.resize(1);
    evaluated(wanted);
    std::string all;
    for (const std::string& note : notes_) all += note;
    EXPECT_THAT(all, HasSubstr(text));
    EXPECT_EQ(all.find("made for 92 positions") == all.npos, std::string(text).empty());
  }
  // Another model of the same name goes not on with these results.
  tiny_.seed += 1;
  tiny_.write(folder_.path());
  EXPECT_THAT([&] { continued(request(Task::needle, 90)); },
              testing::ThrowsMessage<FileError>(HasSubstr("another model of this name")));
}

TEST_F(EvalNaiveTest, WhatDoesNotFitIsLeftOutAndSaid) {
  tiny_.layers = 1;  // so that hidden states take less than distributions
  tiny_.write(folder_.path());
  EvalRequest wanted = request(Task::perplexity, 90);
  const std::int64_t distributions = 90 * tiny_.vocab_size * 4;
  const std::int64_t hidden = 90 * tiny_.layers * tiny_.hidden_size * 4;
  const auto all = evaluated(wanted);
  EXPECT_THAT(notes_, IsEmpty());
  for (const auto& [room, with_kl, with_hidden] : {std::tuple{distributions + hidden, true, true},
                                                   {distributions + hidden - 1, true, false},
                                                   {hidden, false, true},
                                                   {hidden - 1, false, false}}) {
    wanted.most_reference = room;
    const auto runs = evaluated(wanted);
    ASSERT_EQ(runs.size(), all.size());
    EXPECT_EQ(notes_.size(), (with_kl ? 0U : 1U) + (with_hidden ? 0U : 1U));
    if (with_kl && !with_hidden) {
      EXPECT_THAT(notes_.front(), HasSubstr("hidden states over 90 tokens"));
    }
    for (std::size_t i = 1; i < runs.size(); ++i) {
      EXPECT_EQ(runs[i]["loss"], all[i]["loss"]);
      EXPECT_EQ(runs[i].contains("kl"), with_kl);
      EXPECT_EQ(runs[i].contains("same_top1"), with_kl);
      EXPECT_EQ(runs[i].contains("hidden_distance"), with_hidden);
      EXPECT_EQ(runs[i].contains("normed_distance"), with_hidden);
      EXPECT_EQ(runs[i].value("hidden_distance", Json()),
                with_hidden ? all[i]["hidden_distance"] : Json());
    }
  }
}

TEST_F(EvalNaiveTest, ResultsOfAnEarlierVersionGoOn) {
  EvalRequest wanted = request(Task::perplexity, 90);
  wanted.samples = 2;
  wanted.policies.resize(1);
  evaluated(wanted);
  Json file = Json::parse(std::ifstream(wanted.output));
  for (Json& run : file["runs"]) {
    for (const char* field : {"hidden_distance", "hidden_cosine_distance", "normed_distance",
                              "normed_cosine_distance"}) {
      run.erase(field);
    }
  }
  std::ofstream(wanted.output) << file.dump();
  wanted.policies.push_back(parse_policy("tova"));
  const auto runs = continued(wanted);
  ASSERT_EQ(runs.size(), 6U);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    EXPECT_EQ(runs[i].contains("hidden_distance"), i >= 4) << runs[i];
  }
  const Json summary = results_in(wanted.output)["summary"];
  ASSERT_EQ(summary.size(), 3U);
  EXPECT_FALSE(summary[1].contains("hidden_distance"));
  ASSERT_EQ(summary[2]["hidden_distance"].size(), 3U);
  for (std::size_t layer = 0; layer < 3; ++layer) {
    EXPECT_NEAR(summary[2]["hidden_distance"][layer].get<double>(),
                (runs[4]["hidden_distance"][layer].get<double>() +
                 runs[5]["hidden_distance"][layer].get<double>()) /
                    2,
                1e-12);
  }
}

TEST_F(EvalNaiveTest, WhatRunsShareChangesNoBit) {
  const auto without_seconds = [](std::vector<Json> runs) {
    for (Json& run : runs) run.erase("seconds");
    return runs;
  };
  EvalRequest wanted = request(Task::needle, 110);
  wanted.policies.clear();
  for (const PolicyEntry& entry : policy_catalog()) {
    if (!test::runs_in_a_model(entry) || entry.name == "full") continue;
    // These tasks have no generated tokens to count, or none that are compressed.
    if (entry.name == "every") continue;
    wanted.policies.push_back(parse_policy(!entry.example.empty() ? entry.example
                                           : entry.kind() == PartKind::score
                                               ? entry.name
                                               : "h2o+" + entry.name));
  }
  EXPECT_GT(wanted.policies.size(), 15U);
  const std::int64_t all = wanted.most_shared;
  const std::int64_t block_bytes =
      std::int64_t{kBlock} * tiny_.layers * (tiny_.heads + 2 * tiny_.kv_heads) * tiny_.head_dim * 4;
  struct Case {
    Task task;
    Compression compression;
    Positions positions;
    int block;
    const char* dtype;
    std::int64_t room;
    const char* budget;
  };
  const auto regular = Compression::regular, context_only = Compression::context_only;
  for (const Case& c :
       {Case{Task::perplexity, regular, Positions::original, kBlock, "f32", all, "40%"},
        Case{Task::perplexity, regular, Positions::compact, 7, "bf16", all, "12"},
        Case{Task::needle, regular, Positions::original, kBlock, "f32", all, "12"},
        Case{Task::needle, regular, Positions::original, kBlock, "f32", 2 * block_bytes, "40%"},
        Case{Task::needle, context_only, Positions::original, 1000, "f32", all, "40%"},
        Case{Task::needle, context_only, Positions::compact, kBlock, "f32", all, "12"}}) {
    wanted.task = c.task;
    wanted.compression = c.compression;
    wanted.positions = c.positions;
    wanted.block = c.block;
    wanted.dtype = c.dtype;
    wanted.budgets = {parse_budget(c.budget)};
    wanted.most_shared = c.room;
    const auto sharing = without_seconds(evaluated(wanted));
    wanted.most_shared = 0;
    EXPECT_EQ(sharing, without_seconds(evaluated(wanted)))
        << "block " << c.block << ", " << c.dtype << ", room " << c.room;
  }
}

TEST_F(EvalNaiveTest, RunsShareTheBlocksBeforeTheirFirstCut) {
  const c10::InferenceMode no_gradients;
  const ModelConfig config = read_model_config(folder_.path());
  const ModelInfo info = describe_model(config, folder_.path());
  const Transformer model = load_transformer(folder_.path(), config, at::kFloat, at::kCPU);
  const auto ids = Haystack(needles_, *tokenizer_, 1).text(90, 0).ids;
  const Progress progress;
  const auto start = [&](const char* policy, int budget, Recording& recording) {
    EvalRun::Options options;
    options.most_tokens = 90;
    options.block = kBlock;
    if (budget > 0) {
      options.loop = ClosedLoop{parse_policy(policy), budget, {}};
      options.shared = &recording;
    } else {
      options.record = &recording;
    }
    return EvalRun(model, info, options);
  };
  const std::int64_t block_bytes =
      std::int64_t{kBlock} * tiny_.layers * (tiny_.heads + 2 * tiny_.kv_heads) * tiny_.head_dim * 4;
  for (const auto& [until, room, policy, budget, first_computed] :
       {std::tuple{89, 6 * block_bytes, "h2o", 20, 32},  // 16 entries are kept, 32 cut
        {89, 6 * block_bytes, "h2o", 16, 32},
        {89, 6 * block_bytes, "h2o", 15, 16},
        {89, 6 * block_bytes, "h2o", 90, 90},
        {89, 6 * block_bytes, "snapkv+adakv", 33, 48},
        {89, 6 * block_bytes, "h2o+pyramid", 40, 48},
        {89, 6 * block_bytes, "h2o+kvmerger(auto)", 40, 48},
        {89, 6 * block_bytes, "full+quant(group=16,residual=16)", 80, 32},  // 16 have lost bits
        {89, 2 * block_bytes, "h2o", 90, 32},
        {89, 2 * block_bytes - 1, "h2o", 90, 16},
        {32, 6 * block_bytes, "h2o", 90, 48},
        {89, std::int64_t{0}, "h2o", 90, 0}}) {
    SCOPED_TRACE(testing::Message() << policy << " " << budget << ", " << until << ", " << room);
    Recording recording(until, room);
    EvalRun full = start("full", 0, recording);
    full.read(ids, true, progress);
    EvalRun run = start(policy, budget, recording);
    int computed = 90;
    run.read(ids, true, progress,
             [&](int, int first, const at::Tensor&) { computed = std::min(computed, first); });
    EXPECT_EQ(computed, first_computed);
    EXPECT_EQ(run.length(), 90);
    if (budget == 90) {
      EXPECT_EQ(run.choice(), full.choice());
    }
  }
}

}  // namespace
}  // namespace kvloupe::test
