#include "capture/tokenizer/jinja_template.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "analysis/base/text/text.h"
#include "analysis/base/text/utf8.h"
#include "capture/tokenizer/unicode.h"

namespace kvloupe {

namespace {

using Json = nlohmann::ordered_json;
const Json kUndefined(Json::value_t::discarded);

struct Token {
  /// T: text; { and }, % and /: begin and end of an expression and of a tag; n: name; s: text in
  /// quotes; i: number; o: operator; e: the end.
  char kind;
  std::string text;
  long line;
};

[[noreturn]] void refuse_at(long line, const std::string& why) {
  throw TemplateProblem("line " + std::to_string(line) + " of its chat template " + why);
}

/// As strip(), lstrip() and rstrip() of Python.
std::string_view without_white_space(std::string_view text, bool left, bool right) {
  const auto goes = [](std::string_view part) {
    if (character_length(part) == 0) return false;
    const char32_t c = first_character(part);
    return is_white_space(c) || (c >= 0x1C && c <= 0x1F);
  };
  while (left && goes(text)) text.remove_prefix(character_length(text));
  while (right && !text.empty()) {
    std::size_t begin = text.size() - 1;
    while (begin > 0 && continues_character(text[begin])) --begin;
    if (!goes(text.substr(begin))) break;
    text = text.substr(0, begin);
  }
  return text;
}

/// Cuts a template into texts and the tokens of its tags.
class Cutter {
 public:
  explicit Cutter(std::string_view source) {
    for (std::size_t i = 0; i < source.size(); ++i) {
      if (source[i] != '\r') text_ += source[i];
      if (source[i] == '\r' && !source.substr(i + 1).starts_with('\n')) text_ += '\n';
    }
    if (text_.ends_with('\n')) text_.pop_back();
    while (at_ < text_.size()) cut_to_tag();
    add('e', "the end");
  }
  std::vector<Token> tokens;

 private:
  std::string_view rest() const { return std::string_view(text_).substr(at_); }
  void add(char kind, std::string text) { tokens.push_back({kind, std::move(text), line_}); }
  void advance(std::size_t count) {
    const std::string_view taken = rest().substr(0, count);
    line_ += std::count(taken.begin(), taken.end(), '\n');
    at_ += taken.size();
  }
  /// A text, and the tag after it.
  void cut_to_tag() {
    std::string_view text = rest();
    std::size_t tag = text.find('{');
    while (tag < text.size() && text.substr(tag + 1).find_first_of("{%#") != 0)
      tag = text.find('{', tag + 1);
    const bool ends = tag >= text.size();
    const char kind = ends ? 'e' : text[tag + 1];
    const char sign = ends || tag + 2 >= text.size() ? ' ' : text[tag + 2];
    const bool begins_line = at_ == 0 || text_[at_ - 1] == '\n';
    text = text.substr(0, tag);
    if (sign == '-') {
      text = without_white_space(text, false, true);
    } else if (sign != '+' && (kind == '%' || kind == '#')) {  // lstrip_blocks
      const std::size_t line = text.rfind('\n') + 1;
      if ((line > 0 || begins_line) && without_white_space(text.substr(line), true, false).empty())
        text = text.substr(0, line);
    }
    if (!text.empty()) add('T', std::string(text));
    advance(tag);
    if (ends) return;
    advance(sign == '-' || sign == '+' ? 3 : 2);
    if (kind != '#') add(kind, std::string("{") + kind);
    const std::string close = kind == '{' ? "}}" : std::string(1, kind) + "}";
    for (int open = 0; open > 0 || !ends_tag(close);) {
      if (at_ == text_.size()) refuse_at(line_, "begins a tag that does not end");
      if (kind == '#' || std::isspace(static_cast<unsigned char>(text_[at_]))) {
        advance(1);
      } else {
        cut_token(open);
      }
    }
    if (kind != '#') add(kind == '%' ? '/' : '}', close);
  }
  /// Whether the tag ends here; then takes what belongs to it of the text after it.
  bool ends_tag(const std::string& close) {
    std::string_view after = rest();
    const char sign = after.empty() ? ' ' : after.front();
    if (sign == '-' || sign == '+') after.remove_prefix(1);
    if (!after.starts_with(close)) return false;
    after.remove_prefix(close.size());
    if (sign == '-') {
      after = without_white_space(after, true, false);
    } else if (sign != '+' && close != "}}" && after.starts_with('\n')) {  // trim_blocks
      after.remove_prefix(1);
    }
    advance(rest().size() - after.size());
    return true;
  }
  void cut_token(int& open) {
    const std::string_view text = rest();
    const char c = text.front();
    if (c == '"' || c == '\'') return cut_quoted(c);
    constexpr std::string_view kWord =
        "0123456789_abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    std::size_t size = std::min(text.find_first_not_of(kWord), text.size());
    const char kind = size == 0 ? 'o' : std::isdigit(static_cast<unsigned char>(c)) ? 'i' : 'n';
    if (size == 0) {
      size = (text.substr(1).starts_with('=') && std::strchr("=!<>", c)) || text.starts_with("//")
                 ? 2
                 : 1;
      if (c == '\0' || !std::strchr("<>+-~*/%=!|.,:()[]{}", c))
        refuse_at(line_, "has " + in_quotes(text.substr(0, 1)) + " where it cannot stand");
      open += std::strchr("([{", c) ? 1 : std::strchr(")]}", c) ? -1 : 0;
    }
    add(kind, std::string(text.substr(0, size)));
    advance(size);
  }
  void cut_quoted(char quote) {
    std::string text;
    std::size_t i = at_ + 1;
    for (; i < text_.size() && text_[i] != quote; ++i) {
      constexpr std::string_view kEscapes = "ntr\\'\"", kMeanings = "\n\t\r\\'\"";
      const bool escaped = text_[i] == '\\' && i + 1 < text_.size();
      const std::size_t known = escaped ? kEscapes.find(text_[++i]) : 0;
      if (known == kEscapes.npos)
        refuse_at(line_, "has an escape that kvloupe-capture does not know");
      text += escaped ? kMeanings[known] : text_[i];
    }
    if (i >= text_.size()) refuse_at(line_, "begins a text that does not end");
    add('s', std::move(text));
    advance(i + 1 - at_);
  }

  std::string text_;
  std::size_t at_ = 0;
  long line_ = 1;
};

/// Whether a name is one of some words.
bool among(const std::string& name, std::string_view words) {
  return (" " + std::string(words) + " ").find(" " + name + " ") != std::string::npos;
}

/// What is given to a filter, a test, a method or a function.
struct Arguments {
  std::vector<Json> plain;
  Json named = Json::object();
  const Json& get(std::size_t place, const char* name = "") const {
    if (place < plain.size()) return plain[place];
    return named.contains(name) ? named.at(name) : kUndefined;
  }
};

/// Runs the tokens in one pass. Where they are not reached (`live_` is false) they are only read.
class Runner {
 public:
  Runner(std::string_view source, const Json& variables)
      : tokens_(Cutter(source).tokens), scopes_(1) {
    for (const auto& [name, one] : variables.items()) scopes_.front()[name] = one;
    room_ = (std::size_t{64} << 20U) + 1000 * weight(variables, 0);
  }
  std::string text() {
    block("");
    return std::move(out_);
  }

 private:
  static constexpr long kMostSteps = 2'000'000;  // tokens
  static constexpr int kDeepest = 100;           // values in each other, and parts of the template

  /// Bounds the depth of the recursion.
  struct Deeper {
    explicit Deeper(Runner& of) : depth(of.depth_) {
      if (depth >= kDeepest) of.refuse("is nested too deeply");
      ++depth;
    }
    ~Deeper() { --depth; }
    int& depth;
  };

  [[noreturn]] void refuse(const std::string& why) const { refuse_at(tokens_[at_].line, why); }
  [[noreturn]] void unknown(const std::string& what) const {
    refuse(what + ", which kvloupe-capture does not know");
  }
  /// Bounds memory, and the time that copies take.
  void spend(std::size_t bytes) {
    if (bytes > room_) refuse("makes too much text");
    room_ -= bytes;
  }
  std::size_t weight(const Json& value, int depth) const {
    if (depth > kDeepest) refuse("is nested too deeply");
    std::size_t sum = 32 + (value.is_string() ? value.get_ref<const std::string&>().size() : 0);
    if (value.is_structured())
      for (const Json& one : value) sum += weight(one, depth + 1);
    return sum;
  }
  Json copied(const Json& value) {
    spend(weight(value, 0));
    return value;
  }

  // --- tokens
  const Token& now() const { return tokens_[at_]; }
  bool is(std::string_view text) const {
    return (now().kind == 'n' || now().kind == 'o') && now().text == text;
  }
  std::string next(char kind) {
    if (now().kind != kind) refuse("has " + in_quotes(now().text) + " where it cannot stand");
    if (++steps_ > kMostSteps) refuse("goes on without an end in sight");
    return tokens_[at_++].text;
  }
  bool take(std::string_view text) { return is(text) && !next(now().kind).empty(); }
  void expect(const char* text) {
    if (!take(text)) refuse("has " + in_quotes(now().text) + " in place of " + text);
  }
  void comma(const char* end) { is(end) ? void() : expect(","); }  // between two of a list

  // --- values
  static bool truth(const Json& value) {
    if (value.is_string()) return !value.get_ref<const std::string&>().empty();
    if (value.is_boolean()) return value.get<bool>();
    return value.is_number() ? value != 0 : !value.is_discarded() && !value.empty();
  }
  static bool equal(const Json& a, const Json& b) {
    return a.is_discarded() || b.is_discarded() ? a.is_discarded() == b.is_discarded() : a == b;
  }
  std::string printed(const Json& value) const {
    if (value.is_string()) return value.get<std::string>();
    if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
    if (value.is_structured()) refuse("writes a list or an object without tojson");
    return value.is_discarded() ? "" : value.is_null() ? "None" : value.dump();
  }
  const std::string& text_of(const Json& value) const {
    if (!value.is_string()) refuse("has something else in place of a text");
    return value.get_ref<const std::string&>();
  }
  std::int64_t whole(const Json& value) const {
    constexpr std::int64_t kMost = std::int64_t{1} << 31U;
    if (!value.is_number_integer() || value < -kMost || value > kMost)
      refuse("computes with something else than whole numbers up to 2^31");
    return value.get<std::int64_t>();
  }
  std::size_t find(const std::string& all, const std::string& part, std::size_t from = 0) {
    spend(all.size() / 64 * (1 + part.size() / 64));
    return all.find(part, from);
  }
  /// What a loop goes over.
  std::vector<Json> items(const Json& value) {
    std::vector<Json> all;
    if (!value.is_structured() && !value.is_discarded())
      refuse("goes over something that is neither a list nor an object");
    if (value.is_object())
      for (const auto& one : value.items()) all.emplace_back(one.key());
    if (value.is_array()) all.assign(value.begin(), value.end());
    spend(weight(value, 0));
    return all;
  }
  std::int64_t length(const Json& value) const {
    if (value.is_structured()) return std::int64_t(value.size());
    if (value.is_discarded()) return 0;
    const std::string& text = text_of(value);
    return std::count_if(text.begin(), text.end(), [](char c) { return !continues_character(c); });
  }
  Json member(const Json& value, const Json& key) {
    if (value.is_discarded()) refuse("reads " + printed(key) + " of something undefined");
    if (value.is_object() && key.is_string()) {
      const auto found = value.find(key.get_ref<const std::string&>());
      return found == value.end() ? kUndefined : copied(*found);
    }
    if (!value.is_array() || !key.is_number()) return kUndefined;
    const std::int64_t at = whole(key) + (key < 0 ? length(value) : 0);
    return at < 0 || at >= length(value) ? kUndefined : copied(value[std::size_t(at)]);
  }
  Json slice(const Json& value, const Json (&given)[3]) {
    if (!value.is_array()) unknown("takes a slice of something that is not a list");
    const std::int64_t size = length(value);
    const auto end = [&](const Json& at, std::int64_t otherwise) {
      if (!at.is_number()) return otherwise;
      return std::clamp<std::int64_t>(whole(at) + (at < 0 ? size : 0), 0, size);
    };
    const std::int64_t first = end(given[0], 0), last = end(given[1], size);
    std::vector<Json> part;
    for (std::int64_t at = first; at < last; ++at) part.push_back(copied(value[std::size_t(at)]));
    if (!given[2].is_number() || given[2] == 1) return part;
    if (given[2] != -1 || last - first != size) unknown("takes such a slice in steps");
    return std::vector<Json>(part.rbegin(), part.rend());
  }
  Json computed(const std::string& how, const Json& a, const Json& b) {
    if (among(how, "== !=")) return equal(a, b) == (how == "==");
    if (how == "in" && b.is_string())
      return find(b.get_ref<const std::string&>(), text_of(a)) != std::string::npos;
    if (how == "in") {
      const std::vector<Json> all = items(b);
      return std::any_of(all.begin(), all.end(), [&](const Json& one) { return equal(one, a); });
    }
    if (how == "~") return copied(printed(a) + printed(b));
    if (how == "+" && (a.is_string() || b.is_string())) return copied(text_of(a) + text_of(b));
    if (how == "+" && a.is_array() && b.is_array()) {
      Json both = copied(a);
      for (const Json& one : b) both.push_back(copied(one));
      return both;
    }
    const std::int64_t x = whole(a), y = whole(b);
    if (among(how, "< >=")) return (x < y) == (how == "<");
    if (among(how, "> <=")) return (x > y) == (how == ">");
    if (among(how, "+ -")) return x + (how == "+" ? y : -y);
    if (how == "*") return x * y;
    if (y <= 0 || how == "/") unknown("divides in a way");
    const std::int64_t rest = (x % y + y) % y;  // as Python
    return how == "%" ? rest : (x - rest) / y;
  }
  /// As Python's json.dumps writes it.
  std::string json_of(const Json& value) {
    if (!value.is_structured()) return value.dump(-1, ' ', false, Json::error_handler_t::replace);
    std::string all;
    for (const auto& one : value.items()) {
      all += all.empty() ? "" : ", ";
      all += (value.is_object() ? json_of(one.key()) + ": " : "") + json_of(one.value());
    }
    return value.is_array() ? "[" + all + "]" : "{" + all + "}";
  }

  // --- tests, filters, methods, functions
  bool test(const std::string& name, const Json& value, const Json& with) {
    if (among(name, "defined undefined")) return value.is_discarded() == (name == "undefined");
    if (name == "none") return value.is_null();
    if (name == "string") return value.is_string();
    if (name == "mapping") return value.is_object();
    if (among(name, "iterable sequence")) return value.is_string() || value.is_structured();
    if (among(name, "number integer")) return value.is_number();
    if (name == "boolean") return value.is_boolean();
    if (among(name, "true false")) return equal(value, name == "true");
    if (among(name, "equalto eq ne")) return equal(value, with) == (name != "ne");
    unknown("asks the test " + name);
  }
  Json filter(const std::string& name, const Json& value, const Arguments& with) {
    if (name == "trim") return method("strip", printed(value), with);
    if (among(name, "length count")) return length(value);
    if (name == "tojson" && with.plain.empty() && with.named.empty()) return json_of(copied(value));
    if (name == "string") return printed(value);
    if (among(name, "upper lower capitalize title replace")) return method(name, value, with);
    if (among(name, "default d")) {
      const bool takes = value.is_discarded() || (truth(with.get(1, "boolean")) && !truth(value));
      return takes ? with.get(0, "default_value") : value;
    }
    const std::vector<Json> all = items(value);
    if (name == "list") return all;
    if (among(name, "first last"))
      return all.empty() ? kUndefined : name == "first" ? all.front() : all.back();
    if (name == "join") {
      std::string joined;
      for (const Json& one : all) {
        joined += (&one == all.data() ? "" : printed(with.get(0, "d"))) + printed(one);
        spend(joined.size() / 64 + 1);
      }
      return copied(joined);
    }
    if (!among(name, "selectattr rejectattr")) unknown("uses the filter " + name);
    std::vector<Json> chosen;
    for (const Json& one : all) {
      const Json of = member(one, with.get(0));
      const bool holds =
          with.plain.size() < 2 ? truth(of) : test(text_of(with.get(1)), of, with.get(2));
      if (holds == (name == "selectattr")) chosen.push_back(one);
    }
    return chosen;
  }
  /// A method of Python's str.
  Json method(const std::string& name, const Json& value, const Arguments& with) {
    if (!value.is_string()) unknown("calls " + name + "() of a value");
    const std::string& own = value.get_ref<const std::string&>();
    spend(own.size());
    if (among(name, "strip lstrip rstrip")) {
      const bool left = name != "rstrip", right = name != "lstrip";
      if (with.plain.empty()) return std::string(without_white_space(own, left, right));
      const std::string& of = text_of(with.get(0));
      if (std::any_of(of.begin(), of.end(), [](char c) { return (c & 0x80) != 0; }))
        unknown("strips letters beyond ASCII");
      const std::size_t begin = left ? own.find_first_not_of(of) : 0;
      const std::size_t end = right ? own.find_last_not_of(of) + 1 : own.size();
      return begin < end ? own.substr(begin, end - begin) : std::string();
    }
    if (name == "startswith") return own.starts_with(text_of(with.get(0)));
    if (name == "endswith") return own.ends_with(text_of(with.get(0)));
    if (with.plain.size() == (name == "split" ? 1 : 2) && among(name, "split replace")) {
      const std::string& by = text_of(with.get(0));
      if (by.empty()) unknown("looks for an empty text");
      Json parts = Json::array();
      std::size_t done = 0;
      for (std::size_t at = 0; (at = find(own, by, done)) != own.npos; done = at + by.size())
        parts.push_back(copied(own.substr(done, at - done)));
      parts.push_back(own.substr(done));
      return name == "split" ? parts : filter("join", parts, {{with.get(1)}, {}});
    }
    if (!among(name, "upper lower capitalize title")) unknown("calls " + name + "() of a text so");
    std::string changed = own;
    for (std::size_t i = 0; i < own.size(); ++i) {
      if (static_cast<unsigned char>(own[i]) >= 0x80) unknown("changes letters beyond ASCII");
      const bool begins = i == 0 || (name == "title" && std::isalpha(own[i - 1]) == 0);
      const bool capital = name == "upper" || (name != "lower" && begins);
      changed[i] = static_cast<char>(capital ? std::toupper(own[i]) : std::tolower(own[i]));
    }
    return changed;
  }
  Json call(const std::string& name, const Arguments& with) {
    if (name == "raise_exception") refuse("refuses these messages: " + printed(with.get(0)));
    if (name == "namespace") return with.named;
    if (name == "strftime_now") {
      const char* fixed = std::getenv("SOURCE_DATE_EPOCH");
      const std::time_t now = fixed ? std::atoll(fixed) : std::time(nullptr);
      std::tm parts = {};
      char text[256];
      localtime_r(&now, &parts);
      return std::string(text,
                         std::strftime(text, sizeof text, text_of(with.get(0)).c_str(), &parts));
    }
    const auto known = macros_.find(name);
    if (known == macros_.end()) unknown("calls the function " + name + "()");
    auto scopes = std::exchange(scopes_, {scopes_.front(), {}});
    std::string out = std::exchange(out_, {});
    const std::size_t after = std::exchange(at_, known->second);
    run_macro(with);
    at_ = after;
    scopes_ = std::move(scopes);
    return std::exchange(out_, std::move(out));
  }
  /// From its parameters on.
  void run_macro(const Arguments& with) {
    std::size_t place = 0;
    for (expect("("); !take(")"); comma(")")) {
      const std::string name = next('n');
      const Json otherwise = take("=") ? expression() : kUndefined;
      const Json& given = with.get(place++, name.c_str());
      scopes_.back()[name] = given.is_discarded() ? otherwise : given;
    }
    next('/');
    block("endmacro");
  }

  // --- expressions
  Json expression() {
    const Deeper deeper(*this);
    const std::size_t begin = at_;
    const bool was = std::exchange(live_, false);
    binary(0);  // only read: its condition may stand behind it
    live_ = was;
    const bool chooses = take("if");
    const bool yes = !chooses || truth(binary(0));
    const std::size_t after = at_;
    Json value = kUndefined;
    if (was && yes) {
      at_ = begin;
      value = binary(0);
      at_ = after;
    }
    live_ = was && !yes;
    if (chooses && take("else")) {
      Json other = expression();
      if (live_) value = std::move(other);
    }
    live_ = was;
    return value;
  }
  /// The operation that comes next, of those that bind with this strength; `not` has the place 2.
  std::string operation(std::size_t level) {
    constexpr std::string_view kLevels[] = {"or",  "and", "",        "== != <= >= < > in not",
                                            "+ -", "~",   "* // / %"};
    if (!is(now().text) || !among(now().text, kLevels[level])) return {};
    const std::string name = next(now().kind);
    if (name == "not") expect("in");
    return name;
  }
  Json binary(std::size_t level) {
    if (level == 7) return unary(true);
    if (level == 2 && take("not")) {
      const Deeper deeper(*this);
      return !truth(binary(2));
    }
    Json left = binary(level + 1);
    int count = 0;
    for (std::string how; !(how = operation(level)).empty(); ++count) {
      if (live_ && level == 3 && count > 0) unknown("compares three values at once");
      const bool was = live_;
      if (level < 2) live_ = was && truth(left) == (how == "and");
      Json right = binary(level + 1);
      if (live_ && level < 2) left = std::move(right);
      if (live_ && how == "not") left = !truth(computed("in", left, right));
      if (live_ && level > 2 && how != "not") left = computed(how, left, right);
      live_ = was;
    }
    return left;
  }
  Json unary(bool filters) {
    const Deeper deeper(*this);
    if (take("-")) {
      const Json of = unary(false);
      return live_ ? Json(-whole(of)) : kUndefined;
    }
    Json value = postfix(primary());
    while (filters && (is("|") || is("is"))) {
      const bool tests = !take("|") && take("is");
      const bool opposite = tests && take("not");
      const std::string name = next('n');
      Arguments with;
      if (is("(")) {
        with = arguments();
      } else if (tests && (now().kind == 's' || now().kind == 'i')) {
        with.plain.push_back(primary());
      }
      if (live_ && tests) value = test(name, value, with.get(0)) != opposite;
      if (live_ && !tests) value = filter(name, value, with);
    }
    return value;
  }
  Json primary() {
    if (now().kind == 's') {
      const std::string text = next('s');
      return live_ ? copied(text) : kUndefined;
    }
    if (now().kind == 'i') {
      const std::string digits = next('i');
      if (digits.size() > 9 || digits.find_first_not_of("0123456789") != digits.npos)
        unknown("has the number " + digits);
      return std::atoi(digits.c_str());
    }
    if (take("(")) return list(")");
    if (take("[")) return list("]");
    if (take("{")) {
      Json made = Json::object();
      for (; !take("}"); comma("}")) {
        const Json key = expression();
        expect(":");
        const Json value = expression();
        if (live_) made[text_of(key)] = value;
      }
      return made;
    }
    const std::string name = next('n');
    if (among(name, "true True false False")) return name.size() == 4;
    if (among(name, "none None")) return nullptr;
    const Json* known = variable(name);
    if (known != nullptr) return live_ ? copied(*known) : kUndefined;
    if (!is("(")) return among(name, "raise_exception strftime_now") ? Json(true) : kUndefined;
    const Arguments with = arguments();
    const Deeper deeper(*this);
    return live_ ? call(name, with) : kUndefined;
  }
  /// A list up to `end`; in parentheses an expression alone is itself.
  Json list(const char* end) {
    std::vector<Json> all;
    for (; !take(end); comma(end)) {
      all.push_back(expression());
      if (all.size() == 1 && is(")") && take(end)) return all.front();
    }
    return all;
  }
  Json postfix(Json value) {
    for (;;) {
      if (take(".")) {
        const std::string name = next('n');
        const bool calls = is("(");
        const Arguments with = calls ? arguments() : Arguments();
        if (live_) value = calls ? method(name, value, with) : member(value, name);
      } else if (take("[")) {
        Json given[3] = {kUndefined, kUndefined, kUndefined};
        std::size_t colons = 0;
        while (!take("]")) {
          if (!take(":")) {
            given[colons] = expression();
          } else if (++colons > 2) {
            refuse("has a slice of four parts");
          }
        }
        if (live_) value = colons > 0 ? slice(value, given) : member(value, given[0]);
      } else if (is("(")) {
        unknown("calls a value");
      } else {
        return value;
      }
    }
  }
  Arguments arguments() {
    Arguments all;
    for (expect("("); !take(")"); comma(")")) {
      const bool named =
          now().kind == 'n' && tokens_[at_ + 1].kind == 'o' && tokens_[at_ + 1].text == "=";
      const std::string name = named ? next('n') : "";
      if (named) expect("=");
      const Json value = expression();
      (named ? all.named[name] : all.plain.emplace_back()) = value;
    }
    return all;
  }
  Json* variable(const std::string& name) {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
      if (const auto found = scope->find(name); found != scope->end()) return &found->second;
    return nullptr;
  }

  // --- statements
  void write(const std::string& text) {
    spend(text.size());
    out_ += text;
  }
  /// Runs up to one of these tags, and returns its name.
  std::string block(std::string_view ends) {
    const Deeper deeper(*this);
    while (!ends.empty() || now().kind != 'e') {
      if (now().kind == 'T') {
        const std::string text = next('T');
        if (live_) write(text);
      } else if (now().kind == '{') {
        next('{');
        const Json value = expression();
        if (live_) write(printed(value));
        next('}');
      } else {
        next('%');
        const std::string name = next('n');
        if (among(name, ends)) return name;
        statement(name);
        next('/');
      }
    }
    return {};
  }
  void statement(const std::string& name) {
    if (name == "if") return decide();
    if (name == "for") return repeat();
    if (name == "set") return assign();
    if (name == "macro") return define();
    // Transformers marks what the model is to learn by these two.
    if (!among(name, "generation endgeneration")) unknown("has the tag " + name);
  }
  void decide() {
    const bool was = live_;
    bool done = false;
    for (std::string tag = "if"; tag != "endif"; tag = block("elif else endif")) {
      live_ = was && !done;
      const bool holds = tag == "else" || truth(expression());
      next('/');
      live_ = live_ && holds;
      done = done || live_;
    }
    live_ = was;
  }
  void repeat() {
    const bool was = live_;
    const std::string name = next('n');
    bool one = true;  // variable
    for (; take(","); one = false) next('n');
    expect("in");
    const Json of = binary(0);
    std::vector<Json> all = was ? items(of) : std::vector<Json>();
    if (was && !one) unknown("divides what a loop goes over");
    next('/');
    const std::size_t body = at_, size = all.size();
    live_ = was && size > 0;
    for (std::size_t i = 0; i < std::max<std::size_t>(size, 1); ++i) {
      at_ = body;
      scopes_.emplace_back();
      if (live_) {
        scopes_.back()["loop"] = {{"index", i + 1},
                                  {"index0", i},
                                  {"first", i == 0},
                                  {"last", i + 1 == size},
                                  {"length", size}};
        scopes_.back()[name] = all[i];
      }
      block("endfor");
      scopes_.pop_back();
    }
    live_ = was;
  }
  void assign() {
    const std::string name = next('n');
    const std::string part = take(".") ? next('n') : "";
    expect("=");
    Json value = expression();
    if (!live_) return;
    if (part.empty()) {
      scopes_.back()[name] = std::move(value);
      return;
    }
    Json* of = variable(name);
    if (of == nullptr || !of->is_object()) refuse("sets a part of what is not a namespace");
    (*of)[part] = std::move(value);
  }
  void define() {
    const std::string name = next('n');
    const std::size_t begin = at_;
    const bool was = std::exchange(live_, false);
    scopes_.emplace_back();
    run_macro({});
    scopes_.pop_back();
    live_ = was;
    if (live_) macros_[name] = begin;
  }

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  bool live_ = true;
  int depth_ = 0;
  long steps_ = 0;
  std::size_t room_ = 0;
  std::vector<std::map<std::string, Json>> scopes_;
  std::map<std::string, std::size_t> macros_;  // where their parameters begin
  std::string out_;
};

}  // namespace

std::string run_jinja_template(std::string_view source, const Json& variables) {
  return Runner(source, variables).text();
}

}  // namespace kvloupe
