#include "app/window/widgets/text_search.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <clocale>
#include <cwctype>

#include "analysis/base/text/utf8.h"
#include "app/window/widgets/numbers.h"

#if defined(__APPLE__)
#include <xlocale.h>
#endif

namespace kvloupe::window {

namespace {

/// A character without its case, whatever the locale of the program.
unsigned folded(unsigned character) {
  if (character == U'↵' || character == U'→') return U' ';
  if (character < 0x80) {
    return character >= 'A' && character <= 'Z' ? character - 'A' + 'a' : character;
  }
  static const locale_t unicode = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  if (unicode == nullptr) return character;  // then only ASCII has no case
  return static_cast<unsigned>(towlower_l(static_cast<wint_t>(character), unicode));
}

struct Character {
  unsigned folded = 0;
  int token = 0;
  std::size_t begin = 0, end = 0;  // bytes of the token's text
};

void append_folded(std::string_view text, int token, std::vector<Character>& out) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = character_length(text.substr(at));
    const unsigned character = length > 0 ? static_cast<unsigned>(first_character(text.substr(at)))
                                          : static_cast<unsigned char>(text[at]);
    const std::size_t end = at + std::max<std::size_t>(1, length);
    out.push_back({folded(character), token, at, end});
    at = end;
  }
}

}  // namespace

std::vector<TextHit> find_text(std::span<const std::string> texts, std::string_view query) {
  std::vector<Character> text, wanted;
  append_folded(query, 0, wanted);
  std::vector<TextHit> hits;
  if (wanted.empty()) return hits;
  for (std::size_t i = 0; i < texts.size(); ++i) append_folded(texts[i], static_cast<int>(i), text);
  const auto same = [](const Character& a, const Character& b) { return a.folded == b.folded; };
  for (auto from = text.begin();;) {
    const auto found = std::search(from, text.end(), wanted.begin(), wanted.end(), same);
    if (found == text.end()) return hits;
    from = found + static_cast<std::ptrdiff_t>(wanted.size());
    const Character& last = *(from - 1);
    hits.push_back({found->token, found->begin, last.token, last.end});
  }
}

void TextSearch::open() {
  open_ = selects_ = true;
  take_keyboard();
}

void TextSearch::take_keyboard() {
  focus_ = waits_ = true;
  asked_in_ = ImGui::GetFrameCount();
}

bool TextSearch::takes_keyboard() { return std::exchange(focus_, false); }

bool TextSearch::waits_for_keyboard() const {
  constexpr int kFrames = 4;  // a field out of sight does not get it at all
  return open_ && waits_ && ImGui::GetFrameCount() - asked_in_ < kFrames;
}

void TextSearch::follow(const std::string& key, std::span<const std::string> texts) {
  if (key == key_ && query == searched_) return;
  const int from =
      key == key_ && !hits_.empty() ? hits_[static_cast<std::size_t>(current_)].first : 0;
  key_ = key;
  searched_ = query;
  hits_ = find_text(texts, query);
  const auto next = std::find_if(hits_.begin(), hits_.end(),
                                 [&](const TextHit& hit) { return hit.last >= from; });
  current_ = next == hits_.end() ? 0 : static_cast<int>(next - hits_.begin());
  ++turn_;
}

void TextSearch::go(int by) {
  if (hits_.empty()) return;
  const int count = static_cast<int>(hits_.size());
  current_ = ((current_ + by) % count + count) % count;
  ++turn_;
}

const TextHit* TextSearch::hit() const {
  return hits_.empty() ? nullptr : &hits_[static_cast<std::size_t>(current_)];
}

std::string TextSearch::place_text() const {
  if (query.empty()) return "";
  if (hits_.empty()) return "not found";
  return fmt::format("{} of {}", count_text(current_ + 1),
                     count_text(static_cast<long>(hits_.size())));
}

}  // namespace kvloupe::window
