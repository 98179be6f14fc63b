// Every figure of the catalogue on a trace whose layers differ: at each layer it draws or says why
// not.

#include <gmock/gmock.h>

#include <memory>
#include <stdexcept>

#include "analysis/error.h"
#include "app/export/figure_file.h"
#include "app/figure/figures/figure_catalog.h"
#include "app/request/figure_service.h"
#include "tests/figure/text_dump.h"
#include "tests/support/kinds_trace.h"
#include "tests/support/temporary_folder.h"

namespace kvloupe::figure {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(KindsFigures, EveryFigureDrawsAtEveryLayerOrSaysWhyNot) {
  const test::TemporaryFolder folder;
  test::write_kinds_trace(folder / "kinds.h5", test::made_layers());
  const auto trace = std::make_shared<const Trace>(folder / "kinds.h5");
  const TextMetrics fonts;
  request::FigureSettings settings{.policy = parse_policy("h2o+recent(20%)"),
                                   .policy_b = parse_policy("keydiff"),
                                   .budget = parse_budget("12")};
  int drawn = 0, refused = 0;
  for (const FigureInfo& info : figure_catalog()) {
    if (info.needs.evaluation || info.needs.both_loops) continue;
    for (int layer = 0; layer < trace->model().num_layers; ++layer) {
      SCOPED_TRACE(info.name + ", layer " + std::to_string(layer));
      settings.layer = layer;
      settings.head = trace->attends(layer) ? trace->layer_model(layer).num_kv_heads - 1 : 0;
      MadeFigure made;
      try {
        made = request::FigureMaker(trace).make(info, settings, test::unwatched);
      } catch (const std::runtime_error& problem) {  // UsageError and WorkError: a line
        EXPECT_GT(std::string(problem.what()).size(), 25U) << problem.what();
        if (!trace->attends(layer)) {
          EXPECT_THAT(problem.what(), HasSubstr("nearest"));
        }
        ++refused;
        continue;
      }
      ++drawn;
      EXPECT_THAT(scene_problems(page_of(info, made, {}, fonts)), IsEmpty());
      EXPECT_GT(file_of(info, made, FileFormat::csv, {}, fonts).size(), 40U);
      EXPECT_EQ(made.figure->caption().find(" nan"), std::string::npos) << made.figure->caption();
      for (const int token : {0, 40, test::kKindsTokens - 1}) {
        made.figure->value_text({token, 40, 2, layer, 0});
      }
    }
  }
  EXPECT_GT(drawn, 120);
  RecordProperty("refused", refused);
}

}  // namespace
}  // namespace kvloupe::figure
