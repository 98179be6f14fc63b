// The texts of the menus, the palette and the sheet of keys, line by line.

#include "app/window/sheets/command_palette.h"
#include "tests/app/fake_demo.h"
#include "tests/app/window_test.h"
#include "tests/support/test.h"

namespace kvloupe::test {
namespace {

using Lines = std::vector<std::string>;

struct MenuTexts : WindowTest {
  void prepare() override {
    std::filesystem::create_directories(demo_.places().assets / "lessons");
    std::ofstream(demo_.places().assets / "lessons" / "01-cache.md")
        << "# What a cache holds\n\nKeys.\n\n## A budget\n\nText.\n";
    start(1600, 1200, window::Workspace::Host{.demo = demo_.places()});
    driver_->workspace.state = window::default_state();
    driver_->settle();
  }

  /// Every text that `draw` draws until the first window ends that is no child.
  Lines drawn_texts(const std::function<void()>& draw) {
    ImGuiIO& io = ImGui::GetIO();
    static std::string text;
    text.clear();
    const auto before = io.SetClipboardTextFn;
    io.SetClipboardTextFn = [](void*, const char* all) { text = all; };
    driver_->surface.begin_frame();
    ImGui::LogToClipboard();
    draw();
    driver_->workspace.frame();
    driver_->surface.end_frame();
    io.SetClipboardTextFn = before;
    std::istringstream stream(text);
    Lines lines;
    for (std::string line; std::getline(stream, line);) {
      line.erase(0, line.find_first_not_of(' '));
      while (!line.empty() && line.back() == ' ') line.pop_back();
      if (!line.empty()) lines.push_back(line);
    }
    return lines;
  }
  Lines drawn_texts() {
    return drawn_texts([] {});
  }

  void add(const std::string& heading, const Lines& lines) {
    text_ += "# " + heading + "\n";
    for (const std::string& line : lines) text_ += line + "\n";
  }

  /// A menu, and those in it: the bar up to the menu, then its lines.
  void add_menu(const std::string& name, const Lines& inner) {
    driver_->press_on("##MainMenuBar", {"##menubar", name, ""}).frames(2);
    add(name, drawn_texts());
    for (const std::string& each : inner) {
      ASSERT_TRUE(driver_->point_at("##Menu_00", {each, ""}) ||
                  driver_->point_at("##Menu_00", {each}))
          << each;
      driver_->press(true).press(false).frames(2);
      add(name + " > " + each, drawn_texts());
    }
    for (int i = 0; i < 2; ++i) driver_->key(GLFW_KEY_ESCAPE);
    driver_->click(800, 1190).frames(3);
  }

  /// The lines of the palette that give a command.
  void add_palette(const std::string& heading) {
    window::Workspace& w = driver_->workspace;
    Lines lines;
    for (const window::PaletteEntry& entry :
         window::palette_entries(w.palette_sources(w.context()))) {
      if (!std::holds_alternative<window::Command>(entry.action)) continue;
      const window::SearchItem& item = entry.item;
      lines.push_back(item.group + " | " + item.keys + " | " + item.title + " | " + item.help +
                      " | " + item.why_not);
    }
    add(heading, lines);
  }

  void add_help() {
    window::Workspace& w = driver_->workspace;
    window::HelpSheet sheet;
    sheet.toggle();
    const auto draw = [&] { sheet.draw(w.context()); };
    drawn_texts(draw);
    add("Help sheet", drawn_texts(draw));
    driver_->frames(2);
  }

  FakeDemo demo_;
  std::string text_;
};

TEST_F(MenuTexts, AreThoseOfTheFile) {
  add_palette("Palette without a trace");
  const auto trace = folder_.path() / "small.h5";
  write_synthetic_trace(trace, {});
  driver_->workspace.open(trace.string());
  driver_->settle();
  add_palette("Palette");
  add_help();
  add_menu("File", {"Open recent"});
  add_menu("Edit", {});
  add_menu("View", {"Layout", "Theme"});
  add_menu("Lessons", {});
  add_menu("Help", {});
  const std::string wanted =
      file_text(std::string(KVLOUPE_SOURCE_DIR) + "/tests/app/menu_texts.txt");
  EXPECT_EQ(text_, wanted) << "the texts now:\n" << text_;
}

}  // namespace
}  // namespace kvloupe::test
