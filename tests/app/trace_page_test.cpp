// The page of a whole trace: its arrays, decoded as its script decodes them, against replays of the
// same trace; what is left out and said; its own safety.

#include "app/trace_page/trace_page.h"

#include <zlib.h>

#include "analysis/math/pca.h"
#include "analysis/replay/explain.h"
#include "analysis/replay/measure/measure_catalog.h"
#include "analysis/replay/replay.h"
#include "analysis/replay/typed_values.h"
#include "tests/app/cli_call.h"
#include "tests/support/damaged_trace.h"
#include "tests/support/error_of.h"
#include "tests/support/kinds_trace.h"
#include "tests/support/model_attribute.h"
#include "tests/support/synthetic_evaluation.h"
#include "tests/support/synthetic_trace.h"
#include "tests/support/test.h"

namespace kvloupe::trace_page {
namespace {

using nlohmann::json;
using test::call;

/// What stands between `before` and `after`.
std::string between(const std::string& text, const std::string& before, const std::string& after) {
  const std::size_t from = text.find(before);
  EXPECT_NE(from, std::string::npos) << before;
  if (from == std::string::npos) return {};
  const std::size_t start = from + before.size();
  return text.substr(start, text.find(after, start) - start);
}

std::string inflated(const std::string& bytes) {
  std::string out(std::size_t{1} << 22U, '\0');
  uLongf size = out.size();
  EXPECT_EQ(uncompress(reinterpret_cast<Bytef*>(out.data()), &size,
                       reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()),
            Z_OK);
  out.resize(size);
  return out;
}

struct Decoded {
  explicit Decoded(const Trace& trace, const PageRequest& request) {
    Progress progress;
    data = page_data(trace, request, plan_page(trace, request), progress,
                     [&](const std::string& line) { said.push_back(line); });
    for (const auto& [name, bytes] : data.sections) arrays[name] = inflated(bytes);
  }
  int byte(const std::string& name, std::size_t index) const {
    return static_cast<unsigned char>(arrays.at(name).at(index));
  }
  template <typename Number>
  Number number(const std::string& name, std::size_t offset) const {
    Number value{};
    std::memcpy(&value, arrays.at(name).data() + offset, sizeof value);
    return value;
  }
  PageData data;
  std::map<std::string, std::string> arrays;
  std::vector<std::string> said;
};

PageRequest request_of(const std::string& policies, const std::string& budgets) {
  PageRequest request;
  request.policies = parse_policy_list(policies);
  request.budgets = parse_budgets(budgets);
  return request;
}

void expect_same_sets(const Trace& trace, const PageRequest& request) {
  const Decoded page(trace, request);
  EXPECT_THAT(page.said, IsEmpty());
  const std::size_t budgets = request.budgets.size();
  const auto tokens = static_cast<std::size_t>(trace.length());
  const bool wide = page.data.about["wide_steps"] == true;
  for (std::size_t p = 0; p < request.policies.size(); ++p) {
    for (std::size_t b = 0; b < budgets; ++b) {
      ReplayRequest of{.policy = request.policies[p], .block = request.block, .metrics = false};
      of.budget = budget_entries(request.budgets[b], trace, of.policy);
      EXPECT_EQ(page.data.about["entries"][p][b], of.budget);
      Progress progress;
      const Replay replay = kvloupe::replay(trace, of, progress);
      ASSERT_EQ(page.data.about["heads"].size(), replay.heads.size());
      for (std::size_t h = 0; h < replay.heads.size(); ++h) {
        const HeadReplay& head = replay.heads[h];
        EXPECT_EQ(page.data.about["heads"][h], json({head.layer, head.head}));
        for (int step = 0; step < static_cast<int>(replay.blocks.size()); ++step) {
          std::vector<std::int32_t> kept;
          for (int t = 0; t < replay.blocks[static_cast<std::size_t>(step)].end; ++t) {
            const std::size_t cell = (h * tokens + static_cast<std::size_t>(t)) * budgets + b;
            const std::string name = "kept-" + std::to_string(p);
            const int code =
                wide ? page.number<std::uint16_t>(name, 2 * cell) : page.byte(name, cell);
            if (code == (wide ? 0xFFFF : 0xFF) || code > step) kept.push_back(t);
          }
          ASSERT_EQ(kept, replay.retained_at(head, step))
              << replay.policy << " " << of.budget << " " << h << " " << step;
        }
      }
    }
  }
}

struct TracePage : testing::Test {
  std::shared_ptr<const Trace> open(const test::SyntheticTraceOptions& options = {}) const {
    return test::open_synthetic_trace(folder / "trace.h5", options);
  }
  std::string path(const char* name) const { return (folder / name).string(); }
  test::TemporaryFolder folder;
};

TEST_F(TracePage, HoldsTheSetsOfReplays) {
  expect_same_sets(
      *open(), request_of("keydiff+recent(10%),h2o,snapkv+adakv,h2o+kvmerger(recent=17%,heavy=12%)",
                          "10%,24,60%"));
  expect_same_sets(*open({.sliding_window = 40, .logsumexp = false}), request_of("tova", "16,30%"));
  expect_same_sets(*open({.chunk_size = 32, .logsumexp = false}), request_of("keydiff", "12"));
  expect_same_sets(*open({.prompt_length = 64, .generated = 300}), request_of("tova", "20,40"));
  test::write_kinds_trace(folder / "kinds.h5", test::made_layers());
  expect_same_sets(Trace(folder / "kinds.h5"), request_of("keydiff", "16"));
}

TEST_F(TracePage, ScoresRanksAndFatesAreThoseOfTheExplanation) {
  const auto trace = open();
  const PageRequest request = request_of("h2o+recent(20%),keydiff,sink", "24");
  const Decoded page(*trace, request);
  const std::size_t heads = page.data.about["heads"].size(),
                    steps = page.data.about["steps"].size(),
                    tokens = static_cast<std::size_t>(trace->length());
  for (std::size_t p = 0; p < request.policies.size(); ++p) {
    const std::string name = fmt::format("score-{}-0", p);
    for (std::size_t h = 0; h < heads; ++h) {
      const int layer = page.data.about["heads"][h][0], head = page.data.about["heads"][h][1];
      Progress progress;
      const Replay replay = kvloupe::replay(*trace,
                                            {.policy = request.policies[p],
                                             .budget = 24,
                                             .metrics = false,
                                             .scores_layer = layer,
                                             .scores_head = head},
                                            progress);
      for (std::size_t t = 0; t < tokens; ++t) {
        const StepReason last =
            explain(replay, *replay.find(layer, head), static_cast<int>(t)).steps.back();
        const auto plane = [&](std::size_t n) {
          return static_cast<std::uint32_t>(
              page.byte(name, 4 * heads * steps + (n * heads + h) * tokens + t));
        };
        const double score =
            static_cast<double>(std::bit_cast<float>(plane(0) << 24U | plane(1) << 16U));
        ASSERT_EQ(std::isnan(score), std::isnan(last.score));
        EXPECT_FALSE(std::abs(score - last.score) > std::abs(last.score) / 31.0);
        EXPECT_EQ(256 * plane(2) + plane(3), static_cast<std::uint32_t>(last.rank));
        const double threshold = static_cast<double>(
            page.number<float>(name, 4 * (h * steps + static_cast<std::size_t>(last.step))));
        EXPECT_TRUE(threshold == last.threshold ||
                    (std::isnan(threshold) && std::isnan(last.threshold)));
        EXPECT_TRUE(!last.decided || plane(4) == static_cast<std::uint32_t>(last.fate));
      }
    }
  }
}

TEST_F(TracePage, KeysMeasuresAndAttentionAreThoseOfTheTrace) {
  const auto trace = open();
  const PageRequest request = request_of("keydiff", "16,40%");
  const Decoded page(*trace, request);
  const json about = page.data.about;
  const std::size_t tokens = static_cast<std::size_t>(trace->length()),
                    heads = about["heads"].size();
  for (std::size_t h = 0; h < heads; ++h) {
    const Matrix keys = trace->key(about["heads"][h][0], about["heads"][h][1]);
    const Matrix places = fit_principal_components(view(keys)).project(view(keys));
    for (std::size_t c = 0; c < 2; ++c) {
      const double low = static_cast<double>(page.number<float>("keys", 24 * h + 12 * c)),
                   high = static_cast<double>(page.number<float>("keys", 24 * h + 12 * c + 4));
      for (std::size_t t = 0; t < tokens; ++t) {
        const int code = page.byte("keys", 24 * heads + (2 * h + c) * tokens + t);
        EXPECT_NEAR(
            low + (high - low) * code / 255.0,
            static_cast<double>(places(static_cast<Eigen::Index>(t), static_cast<Eigen::Index>(c))),
            (high - low) / 255.0);
      }
    }
  }
  // The answer's queries are the last of the prompt and all but the last generated token.
  const std::vector<int> rows = about["rows"];
  EXPECT_THAT(rows, ElementsAre(31, 63, 95, 96, 97, 98, 99, 100, 101, 102, 103));
  const int layer = about["heads"][3][0], head = about["heads"][3][1];
  const Matrix keys = trace->key(layer, head);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::vector<double> mean(static_cast<std::size_t>(rows[r]) + 1, 0.0);
    for (int q = 2 * head; q < 2 * head + 2; ++q) {
      const Matrix queries = trace->query(layer, q);
      std::vector<double> row;
      double sum = 0.0;
      for (int t = 0; t <= rows[r]; ++t) {
        row.push_back(
            std::exp(trace->run().attention_scale *
                     queries.row(rows[r]).cast<double>().dot(keys.row(t).cast<double>())));
        sum += row.back();
      }
      for (std::size_t t = 0; t < row.size(); ++t) mean[t] += row[t] / sum / 2.0;
    }
    const std::size_t from = (3 * rows.size() + r) * kMostReads;
    double before = 1.0;
    for (std::size_t i = 0; i < kMostReads; ++i) {
      const auto token = page.number<std::uint32_t>("reads", 4 * (from + i));
      const double root = page.byte("shares", from + i) / 255.0;
      EXPECT_NEAR(root, std::sqrt(mean[token]), 1.0 / 400.0);
      EXPECT_LE(mean[token], before + 1e-6);
      before = mean[token];
    }
    std::sort(mean.rbegin(), mean.rend());
    EXPECT_NEAR(before, mean[kMostReads - 1], 1e-6);
  }
  for (std::size_t m = 0; m < about["measures"].size(); ++m) {
    const Measure& measure = require_measure(about["measures"][m]["name"].get<std::string>());
    for (std::size_t b = 0; b < 2; ++b) {
      Progress progress;
      const Replay replay = kvloupe::replay(
          *trace,
          {.policy = request.policies[0],
           .budget = budget_entries(request.budgets[b], *trace, request.policies[0]),
           .measures = {measure.info->name}},
          progress);
      for (std::size_t h = 0; h < heads; ++h) {
        const float wanted = static_cast<float>(measure_of(measure, replay.heads[h]));
        const float value = page.number<float>("measures", 4 * ((m * 2 + b) * heads + h));
        EXPECT_TRUE(value == wanted || (std::isnan(value) && std::isnan(wanted)))
            << measure.info->name;
      }
    }
  }
}

TEST_F(TracePage, LeavesOutWhatIsDamagedOrRefusedAndSaysSo) {
  open();
  test::damage_key(folder / "trace.h5", 1, 1, 5);
  const auto page = call({"page", path("trace.h5"), "-o", path("page.html"), "--policies",
                          "keydiff,sink(20)", "--budgets", "8,50%"});
  EXPECT_EQ(page.code, 0) << page.error;
  EXPECT_THAT(page.error,
              AllOf(HasSubstr("layer 1 is left out: "), HasSubstr("head 1"), HasSubstr("token 5")));
  const json about =
      json::parse(between(test::file_text(folder / "page.html"), "id=\"about\">", "</script>"));
  EXPECT_EQ(about["heads"], json({{0, 0}, {0, 1}}));
  ASSERT_EQ(about["problems"].size(), about["refused"].size() + 1);
  EXPECT_THAT(about["problems"][0].get<std::string>(), HasSubstr("layer 1 is left out"));
  // Nothing left: an error and no file.
  const auto none = call({"page", path("trace.h5"), "-o", path("none.html"), "--layers", "1"});
  EXPECT_EQ(none.code, 1);
  EXPECT_FALSE(std::filesystem::exists(folder / "none.html"));
  for (const auto& [words, code, says] :
       std::vector<std::tuple<std::vector<std::string>, int, std::string>>{
           {{"--policies", "keydif"}, 2, "keydiff"},
           {{"--budgets", "0"}, 2, "0"},
           {{"--layers", "9"}, 2, "layer 9"},
           {{"--heads", "7"}, 2, "head 7"},
           {{"--budgets", "25%,25%"}, 2, "named twice"},
           {{"--results", path("trace.h5")}, 1, "trace.h5"}}) {
    std::vector<std::string> all = {"page", path("trace.h5"), "-o", path("none.html")};
    all.insert(all.end(), words.begin(), words.end());
    test::expect_refused(all, code, says);
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "none.html"));
}

TEST_F(TracePage, APolicyThatRefusesABudgetLeavesTheOthers) {
  const Decoded page(*open(), request_of("keydiff,h2o+keep(\"0-19\")", "16,64"));
  EXPECT_THAT(page.said, ElementsAre(HasSubstr("at 16 is left out: ")));
  EXPECT_EQ(page.data.about["entries"], json({{16, 64}, {0, 64}}));
  EXPECT_EQ(page.data.about["refused"].size(), 1U);
}

TEST_F(TracePage, TextIsTextAndNothingElseMayRun) {
  open();
  test::write_token_texts(folder / "trace.h5", {"</script><script>window.broken=1</script>",
                                                "<img src=x onerror=alert(1)>", "\x01\x1b[31m",
                                                "שלום", "\xE2\x80\xAE", "]]>", "<!--", "&amp;"});
  test::write_synthetic_evaluation(folder / "results.json");
  ASSERT_EQ(
      call({"page", path("trace.h5"), "-o", path("page.html"), "--policies", "keydiff,h2o",
            "--budgets", "25%", "--results", path("results.json"), "--layers", "0", "--heads", "1"})
          .code,
      0);
  const std::string html = test::file_text(folder / "page.html");
  const json about = json::parse(between(html, "id=\"about\">", "</script>"));
  EXPECT_EQ(about["heads"], json({{0, 1}}));
  EXPECT_EQ(about["tokens"][0], "</script><script>window.broken=1</script>");
  EXPECT_EQ(about["tokens"][3], "שלום");
  EXPECT_THAT(about["tokens"][2].get<std::string>(), Not(HasSubstr("\x1b")));
  EXPECT_FALSE(about["answers"].empty());
  EXPECT_THAT(about["made"].dump(),
              AllOf(HasSubstr("sha256:"), HasSubstr("kvloupe page "), HasSubstr("--layers 0")));
  EXPECT_THAT(about["loop"].get<std::string>(), StartsWith("Open loop: "));
  // The texts of tokens stand in JSON, in which no element can begin.
  const std::string texts = between(html, "id=\"about\">", "</script>");
  EXPECT_THAT(texts, Not(HasSubstr("<")));
  const std::string frame = html.substr(0, html.find(texts));
  EXPECT_THAT(frame,
              Not(testing::ContainsRegex("<img|[ \"]on[a-z]+=|<[a-z][^>]* style=|https?://")));
  EXPECT_THAT(between(html, "Content-Security-Policy\" content=\"", "\""),
              AllOf(HasSubstr("default-src 'none'"), HasSubstr("connect-src 'none'"),
                    Not(HasSubstr("unsafe"))));
}

TEST_F(TracePage, APageThatWouldBeTooLargeIsRefusedBeforeTheWork) {
  // The shape of an 8B model at 4 000 tokens: the estimate reads no states.
  open({.layers = 1,
        .query_heads = 8,
        .heads = 8,
        .head_dim = 2,
        .hidden_size = 4,
        .prompt_length = 4000,
        .generated = 0,
        .block = 512,
        .output_weight = false,
        .logsumexp = false,
        .predictions = false});
  test::repeat_layer(folder / "trace.h5", 32);
  const Trace trace(folder / "trace.h5");
  const std::string budgets = "5%,10%,15%,20%,25%,30%,40%,50%";
  EXPECT_LE(plan_page(trace, request_of("keydiff,h2o,tova,snapkv,sink,random", budgets)).bytes,
            kMostBytes);
  PageRequest request = request_of("keydiff,h2o,tova,snapkv,sink,random,full,keynorm", budgets);
  EXPECT_THAT(test::error_of<UsageError>([&] { plan_page(trace, request); }),
              AllOf(HasSubstr("more than 25"), HasSubstr("--layers 0-")));
  request.layers = "0-2";
  EXPECT_THAT(plan_page(trace, request).heads, SizeIs(24));
}

}  // namespace
}  // namespace kvloupe::trace_page
