#define PCRE2_CODE_UNIT_WIDTH 8
#include "capture/tokenizer/hugging_face/regex.h"

#include <pcre2.h>

#include <algorithm>
#include <array>

#include "analysis/base/core/error.h"
#include "analysis/base/text/text.h"
#include "capture/tokenizer/unicode.h"

namespace kvloupe {

namespace {

constexpr std::size_t kLongestPattern = 1U << 15U;
constexpr std::uint32_t kMostSteps = 10'000'000;    // as Oniguruma's own limit
constexpr std::uint32_t kMostMemory = 256U << 10U;  // KiB
constexpr std::string_view kHint =
    "only patterns that mean the same to Oniguruma and PCRE2 are supported";

/// Rewrites an Oniguruma expression for PCRE2. Both agree on nearly everything that tokenizers use.
/// They differ in \s (PCRE2's has U+180E, which is not White_Space since Unicode 6.3), so it is
/// spelled out. Syntax not known to agree is refused.
class Translator {
 public:
  Translator(std::string_view expression, const JsonPart& part) : rest_(expression), part_(part) {}

  std::string translate() {
    while (!rest_.empty()) {
      const char c = rest_.front();
      if (c == '\\') {
        escape();
      } else if (in_class_) {
        in_class(c);
      } else if (c == '[') {
        copy(1);
        if (starts("^")) copy(1);
        if (starts("]")) refuse("an empty set");
        in_class_ = true;
      } else if (c == '(') {
        group();
      } else if (c == '{') {
        quantifier();
      } else {
        copy(1);
      }
    }
    return std::move(out_);
  }

 private:
  static constexpr std::string_view kSpaces = "\\x09-\\x0D\\x85\\p{Z}";

  [[noreturn]] void refuse(std::string_view what) const {
    part_.refuse("pattern with " + std::string(what), std::string(kHint));
  }
  bool starts(std::string_view text) const { return rest_.substr(0, text.size()) == text; }
  void copy(std::size_t count) {
    out_ += rest_.substr(0, count);
    rest_.remove_prefix(std::min(count, rest_.size()));
  }

  void in_class(char c) {
    if (c == '[') refuse("a set in a set");
    if (starts("&&")) refuse("an intersection of sets (&&)");
    in_class_ = c != ']';
    copy(1);
  }

  void group() {
    if (starts("(*")) refuse("(*");
    if (!starts("(?")) return copy(1);
    for (const std::string_view known :
         {"(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!", "(?i:", "(?-i:"}) {
      if (starts(known)) return copy(known.size());
    }
    // In other places, Ruby's option reaches to the end of the group, and PCRE2's also into the
    // next alternative.
    if (starts("(?i)") && out_.empty()) return copy(4);
    refuse(in_quotes(rest_.substr(0, 4)));
  }

  void quantifier() {
    const std::size_t end = rest_.find('}');
    if (end == rest_.npos || starts("{,"))
      refuse("the quantifier " + in_quotes(rest_.substr(0, 8)));
    const std::string_view counts = rest_.substr(1, end - 1);
    if (counts.empty() || counts.find_first_not_of("0123456789,") != counts.npos) {
      refuse("the quantifier " + in_quotes(rest_.substr(0, 8)));
    }
    // A second + is possessive in PCRE2 and another repetition in Ruby.
    const std::string_view behind = rest_.substr(end + 1, 1);
    if (behind == "+") refuse("a possessive {}+");
    // {n}? is lazy in PCRE2, so it still matches n times; in Ruby it matches n times or not at all.
    if (behind == "?" && counts.find(',') == counts.npos) refuse("an optional {n}?");
    copy(end + 1);
  }

  void escape() {
    const char c = rest_.size() > 1 ? rest_[1] : '\0';
    const auto is_alphanumeric = [](char x) {
      return (x >= '0' && x <= '9') || (x >= 'a' && x <= 'z') || (x >= 'A' && x <= 'Z');
    };
    if (c == '\0') refuse("a backslash at its end");
    if (c == 's') {
      out_ += in_class_ ? std::string(kSpaces) : "[" + std::string(kSpaces) + "]";
      rest_.remove_prefix(2);
    } else if (c == 'S' && !in_class_) {
      out_ += "[^" + std::string(kSpaces) + "]";
      rest_.remove_prefix(2);
    } else if (c == 'p' || c == 'P') {
      property();
    } else if (c == 'x') {
      const std::size_t end = rest_.substr(2, 1) == "{" ? rest_.find('}') : 3;
      if (end >= rest_.size()) refuse("an unfinished \\x");
      copy(end + 1);
    } else if (c == 'u') {
      if (rest_.size() < 6) refuse("an unfinished \\u");
      out_ += "\\x{" + std::string(rest_.substr(2, 4)) + "}";
      rest_.remove_prefix(6);
    } else if (std::string_view("SdDrntf").find(c) != std::string_view::npos ||
               !is_alphanumeric(c)) {
      copy(1 + std::max<std::size_t>(character_length(rest_.substr(1)), 1));
    } else {
      refuse("\\" + std::string(1, c));
    }
  }

  /// \p{L}, \P{^Lu}, \p{Han}. By a script's bare name Oniguruma means the characters of that
  /// script, PCRE2 also those that the script shares with others, such as 。 for Han.
  void property() {
    const std::size_t end = rest_.find('}');
    if (rest_.substr(2, 1) != "{" || end == rest_.npos) refuse("\\p without braces");
    const bool negated = rest_.substr(3, 1) == "^";
    const std::string_view name = rest_.substr(negated ? 4 : 3, end - (negated ? 4 : 3));
    const std::string_view subcategories = [&]() -> std::string_view {
      for (const std::string_view group :
           {"Ccfnos", "Lmotul", "Mcen", "Ndlo", "Pcdefios", "Sckmo", "Zlps"}) {
        if (name.substr(0, 1) == group.substr(0, 1)) return group.substr(1);
      }
      return {};
    }();
    const bool is_category =
        !subcategories.empty() &&
        (name.size() == 1 || (name.size() == 2 && subcategories.find(name[1]) != name.npos));
    const bool is_word = !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    });
    if (!is_word) refuse(in_quotes(rest_.substr(0, end + 1)));
    if (is_category) return copy(end + 1);
    out_ +=
        std::string(rest_.substr(0, 3)) + (negated ? "^" : "") + "sc:" + std::string(name) + "}";
    rest_.remove_prefix(end + 1);
  }

  std::string_view rest_;
  const JsonPart& part_;
  std::string out_;
  bool in_class_ = false;
};

std::string message(int code) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

template <auto free>
struct Freed {
  template <typename T>
  void operator()(T* pointer) const {
    free(pointer);
  }
};

}  // namespace

Regex::Regex(const JsonPart& part) {
  const JsonPart pattern = part.part("pattern");
  if (const auto literal = pattern.text_if("String")) {
    if (literal->empty()) pattern.fail("is empty");
    literal_ = *literal;
  } else {
    compile(pattern.text("Regex"), part);
  }
}

Regex::Regex(const std::string& expression, const JsonPart& part) { compile(expression, part); }

void Regex::compile(const std::string& expression, const JsonPart& part) {
  if (expression.size() > kLongestPattern) part.fail("the pattern is longer than 32 KiB");
  const std::string translated = Translator(expression, part).translate();
  const std::unique_ptr<pcre2_compile_context, Freed<pcre2_compile_context_free>> context(
      pcre2_compile_context_create(nullptr));
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int problem = 0;
  PCRE2_SIZE place = 0;
  // Anchored: find_all walks the places itself, so that each costs at most the limit of one match.
  // Ruby's ^ and $ are those of a line.
  pcre2_code* code = pcre2_compile(
      reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
      PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &problem,
      &place, context.get());
  if (code == nullptr) {
    part.refuse("pattern " + in_quotes(expression), "PCRE2 says: " + message(problem));
  }
  code_ = std::shared_ptr<void>(code, Free());
}

void Regex::Free::operator()(void* code) const { pcre2_code_free(static_cast<pcre2_code*>(code)); }

std::vector<Regex::Match> Regex::find_all(std::string_view text, const Limits& limits) const {
  std::vector<Match> matches;
  if (!literal_.empty()) {
    for (std::size_t at = text.find(literal_); at != text.npos;
         at = text.find(literal_, at + literal_.size())) {
      matches.push_back({at, at + literal_.size()});
    }
    return matches;
  }
  const auto* code = static_cast<const pcre2_code*>(code_.get());
  const std::unique_ptr<pcre2_match_data, Freed<pcre2_match_data_free>> data(
      pcre2_match_data_create(1, nullptr));
  const std::unique_ptr<pcre2_match_context, Freed<pcre2_match_context_free>> context(
      pcre2_match_context_create(nullptr));
  if (!data || !context) throw std::bad_alloc();
  // Each space of a run takes a step, so a long text needs more steps.
  const std::size_t most = std::min<std::size_t>(kMostSteps + 16 * text.size(), 0xFFFFFFFFU);
  pcre2_set_match_limit(context.get(), static_cast<std::uint32_t>(most));
  pcre2_set_heap_limit(context.get(), kMostMemory);
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  std::size_t last_end = text.npos;
  for (std::size_t at = 0; at <= text.size();) {
    const int found =
        pcre2_match(code, subject, text.size(), at, PCRE2_NO_UTF_CHECK, data.get(), context.get());
    if (found < 0 && found != PCRE2_ERROR_NOMATCH) {
      throw WorkError("a pattern of tokenizer.json takes too long to match: " + message(found));
    }
    limits.check_time();
    std::size_t end = at;
    if (found >= 0) {
      end = pcre2_get_ovector_pointer(data.get())[1];
      if (end > at || last_end != at) matches.push_back({at, end});
      last_end = end;
    }
    at = end > at
             ? end
             : at + (at < text.size() ? std::max<std::size_t>(character_length(text.substr(at)), 1)
                                      : 1);
  }
  return matches;
}

}  // namespace kvloupe
