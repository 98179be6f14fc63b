// Effects of policies on each role, read from the figure's CSV, beside plain counts over the
// double-precision twins.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "analysis/replay/follow.h"
#include "app/figure/comparison.h"
#include "app/figure/figures/figure_catalog.h"
#include "app/request/figure_service.h"
#include "tests/figure/csv_rows.h"
#include "tests/naive/naive_roles.h"
#include "tests/support/synthetic_trace.h"
#include "tests/support/temporary_folder.h"

namespace kvloupe::figure {
namespace {

std::vector<std::vector<double>> attention_of(const Trace& trace, int layer, int query_head) {
  return naive::full_attention(trace.query(layer, query_head),
                               trace.key(layer, trace.model().head_of(query_head)),
                               trace.run().attention_scale, trace.window(layer));
}

/// The index of its strongest role, or −1; and whether it rests on the sink.
std::pair<int, bool> named(const Trace& trace, int layer, int query_head) {
  const HeadRoles roles = naive::roles(attention_of(trace, layer, query_head), trace.window(layer),
                                       role_tokens(trace.tokens(), trace.run()));
  return {strongest_role(roles), roles.sink >= 0.3};
}

TEST(RoleFigures, EachRoleKeepsAndLosesWhatItsQueryHeadsDo) {
  const test::TemporaryFolder folder;
  // A trace whose sinks are so strong that some heads rest on them and others do not.
  std::shared_ptr<const Trace> trace;
  for (float logit = 3.0F; !trace && logit < 5.0F; logit += 0.1F) {
    test::SyntheticTraceOptions options;
    options.sink_logit = logit;
    const auto path = folder / fmt::format("{:.1f}.h5", logit);
    test::write_synthetic_trace(path, options);
    const auto made = std::make_shared<const Trace>(path);
    std::set<std::pair<int, bool>> names;
    for (int layer = 0; layer < made->model().num_layers; ++layer) {
      for (int head = 0; head < made->model().num_heads; ++head)
        names.insert(named(*made, layer, head));
    }
    if (names.size() > 1) trace = made;
  }
  ASSERT_TRUE(trace) << "all heads have one role";
  constexpr int kBudget = 24, kStep = 2;
  request::FigureSettings settings{.step = kStep,
                                   .policy = parse_policy("keydiff"),
                                   .policy_b = parse_policy("h2o"),
                                   .budget = parse_budget(std::to_string(kBudget))};
  const MadeFigure made =
      request::FigureMaker(trace).make(find_figure("role-cost"), settings, test::unwatched);

  struct Count {
    double kept = 0.0, lost = 0.0, heads = 0.0;
  };
  std::map<std::string, Count> expected;  // series, panel and role
  const int group = trace->model().num_heads / trace->model().num_kv_heads;
  for (const std::string spec : {"keydiff", "h2o"}) {
    ReplayRequest request{.policy = parse_policy(spec), .budget = kBudget};
    const Replay run = replay(*trace, request, test::unwatched);
    const int end = run.blocks[kStep].end;
    for (const HeadReplay& head : run.heads) {
      for (int q = head.head * group; q < (head.head + 1) * group; ++q) {
        const auto attention =
            naive::full_attention(trace->query(head.layer, q), trace->key(head.layer, head.head),
                                  trace->run().attention_scale, trace->window(head.layer));
        const HeadRoles values = naive::roles(attention, trace->window(head.layer),
                                              role_tokens(trace->tokens(), trace->run()));
        const int role = strongest_role(values);
        std::vector<std::string> rows{role < 0 ? "no name" : role_catalog()[role].label};
        if (values.sink >= 0.3) rows.emplace_back("sink");
        for (const std::string& row : rows) {
          Count& own = expected[spec + "/" + row];
          own.heads += 1.0;
          for (int token = 0; token < end; ++token) {
            const int gone = head.evicted_at[static_cast<std::size_t>(token)];
            if (gone < 0 || gone > kStep) {
              own.kept += 1.0 / end;
            } else {
              own.lost +=
                  attention[static_cast<std::size_t>(end - 1)][static_cast<std::size_t>(token)];
            }
          }
        }
      }
    }
  }
  EXPECT_GT(expected.size(), 2U) << "one role in each policy is no test";
  std::size_t rows = 0;
  for (const test::CsvRow& row : test::csv_rows(*made.figure)) {
    const std::string role = row.at("role").substr(0, row.at("role").find(" ("));
    const auto found = expected.find(row.at("series") + "/" + role);
    ASSERT_NE(found, expected.end()) << row.at("series") << " " << role;
    const Count& own = found->second;
    EXPECT_EQ(row.at("role"), role + " (" + std::to_string(std::lround(own.heads)) + ")");
    const double value = row.at("panel") == "Entries kept" ? own.kept : own.lost;
    EXPECT_NEAR(std::stod(row.at("percent")), 100.0 * value / own.heads, 2e-3)
        << row.at("panel") << " " << found->first;
    ++rows;
  }
  EXPECT_EQ(rows, 2 * expected.size());
}

}  // namespace
}  // namespace kvloupe::figure
