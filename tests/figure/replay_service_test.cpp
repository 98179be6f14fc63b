// One store of replays and layer states: made once, more serves for less, one number of bytes.

#include "app/figure/replay_service.h"
#include "tests/support/test.h"

namespace kvloupe::figure {
namespace {

struct ReplayServiceTest : ::testing::Test {
  void SetUp() override { trace = test::open_synthetic_trace(folder / "t.h5"); }
  ReplayRequest request(const char* policy, int budget = 24, bool metrics = false) const {
    return ReplayRequest{.policy = parse_policy(policy), .budget = budget, .metrics = metrics};
  }
  void open_layers(int layers) {
    trace = test::open_synthetic_trace(folder / "layers.h5", {.layers = layers});
  }
  test::TemporaryFolder folder;
  std::shared_ptr<const Trace> trace;
};

TEST_F(ReplayServiceTest, WhoWaitsForAnothersReplayGetsItsPartsToo) {
  open_layers(3);
  ReplayService store(ReplayService::kMostBytes, std::chrono::milliseconds(0));
  std::atomic<bool> told = false, begun = false;
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  const auto wait_for = [&](const std::atomic<bool>& what) {
    while (!what && std::chrono::steady_clock::now() < limit)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  std::shared_ptr<const Replay> first, second;
  std::jthread computes([&] {
    first = store.get(*trace, request("keydiff"), test::unwatched, [&](const auto&) {
      begun = true;
      wait_for(told);  // so that the other is there in time
    });
  });
  wait_for(begun);
  std::jthread waits([&] {
    second = store.get(*trace, request("keydiff"), test::unwatched,
                       [&](std::shared_ptr<const Replay> part) {
                         EXPECT_LE(part->heads.size(), 6U);
                         told = true;
                       });
  });
  computes.join();
  waits.join();
  EXPECT_TRUE(told);
  EXPECT_EQ(second, first);
}

TEST_F(ReplayServiceTest, TheSameIsMadeOnceAndMoreServesForLess) {
  ReplayService store;
  const auto first = store.get(*trace, request("keydiff"), test::unwatched);
  EXPECT_EQ(store.get(*trace, request("keydiff"), test::unwatched), first);
  EXPECT_NE(store.get(*trace, request("keydiff", 25), test::unwatched), first);
  const auto measured = store.get(*trace, request("keydiff", 24, true), test::unwatched);
  EXPECT_NE(measured, first) << "a replay without metrics cannot stand in for one with them";
  const auto h2o = store.get(*trace, request("h2o", 24, true), test::unwatched);
  EXPECT_EQ(store.get(*trace, request("h2o"), test::unwatched), h2o);
  // It is the replay that the engine makes.
  ReplayRequest plain = request("h2o", 24, true);
  const Replay direct = replay(*trace, plain, test::unwatched);
  ASSERT_EQ(direct.heads.size(), h2o->heads.size());
  for (std::size_t i = 0; i < direct.heads.size(); ++i)
    EXPECT_EQ(direct.heads[i].evicted_at, h2o->heads[i].evicted_at);
}

TEST_F(ReplayServiceTest, MemoryIsBoundedByTheLeastRecentlyUsed) {
  ReplayService all;
  const std::size_t one = bytes_of(*all.get(*trace, request("keydiff"), test::unwatched));
  ReplayService store(2 * (2 * one + one / 2));  // half of it for replays
  const auto a = store.get(*trace, request("keydiff", 24), test::unwatched);
  const auto b = store.get(*trace, request("keydiff", 25), test::unwatched);
  EXPECT_EQ(store.get(*trace, request("keydiff", 24), test::unwatched), a);
  store.get(*trace, request("keydiff", 26), test::unwatched);  // 25 goes
  EXPECT_LE(store.bytes() - store.states().bytes(), 2 * one + one / 2);
  EXPECT_EQ(store.get(*trace, request("keydiff", 24), test::unwatched), a);
  EXPECT_NE(store.get(*trace, request("keydiff", 25), test::unwatched), b);
}

TEST_F(ReplayServiceTest, WhoAsksAtOnceGetsTheSameAndCancellingDoesNotHarmTheOthers) {
  ReplayService store;
  std::vector<std::shared_ptr<const Replay>> got(4);
  {
    std::vector<std::jthread> threads;
    for (auto& one : got) {
      threads.emplace_back(
          [&] { one = store.get(*trace, request("h2o", 30, true), test::unwatched); });
    }
  }
  for (const auto& one : got) EXPECT_EQ(one, got.front());
  Progress cancelled;
  cancelled.cancel();
  EXPECT_THROW(store.get(*trace, request("tova"), cancelled), Cancelled);
  EXPECT_THROW(store.get(*trace, request("h2o", 0), *std::make_unique<Progress>()), UsageError);
  EXPECT_NE(store.get(*trace, request("tova"), test::unwatched), nullptr);
}

/// Everything that figures read of a head.
void expect_same(const HeadReplay& a, const HeadReplay& b) {
  EXPECT_EQ(a.layer, b.layer);
  EXPECT_EQ(a.head, b.head);
  EXPECT_EQ(a.evicted_at, b.evicted_at);
  ASSERT_EQ(a.steps.size(), b.steps.size());
  for (std::size_t s = 0; s < a.steps.size(); ++s) {
    EXPECT_EQ(a.steps[s].retained, b.steps[s].retained);
    EXPECT_EQ(a.steps[s].merges.size(), b.steps[s].merges.size());
    EXPECT_EQ(a.steps[s].query_heads.size(), b.steps[s].query_heads.size());
  }
}

TEST_F(ReplayServiceTest, AReplayOfAllLayersServesForOne) {
  for (const char* policy : {"h2o", "keydiff+adakv", "h2o+kvmerger"}) {
    ReplayService store;
    const auto all = store.get(*trace, request(policy), test::unwatched);
    ReplayRequest one = request(policy);
    one.layers = {1};
    Progress counted;
    const auto got = store.get(*trace, one, counted);
    const Replay direct = replay(*trace, one, test::unwatched);
    EXPECT_EQ(got->notes, direct.notes) << policy;
    EXPECT_EQ(got->policy, direct.policy);
    EXPECT_EQ(got->block, direct.block);
    EXPECT_EQ(got->blocks.size(), direct.blocks.size());
    ASSERT_EQ(got->heads.size(), direct.heads.size());
    for (std::size_t i = 0; i < direct.heads.size(); ++i)
      expect_same(got->heads[i], direct.heads[i]);
    bool merges = false;
    for (const HeadReplay& head : direct.heads) {
      for (const StepRecord& step : head.steps) merges |= !step.merges.empty();
    }
    EXPECT_EQ(counted.fraction() == 0.0, !merges) << policy << ": was it replayed?";
    one.layers = {99};
    EXPECT_THROW(store.get(*trace, one, test::unwatched), UsageError);
  }
}

TEST_F(ReplayServiceTest, ALayerThatIsThereIsNotReplayedAgainForAll) {
  const int layers = trace->model().num_layers;
  for (const char* policy : {"h2o", "h2o+pyramid", "h2o+kvmerger"}) {
    const Replay direct = replay(*trace, request(policy), test::unwatched);
    for (int there = 1; there <= layers; ++there) {
      ReplayService store;
      for (int layer = 0; layer < there; ++layer) {
        ReplayRequest one = request(policy);
        one.layers = {layer};
        one.scores_layer = layer;
        one.scores_head = 0;
        store.get(*trace, one, test::unwatched);
      }
      ReplayRequest all = request(policy);
      if (there == 1) {  // all of them, by their numbers
        for (int layer = 0; layer < layers; ++layer) all.layers.push_back(layer);
      }
      const auto got = store.get(*trace, all, test::unwatched);
      EXPECT_EQ(got->notes, direct.notes) << policy;
      ASSERT_EQ(got->heads.size(), direct.heads.size());
      for (std::size_t i = 0; i < direct.heads.size(); ++i) {
        expect_same(got->heads[i], direct.heads[i]);
        EXPECT_TRUE(got->heads[i].scores.empty()) << "nobody asked for them";
      }
    }
  }
}

TEST_F(ReplayServiceTest, PartsComeOnTheWayAndTheWholeAtTheEnd) {
  open_layers(12);
  ReplayService store(ReplayService::kMostBytes, std::chrono::milliseconds(0));
  std::vector<std::size_t> sizes;
  const auto whole = store.get(*trace, request("h2o"), test::unwatched, [&](const auto& part) {
    EXPECT_EQ(part->policy, "h2o");
    EXPECT_EQ(part->budget, 24);
    EXPECT_FALSE(part->blocks.empty());
    EXPECT_NE(part->find(part->heads.back().layer, 0), nullptr);
    sizes.push_back(part->heads.size());
  });
  const auto heads = static_cast<std::size_t>(trace->model().num_kv_heads);
  EXPECT_EQ(whole->heads.size(), 12 * heads);
  ASSERT_GT(sizes.size(), 3U);
  EXPECT_EQ(sizes.front(), heads);
  std::size_t copied = 0;
  for (const std::size_t size : sizes) copied += size;
  EXPECT_LT(copied, 5 * whole->heads.size());
  EXPECT_TRUE(std::is_sorted(sizes.begin(), sizes.end()));
  for (std::size_t i = 0; i < whole->heads.size(); ++i)
    EXPECT_EQ(whole->heads[i].layer, static_cast<int>(i / heads));
}

TEST_F(ReplayServiceTest, ReplaysAndStatesShareOneNumberOfBytes) {
  ReplayService all;
  all.get(*trace, request("keydiff"), test::unwatched);
  const std::size_t states = all.states().bytes();
  const std::size_t replays = all.bytes() - states;
  ASSERT_GT(states, 0U);
  // Room for one layer's states less than there are.
  const std::size_t most = states + replays - 1;
  ReplayService store(most);
  for (int budget = 20; budget < 30; ++budget) {
    store.get(*trace, request("keydiff", budget), test::unwatched);
    EXPECT_LE(store.bytes(), most);
  }
  EXPECT_LT(store.states().bytes(), states);
}

TEST_F(ReplayServiceTest, CancellingHalfWayLeavesNothingHalfMade) {
  open_layers(24);
  ReplayService store(ReplayService::kMostBytes, std::chrono::milliseconds(0));
  Progress stopped;
  EXPECT_THROW(store.get(*trace, request("h2o"), stopped, [&](const auto&) { stopped.cancel(); }),
               Cancelled);
  EXPECT_EQ(store.bytes(), store.states().bytes()) << "no replay is kept";
  const auto whole = store.get(*trace, request("h2o"), test::unwatched);
  EXPECT_EQ(whole->heads.size(), 24U * static_cast<std::size_t>(trace->model().num_kv_heads));
}

TEST_F(ReplayServiceTest, ARewrittenTraceOrExternalFileIsReplayedAgain) {
  ReplayService store;
  const auto before = store.get(*trace, request("keydiff"), test::unwatched);
  test::write_synthetic_trace(folder / "t.h5", {.sink_logit = 3.0F});
  const Trace rewritten(folder / "t.h5");
  EXPECT_NE(store.get(rewritten, request("keydiff"), test::unwatched), before);

  const auto file = folder / "sets.json";
  const std::string spec = "external(\"" + file.string() + "\")";
  std::ofstream(file) << "{}";
  const ReplayKey key = key_of(rewritten, request(spec.c_str()));
  EXPECT_EQ(key_of(rewritten, request(spec.c_str())), key);
  std::ofstream(file) << "{ }";
  EXPECT_FALSE(key_of(rewritten, request(spec.c_str())) == key);
}

}  // namespace
}  // namespace kvloupe::figure
