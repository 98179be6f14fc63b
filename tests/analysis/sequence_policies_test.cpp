// Policies that look at all layers of a sequence before its first step, at a table of heads, or at
// a threshold instead of a budget. Their twins are plain loops in double over the same states.

#include <complex>

#include "analysis/policy/kit/future_rotation.h"
#include "analysis/policy/kit/head_table_file.h"
#include "analysis/policy/kit/layer_preference.h"
#include "analysis/policy/kit/probe_attention.h"
#include "analysis/policy/kit/sequence_tables.h"
#include "tests/support/test.h"

namespace kvloupe {
namespace {

constexpr int kWindow = 8;

struct SequencePolicies : testing::Test, test::MadeTrace {
  SequencePolicies()
      : MadeTrace({.layers = 3, .head_dim = 8, .prompt_length = 90, .generated = 6, .block = 16}) {}

  Replay run(const std::string& spec, int budget, int block = 0) {
    return MadeTrace::run(spec, budget, {.block = block, .metrics = false});
  }

  /// Attention of a query to tokens 0 … t.
  std::vector<double> attention(int layer, int query_head, int t) {
    std::vector<double> row = attention_of(layer, query_head)[t];
    row.resize(static_cast<std::size_t>(t) + 1);
    return row;
  }

  /// Shares of budget·L by weights, as real numbers: what no layer can use is shared evenly.
  static std::vector<double> shares(std::vector<double> weights, double budget, double base,
                                    double most) {
    double sum = 0.0;
    for (const double weight : weights) sum += weight;
    const double layers = static_cast<double>(weights.size());
    std::vector<double> result;
    for (const double weight : weights) {
      result.push_back(base + (budget - base) * layers * weight / sum);
    }
    for (int round = 0; round < 50; ++round) {
      double surplus = 0.0;
      int open = 0;
      for (double& share : result) {
        surplus += std::max(share - most, 0.0);
        share = std::min(share, most);
        open += share < most ? 1 : 0;
      }
      for (double& share : result) {
        if (share < most) share += surplus / open;
      }
    }
    return result;
  }

  /// Every layer's heads hold the layer's share at every step, to less than one entry, and all
  /// layers together the budget exactly.
  void expect_layers(const std::string& spec, const std::vector<double>& weights,
                     const std::function<double(int budget)>& base) {
    for (const int budget : {12, 20, 45}) {
      for (const int block : {1, 16, 90}) {
        const Replay replay = run(spec, budget, block);
        for (std::size_t step = 0; step < replay.blocks.size(); ++step) {
          const int seen = replay.blocks[step].end;
          if (seen <= budget) continue;
          const auto wanted = shares(weights, budget, std::min<double>(base(budget), budget), seen);
          int sum = 0;
          for (const HeadReplay& head : replay.heads) {
            const int kept = head.steps[step].retained;
            sum += kept;
            // With blocks of one token a layer whose share grows is still filling up.
            EXPECT_LT(kept, wanted[head.layer] + 1.0)
                << spec << " " << budget << " " << block << " " << step;
            if (block == 90) {
              EXPECT_GT(kept, wanted[head.layer] - 1.0);
            }
          }
          if (block == 90) {
            EXPECT_EQ(sum, budget * 3 * 2);
          }
        }
      }
    }
  }
};

TEST(LayerShare, ByHand) {
  const std::vector<double> one_to_three = {1.0, 3.0};
  EXPECT_EQ(layer_share(one_to_three, 0, 8, 0.0, 100), 4);
  EXPECT_EQ(layer_share(one_to_three, 1, 8, 0.0, 100), 12);
  // Two entries each beforehand: 2 + 12·¼ and 2 + 12·¾.
  EXPECT_EQ(layer_share(one_to_three, 0, 8, 2.0, 100), 5);
  EXPECT_EQ(layer_share(one_to_three, 1, 8, 2.0, 100), 11);
  // The second can use 10 of its 12: the first gets the rest.
  EXPECT_EQ(layer_share(one_to_three, 0, 8, 0.0, 10), 6);
  EXPECT_EQ(layer_share(one_to_three, 1, 8, 0.0, 10), 10);
  // 3⅓ each of 10: the largest remainder are equal, the lower layers round up.
  const std::vector<double> equal = {1.0, 1.0, 1.0};
  EXPECT_EQ(layer_share(equal, 0, 10, 0.0, 100), 10);
  const std::vector<double> thirds = {1.0, 1.0, 4.0};  // of 21: 3.5, 3.5, 14
  EXPECT_EQ(layer_share(thirds, 0, 7, 0.0, 100), 4);
  EXPECT_EQ(layer_share(thirds, 1, 7, 0.0, 100), 3);
  EXPECT_EQ(layer_share(thirds, 2, 7, 0.0, 100), 14);
  const std::vector<double> nothing = {0.0, 1.0};
  EXPECT_EQ(layer_share(nothing, 0, 4, 0.0, 100), 1) << "a layer keeps one entry";
  const std::vector<double> none = {0.0, 0.0};
  EXPECT_EQ(layer_share(none, 0, 4, 0.0, 100), 4) << "no weights: uniform";
}

TEST(LayerShare, AddUpToTheBudgetAndStayBelowWhatThereIs) {
  std::mt19937 random(3);
  for (int round = 0; round < 3000; ++round) {
    std::vector<double> weights(1 + random() % 9);
    for (double& weight : weights) weight = std::generate_canonical<double, 53>(random) + 0.01;
    const int budget = 1 + static_cast<int>(random() % 60);
    const int most = 1 + static_cast<int>(random() % 120);
    const double base = static_cast<double>(random() % 4) / 3.0 * budget;
    int sum = 0, raised = 0;
    for (std::size_t layer = 0; layer < weights.size(); ++layer) {
      const int share = layer_share(weights, static_cast<int>(layer), budget, base, most);
      if (budget < most) {
        EXPECT_LE(share, most);
      }
      EXPECT_GE(share, 1);
      raised += share == 1 ? 1 : 0;
      sum += share;
    }
    const int wanted = budget * static_cast<int>(weights.size());
    EXPECT_GE(sum, wanted);
    EXPECT_LE(sum, wanted + raised);
  }
}

TEST_F(SequencePolicies, WindowAttentionIsThatOfPlainLoops) {
  for (const int end : {5, 60, 90}) {
    for (int query_head = 0; query_head < 4; ++query_head) {
      const Eigen::MatrixXd rows = window_attention(*trace_, 1, query_head, kWindow, end);
      const int count = std::min(kWindow, end);
      ASSERT_EQ(rows.rows(), count);
      ASSERT_EQ(rows.cols(), end);
      for (int row = 0; row < count; ++row) {
        const std::vector<double> wanted = attention(1, query_head, end - count + row);
        for (int i = 0; i < end; ++i) {
          const double value = i < static_cast<int>(wanted.size()) ? wanted[i] : 0.0;
          EXPECT_NEAR(rows(row, i), value, 2e-6);
        }
      }
    }
  }
}

TEST_F(SequencePolicies, WindowAttentionSeesTheLayersWindowSinkAndCap) {
  test::SyntheticTraceOptions options = options_;
  options.sliding_window = 20;
  options.logsumexp = false;
  LayerAttributes attributes;
  attributes.attention_softcap = 2.0;
  attributes.sink_logits = {0.5F, 0.5F, 0.5F, 0.5F};
  options.layer_attributes = {attributes, attributes, attributes};
  const auto states = test::write_synthetic_trace(folder_ / "capped.h5", options);
  const Trace trace(folder_ / "capped.h5");
  const Eigen::MatrixXd rows = window_attention(trace, 0, 1, 4, 90);
  for (int row = 0; row < 4; ++row) {
    const int t = 86 + row;
    std::vector<double> weights;
    double sum = std::exp(0.5);
    for (int i = t - 19; i <= t; ++i) {
      double product = 0.0;
      for (int c = 0; c < 8; ++c) {
        product += static_cast<double>(states.query[0][1](t, c)) *
                   static_cast<double>(states.key[0][0](i, c));
      }
      weights.push_back(std::exp(2.0 * std::tanh(product * trace.run().attention_scale / 2.0)));
      sum += weights.back();
    }
    EXPECT_EQ(rows(row, t - 20), 0.0);
    for (int i = 0; i < 20; ++i) {
      EXPECT_NEAR(rows(row, t - 19 + i), weights[i] / sum, 2e-6);
    }
  }
}

TEST_F(SequencePolicies, CakeWeighsLayersByEntropyAndVariance) {
  for (const auto& [tau1, tau2] : {std::pair(1.0, 1.0), std::pair(0.5, 2.0)}) {
    std::vector<double> weights;
    for (int layer = 0; layer < 3; ++layer) {
      double entropy = 0.0, variance = 0.0;
      for (int q = 0; q < 4; ++q) {
        std::vector<std::vector<double>> rows;
        for (int t = 90 - kWindow; t < 90; ++t) rows.push_back(attention(layer, q, t));
        for (int i = 0; i < 90 - kWindow; ++i) {
          double mean = 0.0, squares = 0.0;
          for (const auto& row : rows) {
            entropy -= row[i] * std::log(row[i]);
            mean += row[i] / kWindow;
          }
          for (const auto& row : rows) {
            squares += std::pow(row[i] - mean, 2);
          }
          variance += squares / (kWindow - 1);
        }
      }
      weights.push_back(std::pow(entropy, 1.0 / tau1) * std::pow(variance, 1.0 / tau2));
    }
    const std::string spec =
        "snapkv(4)+cake(8,tau1=" + std::to_string(tau1) + ",tau2=" + std::to_string(tau2) + ")";
    expect_layers(spec, weights, [](int) { return kWindow; });
  }
}

TEST_F(SequencePolicies, LavaWeighsLayersByTheEntropyOfTheirScores) {
  std::vector<double> weights;
  constexpr int kBefore = 90 - kWindow;
  for (int layer = 0; layer < 3; ++layer) {
    std::vector<double> scores(2 * kBefore, 0.0);
    for (int q = 0; q < 4; ++q) {
      std::vector<double> mean(kBefore, 0.0);
      double longest = 0.0;
      for (int i = 0; i < kBefore; ++i) {
        for (int t = kBefore; t < 90; ++t) {
          mean[i] += attention(layer, q, t)[i] / kWindow;
        }
        double norm = 0.0;
        for (int c = 0; c < 8; ++c) {
          norm += std::abs(static_cast<double>(states_.value[layer][q / 2](i, c)));
        }
        longest = std::max(longest, norm);
      }
      for (int i = 0; i < kBefore; ++i) {
        double most = 0.0;
        for (int j = std::max(i - 1, 0); j <= std::min(i + 1, kBefore - 1); ++j) {
          most = std::max(most, mean[j]);
        }
        double& score = scores[q / 2 * kBefore + i];
        score = std::max(score, most * longest);
      }
    }
    double sum = 0.0, entropy = 0.0;
    for (const double score : scores) sum += score;
    for (const double score : scores) entropy -= score / sum * std::log(score / sum);
    weights.push_back(entropy);
  }
  expect_layers("snapkv(4)+lava(8,kernel=3)", weights, [](int) { return kWindow; });
}

TEST_F(SequencePolicies, ZigzagWeighsLayersByTheTokensTheyNeed) {
  std::vector<double> weights;
  for (int layer = 0; layer < 3; ++layer) {
    double needed = 0.0;
    for (int q = 0; q < 4; ++q) {
      std::vector<double> mean(90, 0.0);
      for (int t = 90 - kWindow; t < 90; ++t) {
        const std::vector<double> row = attention(layer, q, t);
        for (std::size_t i = 0; i < row.size(); ++i) mean[i] += row[i] / kWindow;
      }
      std::sort(mean.rbegin(), mean.rend());
      double sum = 0.0;
      int count = 0;
      while (sum < 0.8) sum += mean[count++];
      needed += count / 4.0;
    }
    weights.push_back(needed);
  }
  ASSERT_GT(weights[0], 1.0);
  expect_layers("keydiff+zigzag(8,mass=0.8,floor=0.3)", weights,
                [](int budget) { return 0.3 * budget; });
}

TEST_F(SequencePolicies, StatisticsOfTheSameTraceChangeNothing) {
  const std::string named = ",statistics=\"" + (folder_ / "trace.h5").string() + "\")";
  for (const std::string part : {"cake(8", "lava(8", "zigzag(8"}) {
    test::expect_same_sets(run("h2o+" + part + ")", 20), run("h2o+" + part + named, 20), part);
  }
  // Those of another text are others.
  test::SyntheticTraceOptions options = options_;
  options.seed = 99;
  test::write_synthetic_trace(folder_ / "other.h5", options);
  const std::string there = ",statistics=\"" + (folder_ / "other.h5").string() + "\")";
  int differing = 0;
  const Replay own = run("h2o+cake(8)", 20), other = run("h2o+cake(8" + there, 20);
  for (std::size_t head = 0; head < own.heads.size(); ++head) {
    differing += own.heads[head].evicted_at != other.heads[head].evicted_at ? 1 : 0;
  }
  EXPECT_GT(differing, 0);
}

TEST_F(SequencePolicies, StatisticsOfAnotherModelAreRefused) {
  test::SyntheticTraceOptions options = options_;
  options.layers = 2;
  test::write_synthetic_trace(folder_ / "two.h5", options);
  EXPECT_THAT(test::error_of<FileError>([&] {
                run("h2o+cake(statistics=\"" + (folder_ / "two.h5").string() + "\")", 20);
              }),
              AllOf(HasSubstr("two.h5"), HasSubstr("statistics are those of one model")));
}

TEST_F(SequencePolicies, ARunningModelNeedsTheNameOfATrace) {
  for (const std::string spec : {"h2o+cake", "h2o+lava", "h2o+zigzag", "duo"}) {
    EXPECT_THAT(test::error_of<UsageError>([&] { check_closed_loop(parse_policy(spec)); }),
                HasSubstr("statistics=\"trace.h5\")"))
        << spec << " was accepted";
  }
  EXPECT_NO_THROW(check_closed_loop(parse_policy("h2o+cake(statistics=\"x.h5\")")));
  EXPECT_NO_THROW(check_closed_loop(parse_policy("duo(table=\"x.csv\")")));
}

/// Pair j of the coordinates as a complex number, turned by an angle.
std::complex<double> pair_of(const std::vector<double>& x, std::size_t j, double angle) {
  return std::complex<double>(x[j], x[j + x.size() / 2]) * std::polar(1.0, angle);
}

TEST_F(SequencePolicies, FarSightIsDuoAttentionsScore) {
  constexpr int kPositions = 40, kDim = 8, kEnd = 90;
  const SequenceTables tables(*trace_, kEnd, nullptr);
  for (const auto& [layer, q] : test::cells(3, 4)) {
    std::vector<double> query(kDim, 0.0), key(kDim, 0.0);
    for (int t = 0; t < kEnd; ++t) {
      for (std::size_t j = 0; j < kDim / 2; ++j) {
        const double angle =
            -t * std::pow(states_.model.rope_theta, -2.0 * static_cast<double>(j) / kDim);
        const auto turned = [&](const Matrix& rows) {
          return std::complex<double>(rows(t, static_cast<Eigen::Index>(j)),
                                      rows(t, static_cast<Eigen::Index>(j + kDim / 2))) *
                 std::polar(1.0, angle);
        };
        const auto a = turned(states_.query[layer][q]), b = turned(states_.key[layer][q / 2]);
        query[j] += a.real() / kEnd;
        query[j + kDim / 2] += a.imag() / kEnd;
        key[j] += b.real() / kEnd;
        key[j + kDim / 2] += b.imag() / kEnd;
      }
    }
    // Both placed at their positions, as kvpress does, and not at their distance.
    std::vector<double> weights;
    double total = 0.0;
    for (int p = 0; p < kPositions; ++p) {
      double product = 0.0;
      for (std::size_t j = 0; j < kDim / 2; ++j) {
        const double w = std::pow(states_.model.rope_theta, -2.0 * static_cast<double>(j) / kDim);
        product +=
            std::real(pair_of(query, j, (kPositions - 1) * w) * std::conj(pair_of(key, j, p * w)));
      }
      weights.push_back(std::exp(product * trace_->run().attention_scale));
      total += weights.back();
    }
    double sum = 0.0, mean = 0.0;
    for (const double weight : weights) {
      sum += weight / total;
      mean += sum / kPositions;
    }
    EXPECT_NEAR(far_sight(tables, layer, q, kPositions), mean, 1e-9);
  }
}

TEST_F(SequencePolicies, DuoStreamsInTheHeadsThatLookLeastFar) {
  const SequenceTables tables(*trace_, 90, nullptr);
  std::multimap<double, int> order;
  for (const auto& [layer, head] : test::cells(3, 2)) {
    order.emplace(
        (far_sight(tables, layer, 2 * head, 60) + far_sight(tables, layer, 2 * head + 1, 60)) / 2,
        2 * layer + head);
  }
  const Replay replay = run("duo(0.5,sinks=3,recent=10,positions=60)", 5);
  int place = 0;
  for (const auto& [score, index] : order) {
    const HeadReplay& head = replay.heads[index];
    for (int token = 0; token < 96; ++token) {
      const bool streams = place < 3;
      // After the last step, 96 tokens were seen: the first 3 and the last 10 stay.
      const bool stays = !streams || token < 3 || token >= 86;
      EXPECT_EQ(head.evicted_at[token] < 0, stays) << "head " << index << ", token " << token;
    }
    ++place;
  }
  EXPECT_THAT(replay.notes, Contains(HasSubstr("3 of 6 heads")));
  // (3·96 + 3·13) / (6·96)
  EXPECT_THAT(replay.notes, Contains(HasSubstr("keeps 56.8 % of the entries")));
}

TEST_F(SequencePolicies, DuoTakesATrainedTable) {
  std::ofstream(folder_ / "gates.tsv") << "0.1\t0.9\n0.8\t0.2\n0.95\t0.7\n";
  const Replay replay =
      run("duo(0.34,sinks=2,recent=4,table=\"" + (folder_ / "gates.tsv").string() + "\")", 5);
  std::vector<int> streaming;
  for (std::size_t head = 0; head < replay.heads.size(); ++head) {
    if (replay.heads[head].steps.back().retained == 6) streaming.push_back(static_cast<int>(head));
  }
  EXPECT_THAT(streaming, ElementsAre(0, 3));  // 0.34 · 6 = 2.04
}

TEST_F(SequencePolicies, DmsKeepsWhatPassesTheThreshold) {
  // Key norms do not change: what is above the threshold at its own step stays for ever.
  const double threshold = [&] {
    std::vector<double> norms;
    for (int t = 0; t < 96; ++t) norms.push_back(-states_.key[1][0].row(t).cast<double>().norm());
    std::sort(norms.begin(), norms.end());
    return (norms[50] + norms[51]) / 2;
  }();
  const std::string spec = "keynorm+dms(" + std::to_string(threshold) + ")+recent(5)";
  for (const int budget : {1, 40}) {
    const Replay replay = run(spec, budget);
    for (const HeadReplay& head : replay.heads) {
      for (int t = 0; t < 96; ++t) {
        const double score = -states_.key[head.layer][head.head].row(t).cast<double>().norm();
        if (std::abs(score - threshold) < 1e-5) continue;
        EXPECT_EQ(head.evicted_at[t]<0, score> threshold || t >= 91);
      }
    }
    EXPECT_THAT(replay.notes, Contains(HasSubstr("% of the entries at the last step")));
  }
  const Replay everything = run("keynorm+dms(-1e30)", 3);
  for (const HeadReplay& head : everything.heads) EXPECT_EQ(head.steps.back().retained, 96);
  const Replay nothing = run("keynorm+dms(1e30)", 3);
  for (const HeadReplay& head : nothing.heads) EXPECT_EQ(head.steps.back().retained, 1);
}

TEST_F(SequencePolicies, DmsIsRefusedWhereABudgetIsSharedOut) {
  for (const std::string spec :
       {"h2o+dms(0.1)+pyramid", "h2o+dms(0.1)+critical", "h2o+dms(0.1)+kvmerger",
        "h2o+adakv+dms(0.1)", "h2o+dms(0.1)+chunks", "h2o+dms(0.1)+cake"}) {
    EXPECT_THROW(check_combination(parse_policy(spec)), UsageError) << spec;
  }
}

TEST_F(SequencePolicies, SimLayerKeepsAllOrTheEnds) {
  for (const int queries : {1, 3}) {
    // How much the last `queries` give the first 4 and the last 20 before them, in each layer.
    std::vector<double> share(3, 0.0);
    for (const auto& [layer, q] : test::cells(3, 4)) {
      for (int t = 90 - queries; t < 90; ++t) {
        const std::vector<double> row = attention(layer, q, t);
        for (int i = 0; i < 90 - queries; ++i) {
          if (i < 4 || i >= 90 - queries - 20) {
            share[layer] += row[i] / (4 * queries);
          }
        }
      }
    }
    // A threshold between two layers: the one above is lazy.
    std::vector<double> sorted = share;
    std::sort(sorted.begin(), sorted.end());
    const double threshold = (sorted[0] + sorted[1]) / 2;
    ASSERT_GT(sorted[1] - sorted[0], 1e-4);
    const Replay replay = run("simlayer(" + std::to_string(threshold) +
                                  ",recent=20,queries=" + std::to_string(queries) + ")",
                              7, kWholePrompt);
    for (const HeadReplay& head : replay.heads) {
      const bool lazy = share[head.layer] > threshold;
      EXPECT_EQ(head.steps.front().retained, lazy ? 4 + 20 - queries : 90)
          << "layer " << head.layer;
    }
  }
}

TEST_F(SequencePolicies, HeadBudgetsHoldWhatTheTableSays) {
  const auto path = (folder_ / "table.csv").string();
  std::ofstream(path) << "# weights\n1,2\n3, 4\n5\t5\n";
  const auto held = [&](const std::string& rest, int budget) {
    std::vector<int> counts;
    const Replay replay = run("h2o+headbudgets(\"" + path + "\"" + rest + ")", budget);
    for (const HeadReplay& head : replay.heads) counts.push_back(head.steps.back().retained);
    return counts;
  };
  // 20 heads' worth … of 6·10 = 60 by weights of 20 in all: 3 each.
  EXPECT_THAT(held("", 10), ElementsAre(3, 6, 9, 12, 15, 15));
  // 5 each, and 30 by weights: 1.5, 3, 4.5, 6, 7.5, 7.5; the larger remainders are equal.
  EXPECT_THAT(held(",floor=0.5", 10), ElementsAre(7, 8, 10, 11, 12, 12));
  EXPECT_THAT(held(",values=share", 10), ElementsAre(10, 20, 30, 40, 50, 50));
  EXPECT_THAT(held(",values=entries", 10), ElementsAre(1, 2, 3, 4, 5, 5));
  std::ofstream(path) << "0,0.25\n0.5,0.5\n1,0.75\n";
  EXPECT_THAT(held(",values=kept", 10), ElementsAre(1, 24, 48, 48, 96, 72));
}

TEST_F(SequencePolicies, AHeadProtectsWithinItsOwnPlaces) {
  // Weights of 40 for 5·4·20 = 400 places: 10 each. The head with 5 can use 48 of its 50, and the
  // last two go one by one to others. At step 2 layer 0's head 3 has 41 places of 48 tokens: all
  // of its window of 32, tokens 16 to 47, and 9 before; head 0 has fewer than its window.
  test::SyntheticTraceOptions options = options_;
  options.layers = 5;
  options.query_heads = options.heads = 4;
  const auto path = (folder_ / "weights.txt").string();
  std::ofstream(path) << "1,2,3,4\n1,1,1,1\n4,3,2,1\n1,1,1,5\n2,2,2,2\n";
  const Replay replay =
      test::MadeTrace(options).run("snapkv+headbudgets(\"" + path + "\")", 20, {.block = 16});
  for (const HeadReplay& head : replay.heads) {
    const auto kept = replay.retained_at(head, 2);
    const int window = std::min(static_cast<int>(kept.size()), 32);
    for (int back = 0; back < window; ++back) {
      EXPECT_EQ(kept[kept.size() - 1 - static_cast<std::size_t>(back)], 47 - back)
          << head.layer << "." << head.head;
    }
  }
  EXPECT_GT(replay.retained_at(*replay.find(0, 3), 2).size(), 39U);
  EXPECT_LT(replay.retained_at(*replay.find(0, 0), 2).size(), 12U);
}

TEST_F(SequencePolicies, HeadBudgetsDecideAsTheirTwin) {
  const auto path = (folder_ / "table.txt").string();
  std::ofstream(path) << "1 2.5\n3.1 0.4\n0.75 5.3\n";
  const std::string table = "+headbudgets(\"" + path + "\"";
  for (const std::string& spec :
       {"snapkv(8)" + table + ")", "keydiff+recent(12)+sinks(3)" + table + ",values=share)",
        "h2o+recent(50%)" + table + ")", "tova+recent(4)" + table + ",values=entries)",
        "cakescore(8)+caote" + table + ")"}) {
    for (const int budget : {4, 12, 20}) {
      for (const int block : {1, 16, 90}) {
        const Replay fast = run(spec, budget, block);
        for (int layer = 0; layer < 3; ++layer) {
          const naive::Comparison found =
              naive::compare(fast, layer, load_layer_states(*trace_, layer),
                             trace_->layer_model(layer), trace_->attention(layer));
          ASSERT_EQ(found.failure, "");
          EXPECT_LE(found.near_ties, 2);
        }
      }
    }
  }
}

TEST_F(SequencePolicies, NotesSayWhatLessRoomThanProtectionMeans) {
  const auto path = (folder_ / "table.csv").string();
  std::ofstream(path) << "1 1\n1 1\n1 1\n";
  const auto note = [&](const std::string& spec) {
    const auto notes = policy_notes(parse_policy(spec), trace_->model(), 20);
    return notes.empty() ? std::string() : notes.back();
  };
  EXPECT_THAT(note("snapkv"), HasSubstr("20: the oldest of the recent entries are not kept"));
  EXPECT_THAT(note("snapkv+adakv"), HasSubstr("20: the oldest of the recent"));
  EXPECT_THAT(note("snapkv+pyramid"), HasSubstr("in layers that hold fewer, the oldest"));
  EXPECT_THAT(note("snapkv+cake"), HasSubstr("in layers that hold fewer, the oldest"));
  EXPECT_THAT(note("snapkv+headbudgets(\"" + path + "\")"),
              HasSubstr("in heads that hold fewer, the oldest"));
  EXPECT_THAT(note("kvzip+global+recent(32)"), HasSubstr("in heads that hold fewer, the oldest"));
  EXPECT_THAT(note("snapkv+dms(0.1)"), Not(HasSubstr("not kept")));
}

TEST_F(SequencePolicies, HeadBudgetsOfTheBudgetEachAreTheBudget) {
  const auto path = (folder_ / "ones.csv").string();
  std::ofstream(path) << "1 1\n1 1\n1 1\n";
  for (const char* score : {"h2o", "keydiff", "snapkv(4)"}) {
    test::expect_same_sets(run(score, 20),
                           run(std::string(score) + "+headbudgets(\"" + path + "\")", 20), score);
  }
}

struct HeadTableFile : testing::Test {
  HeadTableFile() {
    model_.num_layers = 2;
    model_.num_heads = 4;
    model_.num_kv_heads = 2;
  }
  HeadTable read(const std::string& content) {
    std::ofstream(path_, std::ios::binary) << content;
    return read_head_table(path_, model_);
  }
  std::string error(const std::string& content) {
    return test::error_of<FileError>([&] { read(content); });
  }
  static std::string numpy(const std::string& header, const std::vector<double>& numbers) {
    std::string text = std::string("\x93NUMPY\x01", 7) + '\0';
    text += static_cast<char>(header.size() & 0xFF);
    text += static_cast<char>(header.size() >> 8);
    text += header;
    for (const double number : numbers) {
      std::string bytes(sizeof number, '\0');
      std::memcpy(bytes.data(), &number, sizeof number);
      text += bytes;
    }
    return text;
  }

  test::TemporaryFolder folder_;
  std::string path_ = (folder_ / "table").string();
  ModelInfo model_;
};

TEST_F(HeadTableFile, ReadsEveryForm) {
  EXPECT_THAT(read("1,2\n3,4\n"), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(read("# note\r\n1\t2\r\n\r\n3\t4"), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(read("1 3 2 4\n0 1 0 0\n"), ElementsAre(2, 3, 0.5, 0)) << "query heads";
  EXPECT_THAT(read("head,value,layer\n1,4,1\n0,1,0\n1,2,0\n0,3,1\n"), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(
      read(numpy("{'descr': '<f8', 'fortran_order': False, 'shape': (2, 2), }\n", {1, 2, 3, 4})),
      ElementsAre(1, 2, 3, 4));
}

TEST_F(HeadTableFile, RefusesEverythingElse) {
  EXPECT_THAT(error(""), HasSubstr("is empty"));
  EXPECT_THAT(error("# only a note\n"), HasSubstr("has no numbers"));
  EXPECT_THAT(error("1,2\n3\n"), HasSubstr("line 2: has 1 numbers instead of 2"));
  EXPECT_THAT(error("1,2\n3,x\n"), HasSubstr("line 2: 'x' is not a number from 0 on"));
  EXPECT_THAT(error("1,2\n3,-4\n"), HasSubstr("'-4'"));
  EXPECT_THAT(error("1,2\n3,nan\n"), HasSubstr("'nan'"));
  EXPECT_THAT(error("1,2\n3,inf\n"), HasSubstr("'inf'"));
  EXPECT_THAT(error("1,2\n3,4\n5,6\n"), HasSubstr("3 layers and 2 heads, but the model has 2"));
  EXPECT_THAT(error("1,2,3\n3,4,5\n"), HasSubstr("3 heads"));
  EXPECT_THAT(error("a,b\n1,2\n"), HasSubstr("line 1: the columns are not layer, head and value"));
  EXPECT_THAT(error("layer,head,value\n0,0,1\n0,0,2\n"), HasSubstr("line 3: this layer and head"));
  EXPECT_THAT(error("layer,head,value\n2,0,1\n"), HasSubstr("no such layer or head"));
  EXPECT_THAT(error("layer,head,value\n0.5,0,1\n"), HasSubstr("no such layer or head"));
  EXPECT_THAT(error("layer,head,value\n0,0,1\n0,1,2\n1,0,3\n"), HasSubstr("layer 1, head 1"));
  EXPECT_THAT(error("layer,head,value\n0,0\n"), HasSubstr("has 2 cells instead of 3"));
  const std::string header = "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 2), }\n";
  const std::string good = numpy(header, {1, 2, 3, 4});
  for (std::size_t length = 6; length < good.size(); ++length) {
    EXPECT_NE(error(good.substr(0, length)), "") << length;
  }
  EXPECT_THAT(error(good + "x"), HasSubstr("another length"));
  EXPECT_THAT(error(numpy(header, {1, 2, 3, -4})), HasSubstr("layer 1, head 1 is not a number"));
  EXPECT_THAT(error(numpy("{'descr': '<i8', 'fortran_order': False, 'shape': (2, 2), }", {})),
              HasSubstr("another type"));
  EXPECT_THAT(error(numpy("{'descr': '<f8', 'fortran_order': True, 'shape': (2, 2), }", {})),
              HasSubstr("by columns"));
  EXPECT_THAT(error(numpy("{'descr': '<f8', 'fortran_order': False, 'shape': (4,), }", {})),
              HasSubstr("two axes"));
  EXPECT_THAT(
      error(numpy("{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999999, 2), }", {1})),
      HasSubstr("another length"));
  EXPECT_THROW(read_head_table((folder_ / "none").string(), model_), FileError);
}

}  // namespace
}  // namespace kvloupe
