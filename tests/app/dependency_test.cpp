// The rule of docs/architecture.md, "Folders and what they may see": the drawing, the libraries
// that CMake links and the includes say the same. The linker itself holds the arrows (target
// `arrows`, cmake/folders.cmake); includes are read here because headers alone leave nothing to
// link.

#include "tests/support/test.h"

namespace {

namespace fs = std::filesystem;

using Folders = std::map<std::string, std::set<std::string>>;  // folder → what it sees

/// A header of a library and the name that the table gives the library.
struct Library {
  const char* header;  // regular expression, from the beginning
  const char* name;
};
constexpr Library kLibraries[] = {{"Eigen/", "Eigen"},
                                  {"hdf5", "HDF5"},
                                  {"nlohmann/", "JSON"},
                                  {"fmt/", "fmt"},
                                  {"tbb/", "oneTBB"},
                                  {"openssl/", "OpenSSL"},
                                  {"zlib[.]h", "zlib"},
                                  {"cblas", "OpenBLAS"},
                                  {"sqlite3", "SQLite"},
                                  {"mpi[.]h", "MPI"},
                                  {"muParser", "muParser"},
                                  {"imgui|backends/imgui", "Dear ImGui"},
                                  {"GLFW/", "GLFW"},
                                  {"GL/", "OpenGL"},
                                  {"cairo", "Cairo"},
                                  {"fontconfig/", "Fontconfig"},
                                  {"ft2build|freetype", "FreeType"},
                                  {"hb[.-]|harfbuzz/", "HarfBuzz"},
                                  {"fribidi", "FriBidi"},
                                  {"png[.]h", "libpng"},
                                  {"CLI/", "CLI11"},
                                  {"spdlog/", "spdlog"},
                                  {"ATen/|c10/|torch/", "libtorch"},
                                  {"pcre2", "PCRE2"},
                                  {"utf8proc", "utf8proc"}};

/// The includes of the source files.
struct Includes {
  Folders folders;                                                   // of the project's own
  Folders libraries;                                                 // by their names in the table
  std::map<std::pair<std::string, std::string>, std::string> where;  // one line for each
};

std::vector<std::string> lines_of_the_docs() {
  std::ifstream in(fs::path(KVLOUPE_SOURCE_DIR) / "docs/architecture.md");
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// The rows of the table: folder → libraries.
Folders table_rows() {
  static const std::regex row(R"(^\| `((?:analysis|app|capture)[^`]*)` \|[^|]*\|([^|]*)\|)");
  Folders rows;
  for (const std::string& line : lines_of_the_docs()) {
    std::smatch match;
    if (!std::regex_search(line, match, row)) continue;
    std::set<std::string>& libraries = rows[match[1].str()];
    const std::string text = match[2].str();
    for (const Library& library : kLibraries) {
      if (std::regex_search(text, std::regex("(^|[ ,])" + std::string(library.name) + "([ ,]|$)")))
        libraries.insert(library.name);
    }
  }
  return rows;
}

/// The folder of the table that a folder of the tree belongs to: itself, or the one above that has
/// a row.
std::string row_of(std::string folder) {
  static const Folders rows = table_rows();
  while (!rows.contains(folder) && folder.find('/') != std::string::npos)
    folder.resize(folder.rfind('/'));
  return folder;
}

const Includes& includes() {
  static const Includes all = [] {
    static const std::regex include(R"re(^\s*#\s*include\s*[<"]([^>"]+)[>"])re");
    static const std::regex own("^(analysis|app|capture)/");
    Includes found;
    const fs::path root = KVLOUPE_SOURCE_DIR;
    for (const char* top : {"analysis", "app", "capture"}) {
      for (const auto& entry : fs::recursive_directory_iterator(root / top)) {
        const std::string extension = entry.path().extension().string();
        if (extension != ".h" && extension != ".cpp") continue;
        const std::string folder = row_of(fs::relative(entry.path().parent_path(), root).string());
        found.folders[folder];
        found.libraries[folder];
        std::ifstream in(entry.path());
        std::string line;
        for (int number = 1; std::getline(in, line); ++number) {
          std::smatch match;
          if (!std::regex_search(line, match, include)) continue;
          const std::string header = match[1].str();
          std::string seen;
          if (std::regex_search(header, own)) {
            seen = row_of(fs::path(header).parent_path().string());
            if (seen != folder) found.folders[folder].insert(seen);
          } else {
            for (const Library& library : kLibraries) {
              if (std::regex_search(header, std::regex("^(" + std::string(library.header) + ")")))
                seen = library.name;
            }
            if (!seen.empty()) found.libraries[folder].insert(seen);
          }
          found.where.try_emplace({folder, seen}, fs::relative(entry.path(), root).string() + ":" +
                                                      std::to_string(number));
        }
      }
    }
    return found;
  }();
  return all;
}

/// The arrows of the drawings: `a["analysis/replay/cache"] --> b["analysis/policy"]`.
Folders drawn_arrows() {
  static const std::regex arrow(R"re(\["([^"]+)"\]\s*-->\s*\w+\["([^"]+)"\])re");
  Folders arrows;
  for (const std::string& line : lines_of_the_docs()) {
    std::smatch match;
    if (std::regex_search(line, match, arrow)) arrows[match[1].str()].insert(match[2].str());
  }
  return arrows;
}

/// Everything that can be reached from a folder along arrows.
void reach(const Folders& arrows, const std::string& from, std::set<std::string>& reached) {
  const auto next = arrows.find(from);
  if (next == arrows.end()) return;
  for (const std::string& folder : next->second) {
    if (reached.insert(folder).second) reach(arrows, folder, reached);
  }
}

TEST(Dependencies, EveryIncludeFollowsTheDrawnArrows) {
  const Folders arrows = drawn_arrows();
  ASSERT_GT(arrows.size(), 10U);
  for (const auto& [folder, seen] : includes().folders) {
    std::set<std::string> allowed;
    reach(arrows, folder, allowed);
    for (const std::string& other : seen) {
      EXPECT_TRUE(allowed.contains(other)) << includes().where.at({folder, other}) << ": " << folder
                                           << " must not include " << other;
    }
  }
}

/// The arrows as CMake links them: kvloupe_folder(analysis/replay/cache SEES analysis/policy ...).
Folders linked_arrows() {
  static const std::regex row(R"(kvloupe_folder\((\S+)\s+SEES\s+([a-z/_\s]+))");
  Folders arrows;
  for (const char* top : {"analysis", "app", "capture"}) {
    const std::string text =
        kvloupe::test::file_text(fs::path(KVLOUPE_SOURCE_DIR) / top / "CMakeLists.txt");
    for (std::sregex_iterator found(text.begin(), text.end(), row), end; found != end; ++found) {
      std::istringstream names((*found)[2].str());
      for (std::string name; names >> name;) arrows[(*found)[1].str()].insert(name);
    }
  }
  return arrows;
}

TEST(Dependencies, TheDrawingShowsWhatIsLinked) {
  Folders drawn = drawn_arrows();
  // The programs themselves are drawn, but are no libraries.
  for (const char* folder : {"app", "capture"}) drawn.erase(folder);
  drawn["analysis/plugin"].erase("analysis/plugin/kvloupe");  // headers alone
  EXPECT_EQ(drawn, linked_arrows());
}

TEST(Dependencies, EveryDrawnArrowIsAnInclude) {
  for (const auto& [folder, seen] : drawn_arrows()) {
    const auto real = includes().folders.find(folder);
    ASSERT_NE(real, includes().folders.end()) << folder << " is drawn, but has no source file";
    for (const std::string& other : seen)
      EXPECT_TRUE(real->second.contains(other)) << folder << " --> " << other << " is not needed";
  }
}

TEST(Dependencies, TheFoldersAreLayers) {
  const Folders arrows = drawn_arrows();
  for (const auto& [folder, seen] : arrows) {
    std::set<std::string> reached;
    reach(arrows, folder, reached);
    EXPECT_FALSE(reached.contains(folder)) << folder << " sees itself along the arrows";
  }
}

TEST(Dependencies, TheTableNamesEveryFolderAndItsLibraries) {
  const Folders rows = table_rows();
  for (const auto& [folder, libraries] : includes().libraries) {
    const auto row = rows.find(folder);
    if (row == rows.end()) {
      ADD_FAILURE() << folder << " is not in the table";
      continue;
    }
    for (const std::string& library : libraries)
      EXPECT_TRUE(row->second.contains(library)) << includes().where.at({folder, library}) << ": "
                                                 << folder << " must not see " << library;
    for (const std::string& library : row->second)
      EXPECT_TRUE(libraries.contains(library)) << folder << " does not use " << library;
  }
  for (const auto& [folder, libraries] : rows)
    EXPECT_TRUE(includes().libraries.contains(folder)) << folder << " has no source file";
}

/// The rule that no drawing changes.
TEST(Dependencies, OnlyCaptureSeesTorchAndItNeverSeesTheApp) {
  for (const auto& [folder, libraries] : includes().libraries) {
    if (!folder.starts_with("capture")) {
      EXPECT_FALSE(libraries.contains("libtorch")) << includes().where.at({folder, "libtorch"});
    }
    if (folder.starts_with("analysis") || folder.starts_with("capture")) {
      for (const char* gui : {"Dear ImGui", "GLFW", "OpenGL", "Cairo", "Fontconfig"})
        EXPECT_FALSE(libraries.contains(gui)) << includes().where.at({folder, gui});
    }
  }
  for (const auto& [folder, seen] : includes().folders) {
    const std::string top = folder.substr(0, folder.find('/'));
    for (const std::string& other : seen) {
      const std::string other_top = other.substr(0, other.find('/'));
      EXPECT_TRUE(other_top == top || other_top == "analysis")
          << includes().where.at({folder, other}) << ": " << folder << " includes " << other;
    }
  }
}

TEST(Dependencies, OnlyStudiesSeeSqliteAndMpi) {
  int seen = 0;
  for (const auto& [folder, libraries] : includes().libraries) {
    for (const char* library : {"SQLite", "MPI"}) {
      if (!libraries.contains(library)) continue;
      ++seen;
      EXPECT_EQ(folder.rfind("analysis/study", 0), 0U) << includes().where.at({folder, library});
    }
  }
  EXPECT_EQ(seen, 2);
}

TEST(Dependencies, OnlyTheImguiBackEndOfTheScenesSeesImgui) {
  int files = 0;
  for (const auto& entry : fs::directory_iterator(fs::path(KVLOUPE_SOURCE_DIR) / "app/scene")) {
    ++files;
    if (entry.path().stem() == "imgui_backend") continue;
    std::ifstream in(entry.path());
    for (std::string line; std::getline(in, line);)
      EXPECT_EQ(line.find("#include <imgui"), std::string::npos) << entry.path();
  }
  EXPECT_GT(files, 10);
}

}  // namespace
