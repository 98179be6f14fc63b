#include "tests/figure/page_reader.h"

#include <sstream>
#include <stdexcept>

namespace kvloupe::test {

using nlohmann::json;

json page_data(std::string_view page) {
  constexpr std::string_view start = "<script type=\"application/json\" id=\"data\">";
  const std::size_t from = page.find(start);
  if (from == std::string_view::npos) throw std::runtime_error("the page has no data");
  const std::size_t to = page.find("</script>", from);
  return json::parse(page.substr(from + start.size(), to - from - start.size()));
}

std::vector<std::string> page_texts(const json& figure, std::size_t picture) {
  // Printable ASCII but for what JSON, HTML and XML give a meaning.
  std::string alphabet;
  for (char c = ' '; c < '\x7f'; ++c) {
    if (std::string_view("\"&<>\\").find(c) == std::string_view::npos) alphabet += c;
  }
  const auto base = static_cast<int>(alphabet.size());
  const std::string stream = figure["frames"][picture]["v"].get<std::string>();
  std::size_t at = 0;
  const auto digit = [&] {
    const std::size_t found = alphabet.find(stream.at(at++));
    if (found == std::string::npos) throw std::runtime_error("no character of a stream");
    return static_cast<int>(found);
  };
  const auto number = [&] {
    const int lead = digit();
    if (lead < 40) return lead;
    const int next = digit();
    if (lead < 78) return 40 + (lead - 40) * base + next;
    return 40 + 38 * base + (lead - 78) * base * base + next * base + digit();
  };
  std::vector<std::string> texts;
  while (at < stream.size()) {
    const int code = number();
    if (code == 0) {
      const std::string last = texts.at(texts.size() - 1);
      texts.insert(texts.end(), static_cast<std::size_t>(number()), last);
      continue;
    }
    const auto words = figure["words"].at(code - 1).get<std::string>();
    std::string text;
    for (const char c : words) {
      if (c == '\1') {
        text += figure["numbers"].at(number()).get<std::string>();
      } else {
        text += c;
      }
    }
    texts.push_back(std::move(text));
  }
  return texts;
}

std::string page_picture(const json& figure, std::size_t picture) {
  std::istringstream ranges(figure["frames"][picture]["s"].get<std::string>());
  std::string out;
  for (std::string range; ranges >> range;) {
    const std::size_t dash = range.find('-');
    const std::size_t from = std::stoul(range);
    const std::size_t to = dash == std::string::npos ? from : std::stoul(range.substr(dash + 1));
    for (std::size_t i = from; i <= to; ++i) out += figure["pool"].at(i).get<std::string>();
  }
  return out;
}

}  // namespace kvloupe::test
