// A chat template.
#include <nlohmann/json.hpp>

#include "capture/tokenizer/jinja_template.h"
#include "tests/fuzz/fuzz_target.h"

KVLOUPE_FUZZ_TARGET(chat_template) {
  using namespace kvloupe;
  try {
    const std::string text = run_jinja_template(
        input, {{"messages", {{{"role", "user"}, {"content", " a\nb "}}}}, {"bos_token", "<s>"}});
    fuzz::require(text.size() <= std::size_t{1} << 27U, "a text without bounds");
  } catch (const TemplateProblem& problem) {
    fuzz::require(problem.what()[0] != '\0', "a problem without words");
  }
}
