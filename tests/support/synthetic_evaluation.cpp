#include "tests/support/synthetic_evaluation.h"

#include <fmt/format.h>

#include <fstream>
#include <string>

namespace kvloupe::test {

std::filesystem::path write_synthetic_evaluation(const std::filesystem::path& path, bool needles) {
  std::string runs;
  const auto add = [&](const std::string& run) { runs += (runs.empty() ? "\n" : ",\n") + run; };
  for (int policy = 0; policy < 3; ++policy) {
    for (int budget = 0; budget < (policy == 0 ? 1 : 3); ++budget) {
      const std::string of = policy == 0 ? "full" : policy == 1 ? "h2o" : "snapkv+critical";
      const std::string written = policy == 0   ? "full"
                                  : budget == 0 ? "10%"
                                  : budget == 1 ? "25%"
                                                : "50%";
      const double share = policy == 0 ? 1.0 : budget == 0 ? 0.1 : budget == 1 ? 0.25 : 0.5;
      for (int sample = 0; sample < 2; ++sample) {
        const double difference = policy == 0 ? 0.0 : 0.1 * policy / (budget + 1) + 0.01 * sample;
        const std::string drift =
            policy == 0 ? ""
                        : fmt::format(
                              ",\"hidden_distance\":[{},{},{}],"
                              "\"hidden_cosine_distance\":[{},{},{}],"
                              "\"normed_distance\":{},\"normed_cosine_distance\":{}",
                              difference, 2 * difference, 3 * difference, difference / 4,
                              difference / 3, difference / 2, 4 * difference, difference);
        const std::string head =
            fmt::format("{{\"policy\":\"{}\",\"budget\":\"{}\",\"sample\":{},\"seconds\":0.5,", of,
                        written, sample);
        if (!needles) {
          add(head + fmt::format("\"entries\":{},\"length\":512,\"tokens\":512,\"loss\":{},"
                                 "\"loss_difference\":{}{}{}}}",
                                 static_cast<int>(512 * share), 3.0 + 0.02 * sample + difference,
                                 difference,
                                 policy == 0 ? ""
                                             : fmt::format(",\"kl\":{},\"same_top1\":{}",
                                                           difference * 0.5, 1.0 - difference),
                                 drift));
          continue;
        }
        for (int length = 0; length < 2; ++length) {
          for (int depth = 0; depth < 3; ++depth) {
            const bool found = policy == 0 || (policy + budget + sample + length + depth) % 3 != 0;
            const int tokens = length == 0 ? 250 : 500;
            add(head +
                fmt::format(
                    "\"entries\":{},\"length\":{},\"tokens\":{},\"depth\":{}.0,\"expected\":\"7\","
                    "\"answer\":\" 7\",\"correct\":{}{}}}",
                    static_cast<int>(tokens * share), length == 0 ? 256 : 512, tokens,
                    10 + 40 * depth, found, drift));
          }
        }
      }
    }
  }
  std::ofstream(path, std::ios::binary)
      << "{\"format\":\"kvloupe-eval\",\"format_version\":1,\"generator\":\"kvloupe\","
         "\n\"settings\":{\"task\":\""
      << (needles ? "needle" : "perplexity") << "\",\"model\":\"synthetic\"},\n\"runs\":[" << runs
      << "],\n\"summary\":[]}\n";
  return path;
}

}  // namespace kvloupe::test
