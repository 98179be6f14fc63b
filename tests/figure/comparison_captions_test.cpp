// The words of captions and CSV about a comparison: which policies can know the question, when the
// prompt is compressed, which entries the budget counts.

#include <gmock/gmock.h>

#include <memory>
#include <string>

#include "app/export/figure_file.h"
#include "app/figure/figures/figure_catalog.h"
#include "app/request/figure_service.h"
#include "tests/support/synthetic_trace.h"
#include "tests/support/temporary_folder.h"

namespace kvloupe::figure {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class ComparisonCaptions : public ::testing::Test {
 protected:
  ComparisonCaptions() {
    test::write_synthetic_trace(folder / "t.h5");
    trace = std::make_shared<const Trace>(folder / "t.h5");
  }
  MadeFigure make(const std::string& name, const request::FigureSettings& settings) const {
    return request::FigureMaker(trace).make(find_figure(name), settings, test::unwatched);
  }

  test::TemporaryFolder folder;
  std::shared_ptr<const Trace> trace;
};

TEST_F(ComparisonCaptions, CaptionsSayWhatAComparisonHasToKnow) {
  request::FigureSettings settings;
  settings.choices["policies"] = "keydiff,h2o,snapkv+adakv";
  const std::string regular = make("agreement", settings).figure->caption();
  EXPECT_THAT(regular, HasSubstr("Query-aware: h2o, snapkv+adakv; query-agnostic: keydiff."));
  EXPECT_THAT(regular, HasSubstr("compressed while it is read"));
  EXPECT_THAT(regular, HasSubstr("for snapkv+adakv it is the mean over the heads of a layer."));
  settings.compression = Compression::context_only;
  settings.block = kWholePrompt;
  const std::string context = make("agreement", settings).figure->caption();
  EXPECT_THAT(context, HasSubstr("All 3 policies: query-agnostic. The context is compressed once"));
  // One policy is not a comparison; a list of blocks does not have one answer.
  EXPECT_THAT(make("filmstrip", {}).figure->caption(), Not(HasSubstr("uery-")));
  const std::string blocks = make("block-size", {}).figure->caption();
  EXPECT_THAT(blocks, HasSubstr("Query-aware: "));
  EXPECT_THAT(blocks, Not(HasSubstr("compressed while")));
  request::FigureSettings two;
  two.policy_b = parse_policy("h2o");
  EXPECT_THAT(make("pca", two).figure->caption(), HasSubstr("Query-aware: h2o"));
  EXPECT_THAT(make("filmstrip", two).figure->caption(), Not(HasSubstr("h2o")));
  // The same bytes are more entries of few bits.
  two.budget = parse_budget("25%bytes");
  two.policy_b = parse_policy("keydiff+quant(4,residual=1)");
  EXPECT_THAT(make("pca", two).figure->caption(),
              HasSubstr(" 25%bytes: 24 entries under keydiff, 71"));
  // In the CSV as a comment; in the picture's caption once.
  const TextMetrics fonts;
  const FigureInfo& info = find_figure("agreement");
  const MadeFigure made = make("agreement", settings);
  EXPECT_THAT(file_of(info, made, FileFormat::csv, {}, fonts),
              HasSubstr("# comparison: All 3 policies: query-agnostic."));
  FileOptions with_caption;
  with_caption.caption = true;
  std::string spoken;
  for (const Item& item : page_of(info, made, with_caption, fonts).items) {
    if (const Text* text = std::get_if<Text>(&item)) spoken += text->text + " ";
  }
  const std::size_t first = spoken.find("query-agnostic");
  EXPECT_NE(first, std::string::npos);
  EXPECT_EQ(spoken.find("query-agnostic", first + 1), std::string::npos);
}

}  // namespace
}  // namespace kvloupe::figure
