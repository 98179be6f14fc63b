#include "tests/figure/well_formed.h"

#include <cctype>
#include <set>
#include <vector>

namespace kvloupe::test {

namespace {

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  std::string read() {
    while (at_ < text_.size() && problem_.empty()) {
      if (take("<![CDATA[")) {
        skip_to("]]>");
      } else if (take("<!DOCTYPE")) {
        skip_to(">");
      } else if (take("</")) {
        const std::string_view name = take_name();
        if (open_.empty() || open_.back() != name) {
          fail("closes what is not open");
        } else {
          open_.pop_back();
        }
        if (!take(">")) fail("an end tag does not end");
      } else if (take("<")) {
        element();
      } else {
        character(text_[at_] == ']' && text_.substr(at_).starts_with("]]>"));
      }
    }
    if (problem_.empty() && !open_.empty()) problem_ = "not closed: " + std::string(open_.back());
    return problem_;
  }

 private:
  void fail(const std::string& what) {
    if (problem_.empty())
      problem_ = what + ": " + std::string(text_.substr(at_ < 60 ? 0 : at_ - 60, 120));
  }
  bool take(std::string_view word) {
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }
  void skip_to(std::string_view word) {
    const std::size_t end = text_.find(word, at_);
    if (end == std::string_view::npos) return fail("does not end");
    at_ = end + word.size();
  }
  void skip_space() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
  }
  std::string_view take_name() {
    const std::size_t start = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 ||
                                  text_[at_] == '-' || text_[at_] == ':')) {
      ++at_;
    }
    if (at_ == start) fail("a name is missing");
    return text_.substr(start, at_ - start);
  }
  void character(bool forbidden) {
    const auto c = static_cast<unsigned char>(text_[at_]);
    if (forbidden || (c < 0x20 && c != '\n' && c != '\t' && c != '\r'))
      fail("a character that XML cannot hold");
    if (c == '&') {
      const std::size_t end = text_.find(';', at_);
      static const std::set<std::string_view> known{"amp", "lt", "gt", "quot"};
      if (end == std::string_view::npos || !known.contains(text_.substr(at_ + 1, end - at_ - 1)))
        fail("an entity there is not");
    }
    ++at_;
  }
  void element() {
    const std::string_view name = take_name();
    std::set<std::string_view> attributes;
    for (;;) {
      skip_space();
      if (take("/>")) return;
      if (take(">")) {
        open_.push_back(name);
        return;
      }
      const std::string_view attribute = take_name();
      if (!problem_.empty()) return;
      if (!attributes.insert(attribute).second) return fail("an attribute twice");
      if (!take("=\"")) return fail("an attribute without a quoted value");
      while (at_ < text_.size() && text_[at_] != '"') character(text_[at_] == '<');
      if (!take("\"")) return fail("an attribute does not end");
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::vector<std::string_view> open_;
  std::string problem_;
};

}  // namespace

std::string why_not_well_formed(std::string_view text) { return Reader(text).read(); }

}  // namespace kvloupe::test
