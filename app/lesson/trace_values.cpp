#include "app/lesson/value_groups.h"

#include <algorithm>

#include "analysis/trace/trace_size.h"
#include "app/lesson/answer.h"
#include "app/plot/printable.h"

namespace kvloupe::lesson {

namespace {

double bytes_per_token(const Trace& trace) { return cache_bytes(trace).per_token; }

}  // namespace

ValueGroup trace_values() {
  ValueGroup group{"The trace and its model", {}};
  const auto add = [&](ValueInfo info) {
    info.quick = true;
    group.values.push_back(std::move(info));
  };
  const auto plain = [&](const char* name, const char* meaning, auto of) {
    add({.name = name, .meaning = meaning, .compute = computed(of)});
  };
  plain("tokens", "all tokens, prompt and generated", [](In s) { return s.trace->length(); });
  plain("prompt_tokens", "tokens of the prompt", [](In s) { return s.trace->run().prompt_length; });
  plain("generated", "tokens generated after the prompt",
        [](In s) { return s.trace->run().generated; });
  add({.name = "blocks",
       .meaning = "blocks of the prompt",
       .compute = computed([](In s) -> Value {
         const auto& blocks = s.trace->blocks();
         return static_cast<double>(std::count_if(
             blocks.begin(), blocks.end(),
             [&](const kvloupe::Block& b) { return b.first < s.trace->run().prompt_length; }));
       })});
  plain("block_size", "tokens in a block of the capture",
        [](In s) { return s.trace->run().block_size; });
  plain("layers", "layers of the model", [](In s) { return s.trace->model().num_layers; });
  plain("heads", "key-value heads in a layer", [](In s) { return s.trace->model().num_kv_heads; });
  plain("query_heads", "query heads in a layer", [](In s) { return s.trace->model().num_heads; });
  plain("head_dim", "numbers in a key of one head", [](In s) { return s.trace->model().head_dim; });
  plain("bytes_per_token",
        "bytes that one token takes in the model's cache, keys and values in 16 bits",
        [](In s) { return bytes_per_token(*s.trace); });
  plain("cache_bytes", "the same for all tokens of the trace: `tokens * bytes_per_token`",
        [](In s) { return bytes_per_token(*s.trace) * s.trace->length(); });
  add({.name = "model",
       .meaning = "the model's name",
       .is_text = true,
       .compute = computed([](In s) { return s.trace->model().name; })});
  add({.name = "token_text",
       .arguments = {{Argument::number, "token"}},
       .meaning = "the token's text",
       .needs = "the text of its tokens",
       .is_text = true,
       .compute = computed([](In s, Arguments a) {
         const auto& text = s.trace->tokens().text;
         const int at = index(a[0], static_cast<int>(text.size()));
         return at < 0 ? std::string() : figure::printable(text[static_cast<std::size_t>(at)]);
       })});
  add({.name = "segment_first",
       .arguments = {{Argument::segment, "segment"}},
       .meaning = "first token of the segment, such as context, needle, question, answer",
       .needs = "the segment",
       .compute = computed([](In s, Arguments a) {
         const int first = segment_of(s.trace->tokens(), word(a[0])).first;
         return first < 0 ? kNone : first;
       })});
  add({.name = "segment_last",
       .arguments = {{Argument::segment, "segment"}},
       .meaning = "last token of the segment's first piece",
       .needs = "the segment",
       .compute = computed([](In s, Arguments a) {
         const int last = segment_of(s.trace->tokens(), word(a[0])).second;
         return last < 0 ? kNone : last;
       })});
  add({.name = "needle_token",
       .meaning = "the token in which the number hidden in the needle begins",
       .needs = "a segment needle with a number",
       .compute = computed([](In s) {
         const int token = needle_token(s.trace->tokens());
         return token < 0 ? kNone : token;
       })});
  add({.name = "needle_number",
       .meaning = "the number hidden in the needle",
       .needs = "a segment needle",
       .is_text = true,
       .compute = computed([](In s) { return needle_number(s.trace->tokens()); })});
  return group;
}

}  // namespace kvloupe::lesson
