#include "trainer/prompt_file.h"

namespace kvloupe::train {

std::string prompt_file(const NeedlePrompt& prompt, const Vocabulary& vocabulary) {
  std::string file;
  const auto segment = [&](const char* name, int begin, int end) {
    if (begin >= end) return;
    const auto size = static_cast<std::size_t>(end - begin);
    std::string text = vocabulary.text({prompt.ids.data() + begin, size});
    while (text.ends_with('\n')) text.pop_back();
    while (text.starts_with('\n')) text.erase(0, 2);  // the newline and the space after it
    if (!text.empty()) file += std::string("@@") + name + "\n " + text + "\n";
  };
  int at = 1;  // BOS is the tokenizer's
  for (std::size_t i = 0; i < prompt.needle_begin.size(); ++i) {
    segment("context", at, prompt.needle_begin[i]);
    segment("needle", prompt.needle_begin[i], prompt.needle_end[i]);
    at = prompt.needle_end[i];
  }
  segment("context", at, prompt.question_begin);
  segment("question", prompt.question_begin, static_cast<int>(prompt.ids.size()));
  return file;
}

}  // namespace kvloupe::train
