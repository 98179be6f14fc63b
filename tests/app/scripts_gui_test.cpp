// Letters that join or stack look on the screen as they do on paper: in figures and in the window's
// own lines.

#include "app/plot/frame.h"
#include "app/scene/cairo_backend.h"
#include "app/window/tiles/state_range.h"
#include "app/window/widgets/shaped_text.h"
#include "tests/app/window_test.h"
#include "tests/support/model_attribute.h"
#include "tests/support/test.h"

namespace kvloupe::test {
namespace {

const std::vector<std::string> kWords{"بيت", "क्षत्रिय", "ที่นี่", "q\u0301", "שלום"};

/// Letters side by side, as they are where nothing shapes them.
const std::string kUnjoined = "ب\u200Cي\u200Cت";

/// How dark each pixel is, from 0 (white) to 255.
struct Ink {
  int width = 0;
  int height = 0;
  std::vector<int> dark;  // [height, width]

  double sum() const {
    double total = 0;
    for (const int d : dark) total += d;
    return total;
  }
};

/// Share of the ink of `a` that `b` has nowhere within a pixel of its place, and the other way
/// round: libraries place letters on other parts of a pixel.
double difference(const Ink& a, const Ink& b) {
  EXPECT_EQ(a.dark.size(), b.dark.size());
  const auto missing = [](const Ink& from, const Ink& in) {
    double sum = 0;
    for (int y = 1; y + 1 < from.height; ++y) {
      for (int x = 1; x + 1 < from.width; ++x) {
        int most = 0;
        for (int v = y - 1; v <= y + 1; ++v) {
          for (int u = x - 1; u <= x + 1; ++u) most = std::max(most, in.dark[v * in.width + u]);
        }
        sum += std::max(0, from.dark[y * from.width + x] - most);
      }
    }
    return sum / std::max(1.0, from.sum());
  };
  return std::max(missing(a, b), missing(b, a));
}

struct Scripts : WindowTest {
  static constexpr int kWidth = 160;
  static constexpr int kHeight = 60;

  void prepare() override {
    start();
    driver_->frames(2);
  }

  static figure::Scene scene_of(const std::string& text, const figure::TextMetrics& metrics,
                                double size, figure::Point at) {
    const figure::Style style = figure::make_style(metrics);
    figure::Scene scene = figure::make_scene(style, kWidth, kHeight);
    figure::Text line = figure::make_text(style, text, at, size, figure::Font::mono);
    line.colour = {0, 0, 0, 255};
    scene.background = {255, 255, 255, 255};
    scene.add(line);
    return scene;
  }
  Ink on_paper(const std::string& text, double size, figure::Point at) {
    const auto pixels = figure::render(scene_of(text, w().metrics, size, at), w().metrics, 1.0);
    Ink ink{kWidth, kHeight, {}};
    for (std::size_t i = 0; i < pixels.rgba.size(); i += 4)
      ink.dark.push_back(255 - pixels.rgba[i]);
    return ink;
  }
  /// The pixels that `draw` puts into the corner of a white screen.
  Ink on_screen(const std::function<void(ImDrawList&)>& draw) {
    driver_->surface.begin_frame();
    ImDrawList& list = *ImGui::GetForegroundDrawList();
    list.AddRectFilled({0, 0}, {kWidth, kHeight}, IM_COL32_WHITE);
    draw(list);
    driver_->surface.end_frame();
    const window::Picture picture = driver_->picture();
    Ink ink{kWidth, kHeight, {}};
    for (int y = 0; y < kHeight; ++y) {
      for (int x = 0; x < kWidth; ++x)
        ink.dark.push_back(255 - picture.rgb[(y * picture.width + x) * 3]);
    }
    return ink;
  }
};

TEST_F(Scripts, FiguresOnTheScreenAreThoseOnPaper) {
  const figure::Point at{10, 40};
  for (const std::string& word : kWords) {
    const Ink paper = on_paper(word, 24, at);
    EXPECT_GT(paper.sum(), 20 * 255) << word;
    const Ink screen = on_screen([&](ImDrawList& list) {
      w().backend.draw(scene_of(word, w().metrics, 24, at), list, 0, 0, 1.0F);
    });
    EXPECT_LT(difference(paper, screen), 0.05) << word;
  }
  const Ink unjoined = on_screen([&](ImDrawList& list) {
    w().backend.draw(scene_of(kUnjoined, w().metrics, 24, at), list, 0, 0, 1.0F);
  });
  EXPECT_GT(difference(on_paper(kWords[0], 24, at), unjoined), 0.15) << "the comparison sees it";
}

TEST_F(Scripts, TheWindowsOwnLinesAreShapedToo) {
  const ImFont* font = w().fonts.mono;
  const float size = 32;  // large, so that quarters of a pixel do not matter
  const double em = static_cast<double>(size) / w().metrics.line_height(figure::Font::mono);
  const double baseline =
      10.0 + std::round(static_cast<double>(font->Ascent * size / font->FontSize));
  for (const std::string& word : kWords) {
    const Ink screen = on_screen([&](ImDrawList& list) {
      window::draw_line(list, w().fonts, font, size, {10, 10}, IM_COL32_BLACK, word);
    });
    EXPECT_LT(difference(on_paper(word, em, {10, baseline}), screen), 0.05) << word;
    EXPECT_NEAR(window::line_width(w().fonts, font, size, word),
                w().metrics.width(word, figure::Font::mono, em), 1e-3);
  }
  // As large as ImGui's own letters beside it.
  EXPECT_NEAR(window::line_width(w().fonts, font, size, kWords[3]),
              window::line_width(w().fonts, font, size, "q"), 0.1F * size);
  // Plain text goes ImGui's way.
  EXPECT_EQ(window::line_width(w().fonts, font, size, "plain"),
            font->CalcTextSizeA(size, 1e6F, 0.0F, "plain").x);
}

TEST_F(Scripts, ATraceOfSuchTokensIsShownWithItsCard) {
  const TemporaryFolder folder;
  const auto path = folder / "scripts.h5";
  write_synthetic_trace(path);
  std::vector<std::string> words;
  for (const std::string& word : kWords) words.push_back(" " + word);
  words.push_back("\xff\xfe" + kWords[0]);
  words.push_back("\u0301");
  words.push_back("\u202E");
  write_token_texts(path, words);
  open_file(path);
  window::show_view(w().state, "tokens");
  driver_->settle();
  for (const int token : {0, 1, 2, 5, 6, 7}) {
    w().state.selection.token = token;
    w().sheets.token_card.open({400, 300});
    driver_->frames(3);
  }
  EXPECT_GT(WindowDriver::colours(driver_->picture()), 20);
}

}  // namespace
}  // namespace kvloupe::test
