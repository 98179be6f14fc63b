// Writes a long trace of a large model's shape that takes little disk: one layer's states, which
// stand for all layers (tests/support/long_trace.h). own: every layer has its own.
//
//   kvloupe_long_trace TARGET.h5 [LAYERS [TOKENS [QUERY_HEADS [HEADS [own]]]]]
//
// By default 32 layers of 32 768 tokens, 32 query heads on 8 heads of 128: 0.4 GB on the disk, 14
// GB for whoever reads it. `32 4096 32 8 own`: 2.7 GB.
#include "tests/support/long_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <iterator>
#include <string_view>

int main(int count, char** words) {
  kvloupe::test::LongTraceOptions options;
  options.layers = 32;
  options.own_layers = count > 2 && std::string_view(words[count - 1]) == "own";
  if (options.own_layers) --count;
  int* const fields[] = {&options.layers, &options.tokens, &options.query_heads, &options.heads};
  if (count < 2 || words[1][0] == '-' || count > 2 + static_cast<int>(std::size(fields))) {
    fmt::print(
        stderr,
        "usage: kvloupe_long_trace TARGET.h5 [LAYERS [TOKENS [QUERY_HEADS [HEADS [own]]]]]\n");
    return 2;
  }
  for (int i = 2; i < count; ++i) *fields[i - 2] = std::max(1, std::atoi(words[i]));
  if (options.query_heads % options.heads != 0) {
    fmt::print(stderr, "{} query heads cannot be shared by {} heads\n", options.query_heads,
               options.heads);
    return 2;
  }
  try {
    kvloupe::test::write_long_trace(words[1], options);
  } catch (const std::exception& problem) {
    fmt::print(stderr, "{}\n", problem.what());
    return 1;
  }
  return 0;
}
