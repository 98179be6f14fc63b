// Plugins that must be refused, one for each value of CASE.

#include <kvloupe/score.h>

#if CASE == 0  // no symbol

extern "C" KVLOUPE_PLUGIN_EXPORT int another_symbol() { return 0; }

#elif CASE == 1  // another interface

extern "C" const kvloupe_plugin kvloupe_policy_plugin = {
    KVLOUPE_POLICY_INTERFACE + 41, sizeof(kvloupe_plugin), "from another time", nullptr};

#elif CASE == 2  // an exception that leaves the function

static std::int32_t register_scores(const kvloupe_host*, char*) {
  throw std::runtime_error("boom");
}
extern "C" const kvloupe_plugin kvloupe_policy_plugin = {
    KVLOUPE_POLICY_INTERFACE, sizeof(kvloupe_plugin), "rude", register_scores};

#elif CASE == 3  // half a struct

extern "C" const kvloupe_plugin kvloupe_policy_plugin = {KVLOUPE_POLICY_INTERFACE, 8, nullptr,
                                                         nullptr};

#elif CASE == 4  // a score that is half a struct

static std::int32_t register_scores(const kvloupe_host* host, char* error) {
  kvloupe_score score = {};
  score.size = 16;
  return host->add_score(host, &score, error);
}
extern "C" const kvloupe_plugin kvloupe_policy_plugin = {
    KVLOUPE_POLICY_INTERFACE, sizeof(kvloupe_plugin), "short", register_scores};

#else

namespace {

using namespace kvloupe::plugin;

class Nothing : public Score {
 public:
  Nothing(const Layer&, const Arguments&) {}
  void score(const Step&, int, std::span<float>) override {}
};

[[maybe_unused]] Info named(const char* name) {
  Info info;
  info.name = name;
  info.summary = "nothing";
  info.formula = "none";
  info.source = "kvloupe's tests";
  return info;
}

}  // namespace

KVLOUPE_POLICY_PLUGIN("bad", list) {
#if CASE == 5
  list.add<Nothing>(named("x_good"));  // must not be added either
  list.add<Nothing>(named("keydiff"));
#elif CASE == 6
  list.add<Nothing>(named("small keys"));
#elif CASE == 7
  static_cast<void>(list);
  throw std::runtime_error("no licence today");
#elif CASE == 8
  Info info = named("x_range");
  info.parameters = {number("power", 9.0, 0.0, 1.0, "out of range")};
  list.add<Nothing>(info);
#elif CASE == 9
  static_cast<void>(list);
#elif CASE == 10
  list.add<Nothing>(named("x_twice"));
  try {
    list.add<Nothing>(named("x_twice"));
  } catch (const std::exception&) {  // overlooked
  }
#elif CASE == 11
  Info info = named("x_words");
  info.parameters = {word("mode", "fast", {"slow"}, "a default that is no word")};
  list.add<Nothing>(info);
#elif CASE == 12
  Info info = named("x_same");
  info.parameters = {flag("a", true, "one"), flag("a", true, "two")};
  list.add<Nothing>(info);
#elif CASE == 13
  Info info = named("x_source");
  info.source = "";
  list.add<Nothing>(info);
#endif
}

#endif
