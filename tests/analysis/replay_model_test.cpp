// Every policy on a captured trace of a real trained model, against the naive double-precision
// twin.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "analysis/policy/policy_catalog.h"
#include "analysis/replay/layer_states.h"
#include "tests/naive/compare_replay.h"
#include "tests/support/temporary_folder.h"

namespace kvloupe {
namespace {

namespace fs = std::filesystem;

TEST(CapturedReplay, RetainedSetsAndMetricsEqualTheNaiveOnes) {
  const fs::path model = fs::path(KVLOUPE_SOURCE_DIR) / "../shared/models/stories260K";
  const fs::path program = fs::path(KVLOUPE_BIN_DIR) / "kvloupe-capture";
  if (!fs::exists(model)) GTEST_SKIP() << "no model folder " << model;
  if (!fs::exists(program)) GTEST_SKIP() << "kvloupe-capture is not built beside this test";
  const test::TemporaryFolder folder;
  const fs::path target = folder / "stories.h5";
  const std::string command = "'" + program.string() + "' run --model '" + model.string() +
                              "' --text 'Once upon a time, there was a little girl named Lily. She "
                              "loved to play outside in "
                              "the park. One day, she saw a big, red ball. She wanted to play with "
                              "it, but it was too high. "
                              "Her mother helped her, and they were happy.' --block 16 --generate "
                              "12 --dtype f32 --progress "
                              "none -o '" +
                              target.string() + "'";
  ASSERT_EQ(std::system(command.c_str()), 0) << command;

  const Trace trace(target);
  ASSERT_EQ(trace.model().num_layers, 5);
  const int prompt = trace.run().prompt_length;
  ASSERT_GT(prompt, 40);
  long decisions = 0;
  long near_ties = 0;
  for (const char* spec :
       {"sink", "tova", "tova(layer)", "h2o", "h2o(visible)+recent(50%)", "snapkv(8)",
        "snapkv(8,pool=max,range=candidates)", "keydiff", "keydiff(rawmean,metric=dot)",
        "keydiff(median)", "keydiff(pairwise)", "keydiff(metric=euclidean)+sinks(2)", "keynorm",
        "random", "h2o+kvmerger(auto)", "tova+kvmerger(0.5,sigma=dist,rotate=pre,log_size=1)",
        "h2o+cam", "keydiff+cam(4,sample=bernoulli)"}) {
    for (const int budget : {5, prompt / 4, prompt / 2}) {
      for (const int block : {1, 16, prompt}) {
        ReplayRequest request;
        request.policy = parse_policy(spec);
        request.budget = budget;
        request.block = block;
        request.metrics = block == 16;
        Progress progress;
        const Replay fast = replay(trace, request, progress);
        for (int layer = 0; layer < trace.model().num_layers; ++layer) {
          const LayerStates states = load_layer_states(trace, layer);
          const naive::Comparison found =
              naive::compare(fast, layer, states, trace.model(), trace.run().attention_scale);
          ASSERT_EQ(found.failure, "");
          decisions += found.decisions;
          near_ties += found.near_ties;
        }
      }
    }
  }
  EXPECT_GT(decisions, 500000);
  EXPECT_LE(near_ties, decisions / 20000);  // keys of this model are unusually alike
  RecordProperty("near_ties", std::to_string(near_ties) + " of " + std::to_string(decisions));
}

}  // namespace
}  // namespace kvloupe
