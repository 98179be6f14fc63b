#include "capture/tokenizer/hugging_face/decoder.h"

#include <utility>

#include "analysis/base/text/text.h"
#include "capture/tokenizer/hugging_face/aligned_text.h"
#include "capture/tokenizer/hugging_face/bpe_model.h"
#include "capture/tokenizer/hugging_face/byte_alphabet.h"
#include "capture/tokenizer/hugging_face/pre_tokeniser.h"
#include "capture/tokenizer/hugging_face/regex.h"
#include "capture/tokenizer/unicode.h"

namespace kvloupe {

namespace {

using Tokens = std::vector<DecodedToken>;

std::size_t size_of(const Tokens& tokens) {
  std::size_t bytes = 0;
  for (const DecodedToken& token : tokens) bytes += token.text.size();
  return bytes;
}

void fuse(Tokens& tokens, const Limits&) {
  if (tokens.empty()) return;
  DecodedToken whole;
  for (const DecodedToken& token : tokens) whole.text += token.text;
  tokens = {whole};
}

/// Joins the whole text into one token, so that later steps see characters, not bytes.
void byte_level(Tokens& tokens, const Limits& limits) {
  for (DecodedToken& token : tokens) {
    if (token.is_added) continue;
    if (auto bytes = bytes_of_piece(token.text)) token.text = *std::move(bytes);
  }
  fuse(tokens, limits);
}

/// Joins bytes that follow each other into one token, for the same reason.
void byte_fallback(Tokens& tokens, const Limits&) {
  Tokens joined;
  bool after_byte = false;
  for (DecodedToken& token : tokens) {
    const int byte = byte_of_piece(token.text);
    if (byte < 0) {
      joined.push_back(std::move(token));
    } else if (after_byte) {
      joined.back().text += static_cast<char>(byte);
    } else {
      joined.push_back({std::string(1, static_cast<char>(byte)), false});
    }
    after_byte = byte >= 0;
  }
  tokens = std::move(joined);
}

Decoder make_strip_decoder(const JsonPart& part) {
  constexpr std::int64_t kMost = 1 << 20;
  const std::string content = part.text("content");
  if (content.empty() || character_length(content) != content.size()) {
    part.fail("content must be one character");
  }
  return [content, start = part.number("start", kMost), stop = part.number("stop", kMost)](
             Tokens& tokens, const Limits&) {
    for (DecodedToken& token : tokens) {
      std::string_view text = token.text;
      for (std::int64_t i = 0; i < start && text.substr(0, content.size()) == content; ++i) {
        text.remove_prefix(content.size());
      }
      for (std::int64_t i = 0; i < stop && text.size() >= content.size() &&
                               text.substr(text.size() - content.size()) == content;
           ++i) {
        text.remove_suffix(content.size());
      }
      token.text = std::string(text);
    }
  };
}

Decoder make_replace_decoder(const JsonPart& part) {
  return [pattern = Regex(part), content = part.text("content")](Tokens& tokens,
                                                                 const Limits& limits) {
    for (DecodedToken& token : tokens) {
      token.text = AlignedText(token.text).text();  // a pattern needs UTF-8
      std::string text;
      std::size_t done = 0;
      for (const Regex::Match& match : pattern.find_all(token.text, limits)) {
        text += token.text.substr(done, match.begin - done) + content;
        done = match.end;
        limits.check(text.size());
      }
      token.text = text + token.text.substr(done);
    }
  };
}

/// Marks become spaces; those of the first token are dropped, as the encoder put one there.
Decoder make_metaspace(const JsonPart& part, bool of_one_piece) {
  const bool drop = !of_one_piece && read_prepend_scheme(part) != PrependScheme::never;
  return [mark = read_space_mark(part), drop](Tokens& tokens, const Limits&) {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      std::string text;
      for (std::string_view rest = tokens[i].text; !rest.empty();) {
        const bool is_mark = rest.substr(0, mark.size()) == mark;
        const std::size_t length = is_mark ? mark.size() : 1;
        if (!is_mark) text += rest.front();
        if (is_mark && !(drop && i == 0)) text += ' ';
        rest.remove_prefix(length);
      }
      tokens[i].text = text;
    }
  };
}

Decoder make(const JsonPart& part, bool of_one_piece, int depth) {
  if (part.is_null()) return {};
  const std::string type = part.type();
  if (type == "ByteLevel") return byte_level;
  if (type == "ByteFallback") return byte_fallback;
  if (type == "Fuse") return fuse;
  if (type == "Strip") {
    Decoder strip = make_strip_decoder(part);
    return of_one_piece ? Decoder([](Tokens&, const Limits&) {}) : strip;
  }
  if (type == "Replace") return make_replace_decoder(part);
  if (type == "Metaspace") return make_metaspace(part, of_one_piece);
  if (type == "Sequence") {
    if (depth == kDeepestSequence) part.fail("a Sequence is nested too deeply");
    std::vector<Decoder> steps;
    for (const JsonPart& step : part.parts("decoders")) {
      steps.push_back(make(step, of_one_piece, depth + 1));
    }
    return [steps](Tokens& tokens, const Limits& limits) {
      for (const Decoder& step : steps) {
        step(tokens, limits);
        limits.check(size_of(tokens));
      }
    };
  }
  part.refuse(in_quotes(type),
              "supported: ByteLevel, ByteFallback, Fuse, Strip, Replace, Metaspace and Sequence");
}

}  // namespace

Decoder make_decoder(const JsonPart& part, bool of_one_piece) {
  return make(part, of_one_piece, 0);
}

}  // namespace kvloupe
