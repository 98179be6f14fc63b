#include "app/window/panels/token_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string_view>
#include <utility>

#include "analysis/trace/loops.h"
#include "app/plot/pattern.h"
#include "app/plot/printable.h"
#include "app/window/widgets/shaped_text.h"

namespace kvloupe::window {

namespace {
constexpr float kLineHeight = 1.6F;
constexpr float kColumn = 600.0F;  // units: least width of a column where there are more than one
constexpr int kMostColumns = 4;
constexpr float kBetween = 24.0F;  // columns
constexpr float kGutter = 12.0F;   // left of a column: what its lines belong to
constexpr std::string_view kLineEnd = "↵";

bool is_there(const StepTokens& tokens, std::size_t token) {
  return figure::is_kept(tokens.states[token]);
}

/// Kept by A only, by B only, by both, by neither.
ImU32 difference(const TokenText::Input& in, std::size_t token) {
  const bool a = is_there(*in.tokens, token);
  const bool b = token < in.other->states.size() && is_there(*in.other, token);
  if (a && b) return faded(in.colours.secondary, 0.28F);
  if (a || b) return faded(a ? in.colours.retained : in.colours.evicted, 0.36F);
  return 0;
}

/// A pattern over a token's ground. The grid starts at the text's corner, so that it scrolls along.
void draw_pattern(ImDrawList& list, figure::Pattern pattern, ImU32 colour, ImVec2 corner,
                  ImVec2 low, ImVec2 high, float scale) {
  constexpr float kSpacing = 4.0F;  // pixels
  const double spacing = kSpacing * scale;
  const figure::Rect rect{low.x - corner.x, low.y - corner.y, high.x - low.x, high.y - low.y};
  const auto pixel = [&](figure::Point at) {
    return ImVec2{corner.x + static_cast<float>(at.x), corner.y + static_cast<float>(at.y)};
  };
  if (pattern == figure::Pattern::dots) {
    figure::pattern_dots(rect, spacing, [&](figure::Point at) {
      list.AddCircleFilled(pixel(at), 0.9F * scale, colour, 6);
    });
  } else {
    figure::pattern_lines(pattern, rect, spacing, [&](figure::Point from, figure::Point to) {
      list.AddLine(pixel(from), pixel(to), colour, std::max(1.0F, 0.8F * scale));
    });
  }
}

/// The pattern of a token's fate, or of who keeps it; and its colour.
std::pair<figure::Pattern, ImU32> pattern_of(const TokenText::Input& in, std::size_t token) {
  using figure::TokenState;
  if (!in.patterns || !in.tokens) return {figure::Pattern::none, 0};
  constexpr float kStrength = 0.5F;  // the words stay readable
  if (in.other) {
    const bool a = is_there(*in.tokens, token);
    const bool b = token < in.other->states.size() && is_there(*in.other, token);
    if (a == b) return {figure::Pattern::none, 0};
    return a ? std::pair{figure::Pattern::rising, faded(in.colours.retained, kStrength)}
             : std::pair{figure::Pattern::falling, faded(in.colours.evicted, kStrength)};
  }
  if (in.colour != TokenText::Colour::fate) return {figure::Pattern::none, 0};
  const TokenState state = in.tokens->states[token];
  const ImU32 colour = state == TokenState::protected_  ? in.colours.protection
                       : state == TokenState::synthetic ? in.colours.synthetic
                       : state == TokenState::merged    ? in.colours.merged
                                                        : in.colours.evicted;
  // Tokens that left before are struck through.
  if (!figure::is_kept(state) && !in.tokens->leaving[token]) return {figure::Pattern::none, 0};
  return {figure::state_pattern(state), faded(colour, kStrength)};
}

ImU32 background(const TokenText::Input& in, std::size_t token) {
  using figure::TokenState;
  if (!in.tokens) return 0;
  if (in.other) return difference(in, token);
  if (in.colour == TokenText::Colour::heads) {
    if (!in.in_heads || token >= in.in_heads->size()) return 0;
    const float share = (*in.in_heads)[token];
    return share > 0.0F ? faded(in.colours.retained, 0.05F + 0.45F * share) : 0;
  }
  if (in.colour == TokenText::Colour::score) {
    const int rank = in.tokens->ranks[token];
    if (rank == 0 || in.tokens->scored < 2) return 0;
    const float share =
        1.0F - static_cast<float>(rank - 1) / static_cast<float>(in.tokens->scored - 1);
    return faded(in.colours.retained, 0.04F + 0.32F * share * share);
  }
  switch (in.tokens->states[token]) {
    case TokenState::retained:
      return faded(in.colours.retained, 0.16F);
    case TokenState::protected_:
      return faded(in.colours.protection, 0.16F);
    case TokenState::synthetic:
      return faded(in.colours.synthetic, 0.16F);
    case TokenState::evicted:
      return in.tokens->leaving[token] ? faded(in.colours.evicted, 0.24F) : 0;
    case TokenState::merged:
      return in.tokens->leaving[token] ? faded(in.colours.merged, 0.3F) : 0;
    case TokenState::ahead:
    case TokenState::beyond_window:
      break;
  }
  return 0;
}
/// The name of a token's segment; empty where it has none. A segment that only divides the text
/// (the role of a chat's message) does not count.
std::string segment_of(const TokenTable& table, int token) {
  const auto at = static_cast<std::size_t>(token);
  if (at >= table.segment.size() || table.segment[at] >= table.segment_names.size()) return "";
  const std::string& name = table.segment_names[table.segment[at]];
  return name == "special" ? "" : name;
}
}  // namespace

struct TokenText::Frame {
  const Input& in;
  ImDrawList& list;
  float size = 0.0F;   // of the letters
  float line = 0.0F;   // height
  float space = 0.0F;  // width
  bool over = false;   // the pointer
  ImVec2 mouse{};

  bool is_followed(int token) const {
    return in.followed != nullptr &&
           std::binary_search(in.followed->begin(), in.followed->end(), token);
  }
};

void TokenText::make_shown(const std::string& trace_key, const TokenTable& table, int count) {
  if (trace_key == shown_key_ && shown_.size() == static_cast<std::size_t>(count)) return;
  shown_key_ = trace_key;
  shown_.resize(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < shown_.size(); ++i) {
    shown_[i] = i < table.text.size() ? figure::printable(table.text[i]) : std::to_string(i) + " ";
  }
}

const std::vector<std::string>& TokenText::shown(const std::string& trace_key,
                                                 const TokenTable& table, int count) {
  make_shown(trace_key, table, count);
  return shown_;
}

/// The name of the segment that begins at a token; empty where none does.
std::string TokenText::name_at(const Input& in, int token) const {
  const std::string here = segment_of(in.table, token);
  if (token == in.prompt || (token == in.given.range.end && !in.given.range.empty())) {
    const std::string origin = in.given.range.contains(token) ? "given" : "generated";
    return here.empty() || here == origin ? origin : here + " · " + origin;
  }
  if (here.empty()) return "";
  for (int before = token - 1; before >= 0; --before) {
    if (const std::string name = segment_of(in.table, before); !name.empty())
      return name == here ? "" : here;
  }
  return here;
}

/// Tokens in their parts between line breaks, and the names of segments.
void TokenText::make_pieces(const Input& in) {
  const float size = in.fonts.mono->FontSize;
  pieces_.clear();
  first_piece_.clear();
  names_.assign(shown_.size(), "");
  const std::size_t known = std::min(in.table.ids.size(), shown_.size());
  const Loops loops = find_loops(std::span(in.table.ids).first(known), in.prompt);
  auto loop = loops.spans.begin();
  for (std::size_t i = 0; i < shown_.size(); ++i) {
    const std::string& text = shown_[i];
    first_piece_.push_back(pieces_.size());
    names_[i] = name_at(in, static_cast<int>(i));
    for (; loop != loops.spans.end() && loop->first == static_cast<int>(i); ++loop) {
      names_[i] += fmt::format("{}loop, {} times", names_[i].empty() ? "" : " · ", loop->repeats());
    }
    for (std::size_t begin = 0; begin == 0 || begin < text.size();) {
      const std::size_t found = text.find(kLineEnd, begin);
      const std::size_t end = found == std::string::npos ? text.size() : found + kLineEnd.size();
      Piece piece{.token = static_cast<int>(i), .begin = begin, .end = end};
      piece.width = line_width(in.fonts, in.fonts.mono, size, text.substr(begin, end - begin));
      if (begin == 0 && !names_[i].empty()) {
        const ImFont* font = in.fonts.secondary;
        piece.lead =
            line_width(in.fonts, font, font->FontSize, names_[i]) + 16.0F * in.fonts.scale();
      }
      pieces_.push_back(piece);
      begin = end;
      if (text.empty()) break;
    }
  }
  first_piece_.push_back(pieces_.size());
}

void TokenText::lay_out(const Input& in, float width) {
  ++layouts_;
  make_pieces(in);
  first_piece_of_line_.assign(1, 0);
  const auto line = [&] { return static_cast<int>(first_piece_of_line_.size()) - 1; };
  float x = 0.0F;
  std::size_t word = 0;  // where the last word of this line starts
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    Piece& piece = pieces_[i];
    const std::string& text = shown_[static_cast<std::size_t>(piece.token)];
    const std::size_t start = first_piece_of_line_.back();
    if (text[piece.begin] == ' ' || piece.lead > 0.0F) word = i;
    if (i > start && x + piece.lead + piece.width > width) {
      // The whole word moves to the next line, unless it fills this one.
      const std::size_t first = word > start ? word : i;
      first_piece_of_line_.push_back(first);
      x = 0.0F;
      for (std::size_t j = first; j < i; ++j) {
        pieces_[j].x = x;
        pieces_[j].line = line();
        x += pieces_[j].lead + pieces_[j].width;
      }
    }
    piece.x = x;
    piece.line = line();
    x += piece.lead + piece.width;
    const bool ends =
        std::string_view(text).substr(piece.begin, piece.end - piece.begin).ends_with(kLineEnd);
    if (ends && i + 1 < pieces_.size()) {
      first_piece_of_line_.push_back(i + 1);
      word = i + 1;
      x = 0.0F;
    }
  }
  first_piece_of_line_.push_back(pieces_.size());
}

int TokenText::line_of(int token) const {
  return pieces_[first_piece_[static_cast<std::size_t>(token)]].line;
}

TokenRange TokenText::to_show(const Input& in) {
  Seen now{.selected = in.selected, .range = in.range, .step = in.at_step};
  if (in.followed != nullptr && !in.followed->empty()) {
    now.followed = in.followed->front();
    now.followed_last = in.followed->back();
  }
  const TextHit* hit = in.search != nullptr ? in.search->hit() : nullptr;
  now.hit = in.search != nullptr ? in.search->turn() : 0;
  const Seen before = std::exchange(seen_, now);
  const auto one = [](int token) { return TokenRange{token, token + 1}; };
  if (hit != nullptr && now.hit != before.hit) return hit->tokens();
  if (now.followed >= 0 &&
      (now.followed != before.followed || now.followed_last != before.followed_last)) {
    return {now.followed, now.followed_last + 1};
  }
  if (!now.range.empty() && now.range != before.range) return now.range;
  if (now.selected >= 0 && now.selected != before.selected) return one(now.selected);
  if (now.step >= 0 && now.step != before.step && now.selected < 0) return one(now.step);
  return {};
}

TokenText::Place TokenText::place_of(int token) const {
  if (token < 0 || static_cast<std::size_t>(token) + 1 >= first_piece_.size()) return {};
  const Piece& piece = pieces_[first_piece_[static_cast<std::size_t>(token)]];
  const int down = piece.line - first_line_;
  if (rows_ == 0 || down < 0 || down >= rows_ * columns_) return {};
  return {corner_.x + static_cast<float>(down / rows_) * column_pitch_ + piece.x + piece.lead,
          corner_.y + static_cast<float>(down % rows_) * line_height_, piece.width, line_height_};
}

/// Marks the part of a line's text at its left: a thin line for the prompt, a thick one for a named
/// part of it, two lines for generated text, the second of them faint where the text was given.
void TokenText::draw_gutter(const Frame& frame, int line, ImVec2 corner) const {
  const Input& in = frame.in;
  const auto at = static_cast<std::size_t>(line);
  bool generated = false, given = false, named = false, any = false;
  for (std::size_t i = first_piece_of_line_[at]; i < first_piece_of_line_[at + 1]; ++i) {
    const int token = pieces_[i].token;
    const std::string name = segment_of(in.table, token);
    generated |= token >= in.prompt;
    given |= in.given.range.contains(token);
    named |= !name.empty() && name != "context";
    any |= !name.empty();
  }
  const float unit = in.fonts.scale();
  const auto bar = [&](float left, float thick, ImU32 colour) {
    frame.list.AddRectFilled(
        {std::floor(corner.x + left * unit), corner.y},
        {std::floor(corner.x + left * unit) + std::max(1.0F, thick * unit), corner.y + frame.line},
        colour);
  };
  if (generated) {
    bar(0.0F, 1.5F, in.colours.ink);
    bar(3.0F, 1.5F, given ? in.colours.faint : in.colours.ink);
  } else if (named) {
    bar(0.0F, 3.0F, in.colours.secondary);
  } else if (any) {
    bar(1.0F, 1.0F, in.colours.faint);
  }
}

void TokenText::draw_hits(const Frame& frame, const Piece& piece, ImVec2 low, ImVec2 high) const {
  const Input& in = frame.in;
  if (in.search == nullptr) return;
  const std::vector<TextHit>& hits = in.search->hits();
  const std::string& text = shown_[static_cast<std::size_t>(piece.token)];
  auto hit = std::lower_bound(hits.begin(), hits.end(), piece.token,
                              [](const TextHit& one, int token) { return one.last < token; });
  for (; hit != hits.end() && hit->first <= piece.token; ++hit) {
    const std::size_t from = std::max(piece.begin, hit->first == piece.token ? hit->begin : 0);
    const std::size_t to = std::min(piece.end, hit->last == piece.token ? hit->end : text.size());
    if (from >= to) continue;
    const auto width_to = [&](std::size_t end) {
      return line_width(in.fonts, in.fonts.mono, frame.size,
                        text.substr(piece.begin, end - piece.begin));
    };
    const ImVec2 a{low.x + width_to(from), low.y};
    const ImVec2 b{to == piece.end ? high.x : low.x + width_to(to), high.y};
    const bool current = hit - hits.begin() == in.search->current();
    frame.list.AddRectFilled(a, b, faded(in.colours.selection, current ? 0.5F : 0.2F));
    const float unit = in.fonts.scale();
    if (current) {
      // A frame around the whole hit: open where it goes on in the next token.
      frame.list.AddRectFilled(a, {b.x, a.y + 2 * unit}, in.colours.selection);
      frame.list.AddRectFilled({a.x, b.y - 2 * unit}, b, in.colours.selection);
      if (hit->first == piece.token && from == hit->begin)
        frame.list.AddRectFilled(a, {a.x + 2 * unit, b.y}, in.colours.selection);
      if (hit->last == piece.token && to == hit->end)
        frame.list.AddRectFilled({b.x - 2 * unit, a.y}, b, in.colours.selection);
    } else {
      frame.list.AddRectFilled({a.x, b.y - unit}, b, in.colours.selection);
    }
  }
}

/// `corner`: the top left of the column's text in this line.
void TokenText::draw_piece(const Frame& frame, const Piece& piece, ImVec2 corner,
                           Output& out) const {
  const Input& in = frame.in;
  ImDrawList& list = frame.list;
  const auto token = static_cast<std::size_t>(piece.token);
  const float unit = in.fonts.scale();
  const float top = corner.y;
  const float left = corner.x + piece.x + piece.lead;
  const ImVec2 low{left, top + 1};
  const ImVec2 high{left + piece.width, top + frame.line - 1};
  const float baseline_box = std::floor((frame.line - frame.size) / 2);
  if (piece.lead > 0.0F) {
    const ImFont* font = in.fonts.secondary;
    const ImVec2 from{corner.x + piece.x, top + 2 * unit};
    const ImVec2 to{left - 6 * unit, top + frame.line - 2 * unit};
    list.AddRectFilled(from, to, in.colours.control);
    list.AddRectFilled(from, {from.x + 2 * unit, to.y}, in.colours.secondary);
    draw_line(list, in.fonts, font, font->FontSize,
              {from.x + 6 * unit, top + std::floor((frame.line - font->FontSize) / 2)},
              in.colours.ink, names_[token]);
    if (frame.over && ImGui::IsMouseHoveringRect(from, to)) {
      out.segment = segment_of(in.table, piece.token);
    }
  }
  if (const ImU32 fill = background(in, token)) list.AddRectFilled(low, high, fill);
  if (const auto [pattern, colour] = pattern_of(in, token); pattern != figure::Pattern::none) {
    const ImVec2 grid{corner.x, top - static_cast<float>(piece.line) * frame.line};
    draw_pattern(list, pattern, colour, grid, low, high, unit);
  }
  draw_hits(frame, piece, low, high);
  ImU32 ink = in.colours.ink;
  const auto state = in.tokens ? in.tokens->states[token] : figure::TokenState::retained;
  const bool leaving = in.tokens && in.tokens->leaving[token];
  const bool merged = state == figure::TokenState::merged;
  const bool gone = !in.other && (state == figure::TokenState::evicted || (merged && !leaving));
  const bool nobody_has = in.other && in.tokens && difference(in, token) == 0;
  const bool some_have = in.colour == Colour::heads && in.in_heads && (*in.in_heads)[token] > 0.0F;
  const bool faint = in.colour == Colour::heads ? !some_have : !figure::is_kept(state) && !leaving;
  if (nobody_has || (!in.other && faint)) ink = in.colours.secondary;
  if (in.other && in.tokens && is_there(*in.tokens, token) != is_there(*in.other, token)) {
    // A second cue for print in grey: above what only A keeps, below what only B keeps.
    const bool a = is_there(*in.tokens, token);
    const float y = a ? low.y + 0.5F : high.y - 0.5F;
    list.AddLine({low.x, y}, {high.x, y}, a ? in.colours.retained : in.colours.evicted, 2.0F);
  }
  const std::string& whole = shown_[token];
  if (gone && in.colour == Colour::fate) {
    // Under the letters and not through the spaces, so that words stay readable.
    const std::size_t letters = whole.find_first_not_of(' ', piece.begin);
    const float from = letters == std::string::npos
                           ? piece.width
                           : static_cast<float>(letters - piece.begin) * frame.space;
    const float y = std::floor(top + frame.line / 2) + 0.5F;
    list.AddLine({low.x + from, y}, {high.x, y}, faded(in.colours.evicted, 0.35F));
  }
  const ImVec2 at{low.x, top + baseline_box};
  if (piece.whole() && piece.end == whole.size()) {
    draw_line(list, in.fonts, in.fonts.mono, frame.size, at, ink, whole);
  } else {
    draw_line(list, in.fonts, in.fonts.mono, frame.size, at, ink,
              whole.substr(piece.begin, piece.end - piece.begin));
  }
  if (in.colour == Colour::fate && !in.other && state == figure::TokenState::protected_) {
    list.AddLine({low.x, high.y - 0.5F}, {high.x, high.y - 0.5F}, in.colours.protection);
  }
  if (in.given.other(piece.token) != nullptr) {  // dots: the model would not have written this
    for (float x = low.x + unit; x < high.x; x += 4 * unit)
      list.AddRectFilled({x, high.y - 2 * unit}, {x + 2 * unit, high.y}, in.colours.evicted);
  }
  // Followed: a bar below with an end at each side. A chosen range: the same above, thinner.
  const auto bracket = [&](float y, float end, float thick, bool begins, bool closes,
                           ImU32 colour) {
    list.AddRectFilled({low.x, y}, {high.x, y + thick}, colour);
    const float from = std::min(end, y), to = std::max(end, y + thick);
    if (begins) list.AddRectFilled({low.x, from}, {low.x + thick, to}, colour);
    if (closes) list.AddRectFilled({high.x - thick, from}, {high.x, to}, colour);
  };
  const bool first = piece.whole();
  const bool last = piece.end == whole.size();
  if (frame.is_followed(piece.token)) {
    bracket(high.y - 2 * unit, high.y - 8 * unit, 2 * unit,
            first && !frame.is_followed(piece.token - 1),
            last && !frame.is_followed(piece.token + 1), in.colours.selection);
  }
  if (in.range.contains(piece.token)) {
    bracket(low.y, low.y + 6 * unit, unit, first && piece.token == in.range.first,
            last && piece.token == in.range.end - 1, in.colours.ink);
  }
  if (piece.token == in.selected) list.AddRect(low, high, in.colours.ink, 0, 0, 1.0F);
  if (piece.token == in.hovered) list.AddRect(low, high, in.colours.selection, 0, 0, 2.0F);
  if (frame.over && frame.mouse.x >= low.x && frame.mouse.x < high.x && frame.mouse.y >= top &&
      frame.mouse.y < top + frame.line) {
    out.hovered = piece.token;
  }
}

TokenText::Output TokenText::draw(const std::string& trace_key, const Input& in) {
  Output out;
  const float unit = in.fonts.scale();
  const float width = ImGui::GetContentRegionAvail().x;
  const float between = std::floor(kBetween * unit);
  columns_ =
      std::clamp(static_cast<int>((width + between) / (kColumn * unit + between)), 1, kMostColumns);
  column_pitch_ = std::floor((width + between) / static_cast<float>(columns_));
  const float gutter = std::floor(kGutter * unit);
  const std::string key = trace_key + "|" + std::to_string(column_pitch_) + "|" +
                          std::to_string(in.fonts.mono->FontSize) + "|" +
                          std::to_string(in.prompt) + "|" + std::to_string(in.given.range.end);
  const bool other_trace = trace_key != trace_;
  const bool laid_out = key != key_;
  if (laid_out) {
    make_shown(trace_key, in.table, in.count);
    lay_out(in, column_pitch_ - between - gutter);
    key_ = key;
    trace_ = trace_key;
  }
  const float size = in.fonts.mono->FontSize;
  line_height_ = std::floor(size * kLineHeight);
  const int lines = static_cast<int>(first_piece_of_line_.size()) - 1;
  const float height = ImGui::GetWindowHeight();
  rows_ = std::max(1, static_cast<int>(height / line_height_));
  const int in_sight = rows_ * columns_;
  const int furthest = std::max(0, lines - in_sight);  // the first line, scrolled to the end
  const ImVec2 begin = ImGui::GetCursorScreenPos();
  ImGui::InvisibleButton(
      "##text",
      {width, std::max(line_height_, height + static_cast<float>(furthest) * line_height_)});
  const bool over = ImGui::IsItemHovered();

  // Whole lines only: a column goes on where the one before ends.
  first_line_ = static_cast<int>(std::lround(ImGui::GetScrollY() / line_height_));
  int wanted = -1;
  if (other_trace) {
    seen_ = {};
    top_token_ = 0;
  }
  // The line about a given answer takes a row away: what was chosen comes into sight again.
  if (laid_out && !in.given.range.empty()) seen_ = {};
  if (laid_out && !other_trace && top_token_ < in.count) wanted = line_of(top_token_);
  if (const TokenRange target = to_show(in); !target.empty() && target.end <= in.count) {
    const int from = line_of(target.first), to = line_of(target.end - 1);
    const int top = wanted >= 0 ? wanted : first_line_;
    if (from < top || (to >= top + in_sight && from != top)) wanted = std::max(0, from - rows_ / 3);
  }
  if (wanted >= 0 || other_trace) {
    first_line_ = std::clamp(wanted, 0, furthest);
    ImGui::SetScrollY(static_cast<float>(first_line_) * line_height_);
  }
  first_line_ = std::clamp(first_line_, 0, furthest);
  if (!pieces_.empty())
    top_token_ =
        pieces_[first_piece_of_line_[static_cast<std::size_t>(std::min(first_line_, lines - 1))]]
            .token;

  ImDrawList& list = *ImGui::GetWindowDrawList();
  const Frame frame{.in = in,
                    .list = list,
                    .size = size,
                    .line = line_height_,
                    .space = in.fonts.mono->GetCharAdvance(' '),
                    .over = over,
                    .mouse = ImGui::GetIO().MousePos};
  corner_ = {begin.x + gutter, ImGui::GetWindowPos().y};
  for (int down = 0; down < in_sight && first_line_ + down < lines; ++down) {
    const int line = first_line_ + down;
    const int column = down / rows_;
    const ImVec2 corner{corner_.x + static_cast<float>(column) * column_pitch_,
                        corner_.y + static_cast<float>(down % rows_) * line_height_};
    if (column > 0 && down % rows_ == 0) {
      const float x = std::floor(corner.x - gutter - between / 2) + 0.5F;
      list.AddLine({x, corner.y}, {x, corner.y + static_cast<float>(rows_) * line_height_},
                   in.colours.faint);
    }
    draw_gutter(frame, line, {corner.x - gutter, corner.y});
    const auto at = static_cast<std::size_t>(line);
    for (std::size_t i = first_piece_of_line_[at]; i < first_piece_of_line_[at + 1]; ++i)
      draw_piece(frame, pieces_[i], corner, out);
  }
  if (out.hovered >= 0 && ImGui::IsMouseClicked(0)) out.clicked = out.hovered;
  return out;
}

}  // namespace kvloupe::window
